/*
 * The kernels of attention with rows in F16.
 */
#define ECO_ROWS_F16 1
#include "gpu/attention/kernels.cuh"

const struct eco_gpu_attention_kernels eco_gpu_attention_f16 = ATTENTION_KERNELS;
