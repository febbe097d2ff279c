/*
 * Arithmetic of attention kernels for one type of rows (tile/rows.cuh).
 *
 * tanh(q + k) = 1 - 2 / (exp(2 q) exp(2 k) + 1): if no |x| exceeds a limit, exponentials are
 * computed once for each query and key, and an element needs one reciprocal as its only special
 * function. The absolute error is about 2^-23, which suffices because scores are exponents. If a
 * number is out of range (`far`), each element needs a tanh.
 */
#ifndef ECO_GPU_ATTENTION_WORDS_CUH
#define ECO_GPU_ATTENTION_WORDS_CUH

#include <stdint.h>

#include "gpu/arch/device.cuh"
#include "gpu/arch/fast_math.cuh"
#include "gpu/attention/args.h"
#include "gpu/tile/rows.cuh"

#define EVERY_LANE 0xffffffffu

#if defined(ECO_ROWS_F64)
#define RANGE_LIMIT 340.
#else
#define RANGE_LIMIT 40.f
#endif

ECO_DEVICE real reciprocal(real a)
{
#if defined(ECO_ROWS_F64)
    return 1 / a;
#else
    return fast_reciprocal(a);
#endif
}

/* False for NaN. */
ECO_DEVICE bool is_in_range(real x)
{
    return REAL(fabs)(x) <= RANGE_LIMIT;
}

ECO_DEVICE real exponential(real x)
{
    return REAL(exp)(x + x);
}

/* Four neighbours. */
struct alignas(4 * sizeof(real)) real_four {
    real x[4];
};
template <typename element> struct alignas(4 * sizeof(element)) four {
    element x[4];
};

/* Converts a narrow or real number. */
template <typename element> ECO_DEVICE real number(element x)
{
    if constexpr (sizeof(element) == sizeof(real))
        return x;
    else
        return to_real(x);
}

/* Elements h .. h + 3 of a row of this width, 0 beyond its end; whole: they may be read as one. */
template <typename element>
ECO_DEVICE real_four load_four(const element *row, int h, int width, bool whole)
{
    real_four y;
    if (whole && h + 4 <= width) {
        const four<element> x = *(const four<element> *)(row + h);
#pragma unroll
        for (int i = 0; i < 4; i++)
            y.x[i] = number(x.x[i]);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            y.x[i] = h + i < width ? number(row[h + i]) : (real)0;
    }
    return y;
}

ECO_DEVICE narrow *row_of(const struct eco_attention_rows *rows, int i, int n)
{
    return (narrow *)rows->data + (size_t)i * rows->step + (size_t)n * rows->row;
}

/* Clamped to 0 .. S, because the caller's lengths are not checked. */
ECO_DEVICE int length_of(const int32_t *lengths, int n, int S)
{
    const int length = lengths ? lengths[n] : S;
    return length < 0 ? 0 : length > S ? S : length;
}

/* The sum in all lanes, in a fixed order. */
ECO_DEVICE real warp_sum(real x)
{
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(EVERY_LANE, x, lanes);
    return x;
}

ECO_DEVICE real warp_max(real x)
{
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {
        const real other = __shfl_xor_sync(EVERY_LANE, x, lanes);
        x = other > x ? other : x;
    }
    return x;
}

#endif /* ECO_GPU_ATTENTION_WORDS_CUH */
