/*
 * Products of few rows in F32.
 */
#define ECO_ROWS_F32 1
#include "gpu/kernels.h"

#include "gpu/gemm/grouped/kernel.cuh"

const void *const *const eco_few_f32 = kernels;
