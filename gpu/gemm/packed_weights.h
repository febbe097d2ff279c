/*
 * Products with the packed weights, and the copies of weights that they read.
 */
#ifndef ECO_GPU_GEMM_PACKED_WEIGHTS_H
#define ECO_GPU_GEMM_PACKED_WEIGHTS_H

#include "gpu/gemm/gemm.h"

/* One product with a part of the packed weights, M [n*units, columns]. "accs": the columns of the
 * part's accumulators, H each, at their positions in a row of acc or dacc; for a projection its P
 * columns. */
struct eco_matmul {
    const struct eco_op *op;
    int weight_id; /* enum eco_weight_id */
    int32_t rows;
    const void *a;
    size_t a_row;
    void *c;
    size_t c_row;
    ecornn_type c_type; /* dx and projected states: the type of rows; 0: the type of sums */
    bool add;           /* to C; else C is overwritten */
    int32_t first;      /* rows of the op's products with dacc that precede A's */
    const struct eco_scaled_f16 *scaled; /* operands are F16 in rows of whole groups; or NULL */
    int32_t slices;                      /* multiply_back of one span: of eco_product */
    bool odd;                            /* alternates between consecutive steps */
    bool narrow; /* rows with the matrix's columns (A, or C of multiply_back) are not padded, even
                    where products use whole groups */
};
/* C accs (+)= A M^T */
void eco_gpu_multiply(struct eco_gpu_run *run, const struct eco_matmul *matmul);
/* The product for some neighbouring accumulators. */
struct eco_product eco_gpu_span_product(const struct eco_gpu_run *run,
                                        const struct eco_matmul *matmul,
                                        const struct eco_acc_range *span);
void eco_gpu_multiply_span(struct eco_gpu_run *run, const struct eco_matmul *matmul,
                           const struct eco_acc_range *span);
/* Columns of the matrix for products: whole groups if that was requested. */
int32_t eco_gpu_columns(const struct eco_gpu_run *run, const struct eco_matmul *matmul);
/* C (+)= A accs M */
void eco_gpu_multiply_back(struct eco_gpu_run *run, const struct eco_matmul *matmul);
/* Makes the requested copies of the layer's weights, before the first product with them. */
void eco_gpu_copy_weights(struct eco_gpu_run *run, const struct eco_op *op);
/* dM (+)= A accs^T C, over all rows; here C is only read */
void eco_gpu_multiply_weights(struct eco_gpu_run *run, const struct eco_matmul *matmul);
/* Two matrices at once, if that is faster; the second's rows begin later. False: none is queued. */
bool eco_gpu_multiply_both_weights(struct eco_gpu_run *run, const struct eco_matmul matmul[2],
                                   int32_t begin);
/* dM = 0 */
void eco_gpu_clear_weights(struct eco_gpu_run *run, const struct eco_matmul *matmul);

#endif /* ECO_GPU_GEMM_PACKED_WEIGHTS_H */
