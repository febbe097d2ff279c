/*
 * Products with the packed weights, and the copies of weights that they read.
 */
#ifndef ECO_GPU_GEMM_PACKED_WEIGHTS_H
#define ECO_GPU_GEMM_PACKED_WEIGHTS_H

#include "gpu/gemm/gemm.h"

/* One product with a part of the packed weights, M [n*units, columns].  "accs": the columns of the
 * part's accumulators, H each, at their places in a row of acc or dacc; of a projection: its P. */
struct eco_matmul {
    const struct eco_op *op;
    int part; /* enum eco_part */
    int32_t rows;
    const void *a;
    size_t a_row;
    void *c;
    size_t c_row;
    ecornn_type c_type; /* of dx, and of states of a projection, the type of rows; 0: as sums */
    bool add;           /* to C; else C is overwritten */
    int32_t first;      /* of rows that an op's products with dacc have, how many are before A's */
    const struct eco_scaled_f16 *half; /* A is of numbers of F16, so is what it meets, in rows of
                                        * whole groups; or NULL */
    bool odd;                          /* of two steps that follow each other one */
    bool narrow; /* rows of the one that has the matrix's columns (A, of multiply_back C)
                  * end with them, even where products are of whole groups */
};
/* C accs (+)= A M^T */
void eco_gpu_multiply(struct eco_gpu_run *run, const struct eco_matmul *matmul);
/* The same of some neighbouring accumulators, and its product. */
struct eco_product eco_gpu_span_product(const struct eco_gpu_run *run,
                                        const struct eco_matmul *matmul,
                                        const struct eco_span *span);
void eco_gpu_multiply_span(struct eco_gpu_run *run, const struct eco_matmul *matmul,
                           const struct eco_span *span);
/* Of the matrix, as products see it: whole groups by wish. */
int32_t eco_gpu_columns(const struct eco_gpu_run *run, const struct eco_matmul *matmul);
/* C (+)= A accs M */
void eco_gpu_multiply_back(struct eco_gpu_run *run, const struct eco_matmul *matmul);
/* The copies of the layer's weights that the plan wished for, before the first product with them.
 */
void eco_gpu_copy_weights(struct eco_gpu_run *run, const struct eco_op *op);
/* dM (+)= A accs^T C, over all rows; here C is only read */
void eco_gpu_multiply_weights(struct eco_gpu_run *run, const struct eco_matmul *matmul);
/* Of two matrices, where that is faster than one after the other; the second's rows begin so many
 * later.  False: none is queued. */
bool eco_gpu_multiply_both_weights(struct eco_gpu_run *run, const struct eco_matmul matmul[2],
                                   int32_t begin);
/* dM = 0 */
void eco_gpu_clear_weights(struct eco_gpu_run *run, const struct eco_matmul *matmul);

#endif /* ECO_GPU_GEMM_PACKED_WEIGHTS_H */
