/*
 * Operands that are numbers times powers of two.  F16 has few exponents; so what has no bound is
 * brought near to 2^15 before it is rounded, and sums are divided again.  Scaled together: a
 * block's R; states that have a bound, of a group; of what may be of any size, the item of a row.
 *
 * Pairs are operands of nearly float accuracy: the nearest number of F16, and the nearest to what
 * that leaves.  They hold 22 bits and more, and of the four products of two such operands the
 * fourth, of what was left both times, is at most 2^-22 of the whole, so a product takes three
 * matrix instructions.  A number is off by 2^-23 of itself, or by 2^-40 of the largest one of its
 * scale, whichever is more; without the second of the pair by 2^-11, or by 2^-39.
 */
#include "gpu/scale.cuh"

/* The greatest size of what is finite. */
WORD void enlarge(float *most, float x)
{
    enum { INFINITE = 0x7F800000 };
    const float size = fabsf(x);
    *most = __float_as_uint(size) < INFINITE && size > *most ? size : *most;
}

/* What threads found becomes that of the block. */
WORD float greatest_of_block(const struct share *share, float most)
{
    static __shared__ float greatest[WARPS];
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2)
        enlarge(&most, __shfl_xor_sync(0xffffffffu, most, lanes));
    if (share->lane == 0)
        greatest[share->warp] = most;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        enlarge(&most, greatest[w]);
    __syncthreads();
    return most;
}

/* ---- what is scaled where it is received ----------------------------------------------------- */

/* Of sizes, as integers; a NaN is larger than infinity, that than all others. */
WORD unsigned larger_size(unsigned a, unsigned b)
{
    return max(a, b & 0x7FFFFFFF);
}

/* The nearest of F16 to two numbers, the first in the lower half. */
WORD unsigned nearest(float x, float y)
{
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    return both;
}

/* And these become what that leaves. */
WORD unsigned take_nearest(float *x, float *y)
{
    const unsigned both = nearest(*x, *y);
    float near_x, near_y;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(near_x), "=f"(near_y)
        : "r"(both));
    *x -= near_x;
    *y -= near_y;
    return both;
}

/* A piece of an item, of which four lanes have one each: operands, and what sums are to be
 * multiplied by.  If some are not finite neither are their operands. */
WORD uint4 scaled_piece(const uint4 raw[READS], float *back)
{
    unsigned most = 0;
    float x[PIECE];
#pragma unroll
    for (int r = 0; r < READS; r++) {
        const unsigned word[] = {raw[r].x, raw[r].y, raw[r].z, raw[r].w};
#pragma unroll
        for (int w = 0; w < 4; w++) {
            most = larger_size(most, word[w]);
            x[4 * r + w] = __uint_as_float(word[w]);
        }
    }
    most = larger_size(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = larger_size(most, __shfl_xor_sync(0xffffffffu, most, 2));
    const float scale = scale_for(__uint_as_float(most));
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        x[i] *= scale;
    *back = over(scale);
#if defined(ECO_OPERAND_PAIR)
    const unsigned first = take_nearest(&x[0], &x[1]), second = take_nearest(&x[2], &x[3]);
    return make_uint4(first, second, take_nearest(&x[0], &x[1]), take_nearest(&x[2], &x[3]));
#else
    return make_uint4(nearest(x[0], x[1]), nearest(x[2], x[3]), nearest(x[4], x[5]),
                      nearest(x[6], x[7]));
#endif
}
