/*
 * The kernels of fused steps with rows in BF16.
 */
#define ECO_ROWS_BF16 1
#include "gpu/fused_step/kernel_table.cuh"

const struct eco_fused_kernel *const eco_fused_bf16 = fused_kernels;
