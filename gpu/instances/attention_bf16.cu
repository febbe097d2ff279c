/*
 * The kernels of attention with rows in BF16.
 */
#define ECO_ROWS_BF16 1
#include "gpu/attention/kernels.cuh"

const struct eco_gpu_attention_kernels eco_gpu_attention_bf16 = ATTENTION_KERNELS;
