/*
 * The kernels of wide steps with rows in F32, multiplied in TF32.
 */
#define ECO_ROWS_F32 1
#define ECO_QUICK    1
#include "gpu/wide_step/kernel_table.cuh"

const struct eco_wide_kernel *const eco_wide_f32_fast = wide_kernels;
