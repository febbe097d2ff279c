/*
 * Vectors of four 32-bit words, which every processor has registers for; used in packing.
 */
#ifndef ECO_SIMD4_H
#define ECO_SIMD4_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ECO_SIMD4 = 4 };
typedef uint32_t eco_simd4 __attribute__((vector_size(ECO_SIMD4 * sizeof(uint32_t))));
typedef int32_t eco_simd4_signed __attribute__((vector_size(ECO_SIMD4 * sizeof(int32_t))));
typedef float eco_simd4_float __attribute__((vector_size(ECO_SIMD4 * sizeof(float))));

static inline eco_simd4 eco_simd4_load(const void *from)
{
    eco_simd4 words;
    memcpy(&words, from, sizeof words);
    return words;
}

static inline void eco_simd4_store(void *to, eco_simd4 words)
{
    memcpy(to, &words, sizeof words);
}

/* Floats rounded to BF16, in the upper halves.  NaNs are not rounded but recorded in *nan. */
static inline eco_simd4 eco_simd4_rounded(eco_simd4 bits, eco_simd4 *nan)
{
    *nan |= (eco_simd4)((eco_simd4_signed)(bits & 0x7fffffffu) > 0x7f800000);
    return bits + 0x7fffu + (bits >> 16 & 1u);
}

/* Was a NaN recorded? */
static inline bool eco_simd4_any(eco_simd4 noted)
{
    uint64_t any[2];
    memcpy(any, &noted, sizeof any);
    return (any[0] | any[1]) != 0;
}

#if defined(__clang__) || __GNUC__ >= 12
#define ECO_SIMD4_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define ECO_SIMD4_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (eco_simd4){i, j, k, l})
#endif

/* Transposes four rows of four words. */
static inline void eco_simd4_transpose(eco_simd4 row[ECO_SIMD4])
{
    const eco_simd4 a = ECO_SIMD4_SHUFFLE(row[0], row[1], 0, 4, 1, 5),
                    b = ECO_SIMD4_SHUFFLE(row[2], row[3], 0, 4, 1, 5),
                    c = ECO_SIMD4_SHUFFLE(row[0], row[1], 2, 6, 3, 7),
                    d = ECO_SIMD4_SHUFFLE(row[2], row[3], 2, 6, 3, 7);
    row[0] = ECO_SIMD4_SHUFFLE(a, b, 0, 1, 4, 5);
    row[1] = ECO_SIMD4_SHUFFLE(a, b, 2, 3, 6, 7);
    row[2] = ECO_SIMD4_SHUFFLE(c, d, 0, 1, 4, 5);
    row[3] = ECO_SIMD4_SHUFFLE(c, d, 2, 3, 6, 7);
}

#endif /* ECO_SIMD4_H */
