/*
 * Eight floats of a row: loading them, their magnitude, and splitting them into F16 numbers.
 */
#ifndef ECO_GPU_TILE_F16_PAIR_CUH
#define ECO_GPU_TILE_F16_PAIR_CUH

#include <stdint.h>

#include <cuda_fp16.h>

#include "gpu/arch/memory.cuh"

enum { GROUP = 8 /* numbers of k: 16 bytes of F16 */ };

/* Magnitude as an integer: a NaN is larger than infinity, which is larger than all others. */
ECO_DEVICE unsigned size_of(float x)
{
    return __float_as_uint(x) & 0x7FFFFFFF;
}

ECO_DEVICE unsigned size_of_eight(const float *x)
{
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < GROUP; i++)
        most = max(most, size_of(x[i]));
    return most;
}

/* Loads eight numbers of a row that has `there` more, and zeros beyond. */
ECO_DEVICE void load_eight(const float *at, int32_t there, float *x)
{
#pragma unroll
    for (int i = 0; i < GROUP; i++)
        x[i] = i < there ? at[i] : 0;
}

/* The same for aligned groups of eight that exist or do not. */
ECO_DEVICE void load_whole_eight(const float *at, bool there, float *x)
{
    *(uint4 *)x = load_16_if(there, at);
    *(uint4 *)(x + 4) = load_16_if(there, at + 4);
}

ECO_DEVICE unsigned bits_of(__half2 x)
{
    return *(unsigned *)&x;
}

/* The F16 numbers nearest to scale * x, and those nearest to the residuals. */
ECO_DEVICE void split_eight(const float *x, float scale, uint4 *large, uint4 *small)
{
    unsigned of_large[4], of_small[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 both = make_float2(x[2 * i] * scale, x[2 * i + 1] * scale);
        const __half2 nearest = __float22half2_rn(both);
        const float2 taken = __half22float2(nearest);
        of_large[i] = bits_of(nearest);
        of_small[i] = bits_of(__float22half2_rn(make_float2(both.x - taken.x, both.y - taken.y)));
    }
    *large = make_uint4(of_large[0], of_large[1], of_large[2], of_large[3]);
    *small = make_uint4(of_small[0], of_small[1], of_small[2], of_small[3]);
}

/* The first of these alone. */
ECO_DEVICE uint4 nearest_eight(const float *x, float scale)
{
    unsigned nearest[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        nearest[i] = bits_of(__floats2half2_rn(x[2 * i] * scale, x[2 * i + 1] * scale));
    return make_uint4(nearest[0], nearest[1], nearest[2], nearest[3]);
}

#endif /* ECO_GPU_TILE_F16_PAIR_CUH */
