/*
 * The passes.  The compiler turns their loops into vector code of each width; the exponential has
 * no branches, and a relative error of about 2e-7.
 */
#include "passes.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32) /* needs ELF */
#define EVERY_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EVERY_WIDTH
#endif
#if defined(__GNUC__)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#endif

/* exp(x) = 2^n exp(r), |r| <= ln(2)/2, by the Taylor series to r^6; n through the float's exponent.
 * Adding 1.5 * 2^23 rounds to a whole number, whose low bits are then n. */
static ALWAYS_INLINE float exp_quick(float x)
{
    const float rounder = 12582912, low = -87, high = 88;
    const float inside = x < low ? low : x > high ? high : x;
    const float shifted = inside * 1.44269504f + rounder, n = shifted - rounder;
    const float r = (inside - n * 0.693145752f) - n * 1.42860677e-6f;
    const float p =
        1 +
        r * (1 + r * (0.5f + r * (0.166666667f + r * (0.0416666667f +
                                                      r * (0.00833333333f + r * 0.00138888889f)))));
    int32_t bits, power;
    float scale;
    memcpy(&bits, &shifted, sizeof bits);
    power = (int32_t)((uint32_t)(bits + 127) << 23);
    memcpy(&scale, &power, sizeof scale);
    return p * scale;
}

static ALWAYS_INLINE float sigmoid_quick(float x)
{
    return 1 / (1 + exp_quick(-x));
}

static ALWAYS_INLINE float tanh_quick(float x)
{
    return 1 - 2 / (1 + exp_quick(2 * x));
}

#define PASS(name, expression)                                                                     \
    EVERY_WIDTH static void name(float *restrict to, const float *restrict a,                      \
                                 const float *restrict b, int count)                               \
    {                                                                                              \
        (void)b;                                                                                   \
        _Pragma("omp simd") for (int k = 0; k < count; k++) to[k] = (expression);                  \
    }

/* clang-format off */
PASS(add, a[k] + b[k])
PASS(subtract, a[k] - b[k])
PASS(multiply, a[k] * b[k])
PASS(one_minus, 1 - a[k])
PASS(sigmoid, sigmoid_quick(a[k]))
PASS(tanh_pass, tanh_quick(a[k]))
PASS(relu, a[k] > 0 ? a[k] : 0)
PASS(d_sigmoid, a[k] * b[k] * (1 - b[k]))
PASS(d_tanh, a[k] * (1 - b[k] * b[k]))
PASS(d_relu, b[k] > 0 ? a[k] : 0)
/* clang-format on */

static void copy(float *to, const float *a, const float *b, int count)
{
    (void)b;
    memcpy(to, a, (size_t)count * sizeof *to);
}

pass_function *const pass_row[PASS_COUNT] = {
    add, subtract, multiply, one_minus, sigmoid, tanh_pass, relu, d_sigmoid, d_tanh, d_relu, copy};

void pass_run(enum pass pass, const struct rectangle *rectangle)
{
    enum { PARALLEL_FROM = 16384 }; /* elements */
    pass_function *const row = pass_row[pass];
    const struct rows to = rectangle->to, a = rectangle->a, b = rectangle->b;
    const int N = rectangle->N, H = rectangle->H;
    const int parallel = N > 1 && (int64_t)N * H >= PARALLEL_FROM;
#pragma omp parallel for schedule(static) if (parallel)
    for (int n = 0; n < N; n++)
        row(to.data + (int64_t)n * to.stride, a.data + (int64_t)n * a.stride,
            b.data + (int64_t)n * b.stride, H);
}
