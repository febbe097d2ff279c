/*
 * The calls between a run of attention and its kernels, which are compiled once for each
 * instruction set.  Everything is a number of sums: float, or double.  Widths are multiples of
 * ECO_ATTENTION_GROUP, and rows are filled up with zeros, so that no kernel has a rest.
 *
 * tanh(q + k) = 1 - 2 / (exp(2 q) exp(2 k) + 1): where no |x| is beyond a limit, the exponentials
 * are found once for each query and key, and an element takes a quarter of a division.  Else, where
 * `far`, each element takes a tanh of its own.
 */
#ifndef ECO_CPU_ATTENTION_H
#define ECO_CPU_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ECO_ATTENTION_GROUP = 16, ECO_ATTENTION_POSITIONS = 4 };

static inline size_t eco_attention_padded(size_t width)
{
    return (width + ECO_ATTENTION_GROUP - 1) / ECO_ATTENTION_GROUP * ECO_ATTENTION_GROUP;
}

/* score[i,j] += scale * sum over width of query[i] and key[j]; of additive scores, whose scale is
 * 1, sum of vector * tanh(query + key). */
struct eco_attention_scores {
    const void *query, *keys; /* [queries,row], [positions,row]; near: exp(2 x) */
    const void *vector;       /* [width] */
    void *score;              /* [queries,score_row] */
    size_t row, score_row;
    int32_t queries, positions, width;
    double scale;
    bool far;
};

/* to[i] += sum over j of weight[i*weight_row + j*weight_column] * from[j]. */
struct eco_attention_sum {
    const void *weight, *from; /* from: [count,row] */
    void *to;                  /* [rows,row] */
    size_t weight_row, weight_column, row;
    int32_t rows, count, width;
};

/* From dscore, the gradient of the scores: dquery[i] += sum over j of d, dkeys[j] += sum over i of
 * it, d = dscore (1 - tanh^2) / 4; dvector += sum of dscore * tanh. */
struct eco_attention_gradient {
    const void *query, *keys; /* [queries,width], [positions,width]; near: exp(2 x) */
    const void *dscore;       /* [queries,dscore_row]; 0 for positions that fill up */
    void *dquery, *dkeys;     /* as query and keys */
    void *dvector;            /* [width] */
    size_t dscore_row;
    int32_t queries, positions, width; /* positions: a multiple of ECO_ATTENTION_POSITIONS */
    bool far;
};

/* One instruction set's; sums of a row are ECO_ATTENTION_GROUP partial sums in all of them, so that
 * all sets with a fused multiply-add give the same bits, as do all without. */
struct eco_attention_kernels {
    /* Is no |x| of so many beyond the limit, and none NaN? */
    bool (*is_near)(const void *x, size_t n);
    /* to = exp(2 from) */
    void (*exponentials)(void *to, const void *from, size_t n);
    void (*additive)(const struct eco_attention_scores *call);
    void (*dots)(const struct eco_attention_scores *call);
    /* row[0 .. n) to its softmax, row[n .. padded n) to 0 */
    void (*softmax)(void *row, int32_t n);
    /* row = weight * (row - sum of weight * row), both filled up with 0 */
    void (*softmax_gradient)(void *row, const void *weight, int32_t n);
    /* row[0 .. n) *= by * factor */
    void (*scale)(void *row, const void *by, int32_t n, double factor);
    void (*sum)(const struct eco_attention_sum *call);
    void (*gradient)(const struct eco_attention_gradient *call);
};

/* kernels.c */
extern const struct eco_attention_kernels eco_attention_plain, eco_attention_f64;
extern const struct eco_attention_kernels eco_attention_sse2, eco_attention_neon;
extern const struct eco_attention_kernels eco_attention_avx2, eco_attention_avx512;

#endif /* ECO_CPU_ATTENTION_H */
