/*
 * The resident kernels forward with rows in F32, operands in F16, scaled: for states without a
 * bound.
 */
#define ECO_ROWS_F32    1
#define ECO_OPERAND_F16 1
#define ECO_SCALED      1
#define ECO_QUICK       1
#include "gpu/kernels.h"

#include "gpu/persistent/forward.cuh"

static const struct eco_resident_kernel kernels[] = {CELLS_UNBOUNDED(RESIDENT_KERNELS){-1, {}}};
const struct eco_resident_kernel *const eco_resident_forward_f32_fast = kernels;
