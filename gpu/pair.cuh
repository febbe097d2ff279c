/*
 * Operands of nearly float accuracy in two numbers of F16: the nearest one, and the nearest to what
 * that leaves.  They hold 22 bits and more, and of the four products of two such operands the
 * fourth, of what was left both times, is at most 2^-22 of the whole, so a product takes three
 * matrix instructions.  Scaled together: a block's R; states that have a bound, of a group; of what
 * may be of any size, the item of a row.  A number is off by 2^-23 of itself, or by 2^-40 of the
 * largest one, whichever is more; sums are divided again.
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

/* Four operands, as matrix instructions take them: the nearest ones, then what they leave. */
WORD uint4 pairs_of(uint4 raw, float scale)
{
    return in_order(make_uint4(
        to_operand(scale * __uint_as_float(raw.x)), to_operand(scale * __uint_as_float(raw.y)),
        to_operand(scale * __uint_as_float(raw.z)), to_operand(scale * __uint_as_float(raw.w))));
}

/* ---- R --------------------------------------------------------------------------------------- */

template <class CUT, class CHANGE>
CELL_WORD void for_fragments(const struct eco_resident_call *call, const struct share *share,
                             struct fragment r[CUT::items][TILES], CHANGE change)
{
#pragma unroll
    for (int i = 0; i < CUT::items; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            change(&r[i][t].low);
            change(&r[i][t].high);
        }
#pragma unroll 1
    for (int i = CUT::items; i < CUT::items + call->shape.part[CUT::product].kept; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                change(kept_half<CUT>(call, share, i, t, half));
}

/* Makes pairs of it; it is of up to two products: `second` may be `first`. */
template <class FIRST, class SECOND>
CELL_WORD struct scales finish_fragments(const struct eco_resident_call *call,
                                         const struct share *share,
                                         struct fragment first[FIRST::items][TILES],
                                         struct fragment second[SECOND::items][TILES])
{
    enum { TWO = (int)FIRST::product != (int)SECOND::product };
    float most = 0;
    const auto look = [&](const uint4 *v) {
        enlarge(&most, __uint_as_float(v->x));
        enlarge(&most, __uint_as_float(v->y));
        enlarge(&most, __uint_as_float(v->z));
        enlarge(&most, __uint_as_float(v->w));
    };
    for_fragments<FIRST>(call, share, first, look);
    if (TWO)
        for_fragments<SECOND>(call, share, second, look);
    const float scale = scale_for(greatest_of_block(share, most));
    const auto pair = [&](uint4 *v) { *v = pairs_of(*v, scale); };
    for_fragments<FIRST>(call, share, first, pair);
    if (TWO)
        for_fragments<SECOND>(call, share, second, pair);
    return {1, over(scale)};
}

/* ---- what is scaled where it is received ----------------------------------------------------- */

/* Of sizes, as integers; a NaN is larger than infinity, that than all others. */
WORD unsigned larger_size(unsigned a, unsigned b)
{
    return max(a, b & 0x7FFFFFFF);
}

/* The nearest of F16 to two numbers, the first in the lower half; these become what that leaves. */
WORD unsigned take_nearest(float *x, float *y)
{
    unsigned both;
    float near_x, near_y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(*y), "f"(*x));
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(near_x), "=f"(near_y)
        : "r"(both));
    *x -= near_x;
    *y -= near_y;
    return both;
}

/* A piece of an item, of which four lanes have one each: pairs, and what sums are to be multiplied
 * by.  If some are not finite neither are their pairs. */
WORD uint4 scaled_piece(uint4 raw, float *back)
{
    unsigned most =
        larger_size(larger_size(larger_size(larger_size(0, raw.x), raw.y), raw.z), raw.w);
    most = larger_size(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = larger_size(most, __shfl_xor_sync(0xffffffffu, most, 2));
    const float scale = scale_for(__uint_as_float(most));
    float a = scale * __uint_as_float(raw.x), b = scale * __uint_as_float(raw.y),
          c = scale * __uint_as_float(raw.z), d = scale * __uint_as_float(raw.w);
    const unsigned near_ab = take_nearest(&a, &b), near_cd = take_nearest(&c, &d);
    *back = over(scale);
    return make_uint4(near_ab, near_cd, take_nearest(&a, &b), take_nearest(&c, &d));
}
