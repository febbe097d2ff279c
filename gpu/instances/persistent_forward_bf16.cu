/*
 * The resident kernels forward with rows in BF16.
 */
#define ECO_ROWS_BF16    1
#define ECO_OPERAND_BF16 1
#define ECO_QUICK        1
#include "gpu/kernels.h"

#include "gpu/persistent/forward.cuh"

static const struct eco_resident_kernel kernels[] = {CELLS_RESIDENT(RESIDENT_KERNELS){-1, {}}};
const struct eco_resident_kernel *const eco_resident_forward_bf16 = kernels;
