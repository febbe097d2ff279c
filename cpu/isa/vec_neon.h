/*
 * The vocabulary in NEON of 64-bit Arm: four floats, 32 registers, fused multiply-add.
 */
#ifndef ECO_VEC_NEON_H
#define ECO_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>

enum { VEC_FUSED = 1 }; /* v_fma rounds once */
enum { VEC_REGISTERS = 32 };
enum { VEC_LANES = 4 };
typedef float real;
typedef float32x4_t vec;
typedef int32_t veci __attribute__((vector_size(16)));
typedef uint32_t vecu __attribute__((vector_size(16)));

static inline vec v_const(double x)
{
    return vdupq_n_f32((float)x);
}

static inline vec v_load(const float *from)
{
    return vld1q_f32(from);
}

static inline void v_store(float *to, vec v)
{
    vst1q_f32(to, v);
}

/* The first n lanes, 0 < n < VEC_LANES; a load fills the rest with 0. */
static inline vec v_load_part(const float *from, int n)
{
    vec v = vsetq_lane_f32(from[0], vdupq_n_f32(0), 0);
    if (n > 1)
        v = vsetq_lane_f32(from[1], v, 1);
    return n > 2 ? vsetq_lane_f32(from[2], v, 2) : v;
}

static inline void v_store_part(float *to, vec v, int n)
{
    vst1q_lane_f32(to, v, 0);
    if (n > 1)
        vst1q_lane_f32(to + 1, v, 1);
    if (n > 2)
        vst1q_lane_f32(to + 2, v, 2);
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

/* a < b ? x : y; false for a NaN. */
static inline vec v_where_less(vec a, vec b, vec x, vec y)
{
    return vbslq_f32(vcltq_f32(a, b), x, y);
}

/* By comparing, because Arm's own minimum gives a NaN where either is one. */
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
    return vsqrtq_f32(a);
}

#include "cpu/isa/vec_math.h"

#endif /* ECO_VEC_NEON_H */
