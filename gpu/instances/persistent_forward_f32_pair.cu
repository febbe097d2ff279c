/*
 * The resident kernels forward with rows in F32, of full float accuracy, for bounded states.
 */
#define ECO_ROWS_F32     1
#define ECO_OPERAND_PAIR 1
#include "gpu/kernels.h"

#include "gpu/persistent/forward.cuh"

static const struct eco_resident_kernel kernels[] = {CELLS_BOUNDED(RESIDENT_KERNELS){-1, {}}};
const struct eco_resident_kernel *const eco_resident_forward_f32_pair = kernels;
