/*
 * Scaled operands. F16 has few exponents, so numbers without a bound are multiplied by a power of
 * two that brings the largest near 2^15, and sums are divided again. One scale serves a block's
 * rows of R; for bounded states, all states of a group; for unbounded numbers, one scale block of a
 * row, chosen by its sender.
 *
 * Pairs are operands of nearly F32 accuracy: the nearest F16 number and the nearest F16 number to
 * the residual, together 22 bits or more. Of the four products of two pairs, the one of both
 * residuals is at most 2^-22 of the whole and left out, so a product takes three matrix
 * instructions. The error of a number is at most 2^-23 of itself or 2^-40 of the largest number of
 * its scale, whichever is more; for single F16 numbers 2^-11 or 2^-39.
 */
#ifndef ECO_GPU_PERSISTENT_BLOCK_SCALES_CUH
#define ECO_GPU_PERSISTENT_BLOCK_SCALES_CUH

#include "gpu/arch/memory.cuh"
#include "gpu/persistent/block.cuh"
#include "gpu/tile/pow2_scale.cuh"

/* Keeps the greatest finite magnitude. */
ECO_DEVICE void keep_greatest(float *most, float x)
{
    enum { INFINITE = 0x7F800000 };
    const float size = fabsf(x);
    *most = __float_as_uint(size) < INFINITE && size > *most ? size : *most;
}

/* The greatest value of all threads of the block. */
ECO_DEVICE float greatest_of_block(const struct block_context *block, float most)
{
    static __shared__ float greatest[PERSISTENT_WARPS];
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
        keep_greatest(&most, __shfl_xor_sync(0xffffffffu, most, lanes));
    if (block->lane == 0)
        greatest[block->warp] = most;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < PERSISTENT_WARPS; w++)
        keep_greatest(&most, greatest[w]);
    __syncthreads();
    return most;
}

/* ---- scales of senders ----------------------------------------------------------------------- */

#if defined(ECO_SCALED)
/* Compares magnitudes as integers: a NaN is larger than infinity, which is larger than others. */
ECO_DEVICE unsigned larger_size(unsigned a, float b)
{
    return max(a, __float_as_uint(b) & 0x7FFFFFFF);
}

/* Over 1 << SHIFT neighbouring lanes. */
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

/* Called by all lanes; a lane has a unit of the scale block or none. Returns the factor for its
 * numbers, whose magnitude is at most `value`, and sends the inverse to the readers. If a number is
 * not finite, neither are the operands. Product `o` gathers them, of row n. */
template <class SCALE_BLOCK>
ECO_DEVICE float publish_scale(const struct block_context *block, int o, int n, bool there,
                               unsigned size)
{
    const int unit = block->thread.unit;
    const unsigned most = largest_of_lanes<SCALE_BLOCK::shift>(there ? size : 0);
    const float scale = scale_for(__uint_as_float(most));
    unsigned *const sent_scales =
        (unsigned *)((uint4 *)block->thread.sent + numbers_sent_of(block, o));
    store_relaxed_if(
        there && (unit & ((1 << SCALE_BLOCK::shift) - 1)) == 0,
        sent_scales + (unit >> SCALE_BLOCK::shift) * block->memory.row_tiles * ECO_PERSISTENT_N + n,
        __float_as_uint(reciprocal_pow2(scale)));
    return scale;
}
#endif

#endif /* ECO_GPU_PERSISTENT_BLOCK_SCALES_CUH */
