/*
 * The resident kernels backward with rows in F32, operands in F16, scaled: gradients have no bound.
 */
#define ECO_ROWS_F32    1
#define ECO_OPERAND_F16 1
#define ECO_SCALED      1
#define ECO_QUICK       1
#include "gpu/kernels.h"

#include "gpu/persistent/backward.cuh"

static const struct eco_resident_kernel kernels[] = {CELLS_RESIDENT(RESIDENT_KERNELS){-1, {}}};
const struct eco_resident_kernel *const eco_resident_backward_f32_fast = kernels;
