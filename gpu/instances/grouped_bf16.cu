/*
 * Products of few rows in BF16.
 */
#define ECO_ROWS_BF16 1
#include "gpu/gemm/grouped/kernel.cuh"
#include "gpu/kernels.h"

const void *const *const eco_grouped_bf16 = grouped_kernels;
