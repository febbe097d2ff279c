/*
 * Launches of convert.cu: floats are scaled by powers of two, because F16 has few exponents, and
 * rounded to F16. Each row of dacc has a power; other matrices have one power each.
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
    ECO_SCALED_F16_MATRICES = 4,         /* most matrices of a launch */
    ECO_SCALED_F16_MOST_COLUMNS = 16384, /* of dacc */
    ECO_SCALED_F16_BLOCKS = 1024 /* most blocks that search a matrix for its largest number */
};

/* Factors that undo the scales; cuBLAS reads them on the device. */
struct eco_scaled_f16_scalars {
    float inverse[ECO_SCALED_F16_MATRICES]; /* of the power of each matrix; the first may be of both
                                               factors */
    float zero, one;
};

/* to[r,i] = from[r,i] / scales[r] times a power of two, with zeros after the columns. */
struct eco_scaled_f16_matrix {
    const float *from; /* [rows, from_row] */
    size_t from_row;
    int32_t rows, columns;
    const float *scales; /* [rows] or NULL: ones */
    bool bounded;        /* its numbers are in [-1, 1], so the largest is taken as 1 */
    void *to;            /* F16 [rows, to_row] */
    int32_t to_row;
};

/* dacc in place: row r times scales[r]; its F16 numbers overwrite the row's first half. */
struct eco_scaled_f16_dacc_call {
    float *data; /* [rows, row] */
    size_t row;
    int32_t rows, columns; /* columns: a multiple of 4, at most ECO_SCALED_F16_MOST_COLUMNS */
    float *scales;         /* [rows] */
    float *sums; /* [blocks, columns]: column sums of the old values, over some rows each */
    int32_t blocks;
    bool narrowed; /* steps have stored F16 numbers and scales: only sums are missing */
    struct eco_scaled_f16_matrix beside; /* additional blocks search it for the largest number */
    int32_t searchers;                   /* at most ECO_SCALED_F16_BLOCKS */
    float *most;                         /* [searchers] */
};
cudaError_t eco_launch_scaled_f16_dacc(const struct eco_scaled_f16_dacc_call *call, bool overlap,
                                       cudaStream_t stream);

/* Some matrices, by two launches, or one if their largest numbers are known. */
struct eco_scaled_f16_call {
    struct eco_scaled_f16_matrix of[ECO_SCALED_F16_MATRICES];
    int32_t n;
    bool together; /* the two matrices are multiplied with each other, and scalars->inverse[0] is
                      for both */
    int32_t searchers; /* blocks that have searched for largest numbers; 0: still to be done */
    float *most;       /* [ECO_SCALED_F16_MATRICES, ECO_SCALED_F16_BLOCKS]: their results */
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
