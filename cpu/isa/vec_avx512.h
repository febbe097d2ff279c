/*
 * The vocabulary in AVX-512 F, BW, DQ and VL: sixteen floats.
 */
#ifndef ECO_VEC_AVX512_H
#define ECO_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

enum { VEC_FUSED = 1 }; /* v_fma rounds once */
enum { VEC_REGISTERS = 32 };
enum { VEC_LANES = 16 };
typedef float real;
typedef __m512 vec;
typedef int32_t veci __attribute__((vector_size(64)));
typedef uint32_t vecu __attribute__((vector_size(64)));

static inline vec v_const(double x)
{
    return _mm512_set1_ps((float)x);
}

static inline vec v_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

static inline void v_store(float *to, vec v)
{
    _mm512_storeu_ps(to, v);
}

/* The first n lanes, 0 < n < VEC_LANES; a load fills the rest with 0. */
static inline vec v_load_part(const float *from, int n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), from);
}

static inline void v_store_part(float *to, vec v, int n)
{
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), v);
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* tile.c */
#define VEC_HAS_HOLD
static inline vec v_hold(vec v)
{
    __asm__("" : "+v"(v));
    return v;
}

/* a < b ? x : y; false for a NaN. */
static inline vec v_where_less(vec a, vec b, vec x, vec y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}

static inline vec v_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

static inline vec v_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

static inline vec v_sqrt(vec a)
{
    return _mm512_sqrt_ps(a);
}

/* x * 2^n, rounded once: what vec_math.h otherwise does in two products. */
#define VEC_HAS_SCALE 1
static inline vec v_scale(vec x, vec n)
{
    return _mm512_scalef_ps(x, n);
}

#include "cpu/isa/vec_math.h"

/* vec_narrow.h: compilers generate longer code for it. */
#define VEC_HAS_NARROW
typedef uint16_t vech __attribute__((vector_size(2 * VEC_LANES)));

static inline vecu v_rounded(vec v)
{
    const __m512i bits = (__m512i)v;
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return (vecu)_mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000));
}

static inline vech v_to_narrow(vec v)
{
    return (vech)_mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)v_rounded(v), 16));
}

/* vec_transpose.h: four words of rows i, i + 4, i + 8 and i + 12. */
#define VEC_HAS_TRANSPOSE
static inline __m512i v_four_simd4(const char *from, size_t row)
{
    __m512i fours = _mm512_castsi128_si512(_mm_loadu_si128((const void *)from));
    fours = _mm512_inserti32x4(fours, _mm_loadu_si128((const void *)(from + 4 * row)), 1);
    fours = _mm512_inserti32x4(fours, _mm_loadu_si128((const void *)(from + 8 * row)), 2);
    return _mm512_inserti32x4(fours, _mm_loadu_si128((const void *)(from + 12 * row)), 3);
}

static inline void v_transpose(vecu line[4], const char *from, size_t row)
{
    const __m512i r0 = v_four_simd4(from, row), r1 = v_four_simd4(from + row, row),
                  r2 = v_four_simd4(from + 2 * row, row), r3 = v_four_simd4(from + 3 * row, row);
    const __m512i a = _mm512_unpacklo_epi32(r0, r1), b = _mm512_unpacklo_epi32(r2, r3),
                  c = _mm512_unpackhi_epi32(r0, r1), d = _mm512_unpackhi_epi32(r2, r3);
    line[0] = (vecu)_mm512_unpacklo_epi64(a, b);
    line[1] = (vecu)_mm512_unpackhi_epi64(a, b);
    line[2] = (vecu)_mm512_unpacklo_epi64(c, d);
    line[3] = (vecu)_mm512_unpackhi_epi64(c, d);
}

/* vec_sums.h */
#define VEC_HAS_HALVES
static inline vec v_halves(vec a, vec b, int h)
{
    const __m512i fours =
        _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    const __m512i ones =
        _mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
    if (h == 8)
        return _mm512_mask_blend_ps(0xff00, a, b) + _mm512_shuffle_f32x4(a, b, 0x4e);
    if (h == 4)
        return _mm512_mask_blend_ps(0xf0f0, a, b) + _mm512_permutex2var_ps(a, fours, b);
    if (h == 2)
        return _mm512_mask_blend_ps(0xcccc, a, b) +
               (vec)_mm512_shuffle_pd((__m512d)a, (__m512d)b, 0x55);
    return _mm512_mask_blend_ps(0xaaaa, a, b) + _mm512_permutex2var_ps(a, ones, b);
}

#endif /* ECO_VEC_AVX512_H */
