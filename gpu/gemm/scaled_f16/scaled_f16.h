/*
 * Large products of ECORNN_FAST_MATH in F16: input products, dx and the gradients of weights, where
 * they are faster so with all that it takes.  What they multiply is brought to F16 before, in the
 * room of the op's lane, dacc in place.
 */
#ifndef ECO_GPU_GEMM_SCALED_F16_SCALED_F16_H
#define ECO_GPU_GEMM_SCALED_F16_SCALED_F16_H

#include "gpu/gemm/scaled_f16/args.h"
#include "gpu/gemm/packed_weights.h"
#include "gpu/gemm/gemm.h"

/* ---- which, cost.c --------------------------------------------------------------------------- */

/* How many bytes of ECO_SCRATCH_PRODUCT a problem's products want so; 0: none is faster. */
size_t eco_scaled_f16_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                            const struct eco_layout_request *request);
/* Seconds that an op of a layer, with the chunks that are wished, takes less with products in F16
 * than in TF32; 0: it has none. */
double eco_scaled_f16_gain(const struct eco_problem *problem, const struct eco_caps *caps,
                           const struct eco_layout_request *request, int32_t layer, bool backward);
/* Which are, with the plan's sizes, and what that saves by estimate. */
void eco_scaled_f16_describe(const struct ecornn_plan *plan, struct eco_text *text);
/* Is an op's input product, are its products with dacc? */
bool eco_gpu_halves_input(const struct eco_gpu_run *run, const struct eco_op *op);
bool eco_gpu_halves_back(const struct eco_gpu_run *run, const struct eco_op *op);
bool eco_gpu_wants_dx(const struct eco_gpu_run *run, const struct eco_op *op);

/* Where everything lies in the room of a lane, behind what cuBLAS and sums get. */
struct eco_scaled_f16_places {
    size_t scalars, most, scales, sums, rest; /* bytes */
    int32_t columns, blocks;                  /* of sums of dacc */
};
struct eco_scaled_f16_places eco_scaled_f16_places(const struct eco_problem *problem,
                                                   const struct eco_caps *caps, int32_t rows);
/* The place of so many bytes, of which `at` is moved on. */
size_t eco_scaled_f16_take(size_t *at, size_t bytes);
/* Of a matrix in F16, in whole places. */
size_t eco_scaled_f16_copy_bytes(int32_t rows, int32_t row);

/* ---- how, scaled_f16.c ----------------------------------------------------------------------- */

/* Of products whose matrices were brought to F16: what cuBLAS multiplies them by, and, unless they
 * are gradients of weights, the copy of these. */
struct eco_scaled_f16 {
    const struct eco_scaled_f16_scalars *scalars;
    int k; /* inverse[k] is theirs */
    const void *weights;
};

/* The input product of an op: brings its matrices to F16, points at them; where that is faster. */
void eco_gpu_scaled_f16_input(struct eco_gpu_run *run, struct eco_matmul *matmul,
                              struct eco_scaled_f16 *half);

/* Of an op whose products with dacc are: dacc, by the op of dx, if there is one, else by that of
 * weights. */
void eco_gpu_scaled_f16_dacc(struct eco_gpu_run *run, const struct eco_op *op, bool dx);
/* dx = dacc W, as if dacc were what it was. */
void eco_gpu_scaled_f16_dx(struct eco_gpu_run *run, const struct eco_matmul *matmul);
/* Before gradients of weights, so many at most at a time: brings C of each to F16, points at it. */
void eco_gpu_scaled_f16_gradients(struct eco_gpu_run *run, struct eco_matmul *gradients, int n,
                                  struct eco_scaled_f16 half[ECO_SCALED_F16_MATRICES]);
/* Sums of dacc's columns, of some rows each, all of them together. */
struct eco_plane eco_gpu_scaled_f16_sums(const struct eco_gpu_run *run, const struct eco_op *op,
                                         int32_t *rows);

#endif /* ECO_GPU_GEMM_SCALED_F16_SCALED_F16_H */
