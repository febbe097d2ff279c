/*
 * The arithmetic of one step, written for the compiler's vectors.  It is compiled for several
 * instruction sets; the loader takes the best one that the processor has.
 */
#include "python/native/points.h"

#include <string.h>

/* Sanitizers do not support functions that are chosen while loading. */
#if defined(__x86_64__) && defined(__gnu_linux__) && __GNUC__ >= 12 && !defined(__clang__) &&      \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define EACH_SET __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_SET
#endif
#define INLINE static inline __attribute__((always_inline))

/* ---- functions ------------------------------------------------------------------------------- */

/* exp(x) - 1 with a relative error of 3e-7; x: within -87..88, others count as these.
 *
 * x = n ln2 + r with |r| <= ln2/2, exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1); exp(r) - 1 by Taylor.
 */
INLINE float expm1_of(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    const float shifted = x * 1.44269504f + shift, n = shifted - shift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    const float p =
        r + r * r *
                (0.5f +
                 r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720 + r / 5040)))));
    uint32_t bits;
    float scale;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127u) << 23;
    memcpy(&scale, &bits, sizeof scale);
    return scale * p + (scale - 1.0f);
}

INLINE float sigmoid_of(float x)
{
    return 1.0f / (2.0f + expm1_of(-x));
}

INLINE float tanh_of(float x)
{
    const float e = expm1_of(2.0f * x);
    return e / (e + 2.0f);
}

/* ---- LSTM ------------------------------------------------------------------------------------ */

EACH_SET static void lstm_forward(int64_t n, float *restrict a, const float *restrict c,
                                  float *restrict new_h, float *restrict new_c)
{
    float *restrict const i = a, *restrict const f = a + n;
    float *restrict const g = a + 2 * n, *restrict const o = a + 3 * n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        i[j] = sigmoid_of(i[j]);
        f[j] = sigmoid_of(f[j]);
        g[j] = tanh_of(g[j]);
        o[j] = sigmoid_of(o[j]);
        new_c[j] = f[j] * c[j] + i[j] * g[j];
        new_h[j] = o[j] * tanh_of(new_c[j]);
    }
}

EACH_SET static void lstm_backward(const struct point *row, const float *restrict dh,
                                   const float *restrict dc, float *restrict da,
                                   float *restrict old_dc)
{
    const int64_t n = row->hidden;
    const float *restrict const i = row->gates, *restrict const f = i + n,
                                *restrict const g = f + n;
    const float *restrict const o = g + n, *restrict const c = row->c;
    const float *restrict const new_c = row->new_c;
    float *restrict const di = da, *restrict const df = da + n;
    float *restrict const dg = da + 2 * n, *restrict const d_o = da + 3 * n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float up = dh ? dh[j] : 0.0f, t = tanh_of(new_c[j]);
        const float d = (dc ? dc[j] : 0.0f) + up * o[j] * (1.0f - t * t);
        di[j] = d * g[j] * i[j] * (1.0f - i[j]);
        df[j] = d * c[j] * f[j] * (1.0f - f[j]);
        dg[j] = d * i[j] * (1.0f - g[j] * g[j]);
        d_o[j] = up * t * o[j] * (1.0f - o[j]);
        old_dc[j] = d * f[j];
    }
}

/* ---- GRU ------------------------------------------------------------------------------------- */

EACH_SET static void gru_forward(int64_t count, float *restrict a, const float *restrict h,
                                 float *restrict new_h)
{
    float *restrict const r = a, *restrict const z = a + count;
    float *restrict const n = a + 2 * count;
    const float *restrict const m = a + 3 * count;
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        r[j] = sigmoid_of(r[j]);
        z[j] = sigmoid_of(z[j]);
        n[j] = tanh_of(n[j] + r[j] * m[j]);
        new_h[j] = n[j] + z[j] * (h[j] - n[j]);
    }
}

EACH_SET static void gru_backward(const struct point *row, const float *restrict dh,
                                  float *restrict da, float *restrict old_dh)
{
    const int64_t count = row->hidden;
    const float *restrict const r = row->gates, *restrict const z = r + count;
    const float *restrict const n = z + count, *restrict const m = n + count;
    const float *restrict const h = row->h;
    float *restrict const dr = da, *restrict const dz = da + count;
    float *restrict const dn = da + 2 * count, *restrict const dm = da + 3 * count;
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        const float d = dh[j] * (1.0f - z[j]) * (1.0f - n[j] * n[j]);
        dn[j] = d;
        dm[j] = d * r[j];
        dr[j] = d * m[j] * r[j] * (1.0f - r[j]);
        dz[j] = dh[j] * (h[j] - n[j]) * z[j] * (1.0f - z[j]);
        old_dh[j] = dh[j] * z[j];
    }
}

