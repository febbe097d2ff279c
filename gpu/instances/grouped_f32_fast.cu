/*
 * Products of few rows in F32, multiplied in TF32.
 */
#define ECO_ROWS_F32   1
#define ECO_FUSED_TF32 1
#include "gpu/gemm/grouped/kernel.cuh"
#include "gpu/kernels.h"

const void *const *const eco_grouped_f32_fast = grouped_kernels;
