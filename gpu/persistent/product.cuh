/*
 * The products of a step of what was gathered before, by warps alone or by four together.
 */
#ifndef ECO_GPU_PERSISTENT_PRODUCT_CUH
#define ECO_GPU_PERSISTENT_PRODUCT_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/persistent/mainloop_mma.cuh"
#include "gpu/persistent/mainloop_wgmma.cuh"

template <class CUT>
ECO_DEVICE void multiply_some(const struct eco_persistent_call *call, const struct block *block,
                              const struct memory *memory, const struct thread *thread,
                              const struct fragment r[CUT::items][TILES], int first, int end)
{
    const int items = call->shape.part[CUT::product].items;
    if constexpr (CUT::square) {
        multiply_by_warpgroups<CUT>(call, block, memory, thread, r, first, end);
    } else {
        /* With items in shared memory warps may begin anywhere in a scale block of pairs. */
        enum {
            CHAIN = longest_chain<CUT>(4), /* where warps begin at multiples of it */
            TWO = CHAIN < 2 ? CHAIN : 2,
            SHORT = ITEM_SCALES && INSTRUCTIONS == ECO_PERSISTENT_PAIR ? 1 : TWO
        };
        if (CUT::across * CUT::down < WARPS && block->across >= CUT::across)
            return;
        if (CHAIN > SHORT && CUT::items % CHAIN == 0 && items == CUT::items)
            multiply_items<CUT, CUT::items, CHAIN>(call, block, memory, thread, r, first, end);
        else if (CUT::many || items > 4 || (CUT::items <= 4 && items > 2))
            multiply_items<CUT, CUT::items, SHORT>(call, block, memory, thread, r, first, end);
        else if (CUT::items > 4 && items > 2)
            multiply_items<CUT, 4, CHAIN>(call, block, memory, thread, r, first, end);
        else
            multiply_items<CUT, 2, TWO>(call, block, memory, thread, r, first, end);
    }
}

/* The products of a step; its sums are there for all threads when it returns. */
template <class CUT>
ECO_DEVICE void multiply_gathered(const struct eco_persistent_call *call, const struct block *block,
                                  const struct memory *memory, const struct thread *thread,
                                  const struct fragment r[CUT::items][TILES], int step)
{
    const int all = memory->row_tiles;
    if (CUT::blocks == 1) {
        multiply_some<CUT>(call, block, memory, thread, r, 0, all);
        cp_async_wait_all();
        __syncthreads();
        return;
    }
    if (threadIdx.x == 0)
        expect_bytes(step, CUT::blocks * all * ECO_PERSISTENT_N * CUT::own * sizeof(float));
#pragma unroll 1
    for (int first = 0; first < all; first += call->shape.chunk) {
        const int end = min(first + call->shape.chunk, all);
        if (first > 0)
            __syncthreads();
        multiply_some<CUT>(call, block, memory, thread, r, first, end);
        __syncthreads();
        share_sums<CUT>(block, memory, step, first, end);
    }
    cp_async_wait_all();
    if (CUT::may_alias && call->shape.aliased)
        __syncthreads(); /* sums are read, others may be gathered */
    else
        __syncwarp();
    wait_for_bytes(step);
}

#endif /* ECO_GPU_PERSISTENT_PRODUCT_CUH */
