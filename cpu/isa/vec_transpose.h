/*
 * Transposes words of 32 bits from rows to columns, over any set's vectors, for packing.
 */
#ifndef ECO_VEC_TRANSPOSE_H
#define ECO_VEC_TRANSPOSE_H

#include "common/simd4.h"

/* line[k] = word k of each of VEC_LANES rows `row` bytes apart, k < 4. */
#ifndef VEC_HAS_TRANSPOSE
ALWAYS_INLINE void v_transpose(vecu line[ECO_SIMD4], const char *from, size_t row)
{
#pragma GCC unroll 4
    for (size_t i = 0; i < ECO_SIMD4; i++)
        line[i] = eco_simd4_load(from + i * row);
    eco_simd4_transpose(line);
}
#endif

#endif /* ECO_VEC_TRANSPOSE_H */