/* ---- RNN ------------------------------------------------------------------------------------- */

EACH_SET static void tanh_forward(int64_t n, const float *restrict a, float *restrict new_h)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        new_h[j] = tanh_of(a[j]);
}

EACH_SET static void relu_forward(int64_t n, const float *restrict a, float *restrict new_h)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        new_h[j] = a[j] < 0.0f ? 0.0f : a[j]; /* keeps NaN, as torch does */
}

static void rnn_backward(enum cell_kind kind, const struct point *row)
{
    for (int64_t j = 0; j < row->hidden; j++) {
        const float y = row->new_h[j];
        row->dgates[j] = kind == CELL_TANH ? row->dh[j] * (1.0f - y * y)
                         : y > 0.0f        ? row->dh[j]
                                           : 0.0f;
    }
}

void point_forward(enum cell_kind kind, const struct point *row)
{
    if (kind == CELL_LSTM)
        lstm_forward(row->hidden, row->gates, row->c, row->new_h, row->new_c);
    else if (kind == CELL_GRU)
        gru_forward(row->hidden, row->gates, row->h, row->new_h);
    else if (kind == CELL_TANH)
        tanh_forward(row->hidden, row->gates, row->new_h);
    else
        relu_forward(row->hidden, row->gates, row->new_h);
}

void point_backward(enum cell_kind kind, const struct point *row)
{
    if (kind == CELL_LSTM)
        lstm_backward(row, row->dh, row->dc, row->dgates, row->old_dc);
    else if (kind == CELL_GRU)
        gru_backward(row, row->dh, row->dgates, row->old_dh);
    else
        rnn_backward(kind, row);
}

/* ---- products of one row --------------------------------------------------------------------- */

typedef float lanes __attribute__((vector_size(64)));
typedef float half __attribute__((vector_size(32)));
typedef float quarter __attribute__((vector_size(16)));
enum { LANES = sizeof(lanes) / sizeof(float) };

/* The sum of the lanes, in halves: the compiler's own goes one by one. */
INLINE float total(const lanes *all)
{
    half low, high;
    quarter first, second;
    memcpy(&low, all, sizeof low);
    memcpy(&high, (const char *)all + sizeof low, sizeof high);
    low += high;
    memcpy(&first, &low, sizeof first);
    memcpy(&second, (const char *)&low + sizeof first, sizeof second);
    first += second;
    return (first[0] + first[2]) + (first[1] + first[3]);
}

INLINE void add_product(lanes *sum, const float *w, const lanes *x)
{
    lanes part;
    memcpy(&part, w, sizeof part);
    *sum += part * *x;
}

EACH_SET void add_dots(float *out, const float *weights, const float *x, int64_t count,
                       int64_t size)
{
    const int64_t whole = size / LANES * LANES;
    for (int64_t i = 0; i < count; i += 4) { /* four sums at once hide the latency of an addition */
        const int64_t rows = count - i < 4 ? count - i : 4;
        const float *const w = weights + i * size;
        const float *const w1 = w + (rows > 1) * size, *const w2 = w + (rows > 2) * 2 * size;
        const float *const w3 = w + (rows > 3) * 3 * size;
        lanes s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        for (int64_t k = 0; k < whole; k += LANES) {
            lanes part;
            memcpy(&part, x + k, sizeof part);
            add_product(&s0, w + k, &part);
            add_product(&s1, w1 + k, &part);
            add_product(&s2, w2 + k, &part);
            add_product(&s3, w3 + k, &part);
        }
        float sum[4] = {total(&s0), total(&s1), total(&s2), total(&s3)};
        for (int64_t k = whole; k < size; k++)
            for (int64_t row = 0; row < rows; row++)
                sum[row] += w[row * size + k] * x[k];
        for (int64_t row = 0; row < rows; row++)
            out[i + row] += sum[row];
    }
}

EACH_SET void add_scaled(float *restrict out, float factor, const float *restrict row, int64_t size)
{
#pragma omp simd
    for (int64_t k = 0; k < size; k++)
        out[k] += factor * row[k];
}

EACH_SET void set_scaled(float *restrict out, float factor, const float *restrict row, int64_t size)
{
#pragma omp simd
    for (int64_t k = 0; k < size; k++)
        out[k] = factor * row[k];
}
