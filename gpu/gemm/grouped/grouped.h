/*
 * Products with few rows that follow backward steps, zeros and sums, several in one launch. With
 * cuBLAS their launches would take longer than the products.
 */
#ifndef ECO_GPU_GEMM_GROUPED_GROUPED_H
#define ECO_GPU_GEMM_GROUPED_GROUPED_H

#include "gpu/gemm/gemm.h"

/* Are there kernels for the problem's types? Weights are read as packed. */
bool eco_gpu_has_grouped(const struct eco_problem *problem, const struct eco_caps *caps);

/* Do few rows and no lanes let everything after a layer's backward steps be one launch? */
bool eco_gpu_grouped_follow(const struct eco_problem *problem, const struct eco_caps *caps);

/* Begins to collect jobs if ops of that kind can wait; they are launched when another op comes. */
void eco_gpu_grouped_begin(struct eco_gpu_run *run, enum eco_op_kind kind);
void eco_gpu_grouped_end(struct eco_gpu_run *run);

/* Is the product one that is grouped? */
bool eco_gpu_takes_grouped(const struct eco_gpu_run *run, const struct eco_product *product);
/* A method (gemm.h): takes the product if it is grouped. If not, launches pending jobs that add to
 * the same C, and returns false. */
bool eco_gpu_grouped_product(struct eco_gpu_run *run, const struct eco_product *product);
/* The same for sums of eco_launch_sum(), and zeros in m rows of n floats, which are untouched so
 * far. */
bool eco_gpu_grouped_sums(struct eco_gpu_run *run, const struct eco_columns_call *call);
bool eco_gpu_grouped_zeros(struct eco_gpu_run *run, void *to, int32_t m, int32_t n);

#endif /* ECO_GPU_GEMM_GROUPED_GROUPED_H */
