/*
 * Arithmetic of cells for one type of rows: the words of the printed text that do not access memory
 * (doc/internals/stages.md, "the printed interface"), for one unit in each thread.
 */
#ifndef ECO_GPU_CELL_MATH_CUH
#define ECO_GPU_CELL_MATH_CUH

#include "gpu/arch/fast_math.cuh"
#include "gpu/tile/random.cuh"
#include "gpu/tile/rows.cuh"

/* Arithmetic and sums are in F32, or F64 for rows of F64 (tile/rows.cuh). */
typedef real vec;

/* ---- arithmetic: every word rounds once (-fmad=false), as on a CPU --------------------------- */

ECO_DEVICE vec v_const(double x)
{
    return (real)x;
}
ECO_DEVICE vec v_add(vec a, vec b)
{
    return a + b;
}
ECO_DEVICE vec v_sub(vec a, vec b)
{
    return a - b;
}
ECO_DEVICE vec v_mul(vec a, vec b)
{
    return a * b;
}
#if defined(CELL_WITHOUT_BRANCHES) /* of floats, because the compiler moves nothing across a       \
                                      branch */
/* To one ulp, or two if ECO_QUICK. Infinity and NaN are as in a division. */
ECO_DEVICE vec v_div(vec a, vec b)
{
    const float r = wide_reciprocal(b), quotient = a * r;
#if defined(ECO_QUICK)
    return quotient;
#else
    const float closer = fmaf(fmaf(-quotient, b, a), r, quotient);
    return closer == closer ? closer : quotient;
#endif
}
ECO_DEVICE vec v_sqrt(vec a)
{
    return wide_sqrt(a);
}
#else
ECO_DEVICE vec v_div(vec a, vec b)
{
    return a / b;
}
ECO_DEVICE vec v_sqrt(vec a)
{
    return REAL(sqrt)(a);
}
#endif
ECO_DEVICE vec v_min(vec a, vec b)
{
    return a < b ? a : b;
}
ECO_DEVICE vec v_max(vec a, vec b)
{
    return a > b ? a : b;
}
ECO_DEVICE vec v_select(vec a, vec b, vec c)
{
    return a > 0 ? b : c;
} /* a NaN becomes c */
ECO_DEVICE vec v_neg(vec a)
{
    return -a;
}
ECO_DEVICE vec v_abs(vec a)
{
    return REAL(fabs)(a);
}
ECO_DEVICE vec v_relu(vec a)
{
    return 0 > a ? (real)0 : a;
} /* a NaN stays */
ECO_DEVICE vec v_exp(vec a)
{
    return REAL(exp)(a);
}
ECO_DEVICE vec v_log(vec a)
{
    return REAL(log)(a);
}
#if defined(ECO_QUICK) /* for rows of fewer bits */
ECO_DEVICE float quick_exp(float a)
{
    return fast_exp2(a * 1.44269504f);
}
#if defined(ECO_ROWS_BF16) && __CUDA_ARCH__ >= 750
/* To 2^-11 of the value, a quarter of the rounding error of 16-bit rows. */
ECO_DEVICE vec v_tanh(vec a)
{
    return fast_tanh(a);
}
#else
ECO_DEVICE vec v_tanh(vec a)
{
    const float e = quick_exp(-2 * fabsf(a)), square = a * a;
    const float large = copysignf((1 - e) * fast_reciprocal(1 + e), a);
    const float tail = __fmaf_rn(square, -17.f / 315, 2.f / 15);
    const float small = __fmaf_rn(a * square, __fmaf_rn(square, tail, -1.f / 3), a);
    return square < 0.06f ? small : large;
}
#endif
ECO_DEVICE vec v_sigmoid(vec a)
{
    return fast_reciprocal(1 + quick_exp(-a));
}
#else
/* To some ulps of F32, without a branch, because the compiler moves nothing across one. */
ECO_DEVICE vec v_tanh(vec a)
{
#if defined(ECO_ROWS_F64)
    return tanh(a);
#else
    const float square = a * a;
    const float e = fast_exp2(fabsf(a) * 2.885390082f);
    const float large = copysignf(fmaf(-2, fast_reciprocal(e + 1), 1), a);
    /* The polynomial with the least relative error, 2^-29. */
    float tail = fmaf(square, -0.00619872f, 0.02102055f);
    tail = fmaf(square, tail, -0.05384052f);
    tail = fmaf(square, tail, 0.13332481f);
    tail = fmaf(square, tail, -0.33333315f);
    const float small = fmaf(a * square, tail, a);
    return square < 0.3f ? small : large;
#endif
}

/* a / b for b in [1, 2], to an ulp, without the branch of a division. */
ECO_DEVICE vec divide_near_one(vec a, vec b)
{
#if defined(ECO_ROWS_F64)
    return a / b;
#else
    const float r = fast_reciprocal(b);
    const float quotient = a * r;
    return fmaf(fmaf(-quotient, b, a), r, quotient);
#endif
}

ECO_DEVICE vec v_sigmoid(vec a)
{
    const real e = REAL(exp)(-REAL(fabs)(a));
    return divide_near_one(a < 0 ? e : (real)1, 1 + e);
}
#endif

/* 1 with that probability, else 0. */
ECO_DEVICE real draw(const struct eco_coordinates *where, uint32_t unit, double probability)
{
    uint32_t word[4];
    eco_random_quad(where, unit / 4, word);
    return word[unit % 4] < eco_random_threshold(probability) ? 1 : 0;
}

#endif /* ECO_GPU_CELL_MATH_CUH */
