/*
 * The calls between a run of attention and its kernels, which are compiled once for each
 * instruction set. All numbers have the type of sums: float or double. Widths are multiples of
 * ECO_ATTENTION_GROUP and rows are zero-padded, so kernels have no remainder loops.
 *
 * tanh(q + k) = 1 - 2 / (exp(2 q) exp(2 k) + 1): if no |x| exceeds a limit, the exponentials are
 * computed once for each query and key, and an element needs a quarter of a division. Otherwise
 * (`out_of_range`) each element needs a tanh.
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

/* additive: score[i,j] += sum over the width of vector * tanh(query[i] + key[j]); dots: of query[i]
 * * key[j]. */
struct eco_attention_scores {
    const void *query, *keys; /* [queries,row], [positions,row]; in range: exp(2 x) */
    const void *vector;       /* [width] */
    void *score;              /* [queries,score_row] */
    size_t row, score_row;
    int32_t queries, positions, width;
    bool out_of_range;
};

/* to[i] += sum over j of weight[i*weight_row + j*weight_column] * from[j]. */
struct eco_attention_sum {
    const void *weight, *from; /* from: [count,row] */
    void *to;                  /* [rows,row] */
    size_t weight_row, weight_column, row;
    int32_t rows, count, width;
};

/* From dscore, the gradient of the scores: dquery[i] += sum over j of d, dkeys[j] += sum over i of
 * d, with d = dscore (1 - tanh^2) / 4; dvector += sum of dscore * tanh. */
struct eco_attention_gradient {
    const void *query, *keys; /* [queries,width], [positions,width]; in range: exp(2 x) */
    const void *dscore;       /* [queries,dscore_row]; 0 for padding positions */
    void *dquery, *dkeys;     /* laid out as query and keys */
    void *dvector;            /* [width] */
    size_t dscore_row;
    int32_t queries, positions, width; /* positions: a multiple of ECO_ATTENTION_POSITIONS */
    bool out_of_range;
};

/* The kernels of an instruction set. In all sets a sum over a row is ECO_ATTENTION_GROUP partial
 * sums, so all sets with a fused multiply-add give the same bits, and so do all sets without. */
struct eco_attention_kernels {
    /* Is no |x| beyond the limit, and none NaN? */
    bool (*is_in_range)(const void *x, size_t n);
    /* to = exp(2 from) */
    void (*exponentials)(void *to, const void *from, size_t n);
    void (*additive)(const struct eco_attention_scores *call);
    void (*dots)(const struct eco_attention_scores *call);
    /* replaces row[0 .. n) by its softmax, and pads with 0 */
    void (*softmax)(void *row, int32_t n);
    /* row = weight * (row - sum of weight * row), both zero-padded */
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
