/*
 * Products of few rows in F16.
 */
#define ECO_ROWS_F16 1
#include "gpu/gemm/grouped/kernel.cuh"
#include "gpu/kernels.h"

const void *const *const eco_grouped_f16 = grouped_kernels;
