/*
 * The products of a step with gathered operands, by warps alone (MMA) or four together (WGMMA).
 */
#ifndef ECO_GPU_PERSISTENT_PRODUCT_CUH
#define ECO_GPU_PERSISTENT_PRODUCT_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/persistent/mainloop_mma.cuh"
#include "gpu/persistent/mainloop_wgmma.cuh"

template <class DIVISION>
ECO_DEVICE void multiply_some(const struct eco_persistent_call *call, const struct block *block,
                              const struct memory *memory, const struct thread *thread,
                              const struct fragment r[DIVISION::k_blocks][TILES], int first,
                              int end)
{
    const int k_blocks = call->shape.product[DIVISION::product].k_blocks;
    if constexpr (DIVISION::wgmma) {
        multiply_by_warpgroups<DIVISION>(call, block, memory, thread, r, first, end);
    } else {
        /* With k blocks in shared memory, warps may begin anywhere in a scale block of pairs. */
        enum {
            CHAIN = longest_chain<DIVISION>(4), /* if warps begin at multiples of it */
            TWO = CHAIN < 2 ? CHAIN : 2,
            SHORT = K_BLOCK_SCALES && INSTRUCTIONS == ECO_PERSISTENT_PAIR ? 1 : TWO
        };
        if (DIVISION::across * DIVISION::down < PERSISTENT_WARPS &&
            block->across >= DIVISION::across)
            return;
        if (CHAIN > SHORT && DIVISION::k_blocks % CHAIN == 0 && k_blocks == DIVISION::k_blocks)
            multiply_k_blocks<DIVISION, DIVISION::k_blocks, CHAIN>(call, block, memory, thread, r,
                                                                   first, end);
        else if (DIVISION::many || k_blocks > 4 || (DIVISION::k_blocks <= 4 && k_blocks > 2))
            multiply_k_blocks<DIVISION, DIVISION::k_blocks, SHORT>(call, block, memory, thread, r,
                                                                   first, end);
        else if (DIVISION::k_blocks > 4 && k_blocks > 2)
            multiply_k_blocks<DIVISION, 4, CHAIN>(call, block, memory, thread, r, first, end);
        else
            multiply_k_blocks<DIVISION, 2, TWO>(call, block, memory, thread, r, first, end);
    }
}

/* The products of a step. On return all threads may read the sums. */
template <class DIVISION>
ECO_DEVICE void multiply_gathered(const struct eco_persistent_call *call, const struct block *block,
                                  const struct memory *memory, const struct thread *thread,
                                  const struct fragment r[DIVISION::k_blocks][TILES], int step)
{
    const int all = memory->row_tiles;
    if (DIVISION::blocks == 1) {
        multiply_some<DIVISION>(call, block, memory, thread, r, 0, all);
        cp_async_wait_all();
        __syncthreads();
        return;
    }
    if (threadIdx.x == 0)
        expect_bytes(step,
                     DIVISION::blocks * all * ECO_PERSISTENT_N * DIVISION::own * sizeof(float));
#pragma unroll 1
    for (int first = 0; first < all; first += call->shape.chunk) {
        const int end = min(first + call->shape.chunk, all);
        if (first > 0)
            __syncthreads();
        multiply_some<DIVISION>(call, block, memory, thread, r, first, end);
        __syncthreads();
        share_sums<DIVISION>(block, memory, step, first, end);
    }
    cp_async_wait_all();
    if (DIVISION::may_alias && call->shape.aliased)
        __syncthreads(); /* sums have been read, and operands may be gathered again */
    else
        __syncwarp();
    wait_for_bytes(step);
}

#endif /* ECO_GPU_PERSISTENT_PRODUCT_CUH */
