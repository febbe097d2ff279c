/*
 * The kernels of wide steps with rows in F16.
 */
#define ECO_ROWS_F16 1
#define ECO_QUICK    1
#include "gpu/wide_step/kernel_table.cuh"

const struct eco_wide_kernel *const eco_wide_f16 = wide_kernels;
