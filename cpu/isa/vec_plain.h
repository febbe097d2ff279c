/*
 * The vocabulary in plain C: four floats in the compiler's own vector type, on any processor. It
 * has no fused multiply-add, so its bits are those of SSE2.
 */
#ifndef ECO_VEC_PLAIN_H
#define ECO_VEC_PLAIN_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { VEC_FUSED = 0 }; /* v_fma rounds once */
enum { VEC_REGISTERS = 16 };
enum { VEC_LANES = 4 };
typedef float real;
typedef float vec __attribute__((vector_size(16)));
typedef int32_t veci __attribute__((vector_size(16)));
typedef uint32_t vecu __attribute__((vector_size(16)));

static inline vec v_const(double x)
{
    const float f = (float)x;
    return (vec){f, f, f, f};
}

static inline vec v_load(const float *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void v_store(float *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

/* The first n lanes, 0 < n < VEC_LANES; a load fills the rest with 0. */
static inline vec v_load_part(const float *from, int n)
{
    return (vec){from[0], n > 1 ? from[1] : 0, n > 2 ? from[2] : 0, 0};
}

static inline void v_store_part(float *to, vec v, int n)
{
    for (int j = 0; j < n; j++)
        to[j] = v[j];
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return a * b + c;
}

/* a < b ? x : y; false for a NaN. */
static inline vec v_where_less(vec a, vec b, vec x, vec y)
{
    const veci less = a < b;
    return (vec)((less & (veci)x) | (~less & (veci)y));
}

static inline vec v_min(vec a, vec b)
{
    return v_where_less(a, b, a, b);
}

static inline vec v_max(vec a, vec b)
{
    return v_where_less(b, a, a, b);
}

static inline vec v_sqrt(vec a)
{
    return (vec){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])};
}

#include "cpu/isa/vec_math.h"

#endif /* ECO_VEC_PLAIN_H */
