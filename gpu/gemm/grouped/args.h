/*
 * The argument of a launch of several products with few rows, around backward steps.
 */
#ifndef ECO_GPU_GEMM_GROUPED_ARGS_H
#define ECO_GPU_GEMM_GROUPED_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Multiply-adds of the largest product that is grouped; cuBLAS is faster with larger ones. */
#define ECO_GROUPED_WORK 2e8

enum {
    ECO_GROUPED_ROWS = 64, /* most batch rows, over all steps */
    ECO_GROUPED_WARPS = 16,
    ECO_GROUPED_THREADS = 32 * ECO_GROUPED_WARPS,
    ECO_GROUPED_SHAPES = 3, /* blocks of ECO_GROUPED_BACK with 8, 16 and 32 batch rows */
    ECO_GROUPED_JOBS = 24
};

/* In the order of their blocks. A is dacc; A and B are rows, C sums unless it is narrow. */
enum eco_grouped_kind {
    ECO_GROUPED_BACK,     /* C[m,n] (+)= A[m,k] B[k,n]; the run does not write B */
    ECO_GROUPED_ZERO,     /* C[m,n] = 0, contiguous; no preceding kernel of the run touches it */
    ECO_GROUPED_GRADIENT, /* C[m,n] (+)= A[k,m]^T B[k,n] */
    ECO_GROUPED_SUM, /* C[m,n] (+)= sums over k rows of A, in which groups of n are b_row apart */
    ECO_GROUPED_KINDS
};
/* Columns of a block; rows, except for ECO_GROUPED_BACK. ECO_GROUPED_SUM has columns only. */
enum {
    ECO_GROUPED_BACK_UNITS = 2, /* columns of B that a thread reads at once */
    ECO_GROUPED_BACK_COLUMNS = 16,
    ECO_GROUPED_GRADIENT_COLUMNS = 128,
    ECO_GROUPED_GRADIENT_ROWS = 128,
    ECO_GROUPED_SUM_COLUMNS = 32,
    ECO_GROUPED_ZEROS = 8192
};

#define ECO_GROUPED_BACK_ROWS(shape) (8 << (shape))

struct eco_grouped_job {
    enum eco_grouped_kind kind;
    int32_t blocks;
    const void *a, *b;
    void *c;
    size_t a_row, b_row, c_row; /* elements from row to row */
    int32_t m, n, k;
    bool add, narrow;
    bool a_whole, b_whole; /* rows are aligned to what a thread reads at once */
};

struct eco_grouped_call {
    int32_t n;
    struct eco_grouped_job job[ECO_GROUPED_JOBS];
};

#endif /* ECO_GPU_GEMM_GROUPED_ARGS_H */
