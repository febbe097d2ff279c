/*
 * Vectors of four 32-bit words, which every processor has registers for; used in packing.
 */
#ifndef ECO_FOURS_H
#define ECO_FOURS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ECO_FOUR = 4 };
typedef uint32_t eco_four __attribute__((vector_size(ECO_FOUR * sizeof(uint32_t))));
typedef int32_t eco_signed_four __attribute__((vector_size(ECO_FOUR * sizeof(int32_t))));
typedef float eco_float_four __attribute__((vector_size(ECO_FOUR * sizeof(float))));

static inline eco_four eco_four_load(const void *from)
{
    eco_four four;
    memcpy(&four, from, sizeof four);
    return four;
}

static inline void eco_four_store(void *to, eco_four four)
{
    memcpy(to, &four, sizeof four);
}

/* Floats rounded to BF16, in the upper halves.  NaNs are not rounded but recorded in *nan. */
static inline eco_four eco_four_rounded(eco_four bits, eco_four *nan)
{
    *nan |= (eco_four)((eco_signed_four)(bits & 0x7fffffffu) > 0x7f800000);
    return bits + 0x7fffu + (bits >> 16 & 1u);
}

/* Was a NaN recorded? */
static inline bool eco_four_any(eco_four noted)
{
    uint64_t any[2];
    memcpy(any, &noted, sizeof any);
    return (any[0] | any[1]) != 0;
}

#if defined(__clang__) || __GNUC__ >= 12
#define ECO_FOUR_OF(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define ECO_FOUR_OF(a, b, i, j, k, l) __builtin_shuffle(a, b, (eco_four){i, j, k, l})
#endif

/* Transposes four rows of four words. */
static inline void eco_four_transpose(eco_four row[ECO_FOUR])
{
    const eco_four a = ECO_FOUR_OF(row[0], row[1], 0, 4, 1, 5),
                   b = ECO_FOUR_OF(row[2], row[3], 0, 4, 1, 5),
                   c = ECO_FOUR_OF(row[0], row[1], 2, 6, 3, 7),
                   d = ECO_FOUR_OF(row[2], row[3], 2, 6, 3, 7);
    row[0] = ECO_FOUR_OF(a, b, 0, 1, 4, 5);
    row[1] = ECO_FOUR_OF(a, b, 2, 3, 6, 7);
    row[2] = ECO_FOUR_OF(c, d, 0, 1, 4, 5);
    row[3] = ECO_FOUR_OF(c, d, 2, 3, 6, 7);
}

#endif /* ECO_FOURS_H */
