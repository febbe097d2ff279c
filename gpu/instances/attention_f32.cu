/*
 * The kernels of attention with rows in F32.
 */
#define ECO_ROWS_F32 1
#include "gpu/attention/kernels.cuh"

const struct eco_gpu_attention_kernels eco_gpu_attention_f32 = ATTENTION_KERNELS;
