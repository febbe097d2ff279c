/*
 * Gathers the operands of a step: what other blocks sent is copied to shared memory, once all of it
 * has been written, in the order of matrix instructions.
 */
#ifndef ECO_GPU_PERSISTENT_GATHER_CUH
#define ECO_GPU_PERSISTENT_GATHER_CUH

#include "gpu/arch/bulk_copy.cuh"
#include "gpu/persistent/elements.cuh"
#include "gpu/persistent/exchange.cuh"

/* Zeroes what no piece ever fills, and what precedes the first step. */
ECO_DEVICE void clear_operand(const struct block_context *block)
{
    for (int i = block->memory.operand + (int)threadIdx.x; i < block->memory.parts / 4;
         i += PERSISTENT_THREADS)
        shared[i] = make_uint4(0, 0, 0, 0);
}

/* Stores a lane's piece as an operand. */
template <class DIVISION> ECO_DEVICE void put_piece(uint4 *to, int lane, uint4 v)
{
    if (DIVISION::wgmma)
        put_words(to, lane, v);
    else
        *to = v;
}

/* Called before the barrier after which pieces are multiplied. */
template <class DIVISION> ECO_DEVICE void fence_pieces(void)
{
    if (DIVISION::wgmma)
        fence_proxy_async();
}

ECO_DEVICE uint4 with_zeros(uint2 v)
{
    return make_uint4(v.x, v.y, 0, 0);
}

/* Position of a thread's first two gathered scales. */
ECO_DEVICE uint2 *scales_in(const struct block_context *block)
{
    return (uint2 *)floats(block->memory.scales) + threadIdx.x;
}

/* Gathers the scales that threads do not read together with pieces. */
template <class DIVISION> ECO_DEVICE void gather_more_scales(struct block_context *block)
{
    const struct product_share *const share = share_of<DIVISION>(block);
    const int all = share->scale_blocks * block->memory.row_tiles * SCALES_OF_TILE;
    const uint2 *const from = (const uint2 *)block->thread.received + share->first_scale;
#pragma unroll 1
    for (int i = PERSISTENT_THREADS; i < all; i += PERSISTENT_THREADS) {
        const bool there = i + (int)threadIdx.x < all;
        uint4 v[1];
        const auto ask = [&] { v[0] = with_zeros(load_8_relaxed_if(there, from + i)); };
        ask();
        wait_until_written(block, v, ask);
        if (there)
            scales_in(block)[i] = make_uint2(v[0].x, v[0].y);
    }
}

/* Reads `AT_ONCE` pieces, a pass of all warps apart, from this warp's first piece plus `on`, until
 * all are written, and stores them as operands; the first call also reads scales. meanwhile() is
 * called while they are in flight. */
template <class DIVISION, int AT_ONCE, bool FIRST, class MEANWHILE>
ECO_DEVICE void gather_some(struct block_context *block, int on, MEANWHILE meanwhile)
{
    const struct product_share *const share = share_of<DIVISION>(block);
    enum { SCALES = K_BLOCK_SCALES && FIRST, ALL = AT_ONCE + SCALES };
    const int left = share->gathered - block->warp - on;
    const uint4 *const from = block->thread.received + on * WARP;
    const bool scales =
        SCALES && (int)threadIdx.x < share->scale_blocks * block->memory.row_tiles * SCALES_OF_TILE;
    uint4 v[ALL];
    const auto ask = [&] {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (i * PERSISTENT_WARPS < left)
                v[i] = load_16_relaxed(from + i * PERSISTENT_WARPS * WARP);
        if (SCALES)
            v[ALL - 1] = with_zeros(load_8_relaxed_if(
                scales, (const uint2 *)block->thread.received + share->first_scale));
    };
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        v[i] = make_uint4(0, 0, 0, 0);
    ask();
    meanwhile();
    wait_until_written(block, v, ask);
    uint4 *const to = &shared[block->thread.came + on * WARP];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        if (i * PERSISTENT_WARPS < left)
            put_piece<DIVISION>(to + i * PERSISTENT_WARPS * WARP, block->lane, in_order(v[i]));
    if (scales)
        *scales_in(block) = make_uint2(v[ALL - 1].x, v[ALL - 1].y);
}

/* Pieces in flight; more would cost other code of the kernel registers. */
template <class DIVISION> ECO_DEVICE constexpr int pieces_at_once(void)
{
#if defined(ECO_OPERAND_PAIR) || defined(ECO_ROWS_F32) || PERSISTENT_BACKWARD
    return 8;
#else
    return DIVISION::wgmma ? 8 : 4;
#endif
}

template <class DIVISION, class MEANWHILE>
ECO_DEVICE void gather(struct block_context *block, MEANWHILE meanwhile)
{
    enum { FEW = 2, SOME = 4, MANY = pieces_at_once<DIVISION>() };
    const int all = share_of<DIVISION>(block)->gathered;
    const auto nothing = [] {};
    if constexpr (usual.pieces > 0) {
        enum {
            AT_ONCE = usual.pieces < (int)MANY ? usual.pieces : (int)MANY,
            THEN = usual.pieces > (int)MANY ? (int)MANY : (int)FEW /* not in a full run */
        };
        gather_some<DIVISION, AT_ONCE, true>(block, 0, meanwhile);
#pragma unroll 1
        for (int on = AT_ONCE * PERSISTENT_WARPS; block->warp + on < all;
             on += THEN * PERSISTENT_WARPS)
            gather_some<DIVISION, THEN, false>(block, on, nothing);
    } else if (all <= FEW * PERSISTENT_WARPS) {
        gather_some<DIVISION, FEW, true>(block, 0, meanwhile);
    } else if (MANY > SOME && all <= SOME * PERSISTENT_WARPS) {
        gather_some<DIVISION, SOME, true>(block, 0, meanwhile);
    } else {
        gather_some<DIVISION, MANY, true>(block, 0, meanwhile);
#pragma unroll 1
        for (int on = MANY * PERSISTENT_WARPS; block->warp + on < all;
             on += MANY * PERSISTENT_WARPS)
            gather_some<DIVISION, MANY, false>(block, on, nothing);
    }
    if (K_BLOCK_SCALES)
        gather_more_scales<DIVISION>(block);
}

#endif /* ECO_GPU_PERSISTENT_GATHER_CUH */
