/*
 * BF16 in memory, floats in registers: the words that load and store BF16, over any set's vectors.
 * Rounds to nearest, ties to even; a NaN stays one (common/type.h does the same in scalars).
 */
#ifndef ECO_VEC_NARROW_H
#define ECO_VEC_NARROW_H

#include <stdint.h>
#include <string.h>

#ifndef VEC_HAS_NARROW
typedef uint16_t vech __attribute__((vector_size(2 * VEC_LANES)));
#endif

static inline vec v_load_narrow(const uint16_t *from)
{
    vech half;
    memcpy(&half, from, sizeof half);
    return (vec)(__builtin_convertvector(half, vecu) << 16);
}

#ifndef VEC_HAS_NARROW
/* BF16 in the upper halves. */
static inline vecu v_rounded(vec v)
{
    const vecu bits = (vecu)v, rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    const vecu nan = (vecu)((veci)(bits & 0x7fffffffu) > 0x7f800000);
    return (rounded & ~nan) | ((bits | 0x400000u) & nan);
}

static inline vech v_to_narrow(vec v)
{
    return __builtin_convertvector(v_rounded(v) >> 16, vech);
}
#endif

static inline void v_store_narrow(uint16_t *to, vec v)
{
    const vech half = v_to_narrow(v);
    memcpy(to, &half, sizeof half);
}

/* The first n lanes, 0 < n < VEC_LANES; a load fills the rest with 0. */
static inline vec v_load_narrow_part(const uint16_t *from, int n)
{
    uint16_t lane[VEC_LANES] = {0};
    for (int j = 0; j < n; j++)
        lane[j] = from[j];
    return v_load_narrow(lane);
}

static inline void v_store_narrow_part(uint16_t *to, vec v, int n)
{
    uint16_t lane[VEC_LANES];
    v_store_narrow(lane, v);
    for (int j = 0; j < n; j++)
        to[j] = lane[j];
}

#endif /* ECO_VEC_NARROW_H */
