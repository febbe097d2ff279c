/*
 * The kernels of attention, compiled once for each instruction set like cpu/isa/isa.c.
 */
#include "cpu/attention/attention.h"

#include <string.h>

#include "cpu/isa/vec.h"

enum { GROUP = ECO_ATTENTION_GROUP, VECS = GROUP / VEC_LANES, FOUR = ECO_ATTENTION_POSITIONS };

/* The largest |x| for which exp(2 x) and products of two of them are usable: the product is
 * infinite or 0 only where tanh is 1 or -1. And a number so large that 1 / number is negligible
 * compared with 1, while products of four such are finite. */
#define RANGE_LIMIT (sizeof(real) == 8 ? 340 : 40)
#define LARGEST     (sizeof(real) == 8 ? 0x1p250 : 0x1p30)

/* ---- rows ------------------------------------------------------------------------------------ */

static bool is_in_range(const void *x, size_t n)
{
    const real *from = x;
    vec beyond = v_const(0);
    for (size_t i = 0; i < n; i += VEC_LANES) {
        const vec a = v_abs(v_load(from + i));
        /* 0 as long as a is within the limit, NaN once a number is infinite or NaN */
        beyond = v_add(
            beyond, v_add(v_max(v_const(0), v_sub(a, v_const(RANGE_LIMIT))), v_mul(a, v_const(0))));
    }
    real lane[VEC_LANES];
    v_store(lane, beyond);
    bool within = true;
    for (int j = 0; j < VEC_LANES; j++)
        within = within && lane[j] == 0;
    return within;
}

static void exponentials(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i += VEC_LANES) {
        const vec x = v_load((const real *)from + i);
        v_store((real *)to + i, v_exp(v_add(x, x)));
    }
}

typedef real eight __attribute__((vector_size(8 * sizeof(real))));
typedef real four __attribute__((vector_size(4 * sizeof(real))));

/* Adds partial sums in a fixed order: each with the one half of them further on, and so on. */
ALWAYS_INLINE real total(const vec part[VECS])
{
    real lane[GROUP];
    eight low, high;
    four first, second;
#pragma GCC unroll 16
    for (int k = 0; k < VECS; k++)
        v_store(lane + k * VEC_LANES, part[k]);
    memcpy(&low, lane, sizeof low);
    memcpy(&high, lane + 8, sizeof high);
    low += high;
    memcpy(&first, &low, sizeof first);
    memcpy(&second, (const real *)&low + 4, sizeof second);
    first += second;
    return (first[0] + first[2]) + (first[1] + first[3]);
}

static void softmax(void *row, int32_t n)
{
    real *w = row, most;
    const int32_t padded = (int32_t)eco_attention_padded((size_t)n);
    vec part[VECS];
    if (n == 0)
        return;
    most = w[0];
    for (int32_t j = 1; j < n; j++)
        most = w[j] > most ? w[j] : most;
    for (int32_t j = n; j < padded; j++)
        w[j] = (real)-__builtin_inf();
    for (int k = 0; k < VECS; k++)
        part[k] = v_const(0);
    for (int32_t j = 0; j < padded; j += GROUP)
        for (int k = 0; k < VECS; k++) {
            real *at = w + j + k * VEC_LANES;
            const vec e = v_exp(v_sub(v_load(at), v_const((double)most)));
            part[k] = v_add(part[k], e);
            v_store(at, e);
        }
    const vec sum = v_const((double)total(part));
    for (int32_t j = 0; j < padded; j += VEC_LANES)
        v_store(w + j, v_div(v_load(w + j), sum));
    for (int32_t j = n; j < padded; j++)
        w[j] = 0;
}

static void softmax_gradient(void *row, const void *weight, int32_t n)
{
    real *d = row;
    const real *w = weight;
    const int32_t padded = (int32_t)eco_attention_padded((size_t)n);
    vec part[VECS];
    for (int k = 0; k < VECS; k++)
        part[k] = v_const(0);
    for (int32_t j = 0; j < padded; j += GROUP)
        for (int k = 0; k < VECS; k++) {
            const int32_t at = j + k * VEC_LANES;
            part[k] = v_fma(v_load(w + at), v_load(d + at), part[k]);
        }
    const vec mean = v_const((double)total(part));
    for (int32_t j = 0; j < padded; j += VEC_LANES)
        v_store(d + j, v_mul(v_load(w + j), v_sub(v_load(d + j), mean)));
}

static void scale(void *row, const void *by, int32_t n, double factor)
{
    real *to = row;
    const real *with = by;
    for (int32_t h = 0; h < n; h++)
        to[h] *= (real)factor * with[h];
}

/* ---- tanh ------------------------------------------------------------------------------------ */

