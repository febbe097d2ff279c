/*
 * The products of a step with gathered operands, by warps alone (MMA) or four together (WGMMA).
 */
#ifndef ECO_GPU_PERSISTENT_PRODUCT_CUH
#define ECO_GPU_PERSISTENT_PRODUCT_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/persistent/mainloop_mma.cuh"
#include "gpu/persistent/mainloop_wgmma.cuh"

template <class DIVISION>
ECO_DEVICE void multiply_some(const struct block_context *block,
                              const struct fragment r[DIVISION::k_blocks][TILES], int first,
                              int end)
{
    const int k_blocks = k_blocks_of_warp<DIVISION>(block);
    if constexpr (DIVISION::wgmma) {
        multiply_by_warpgroups<DIVISION>(block, r, first, end);
    } else {
        /* With k blocks in shared memory, warps may begin anywhere in a scale block of pairs. */
        enum {
            CHAIN = longest_chain<DIVISION>(4), /* if warps begin at multiples of it */
            TWO = CHAIN < 2 ? CHAIN : 2,
            SHORT = K_BLOCK_SCALES && INSTRUCTIONS == ECO_PERSISTENT_PAIR ? 1 : TWO
        };
        if (DIVISION::across * DIVISION::down < PERSISTENT_WARPS &&
            share_of<DIVISION>(block)->across >= DIVISION::across)
            return;
        if (CHAIN > SHORT && DIVISION::k_blocks % CHAIN == 0 && k_blocks == DIVISION::k_blocks)
            multiply_k_blocks<DIVISION, DIVISION::k_blocks, CHAIN>(block, r, first, end);
        else if (DIVISION::many || k_blocks > 4 || (DIVISION::k_blocks <= 4 && k_blocks > 2))
            multiply_k_blocks<DIVISION, DIVISION::k_blocks, SHORT>(block, r, first, end);
        else if (DIVISION::k_blocks > 4 && k_blocks > 2)
            multiply_k_blocks<DIVISION, 4, CHAIN>(block, r, first, end);
        else
            multiply_k_blocks<DIVISION, 2, TWO>(block, r, first, end);
    }
}

/* The products of a step. On return all threads may read the sums. */
template <class DIVISION>
ECO_DEVICE void multiply_gathered(const struct block_context *block,
                                  const struct fragment r[DIVISION::k_blocks][TILES])
{
    const int all = block->memory.row_tiles;
    if (DIVISION::blocks == 1) {
        multiply_some<DIVISION>(block, r, 0, all);
        cp_async_wait_all();
        __syncthreads();
        return;
    }
    if (threadIdx.x == 0)
        expect_bytes(block->step,
                     DIVISION::blocks * all * ECO_PERSISTENT_N * DIVISION::own * sizeof(float));
#pragma unroll 1
    for (int first = 0; first < all; first += block->call->shape.chunk) {
        const int end = min(first + block->call->shape.chunk, all);
        if (first > 0)
            __syncthreads();
        multiply_some<DIVISION>(block, r, first, end);
        __syncthreads();
        share_sums<DIVISION>(block, first, end);
    }
    cp_async_wait_all();
    if (DIVISION::may_alias && block->call->shape.aliased)
        __syncthreads(); /* sums have been read, and operands may be gathered again */
    else
        __syncwarp();
    wait_for_bytes(block->step);
}

#endif /* ECO_GPU_PERSISTENT_PRODUCT_CUH */
