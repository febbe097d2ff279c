/*
 * The kernels of fused steps with rows in F32, multiplied in TF32.
 */
#define ECO_ROWS_F32   1
#define ECO_FUSED_TF32 1
#include "gpu/fused_step/kernel_table.cuh"

const struct eco_fused_kernel *const eco_fused_f32_fast = fused_kernels;
