/*
 * The vocabulary in AVX2 and FMA: eight floats.
 */
#ifndef ECO_VEC_AVX2_H
#define ECO_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>

enum { VEC_FUSED = 1 }; /* v_fma rounds once */
enum { VEC_REGISTERS = 16 };
enum { VEC_LANES = 8 };
typedef float real;
typedef __m256 vec;
typedef int32_t veci __attribute__((vector_size(32)));
typedef uint32_t vecu __attribute__((vector_size(32)));

static inline vec v_const(double x)
{
    return _mm256_set1_ps((float)x);
}

static inline vec v_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

static inline void v_store(float *to, vec v)
{
    _mm256_storeu_ps(to, v);
}

static inline __m256i v_first(int n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
}

/* The first n lanes, 0 < n < VEC_LANES; a load fills the rest with 0. */
static inline vec v_load_part(const float *from, int n)
{
    return _mm256_maskload_ps(from, v_first(n));
}

static inline void v_store_part(float *to, vec v, int n)
{
    _mm256_maskstore_ps(to, v_first(n), v);
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* tile.c */
#define VEC_HAS_HOLD
static inline vec v_hold(vec v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* a < b ? x : y; false for a NaN. */
static inline vec v_where_less(vec a, vec b, vec x, vec y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

static inline vec v_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

static inline vec v_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

static inline vec v_sqrt(vec a)
{
    return _mm256_sqrt_ps(a);
}

#include "cpu/isa/vec_math.h"

/* vec_transpose.h: four words of rows i and i + 4. */
#define VEC_HAS_TRANSPOSE
static inline __m256i v_two_simd4(const char *from, size_t row)
{
    const __m128i low = _mm_loadu_si128((const void *)from);
    const __m128i high = _mm_loadu_si128((const void *)(from + 4 * row));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

static inline void v_transpose(vecu line[4], const char *from, size_t row)
{
    const __m256i r0 = v_two_simd4(from, row), r1 = v_two_simd4(from + row, row),
                  r2 = v_two_simd4(from + 2 * row, row), r3 = v_two_simd4(from + 3 * row, row);
    const __m256i a = _mm256_unpacklo_epi32(r0, r1), b = _mm256_unpacklo_epi32(r2, r3),
                  c = _mm256_unpackhi_epi32(r0, r1), d = _mm256_unpackhi_epi32(r2, r3);
    line[0] = (vecu)_mm256_unpacklo_epi64(a, b);
    line[1] = (vecu)_mm256_unpackhi_epi64(a, b);
    line[2] = (vecu)_mm256_unpacklo_epi64(c, d);
    line[3] = (vecu)_mm256_unpackhi_epi64(c, d);
}

/* vec_sums.h */
#define VEC_HAS_HALVES
static inline vec v_halves(vec a, vec b, int h)
{
    if (h == 4)
        return _mm256_blend_ps(a, b, 0xf0) + _mm256_permute2f128_ps(a, b, 0x21);
    if (h == 2)
        return _mm256_blend_ps(a, b, 0xcc) + (vec)_mm256_shuffle_pd((__m256d)a, (__m256d)b, 0x5);
    return _mm256_blend_ps(a, b, 0xaa) + _mm256_permute_ps(_mm256_blend_ps(a, b, 0x55), 0xb1);
}

#endif /* ECO_VEC_AVX2_H */
