/*
 * Products of few rows in F32.
 */
#define ECO_ROWS_F32 1
#include "gpu/gemm/grouped/kernel.cuh"
#include "gpu/kernels.h"

const void *const *const eco_grouped_f32 = grouped_kernels;