/* r[j] = 1 / (1 + q k[j]) for four, with one division; so tanh = 1 - 2 r. */
ALWAYS_INLINE void reciprocals(vec r[FOUR], vec q, const vec k[FOUR])
{
    vec a[FOUR];
#pragma GCC unroll 4
    for (int j = 0; j < FOUR; j++)
        a[j] = v_min(v_const(LARGEST), v_fma(q, k[j], v_const(1)));
    const vec first = v_mul(a[0], a[1]), second = v_mul(a[2], a[3]);
    const vec all = v_div(v_const(1), v_mul(first, second));
    const vec of_first = v_mul(all, second), of_second = v_mul(all, first);
    r[0] = v_mul(of_first, a[1]);
    r[1] = v_mul(of_first, a[0]);
    r[2] = v_mul(of_second, a[3]);
    r[3] = v_mul(of_second, a[2]);
}

ALWAYS_INLINE void tanhs(vec y[FOUR], vec q, const vec k[FOUR], bool out_of_range)
{
    if (!out_of_range)
        reciprocals(y, q, k);
#pragma GCC unroll 4
    for (int j = 0; j < FOUR; j++)
        y[j] = out_of_range ? v_tanh(v_add(q, k[j])) : v_fma(v_const(-2), y[j], v_const(1));
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* The start of four rows; the last row replaces missing ones, whose scores are not stored. */
ALWAYS_INLINE void four_rows(const real *row[FOUR], const struct eco_attention_scores *call,
                             int32_t j)
{
#pragma GCC unroll 4
    for (int i = 0; i < FOUR; i++) {
        const int32_t last = call->positions - 1, at = j + i < last ? j + i : last;
        row[i] = (const real *)call->keys + (size_t)at * call->row;
    }
}

ALWAYS_INLINE void score_four(const struct eco_attention_scores *call, int32_t i, int32_t j,
                              bool dot, bool out_of_range)
{
    const real *q = (const real *)call->query + (size_t)i * call->row, *v = call->vector;
    const real *key[FOUR];
    vec part[FOUR][VECS];
    four_rows(key, call, j);
#pragma GCC unroll 16
    for (int k = 0; k < VECS; k++)
#pragma GCC unroll 4
        for (int p = 0; p < FOUR; p++)
            part[p][k] = v_const(0);
    for (int32_t h = 0; h < call->width; h += GROUP)
#pragma GCC unroll 16
        for (int k = 0; k < VECS; k++) {
            const int32_t at = h + k * VEC_LANES;
            vec y[FOUR], factor = v_load(dot ? q + at : v + at);
#pragma GCC unroll 4
            for (int p = 0; p < FOUR; p++)
                y[p] = v_load(key[p] + at);
            if (!dot)
                tanhs(y, v_load(q + at), y, out_of_range);
#pragma GCC unroll 4
            for (int p = 0; p < FOUR; p++)
                part[p][k] = v_fma(factor, y[p], part[p][k]);
        }
    real *to = (real *)call->score + (size_t)i * call->score_row + j;
    for (int p = 0; p < FOUR && j + p < call->positions; p++)
        to[p] += total(part[p]);
}

ALWAYS_INLINE void score_all(const struct eco_attention_scores *call, bool dot, bool out_of_range)
{
    for (int32_t i = 0; i < call->queries; i++)
        for (int32_t j = 0; j < call->positions; j += FOUR)
            score_four(call, i, j, dot, out_of_range);
}

static void additive(const struct eco_attention_scores *call)
{
    if (call->out_of_range)
        score_all(call, false, true);
    else
        score_all(call, false, false);
}

static void dots(const struct eco_attention_scores *call)
{
    score_all(call, true, false);
}

/* ---- sums of rows ---------------------------------------------------------------------------- */

/* Vectors of columns at a time, for FOUR rows: as many sums as registers hold. */
enum { ACROSS = VEC_LANES == 1 ? 4 : 2 };

/* `rows` rows of the result and `vecs` vectors of columns. */
ALWAYS_INLINE void sum_rows(const struct eco_attention_sum *call, int32_t i, int32_t h, int rows,
                            int vecs)
{
    const real *w = (const real *)call->weight + (size_t)i * call->weight_row;
    real *to = (real *)call->to + (size_t)i * call->row + h;
    const real *from = (const real *)call->from + h;
    vec sum[FOUR][ACROSS];
#pragma GCC unroll 4
    for (int p = 0; p < rows; p++)
#pragma GCC unroll 4
        for (int k = 0; k < vecs; k++)
            sum[p][k] = v_load(to + (size_t)p * call->row + k * VEC_LANES);
    for (int32_t j = 0; j < call->count; j++, from += call->row, w += call->weight_column) {
        vec x[ACROSS];
#pragma GCC unroll 4
        for (int k = 0; k < vecs; k++)
            x[k] = v_load(from + k * VEC_LANES);
#pragma GCC unroll 4
        for (int p = 0; p < rows; p++) {
            const vec weight = v_const((double)w[(size_t)p * call->weight_row]);
#pragma GCC unroll 4
            for (int k = 0; k < vecs; k++)
                sum[p][k] = v_fma(weight, x[k], sum[p][k]);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < rows; p++)
#pragma GCC unroll 4
        for (int k = 0; k < vecs; k++)
            v_store(to + (size_t)p * call->row + k * VEC_LANES, sum[p][k]);
}

ALWAYS_INLINE void sum_columns(const struct eco_attention_sum *call, int32_t i, int rows)
{
    int32_t h = 0;
    for (; h + ACROSS * VEC_LANES <= call->width; h += ACROSS * VEC_LANES)
        sum_rows(call, i, h, rows, ACROSS);
    for (; h < call->width; h += VEC_LANES)
        sum_rows(call, i, h, rows, 1);
}

static void sum(const struct eco_attention_sum *call)
{
    int32_t i = 0;
    for (; i + FOUR <= call->rows; i += FOUR)
        sum_columns(call, i, FOUR);
    for (; i < call->rows; i++)
        sum_columns(call, i, 1);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* (1 - tanh^2) / 4 and tanh of four elements. */
ALWAYS_INLINE void slopes(vec slope[FOUR], vec y[FOUR], vec q, const vec k[FOUR], bool out_of_range)
{
    if (out_of_range) {
        tanhs(y, q, k, true);
#pragma GCC unroll 4
        for (int j = 0; j < FOUR; j++)
            slope[j] = v_mul(v_const(0.25), v_fma(v_neg(y[j]), y[j], v_const(1)));
        return;
    }
    reciprocals(y, q, k);
#pragma GCC unroll 4
    for (int j = 0; j < FOUR; j++) {
        slope[j] = v_fma(v_neg(y[j]), y[j], y[j]);
        y[j] = v_fma(v_const(-2), y[j], v_const(1));
    }
}

/* Four positions, a vector of columns, all queries. */
ALWAYS_INLINE void gradient_four(const struct eco_attention_gradient *call, int32_t j, int32_t h,
                                 bool out_of_range)
{
    const size_t width = (size_t)call->width;
    const real *q = (const real *)call->query + h;
    const real *dscore = (const real *)call->dscore + j;
    real *dq = (real *)call->dquery + h, *dk = (real *)call->dkeys + (size_t)j * width + h;
    vec k[FOUR], dkey[FOUR], dvector = v_load((real *)call->dvector + h);
#pragma GCC unroll 4
    for (int p = 0; p < FOUR; p++) {
        k[p] = v_load((const real *)call->keys + ((size_t)j + (size_t)p) * width + h);
        dkey[p] = v_load(dk + (size_t)p * width);
    }
    for (int32_t i = 0; i < call->queries; i++, q += width, dq += width) {
        vec slope[FOUR], y[FOUR], sum = v_load(dq);
        slopes(slope, y, v_load(q), k, out_of_range);
#pragma GCC unroll 4
        for (int p = 0; p < FOUR; p++) {
            const vec d = v_const((double)dscore[p]);
            sum = v_fma(d, slope[p], sum);
            dkey[p] = v_fma(d, slope[p], dkey[p]);
            dvector = v_fma(d, y[p], dvector);
        }
        v_store(dq, sum);
        dscore += call->dscore_row;
    }
#pragma GCC unroll 4
    for (int p = 0; p < FOUR; p++)
        v_store(dk + (size_t)p * width, dkey[p]);
    v_store((real *)call->dvector + h, dvector);
}

ALWAYS_INLINE void gradient_all(const struct eco_attention_gradient *call, bool out_of_range)
{
    for (int32_t h = 0; h < call->width; h += VEC_LANES)
        for (int32_t j = 0; j < call->positions; j += FOUR)
            gradient_four(call, j, h, out_of_range);
}

static void gradient(const struct eco_attention_gradient *call)
{
    if (call->out_of_range)
        gradient_all(call, true);
    else
        gradient_all(call, false);
}

const struct eco_attention_kernels JOIN(eco_attention_, ECO_ISA) = {
    .is_in_range = is_in_range,
    .exponentials = exponentials,
    .additive = additive,
    .dots = dots,
    .softmax = softmax,
    .softmax_gradient = softmax_gradient,
    .scale = scale,
    .sum = sum,
    .gradient = gradient,
};
