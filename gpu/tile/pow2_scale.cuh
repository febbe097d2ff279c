/*
 * Scales for F16, which has few exponents: numbers that are split into F16 are multiplied by a
 * power of two that brings the largest to near 2^15.
 */
#ifndef ECO_GPU_TILE_POW2_SCALE_CUH
#define ECO_GPU_TILE_POW2_SCALE_CUH

#include "gpu/arch/device.cuh"

/* The power of two that brings `most` to between 2^14 and 2^15. */
ECO_DEVICE float scale_for(float most)
{
    enum { BIAS = 127, LEAST = -110, TOP = 15 };
    const int exponent = (int)(__float_as_uint(most) >> 23) - BIAS + 1; /* most < 2^exponent */
    return __uint_as_float((unsigned)(BIAS + TOP - max(exponent, LEAST)) << 23);
}

/* 1 / x for a power of two. */
ECO_DEVICE float reciprocal_pow2(float x)
{
    const unsigned twice_one = 254u << 23;
    return __uint_as_float(twice_one - __float_as_uint(x));
}

#endif /* ECO_GPU_TILE_POW2_SCALE_CUH */
