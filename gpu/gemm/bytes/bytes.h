/*
 * Matrices of integers of 8 bits with a scale for each row (common/quantise.h): made from
 * parameters, widened to floats, and multiplied with few rows of floats.
 */
#ifndef ECO_GPU_GEMM_BYTES_BYTES_H
#define ECO_GPU_GEMM_BYTES_BYTES_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Plans with at most this many rows of a batch multiply bytes; others widen them in each run. */
enum { ECO_BYTES_MOST_ROWS = 16 };

/* Rows [rows,columns] of parameters become integers and scales. */
struct eco_bytes_rows {
    const void *from;
    ecornn_type type;
    size_t from_row, to_row;
    int8_t *to;
    float *scale;
    int32_t rows, columns;
};
cudaError_t eco_launch_quantise(const struct eco_bytes_rows *rows, cudaStream_t stream);

/* to[rows,columns] = scale[row] * from; both are contiguous. */
cudaError_t eco_launch_widen_bytes(float *to, const int8_t *from, const float *scale, int32_t rows,
                                   int32_t columns, cudaStream_t stream);

/* C[m,n] (+)= A[m,k] B[n,k]^T with sums of each row in one order, whatever m is. */
struct eco_bytes_product {
    const float *a, *scale, *bias; /* bias [n]: added to C, if that is overwritten; or NULL */
    const int8_t *b;
    float *c;
    size_t a_row, b_row, c_row;
    int32_t m, n, k;
    bool add;
};
/* overlap: as in eco_launch, if B was written before the preceding kernel began. */
cudaError_t eco_launch_bytes_product(const struct eco_bytes_product *product, bool overlap,
                                     cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* ECO_GPU_GEMM_BYTES_BYTES_H */
