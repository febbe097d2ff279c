/*
 * The vocabulary in SSE2: four floats, without fused multiply-add, so the same bits as plain C.
 */
#ifndef ECO_VEC_SSE2_H
#define ECO_VEC_SSE2_H

#include <emmintrin.h>
#include <stdint.h>

enum { VEC_FUSED = 0 }; /* v_fma rounds once */
enum { VEC_REGISTERS = 16 };
enum { VEC_LANES = 4 };
typedef float real;
typedef __m128 vec;
typedef int32_t veci __attribute__((vector_size(16)));
typedef uint32_t vecu __attribute__((vector_size(16)));

static inline vec v_const(double x)
{
    return _mm_set1_ps((float)x);
}

static inline vec v_load(const float *from)
{
    return _mm_loadu_ps(from);
}

static inline void v_store(float *to, vec v)
{
    _mm_storeu_ps(to, v);
}

/* The first n lanes, 0 < n < VEC_LANES; a load fills the rest with 0. */
static inline vec v_load_part(const float *from, int n)
{
    if (n == 1)
        return _mm_load_ss(from);
    const vec pair = _mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(const void *)from));
    return n == 2 ? pair : _mm_movelh_ps(pair, _mm_load_ss(from + 2));
}

static inline void v_store_part(float *to, vec v, int n)
{
    if (n > 1)
        _mm_storel_epi64((__m128i *)(void *)to, _mm_castps_si128(v));
    if (n != 2)
        _mm_store_ss(to + (n - 1), n == 1 ? v : _mm_movehl_ps(v, v));
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return _mm_add_ps(_mm_mul_ps(a, b), c);
}

/* a < b ? x : y; false for a NaN. */
static inline vec v_where_less(vec a, vec b, vec x, vec y)
{
    const vec less = _mm_cmplt_ps(a, b);
    return _mm_or_ps(_mm_and_ps(less, x), _mm_andnot_ps(less, y));
}

static inline vec v_min(vec a, vec b)
{
    return _mm_min_ps(a, b);
}

static inline vec v_max(vec a, vec b)
{
    return _mm_max_ps(a, b);
}

static inline vec v_sqrt(vec a)
{
    return _mm_sqrt_ps(a);
}

#include "cpu/isa/vec_math.h"

#endif /* ECO_VEC_SSE2_H */
