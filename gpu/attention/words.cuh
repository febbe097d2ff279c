/*
 * What the kernels of attention calculate with, for one type of rows (tile/rows.cuh).
 *
 * tanh(q + k) = 1 - 2 / (exp(2 q) exp(2 k) + 1): where no |x| is beyond a limit, exponentials are
 * found once for each query and key, and an element takes one reciprocal, the only one of the
 * special functions.  Its error is some 2^-23, not relative: scores are exponents.  Else, where
 * something is `far`, each element takes a tanh of its own.
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
#define NEAR_LIMIT 340.
#else
#define NEAR_LIMIT 40.f
#endif

ECO_DEVICE real reciprocal(real a)
{
#if defined(ECO_ROWS_F64)
    return 1 / a;
#else
    return fast_reciprocal(a);
#endif
}

/* NaN is not. */
ECO_DEVICE bool is_near(real x)
{
    return REAL(fabs)(x) <= NEAR_LIMIT;
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

/* Of a narrow number, or of a real one. */
template <typename element> ECO_DEVICE real number(element x)
{
    if constexpr (sizeof(element) == sizeof(real))
        return x;
    else
        return to_real(x);
}

/* Elements h .. h + 3 of a row so wide, 0 past its end; whole: they may be read as one. */
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

/* Within 0 to S: nobody has checked it. */
ECO_DEVICE int length_of(const int32_t *lengths, int n, int S)
{
    const int length = lengths ? lengths[n] : S;
    return length < 0 ? 0 : length > S ? S : length;
}

/* In all lanes; in an order of their own. */
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
