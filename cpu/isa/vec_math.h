/*
 * The rest of the float vocabulary, written once over the words of a set (vec_plain.h and so on),
 * so that all sets with a fused multiply-add give the same bits. Division is exact division; no
 * word needs a table or an approximate instruction. Errors: doc/numerics.md.
 *
 * Polynomials: relative error minimised by reweighted least squares (Lawson 1961) in 60 digits; one
 * coefficient after the other is rounded to float and the rest fitted again.
 */
#ifndef ECO_VEC_MATH_H
#define ECO_VEC_MATH_H

#include "cpu/isa/vec_operators.h"

/* A float plus this has its nearest integer in its low bits: exact for the numbers used here. */
#define VEC_SHIFT 0x1.8p23f

static inline vec v_abs(vec a)
{
    return (vec)((veci)a & INT32_MAX);
}

/* a > 0 ? b : c; a NaN takes c. */
static inline vec v_select(vec a, vec b, vec c)
{
    return v_where_less(v_const(0), a, b, c);
}

/* max(a, 0), but a NaN stays. */
static inline vec v_relu(vec a)
{
    return v_max(v_const(0), a);
}

/* 2^n, -126 <= n <= 127, of shifted = n + VEC_SHIFT. */
static inline vec v_power(vec shifted)
{
    return (vec)(((vecu)shifted << 23) + 0x3f800000u);
}

#ifndef VEC_HAS_SCALE
/* x * 2^n, |n| <= 252, rounded once if x is about 1: the first product is exact. */
static inline vec v_scale(vec x, vec n)
{
    const veci whole = (veci)((vecu)(n + v_const(VEC_SHIFT)) - (vecu)v_const(VEC_SHIFT));
    const veci half = whole >> 1;
    const vec first = (vec)((vecu)(half + 127) << 23);
    const vec second = (vec)((vecu)(whole - half + 127) << 23);
    return x * first * second;
}
#endif

/* x = n ln 2 + r: returns r and *shifted = n + VEC_SHIFT. n ln 2 is subtracted in two parts, the
 * first of which is exact for |n| < 512. */
static inline vec v_reduced(vec x, vec *shifted)
{
    *shifted = v_fma(x, v_const(0x1.715476p+0), v_const(VEC_SHIFT));
    const vec n = *shifted - v_const(VEC_SHIFT);
    const vec r = v_fma(n, v_const(-0x1.62e4p-1), x);
    return v_fma(n, v_const(-0x1.7f7d1cp-20), r);
}

/* Returns exp(r) - 1. */
static inline vec v_expm1_reduced(vec x, vec *shifted)
{
    const vec r = v_reduced(x, shifted);
    const vec r2 = r * r; /* Estrin's order, because a step of one row waits for its activations */
    const vec low = v_fma(v_const(0x1.5554b4p-3), r, v_const(0x1.fffffep-2));
    const vec high = v_fma(v_const(0x1.12253ep-7), r, v_const(0x1.5556f2p-5));
    const vec q = v_fma(v_fma(v_const(0x1.6b9c4ap-10), r2, high), r2, low);
    return v_fma(r2, q, r);
}

/* 0 up to -104, infinite from 89 on. The order of arguments in the clamps lets a NaN through. */
static inline vec v_exp(vec x)
{
    vec shifted;
    const vec m = v_expm1_reduced(v_min(v_const(89), v_max(v_const(-104), x)), &shifted);
    return v_scale(v_const(1) + m, shifted - v_const(VEC_SHIFT));
}

/* With e = exp(-|x|): 1/(1+e), or e/(1+e) for x < 0, which keeps its relative error down to 0. One
 * division is enough, because e = 2^n p(r) / p(-r), p(r) = 1 + a r^2 + r (1/2 + b r^2). */
static inline vec v_sigmoid(vec x)
{
    vec shifted;
    const vec r = v_reduced(v_max(v_const(-104), -v_abs(x)), &shifted), r2 = r * r;
    const vec even = v_fma(r2, v_const(0x1.9984aap-4), v_const(1));
    const vec odd = v_fma(r2, v_const(0x1.10bd98p-7), v_const(0.5));
    const vec below = v_fma(-r, odd, even);
    const vec above = v_scale(v_fma(r, odd, even), shifted - v_const(VEC_SHIFT));
    return v_where_less(x, v_const(0), above, below) / (below + above);
}

/* With m = exp(-2|x|) - 1: -m / (2 + m) and the sign of x; 1 from |x| = 9.02 on. */
static inline vec v_tanh(vec x)
{
    vec shifted;
    const vec above = v_abs(x), reduced = v_expm1_reduced(v_const(-2) * above, &shifted);
    const vec power = v_power(shifted);
    const vec m = v_fma(power, reduced, power - v_const(1));
    const vec absolute = v_abs(m / (v_const(2) + m)); /* anything where 2^n is no float */
    const vec bounded = v_where_less(v_const(20), above, v_const(1), absolute);
    return (vec)((veci)bounded | ((veci)x & INT32_MIN));
}

/* x = 2^k (1 + f), 1 + f within sqrt(1/2) .. sqrt(2): k ln 2 + f - f^2/2 + f^3 p(f). */
static inline vec v_log_positive(vec x)
{
    const vec tiny = v_const(0x1p-126);
    const vec normal = v_where_less(x, tiny, x * v_const(0x1p24), x);
    const vec denormal_k = v_where_less(x, tiny, v_const(-24), v_const(0));
    const veci k = (veci)((vecu)normal - 0x3f3504f3u) >> 23; /* the bits of sqrt(1/2) */
    const vec f = (vec)((vecu)normal - ((vecu)k << 23)) - v_const(1);
    vec p = v_const(-0x1.38ceb6p-4);
    p = v_fma(p, f, v_const(0x1.056016p-3));
    p = v_fma(p, f, v_const(-0x1.0d81f6p-3));
    p = v_fma(p, f, v_const(0x1.22d8fap-3));
    p = v_fma(p, f, v_const(-0x1.54728cp-3));
    p = v_fma(p, f, v_const(0x1.99a01ep-3));
    p = v_fma(p, f, v_const(-0x1.000226p-2));
    p = v_fma(p, f, v_const(0x1.555554p-2));
    const vec n = __builtin_convertvector(k, vec) + denormal_k;
    const vec square = f * f;
    vec low = v_fma(n, v_const(0x1.7f7d1cp-20), square * f * p);
    low = v_fma(square, v_const(-0.5), low);
    return v_fma(n, v_const(0x1.62e4p-1), f + low);
}

static inline vec v_log(vec x)
{
    const vec zero = v_const(0), infinity = v_const(__builtin_inf());
    const vec other = v_where_less(x, zero, v_const(__builtin_nan("")), -infinity);
    const vec finite = v_where_less(zero, x, v_log_positive(x), other);
    return v_where_less(x, infinity, finite, x);
}

#endif /* ECO_VEC_MATH_H */
