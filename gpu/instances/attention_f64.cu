/*
 * The kernels of attention with rows in F64.
 */
#define ECO_ROWS_F64 1
#include "gpu/attention/kernels.cuh"

const struct eco_gpu_attention_kernels eco_gpu_attention_f64 = ATTENTION_KERNELS;
