/*
 * Products of few rows in BF16.
 */
#define ECO_ROWS_BF16 1
#include "gpu/kernels.h"

#include "gpu/gemm/grouped/kernel.cuh"

const void *const *const eco_few_bf16 = kernels;
