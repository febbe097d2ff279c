/*
 * Launches of convert.cu: floats brought to numbers of F16, which has few exponents, by powers of
 * two: one for each row of dacc, one for all of any other matrix.
 */
#ifndef ECO_GPU_GEMM_SCALED_F16_ARGS_H
#define ECO_GPU_GEMM_SCALED_F16_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ECO_SCALED_F16_MATRICES = 4,         /* of a launch, at most */
    ECO_SCALED_F16_MOST_COLUMNS = 16384, /* of dacc */
    ECO_SCALED_F16_BLOCKS = 1024         /* that look for a matrix's largest number, at most */
};

/* What products with such matrices are multiplied by, for cuBLAS to read on the device. */
struct eco_scaled_f16_scalars {
    float inverse[ECO_SCALED_F16_MATRICES]; /* of the power of two of each, or the first: of all */
    float zero, one;
};

/* to[r,i] = from[r,i] / scales[r] times a power of two, zeros behind the columns. */
struct eco_scaled_f16_matrix {
    const float *from; /* [rows, from_row] */
    size_t from_row;
    int32_t rows, columns;
    const float *scales; /* [rows] or NULL: ones */
    bool bounded;        /* its numbers are in [-1, 1], so the largest is taken for 1 */
    void *to;            /* [rows, to_row] of F16 */
    int32_t to_row;
};

/* dacc, in place: row r times scales[r], its numbers of F16 where its first half was. */
struct eco_scaled_f16_dacc_call {
    float *data; /* [rows, row] */
    size_t row;
    int32_t rows, columns; /* columns: a multiple of 4, ECO_SCALED_F16_MOST_COLUMNS at most */
    float *scales;         /* [rows] */
    float *sums;           /* [blocks, columns]: of what there was, of some rows each */
    int32_t blocks;
    struct eco_scaled_f16_matrix beside; /* so many more blocks look for its largest number */
    int32_t searchers;                   /* ECO_SCALED_F16_BLOCKS at most */
    float *most;                         /* [searchers] */
};
cudaError_t eco_launch_scaled_f16_dacc(const struct eco_scaled_f16_dacc_call *call, bool overlap,
                                       cudaStream_t stream);

/* Some matrices; two launches, or one where their largest numbers are known. */
struct eco_scaled_f16_call {
    struct eco_scaled_f16_matrix of[ECO_SCALED_F16_MATRICES];
    int32_t n;
    bool together;     /* two that are multiplied by each other: scalars->inverse[0] is of both */
    int32_t searchers; /* blocks that have looked for largest numbers; 0: that is to be done */
    float *most;       /* [ECO_SCALED_F16_MATRICES, ECO_SCALED_F16_BLOCKS]: what they found */
    struct eco_scaled_f16_scalars *scalars;
};
cudaError_t eco_launch_scaled_f16(const struct eco_scaled_f16_call *call, bool overlap,
                                  cudaStream_t stream);

/* to[r,i] (+)= from[r,i] / scales[r]. */
struct eco_scaled_f16_back_call {
    const float *from;
    float *to;
    size_t from_row, to_row;
    int32_t rows, columns;
    const float *scales;
    bool add;
};
cudaError_t eco_launch_scaled_f16_back(const struct eco_scaled_f16_back_call *call, bool overlap,
                                       cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif /* ECO_GPU_GEMM_SCALED_F16_ARGS_H */
