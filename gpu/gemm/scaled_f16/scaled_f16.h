/*
 * Large products of ECORNN_FAST_MATH in F16: input products, dx and gradients of weights, where
 * they are faster including the conversion. Operands are converted to F16 in the room of the op's
 * lane, dacc in place.
 */
#ifndef ECO_GPU_GEMM_SCALED_F16_SCALED_F16_H
#define ECO_GPU_GEMM_SCALED_F16_SCALED_F16_H

#include "gpu/gemm/scaled_f16/args.h"
#include "gpu/gemm/packed_weights.h"
#include "gpu/gemm/gemm.h"

/* ---- which products, cost.c ------------------------------------------------------------------ */

/* Bytes of ECO_INNER_PRODUCT for these products; 0: none is faster. */
size_t eco_scaled_f16_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                            const struct eco_layout_request *request);
/* Seconds that an op of a layer saves over TF32, with the requested chunks; 0: none. */
double eco_scaled_f16_gain(const struct eco_problem *problem, const struct eco_caps *caps,
                           const struct eco_layout_request *request, int32_t layer, bool backward);
/* Prints which products use F16, and the estimated saving. */
void eco_scaled_f16_describe(const struct ecornn_plan *plan, struct eco_text *text);
/* At plan creation: for which rows of an op. */
void eco_scaled_f16_choose(const struct ecornn_plan *plan, struct eco_gpu_plan *own);

/* ---- sizes and room, room.c ------------------------------------------------------------------ */

/* A matrix of weights in the layout, and the op's rows that are multiplied by it. */
struct eco_scaled_f16_size {
    int32_t rows, accs, row; /* accs: rows of the matrix */
};
struct eco_scaled_f16_size eco_scaled_f16_size(const struct eco_problem *problem, int layer,
                                               int part, int32_t rows);
/* Elements of a row of dacc. */
int64_t eco_scaled_f16_columns(const struct eco_problem *problem);
/* Bytes for an op with these rows. */
size_t eco_scaled_f16_op_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                               int layer, int32_t rows, bool backward);
/* Does an op's input product use F16; do its products with dacc? */
bool eco_gpu_scales_input(const struct eco_gpu_run *run, const struct eco_op *op);
bool eco_gpu_scales_back(const struct eco_gpu_run *run, const struct eco_op *op);
bool eco_gpu_wants_dx(const struct eco_gpu_run *run, const struct eco_op *op);

/* Positions in the room of a lane, after what cuBLAS and sums get. */
struct eco_scaled_f16_places {
    size_t scalars, most, scales, sums, rest; /* bytes */
    int32_t columns, blocks;                  /* of sums of dacc */
};
struct eco_scaled_f16_places eco_scaled_f16_places(const struct eco_problem *problem,
                                                   const struct eco_caps *caps, int32_t rows);
/* What cuBLAS gets for its products. */
size_t eco_scaled_f16_room(const struct eco_problem *problem);
/* The position of `bytes` bytes; advances `at`. */
size_t eco_scaled_f16_take(size_t *at, size_t bytes);
/* Bytes of a matrix in F16, aligned. */
size_t eco_scaled_f16_copy_bytes(int32_t rows, int32_t row);

/* ---- steps back that store F16 --------------------------------------------------------------- */

/*
 * Where all products with dacc use F16, the cell of a step back for many rows stores it as F16, and
 * R is F16, too. So dacc is written and read as half the bytes, and no step converts. Such a run
 * has all rows in all steps.
 */
enum { ECO_HALVES_STEPS = 4 /* at least */ };
/* Does a plan with these chunks store dacc in F16 (cost.c)? Does this run (room.c)? */
bool eco_scaled_f16_halves(const struct eco_problem *problem, const struct eco_caps *caps,
                           const struct eco_layout_request *request);
bool eco_gpu_halves_back(const struct eco_gpu_run *run);
/* Bytes of ECO_INNER_PREPARED: R, what its conversion needs, and scales of two steps. */
size_t eco_scaled_f16_recurrent_bytes(const struct eco_problem *problem);
/* Converts R of a layer, scaled_f16.c. */
void eco_gpu_scaled_f16_recurrent(struct eco_gpu_run *run, const struct eco_op *op);

/* ---- conversion, scaled_f16.c ---------------------------------------------------------------- */

/* Products in F16: the factors for cuBLAS and, except for weight gradients, the copy of the
 * weights. */
struct eco_scaled_f16 {
    const struct eco_scaled_f16_scalars *scalars;
    int k; /* inverse[k] undoes their scales */
    const void *weights;
};

/* An op's input product: converts its matrices and refers to them, if that is faster. */
void eco_gpu_scaled_f16_input(struct eco_gpu_run *run, struct eco_matmul *matmul,
                              struct eco_scaled_f16 *scaled);

/* R and the scales of an op's steps. */
struct eco_scaled_f16_steps {
    struct eco_scaled_f16 recurrent;
    float *scales;  /* [steps of the op, N] */
    float *last[2]; /* [N], of even and odd steps */
};
struct eco_scaled_f16_steps eco_gpu_scaled_f16_steps(const struct eco_gpu_run *run,
                                                     const struct eco_op *op);

/* Converts dacc of an op whose products use F16. Done by the op of dx if there is one. */
void eco_gpu_scaled_f16_dacc(struct eco_gpu_run *run, const struct eco_op *op, bool dx);
/* dx = dacc W, with the converted dacc. */
void eco_gpu_scaled_f16_dx(struct eco_gpu_run *run, const struct eco_matmul *matmul);
/* Before gradients of weights, at most ECO_SCALED_F16_MATRICES at a time: converts C of each. */
void eco_gpu_scaled_f16_gradients(struct eco_gpu_run *run, struct eco_matmul *gradients, int n,
                                  struct eco_scaled_f16 scaled[ECO_SCALED_F16_MATRICES]);
/* c /= scales by rows, for the gradient of a direction's first state. */
void eco_gpu_scaled_f16_unscale(struct eco_gpu_run *run, const struct eco_plane *c, int32_t columns,
                                const float *scales);
/* Sums of dacc's columns over some rows each; together they cover all rows. */
struct eco_plane eco_gpu_scaled_f16_sums(const struct eco_gpu_run *run, const struct eco_op *op,
                                         int32_t *rows);

#endif /* ECO_GPU_GEMM_SCALED_F16_SCALED_F16_H */
