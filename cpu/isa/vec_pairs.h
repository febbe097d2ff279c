/*
 * Pairs of BF16 rows in the order of instructions that multiply pairs of k: for gradients, whose k
 * are rows. AVX-512, for the files of AMX and AVX512_BF16.
 */
#ifndef ECO_VEC_PAIRS_H
#define ECO_VEC_PAIRS_H

#include <immintrin.h>
#include <stdint.h>

static inline __m512i load_row(const uint16_t *from, size_t row, int32_t r, int32_t rows,
                               __mmask16 columns)
{
    if (r >= rows)
        return _mm512_setzero_si512();
    const __m256i half = _mm256_maskz_loadu_epi16(columns, from + (size_t)r * row);
    return _mm512_cvtepu16_epi32(half);
}

/* Rows 2 p and 2 p + 1 of each column, adjacent. */
static inline __m512i load_pair(const uint16_t *from, size_t row, int32_t p, int32_t rows,
                                __mmask16 columns)
{
    const __m512i low = load_row(from, row, 2 * p, rows, columns);
    const __m512i high = load_row(from, row, 2 * p + 1, rows, columns);
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* eco_pair_rows.vector */
static void pair(uint16_t *vector, const uint16_t *from, size_t row, int32_t rows, int32_t columns)
{
    const __mmask16 mask = (__mmask16)((1u << columns) - 1);
    for (int32_t p = 0; p < 16; p++)
        _mm512_store_si512(vector + p * 32, load_pair(from, row, p, rows, mask));
}

#endif /* ECO_VEC_PAIRS_H */
