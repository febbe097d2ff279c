/*
 * Products of few rows that follow steps back, zeros and sums, several in one launch: those of
 * cuBLAS take longer to be launched than to multiply.
 */
#ifndef ECO_GPU_GEMM_GROUPED_GROUPED_H
#define ECO_GPU_GEMM_GROUPED_GROUPED_H

#include "gpu/gemm/gemm.h"

/* Are there kernels of the problem's types?  Weights are read as packed. */
bool eco_gpu_has_grouped(const struct eco_problem *problem, const struct eco_caps *caps);

/* Is all that follows a layer's steps back of few rows, and so, where layers have no lanes of their
 * own, one launch? */
bool eco_gpu_grouped_follow(const struct eco_problem *problem, const struct eco_caps *caps);

/* What ops that nobody waits for at once have in common is launched once another op comes.  Of an
 * op of that kind? */
void eco_gpu_grouped_begin(struct eco_gpu_run *run, enum eco_op_kind kind);
void eco_gpu_grouped_end(struct eco_gpu_run *run);

/* Is it a product that is taken? */
bool eco_gpu_takes_grouped(const struct eco_gpu_run *run, const struct eco_product *product);
/* A way (gemm.h): takes it, if it is.  False: it was not, and nothing that it adds to is still to
 * come. */
bool eco_gpu_grouped_product(struct eco_gpu_run *run, const struct eco_product *product);
/* Sums as of eco_launch_sum(); zeros in m rows of n floats, which no kernel of the run touches
 * before.  The same. */
bool eco_gpu_grouped_sums(struct eco_gpu_run *run, const struct eco_columns_call *call);
bool eco_gpu_grouped_zeros(struct eco_gpu_run *run, void *to, int32_t m, int32_t n);

#endif /* ECO_GPU_GEMM_GROUPED_GROUPED_H */
