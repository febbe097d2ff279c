/*
 * The calls between a run of attention and its kernels: pointers, sizes, and strides in elements.
 * `real` is the type of sums: float or double.
 */
#ifndef ECO_GPU_ATTENTION_ARGS_H
#define ECO_GPU_ATTENTION_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* additive scores: threads, and positions with keys in shared memory at a time */
    ECO_ATTENTION_THREADS = 256,
    ECO_ATTENTION_TILE = 16,
    /* products: threads, and both sides of a tile of the result */
    ECO_ATTENTION_PRODUCT_THREADS = 64,
    ECO_ATTENTION_PRODUCT_TILE = 32,
    /* rows of scores: one for each warp */
    ECO_ATTENTION_ROWS = 8,
    /* gradient of additive scores: columns of a block, queries of a warp, most warps;
     * positions of a pass times the bytes of a real, so that it takes less than 48 KB */
    ECO_ATTENTION_COLUMNS = 32,
    ECO_ATTENTION_QUERIES = 8,
    ECO_ATTENTION_WARPS = 8,
    ECO_ATTENTION_POSITION_BYTES = 320,
    /* sum of dvector: threads across and down */
    ECO_ATTENTION_VECTOR_ACROSS = 32,
    ECO_ATTENTION_VECTOR_DOWN = 8,
};

/* Rows of a caller's array: element (i, n, h) is at i*step + n*row + h. */
struct eco_attention_rows {
    void *data; /* or NULL */
    size_t step, row;
};

/* score[n,t,s] (of [N,T,S]) = sum over h of vector[h] tanh(query[t,n,h] + keys[s,n,h]), for s below
 * the length. A block has 2 * pairs queries of one n; its warps divide the positions. */
struct eco_attention_additive {
    struct eco_attention_rows query, keys;
    const void *vector; /* real [H] */
    void *score;        /* real */
    const int32_t *lengths;
    int32_t T, S, H, pairs; /* 1, 2, 4 or 8 */
    bool whole;             /* rows may be read four elements at a time */
};

/* Replaces rows of [N,T,S] by their softmax. Backward: score = scale * weight * (score - sum of
 * weight * score), where score begins as dweights, added to what it holds already, if anything. */
struct eco_attention_softmax {
    void *score;                        /* in place */
    const void *weight;                 /* backward: the weights, laid out as score */
    struct eco_attention_rows weights;  /* forward: [T,N,S], or NULL */
    struct eco_attention_rows dweights; /* backward: [T,N,S], or NULL for 0 */
    const int32_t *lengths;
    int32_t T, S, N;
    bool holds;
    float scale;
};

/* C[n,i,j] = scale * sum over k of A[n,i,k] B[n,k,j]. */
enum eco_attention_product_kind {
    ECO_ATTENTION_ROWS_BY_ROWS,       /* rows of a and b: C real, j < length */
    ECO_ATTENTION_WEIGHTS_BY_ROWS,    /* weights [I,K]: C rows, k < length */
    ECO_ATTENTION_WEIGHTS_TRANSPOSED, /* weights [K,I]: C rows, 0 from i = length on */
    ECO_ATTENTION_PRODUCTS
};
struct eco_attention_product {
    struct eco_attention_rows a, b, c; /* also real: a [N,I,K] or [N,K,I], c [N,I,J] */
    const int32_t *lengths;
    int32_t I, J, K, source; /* source: S, if lengths are NULL */
    float scale;
    bool whole;
};

/* From dscore [N,T,S]: dquery, dkeys, and the contribution of each n to dvector, [N,H]. */
struct eco_attention_gradient_call {
    struct eco_attention_rows query, keys, dquery, dkeys; /* data of the last two may be NULL */
    const void *vector, *dscore;
    void *dvector;
    void *sums; /* real [N,T,H]: dquery between parts of the source, if there are several */
    const int32_t *lengths;
    int32_t T, S, H;
};

/* dvector[h] (+)= sum over n of part[n,h]. */
struct eco_attention_vector {
    const void *part;
    void *dvector;
    int32_t N, H;
    bool add;
};

/* For one type: instances/table_attention_f32.cu and so on. Each takes its call by value. */
struct eco_gpu_attention_kernels {
    const void *additive[2]; /* few columns, many columns */
    int32_t few;             /* most columns of the first */
    const void *softmax, *softmax_gradient;
    const void *product[ECO_ATTENTION_PRODUCTS];
    const void *gradient, *vector;
};

/* Shared memory of a block of the gradient; real: bytes of such a number. */
static inline size_t eco_attention_gradient_bytes(int32_t positions, int32_t warps, size_t real)
{
    const size_t queries = (size_t)warps * ECO_ATTENTION_QUERIES + 4;
    const size_t numbers = (size_t)positions * (2 * ECO_ATTENTION_COLUMNS + queries) +
                           (size_t)warps * ECO_ATTENTION_COLUMNS;
    return numbers * real;
}

#ifdef __cplusplus
extern "C" {
#endif
extern const struct eco_gpu_attention_kernels eco_gpu_attention_f32, eco_gpu_attention_f64;
extern const struct eco_gpu_attention_kernels eco_gpu_attention_bf16, eco_gpu_attention_f16;
#ifdef __cplusplus
}
#endif

#endif /* ECO_GPU_ATTENTION_ARGS_H */
