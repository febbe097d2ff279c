/*
 * The passes.  The vector family relies on the compiler: loops it can turn into vectors of whatever
 * this processor has, and an exponential without branches, good to about 2e-7 relative.
 */
#include "passes.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
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

/* The same loop for every pass and family: MARK is the function's attribute, HINT the loop's. */
#define PASS(name, mark, hint, expression)                                                         \
    mark static void name(float *restrict to, const float *restrict a, const float *restrict b,    \
                          int count)                                                               \
    {                                                                                              \
        (void)b;                                                                                   \
        hint for (int k = 0; k < count; k++) to[k] = (expression);                                 \
    }
#define SIMD _Pragma("omp simd")
#define SCALAR

/* clang-format off */
PASS(vector_add, EVERY_WIDTH, SIMD, a[k] + b[k])
PASS(vector_sub, EVERY_WIDTH, SIMD, a[k] - b[k])
PASS(vector_mul, EVERY_WIDTH, SIMD, a[k] * b[k])
PASS(vector_one_minus, EVERY_WIDTH, SIMD, 1 - a[k])
PASS(vector_sigmoid, EVERY_WIDTH, SIMD, sigmoid_quick(a[k]))
PASS(vector_tanh, EVERY_WIDTH, SIMD, tanh_quick(a[k]))
PASS(vector_relu, EVERY_WIDTH, SIMD, a[k] > 0 ? a[k] : 0)
PASS(vector_d_sigmoid, EVERY_WIDTH, SIMD, a[k] * b[k] * (1 - b[k]))
PASS(vector_d_tanh, EVERY_WIDTH, SIMD, a[k] * (1 - b[k] * b[k]))
PASS(vector_d_relu, EVERY_WIDTH, SIMD, b[k] > 0 ? a[k] : 0)

PASS(scalar_add, , SCALAR, a[k] + b[k])
PASS(scalar_sub, , SCALAR, a[k] - b[k])
PASS(scalar_mul, , SCALAR, a[k] * b[k])
PASS(scalar_one_minus, , SCALAR, 1 - a[k])
PASS(scalar_sigmoid, , SCALAR, 1 / (1 + expf(-a[k])))
PASS(scalar_tanh, , SCALAR, tanhf(a[k]))
PASS(scalar_relu, , SCALAR, a[k] > 0 ? a[k] : 0)
PASS(scalar_d_sigmoid, , SCALAR, a[k] * b[k] * (1 - b[k]))
PASS(scalar_d_tanh, , SCALAR, a[k] * (1 - b[k] * b[k]))
PASS(scalar_d_relu, , SCALAR, b[k] > 0 ? a[k] : 0)
/* clang-format on */

static void copy(float *to, const float *a, const float *b, int count)
{
    (void)b;
    memcpy(to, a, (size_t)count * sizeof *to);
}

const struct passes passes_vector = {{vector_add, vector_sub, vector_mul, vector_one_minus,
                                      vector_sigmoid, vector_tanh, vector_relu, vector_d_sigmoid,
                                      vector_d_tanh, vector_d_relu, copy},
                                     16384};
const struct passes passes_scalar = {{scalar_add, scalar_sub, scalar_mul, scalar_one_minus,
                                      scalar_sigmoid, scalar_tanh, scalar_relu, scalar_d_sigmoid,
                                      scalar_d_tanh, scalar_d_relu, copy},
                                     0};

void pass_run(const struct passes *passes, enum pass pass, const struct rectangle *rectangle)
{
    const pass_function row = passes->row[pass];
    const struct rows to = rectangle->to, a = rectangle->a, b = rectangle->b;
    const int N = rectangle->N, H = rectangle->H;
    const int parallel = passes->parallel_from && N > 1 && (long)N * H >= passes->parallel_from;
#pragma omp parallel for schedule(static) if (parallel)
    for (int n = 0; n < N; n++)
        row(to.data + (long)n * to.stride, a.data + (long)n * a.stride, b.data + (long)n * b.stride,
            H);
}
