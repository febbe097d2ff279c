/*
 * The kernels of fused steps with rows in F32, of full float accuracy.
 */
#define ECO_ROWS_F32 1
#include "gpu/fused_step/kernel_table.cuh"

const struct eco_fused_kernel *const eco_fused_f32 = fused_kernels;
