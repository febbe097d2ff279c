/*
 * Operands that are numbers times powers of two.  F16 has few exponents; so what has no bound is
 * brought near to 2^15 before it is rounded, and sums are divided again.  Scaled together: a
 * block's R; states that have a bound, of a group; of what may be of any size a scale block of a
 * row, by who sends it.
 *
 * Pairs are operands of nearly float accuracy: the nearest number of F16, and the nearest to what
 * that leaves.  They hold 22 bits and more, and of the four products of two such operands the
 * fourth, of what was left both times, is at most 2^-22 of the whole, so a product takes three
 * matrix instructions.  A number is off by 2^-23 of itself, or by 2^-40 of the largest one of its
 * scale, whichever is more; without the second of the pair by 2^-11, or by 2^-39.
 */
#ifndef ECO_GPU_PERSISTENT_BLOCK_SCALES_CUH
#define ECO_GPU_PERSISTENT_BLOCK_SCALES_CUH

#include "gpu/arch/memory.cuh"
#include "gpu/persistent/block.cuh"
#include "gpu/tile/pow2_scale.cuh"

/* The greatest size of what is finite. */
ECO_DEVICE void enlarge(float *most, float x)
{
    enum { INFINITE = 0x7F800000 };
    const float size = fabsf(x);
    *most = __float_as_uint(size) < INFINITE && size > *most ? size : *most;
}

/* What threads found becomes that of the block. */
ECO_DEVICE float greatest_of_block(const struct block *block, float most)
{
    static __shared__ float greatest[PERSISTENT_WARPS];
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
        enlarge(&most, __shfl_xor_sync(0xffffffffu, most, lanes));
    if (block->lane == 0)
        greatest[block->warp] = most;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < PERSISTENT_WARPS; w++)
        enlarge(&most, greatest[w]);
    __syncthreads();
    return most;
}

/* ---- what is scaled where it is sent --------------------------------------------------------- */

#if defined(ECO_SCALED)
/* Of sizes, as integers; a NaN is larger than infinity, that than all others. */
ECO_DEVICE unsigned larger_size(unsigned a, float b)
{
    return max(a, __float_as_uint(b) & 0x7FFFFFFF);
}

/* Of 1 << SHIFT neighbouring lanes. */
template <int SHIFT> ECO_DEVICE unsigned largest_of_lanes(unsigned size)
{
    static_assert(1 << ECO_PERSISTENT_RUN == WARP, "a warp has whole scale blocks");
#if __CUDA_ARCH__ >= 800
    if constexpr (SHIFT == ECO_PERSISTENT_RUN)
        return __reduce_max_sync(0xffffffffu, size);
    else
#endif
#pragma unroll
        for (int lanes = 1; lanes < 1 << SHIFT; lanes *= 2)
            size = max(size, __shfl_xor_sync(0xffffffffu, size, lanes));
    return size;
}

/* By all lanes, each with a unit that has a part in a scale block, or has not, whose numbers are of
 * that size at most: what they are multiplied by.  Who gathers them gets what sums are to be
 * multiplied by.  If some are not finite neither are their operands.  `sent`: where product `o`
 * finds row n of them. */
template <class SCALE_BLOCK>
ECO_DEVICE float publish_scale(const struct eco_persistent_call *call, const struct memory *memory,
                               int o, operand_bits *sent, int n, int unit, bool there,
                               unsigned size)
{
    const unsigned most = largest_of_lanes<SCALE_BLOCK::shift>(there ? size : 0);
    const float scale = scale_for(__uint_as_float(most));
    unsigned *const sent_scales =
        (unsigned *)((uint4 *)sent + numbers_sent_of(call, memory->row_tiles, o));
    store_relaxed_if(there && (unit & ((1 << SCALE_BLOCK::shift) - 1)) == 0,
                     sent_scales +
                         (unit >> SCALE_BLOCK::shift) * memory->row_tiles * ECO_PERSISTENT_N + n,
                     __float_as_uint(reciprocal_pow2(scale)));
    return scale;
}
#endif

#endif /* ECO_GPU_PERSISTENT_BLOCK_SCALES_CUH */
