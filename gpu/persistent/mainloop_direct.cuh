/*
 * Products of a step by warps that gather their own operands: what other blocks sent is loaded
 * straight into the registers of matrix instructions, for up to 8 batch rows (forward with pairs
 * 16). Warps that are above each other in the grid read the same operands. A block meets once in a
 * step, to add its warps' sums; these alternate between two buffers.
 */
#ifndef ECO_GPU_PERSISTENT_MAINLOOP_DIRECT_CUH
#define ECO_GPU_PERSISTENT_MAINLOOP_DIRECT_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/persistent/exchange.cuh"
#include "gpu/persistent/gather.cuh"
#include "gpu/persistent/sums.cuh"

/* What a lane reads of the previous step: `COUNT` k blocks of this warp for `N` tiles of 8 batch
 * rows. If there are scales it also reads, for two rows, the scale of each chain of `CHAIN` k
 * blocks, or of both halves of a k block; two scales take 16 bytes. */
template <class DIVISION, int N, int COUNT, int CHAIN> struct received {
    enum {
        PIECES = N * COUNT,
        HALVES = DIVISION::scale_block::halves,
        SCALES = K_BLOCK_SCALES ? COUNT / CHAIN * (HALVES ? 2 : 1) : 0
    };
    static_assert(!K_BLOCK_SCALES || N == 1, "one tile's scales");
    uint4 v[PIECES + (SCALES + 1) / 2];

    /* Loads the first `left` k blocks, for `rows` rows of this lane. */
    __device__ __forceinline__ void ask(const struct block_context *block, int rows, int left)
    {
        const struct product_share *const share = share_of<DIVISION>(block);
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            v[i] =
                load_16_relaxed_if(i % N < rows && i / N < left, block->thread.received + i * WARP);
#pragma unroll
        for (int s = 0; s < SCALES; s++) {
            const bool there =
                HALVES ? 2 * share->k_block + s < share->scale_blocks : s * CHAIN < left;
            const uint2 *const from = (const uint2 *)block->thread.received + share->first_scale +
                                      block_of_scale(block, s) * SCALES_OF_TILE;
            put_scales(s, load_8_relaxed_if(there, from));
        }
    }

    /* Loads operands of the first step from shared memory. */
    __device__ __forceinline__ void take(const struct block_context *block)
    {
        const struct product_share *const share = share_of<DIVISION>(block);
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            v[i] = shared[share->operand + i * WARP];
#pragma unroll
        for (int s = 0; s < SCALES; s++) {
            const int first = HALVES ? 2 * share->k_block
                                     : share->k_block / DIVISION::scale_block::k_blocks,
                      scale_block = first + block_of_scale(block, s);
            put_scales(s, *(const uint2 *)floats(share->scale + scale_block * ECO_PERSISTENT_N));
        }
    }

    __device__ __forceinline__ void put_in_order(void)
    {
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            v[i] = in_order(v[i]);
    }

    /* From the warp's first scale block. */
    __device__ __forceinline__ int block_of_scale(const struct block_context *block,
                                                  int scale) const
    {
        enum { K_BLOCKS = DIVISION::scale_block::k_blocks };
        if (HALVES)
            return scale;
        return ((COUNT % K_BLOCKS == 0 ? 0 : share_of<DIVISION>(block)->k_block % K_BLOCKS) +
                scale * CHAIN) /
               K_BLOCKS;
    }

    __device__ __forceinline__ void put_scales(int scale, uint2 two)
    {
        uint4 *const to = &v[PIECES + scale / 2];
        *to = scale % 2 ? make_uint4(to->x, to->y, two.x, two.y) : make_uint4(two.x, two.y, 0, 0);
    }

    __device__ __forceinline__ struct back back_of(int chain) const
    {
        if (!K_BLOCK_SCALES)
            return {};
        const uint4 two = v[PIECES + (HALVES ? chain : chain / 2)];
        const float2 even = make_float2(__uint_as_float(two.x), __uint_as_float(two.y)),
                     odd = make_float2(__uint_as_float(two.z), __uint_as_float(two.w)),
                     one = chain % 2 ? odd : even;
        return {HALVES ? even : one, HALVES ? odd : one};
    }
};

