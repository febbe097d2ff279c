/*
 * The kernels of wide steps with rows in BF16.
 */
#define ECO_ROWS_BF16 1
#define ECO_QUICK     1
#include "gpu/wide_step/kernel_table.cuh"

const struct eco_wide_kernel *const eco_wide_bf16 = wide_kernels;
