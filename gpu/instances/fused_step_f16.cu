/*
 * The kernels of fused steps with rows in F16.
 */
#define ECO_ROWS_F16 1
#include "gpu/fused_step/kernel_table.cuh"

const struct eco_fused_kernel *const eco_fused_f16 = fused_kernels;