/* The first step's operands are in shared memory. */
template <class DIVISION, int N, int COUNT, class MEANWHILE>
ECO_DEVICE void multiply_received(struct block_context *block,
                                  const struct fragment r[DIVISION::k_blocks][DIVISION::wide],
                                  MEANWHILE meanwhile)
{
    const struct product_share *const share = share_of<DIVISION>(block);
    enum {
        CHAIN = longest_chain<DIVISION>(COUNT),
        /* Forward, with short scale blocks, one chain for each k block saves registers. */
        CHAINS =
            K_BLOCK_SCALES && !PERSISTENT_BACKWARD && CHAIN == 1 && !DIVISION::scale_block::halves
                ? 1
                : 2
    };
    struct received<DIVISION, N, COUNT, CHAIN> in;
    if (block->step > 0) {
        const int left = share->gathered / N - share->k_block,
                  rows = (block->rows - block->lane / 4 + ECO_PERSISTENT_N - 1) / ECO_PERSISTENT_N;
        const auto ask = [&] { in.ask(block, rows, left); };
        ask();
        meanwhile();
        wait_until_written(block, in.v, ask);
        in.put_in_order();
    } else {
        meanwhile();
        in.take(block);
    }
    const int at = share->sums + parity_offset<DIVISION>(block);
#pragma unroll
    for (int n = 0; n < N; n++) {
        struct sums d[DIVISION::wide] = {};
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
            for (int t = 0; t < DIVISION::wide; t++) {
                multiply_k_block<CHAINS>(&d[t], r[i][t], in.v[i * N + n], i % CHAIN == 0);
                if ((i + 1) % CHAIN == 0)
                    end_chain<DIVISION, CHAINS>(&d[t], in.back_of(i / CHAIN));
            }
#pragma unroll
        for (int t = 0; t < DIVISION::wide; t++)
            put_sums<DIVISION, CHAINS>(at + n * DIVISION::sum_tile + t * ECO_PERSISTENT_M, &d[t],
                                       &block->scales);
    }
}

/* The products of a step. before() is called when the warp's copies are complete, perhaps before
 * the sums of other warps. On return all threads may read the sums. */
template <class DIVISION, class MEANWHILE, class BEFORE>
ECO_DEVICE void gather_and_multiply(struct block_context *block,
                                    const struct fragment r[DIVISION::k_blocks][DIVISION::wide],
                                    MEANWHILE meanwhile, BEFORE before)
{
    enum { HALF = DIVISION::k_blocks / 2 };
    const int k_blocks =
        k_blocks_of_warp<DIVISION>(block); /* one of eco_persistent_direct_k_blocks() */
    if (DIVISION::blocks > 1 && threadIdx.x == 0)
        expect_bytes(block->step,
                     DIVISION::blocks * ECO_PERSISTENT_N * DIVISION::own * sizeof(float));
    if (DIVISION::across * DIVISION::down < PERSISTENT_WARPS &&
        share_of<DIVISION>(block)->across >= DIVISION::across)
        meanwhile();
    else if (DIVISION::row_tiles > 1 && block->memory.row_tiles > 1)
        multiply_received<DIVISION, DIVISION::row_tiles, DIVISION::k_blocks>(block, r, meanwhile);
    else if (k_blocks > HALF)
        multiply_received<DIVISION, 1, DIVISION::k_blocks>(block, r, meanwhile);
    else if (HALF > 2 && k_blocks > 2)
        multiply_received<DIVISION, 1, HALF>(block, r, meanwhile);
    else if (k_blocks > 1)
        multiply_received<DIVISION, 1, 2>(block, r, meanwhile);
    else
        multiply_received<DIVISION, 1, 1>(block, r, meanwhile);
    if (DIVISION::blocks == 1) {
        cp_async_wait_all();
        __syncwarp();
        before();
        __syncthreads();
        return;
    }
    __syncthreads();
    share_sums<DIVISION>(block, 0, 1);
    cp_async_wait_all();
    __syncwarp();
    before();
    wait_for_bytes(block->step);
}

#endif /* ECO_GPU_PERSISTENT_MAINLOOP_DIRECT_CUH */
