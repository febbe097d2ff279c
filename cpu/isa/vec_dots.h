/*
 * Bytes: the low bytes of a vector's lanes, and sums of products of quads, four unsigned by four
 * signed bytes, in every lane of a vector: exact in 32 bits. VNNI has an instruction, and NEON's
 * dot product one for signed bytes; the pair products of other sets saturate, so these widen to 16
 * bits, or plain vectors to 32.
 */
#ifndef ECO_VEC_DOTS_H
#define ECO_VEC_DOTS_H

#include <string.h>

/* Stores the low bytes of all lanes; compilers generate longer code for it. */
static inline void v_store_bytes(uint8_t *to, veci v)
{
#if defined(__AVX512F__)
    _mm_storeu_si128((void *)to, _mm512_cvtepi32_epi8((__m512i)v));
#elif defined(__AVX2__)
    const __m256i four = _mm256_shuffle_epi8((__m256i)v, _mm256_set1_epi32(0x0c080400));
    const __m128i low = _mm256_castsi256_si128(four), high = _mm256_extracti128_si256(four, 1);
    _mm_storel_epi64((void *)to, _mm_unpacklo_epi32(low, high));
#else
    for (int j = 0; j < VEC_LANES; j++)
        to[j] = (uint8_t)v[j];
#endif
}

/* quad: four bytes of a row in every lane, less DOTS_MIDDLE. dots: the sums of a vector. d_sums: of
 * each lane. */
#ifdef __ARM_FEATURE_DOTPROD
enum { DOTS_MIDDLE = 128 };
#else
enum { DOTS_MIDDLE = 0 };
#endif
#if defined(__AVX512BW__) || defined(__AVX2__) || defined(__ARM_FEATURE_DOTPROD)
static inline int32_t d_four(const uint8_t *from)
{
    int32_t four;
    memcpy(&four, from, sizeof four);
    return four;
}
#endif

#if defined(__AVX512VNNI__)

enum { DOTS_SUMS = 24 };
typedef __m512i quad, dots;

static inline quad d_quad(const uint8_t *from)
{
    return _mm512_set1_epi32(d_four(from));
}

static inline dots d_add(dots sum, quad a, const int8_t *weights)
{
    return _mm512_dpbusd_epi32(sum, a, _mm512_load_si512(weights));
}

#elif defined(__AVXVNNI__)

enum { DOTS_SUMS = 12 };
typedef __m256i quad, dots;

static inline quad d_quad(const uint8_t *from)
{
    return _mm256_set1_epi32(d_four(from));
}

static inline dots d_add(dots sum, quad a, const int8_t *weights)
{
    return _mm256_dpbusd_avx_epi32(sum, a, _mm256_load_si256((const void *)weights));
}

#elif defined(__ARM_FEATURE_DOTPROD)

enum { DOTS_SUMS = 24 };
typedef int8x16_t quad;
typedef int32x4_t dots;

static inline quad d_quad(const uint8_t *from)
{
    return vreinterpretq_s8_u32(vdupq_n_u32((uint32_t)d_four(from) ^ 0x80808080u));
}

static inline dots d_add(dots sum, quad a, const int8_t *weights)
{
    return vdotq_s32(sum, vld1q_s8(weights), a);
}

#elif defined(__AVX512BW__) || defined(__AVX2__)

/* Two sums of each lane, of the first two and the last two of its products, lower lanes first. */
#define DOTS_IN_TWO
enum { DOTS_SUMS = VEC_LANES == 16 ? 12 : 6 };
typedef veci quad;
typedef struct {
    veci low, high;
} dots;

#ifdef __AVX512BW__
static inline quad d_quad(const uint8_t *from)
{
    return (quad)_mm512_cvtepu8_epi16(_mm256_set1_epi32(d_four(from)));
}

static inline veci d_pairs(quad a, const int8_t *weights)
{
    return (veci)_mm512_madd_epi16((__m512i)a,
                                   _mm512_cvtepi8_epi16(_mm256_load_si256((const void *)weights)));
}

static inline veci d_sums(dots sum)
{
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i low = _mm512_permutex2var_epi32((__m512i)sum.low, even, (__m512i)sum.high);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512i high = _mm512_permutex2var_epi32((__m512i)sum.low, odd, (__m512i)sum.high);
    return (veci)_mm512_add_epi32(low, high);
}
#else
static inline quad d_quad(const uint8_t *from)
{
    return (quad)_mm256_cvtepu8_epi16(_mm_set1_epi32(d_four(from)));
}

static inline veci d_pairs(quad a, const int8_t *weights)
{
    return (veci)_mm256_madd_epi16((__m256i)a,
                                   _mm256_cvtepi8_epi16(_mm_load_si128((const void *)weights)));
}

static inline veci d_sums(dots sum)
{
    const __m256i both = _mm256_hadd_epi32((__m256i)sum.low, (__m256i)sum.high);
    return (veci)_mm256_permute4x64_epi64(both, 0xd8); /* 0 2 1 3 */
}
#endif

static inline dots d_add(dots sum, quad a, const int8_t *weights)
{
    return (dots){sum.low + d_pairs(a, weights), sum.high + d_pairs(a, weights + 2 * VEC_LANES)};
}

#else

enum { DOTS_SUMS = VEC_REGISTERS == 32 ? 16 : 8 };
typedef veci dots;
typedef struct {
    int32_t byte[4];
} quad;

static inline quad d_quad(const uint8_t *from)
{
    return (quad){{from[0], from[1], from[2], from[3]}};
}

static inline dots d_add(dots sum, quad a, const int8_t *weights)
{
    veci w;
    memcpy(&w, weights, sizeof w);
    for (int k = 0; k < 4; k++)
        sum += ((veci)((vecu)w << (24 - 8 * k)) >> 24) * a.byte[k];
    return sum;
}
#endif

#ifdef DOTS_IN_TWO
static inline dots d_zero(void)
{
    return (dots){{0}, {0}};
}
#else
static inline dots d_zero(void)
{
    return (dots){0};
}

static inline veci d_sums(dots sum)
{
    return (veci)sum;
}
#endif

#endif /* ECO_VEC_DOTS_H */
