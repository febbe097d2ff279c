/*
 * Products of a step by four warps together (wgmma). R is in registers (16 rows for each warp) or
 * in shared memory; the batch is in shared memory. A k block of 8 batch rows has 4 groups of 128
 * bytes, each with the words that an instruction takes together (gather.cuh). With pairs the first
 * two groups have the nearest numbers, the others the residuals.
 */
#ifndef ECO_GPU_PERSISTENT_MAINLOOP_WGMMA_CUH
#define ECO_GPU_PERSISTENT_MAINLOOP_WGMMA_CUH

#include "gpu/arch/wgmma.cuh"
#include "gpu/persistent/sums.cuh"

enum {
    GROUP_BYTES = ECO_PERSISTENT_N * 16,                     /* half of an instruction's k */
    K_BLOCK_BYTES = ECO_PERSISTENT_N * ECO_PERSISTENT_BYTES, /* from 8 rows to the next */
    HALF_K_BLOCK = K_BLOCK_BYTES / 2 >> 4                    /* in units of a descriptor */
};
static_assert(+K_BLOCK_BYTES == +WGMMA_ROWS_APART, "what is described says so");

/* Lower half of a wgmma descriptor of rows in groups of 8, a k block apart; the upper half is
 * constant. In a cluster an address includes the block. The address is taken from one lane, so that
 * the compiler knows it to be uniform. */
ECO_DEVICE unsigned describe_rows(unsigned address)
{
    enum { OF_BLOCK = (1 << 18) - 1 };
    const unsigned there = (address & OF_BLOCK) >> 4 | (unsigned)(GROUP_BYTES >> 4) << 16;
    return __shfl_sync(0xffffffffu, there, 0);
}

/* d = a b, or d += a b if `add`: 64 rows of R (registers or descriptor) times 32 or 16 batch
 * rows. */
template <int n, class R>
ECO_DEVICE void multiply_by_warpgroup(float (&d)[n], R a, unsigned b, int add)
{
#if HAS_WGMMA && defined(ECO_OPERAND_BF16)
    wgmma_bf16(d, a, b, add);
#elif HAS_WGMMA
    wgmma_f16(d, a, b, add);
#endif
}

/* Sums of `N` tiles of 8 batch rows. With pairs those of the nearest numbers are chained. */
template <class DIVISION, int N> struct wgmma_sums {
    enum {
        SETS = DIVISION::m64_tiles > 1 ? TILES
                                       : 1, /* else both tiles of a warp add to the same sums */
        HELD = 4 * N
    };
    float d[SETS][HELD];
#if defined(ECO_OPERAND_PAIR)
    float rest[SETS][HELD], total[SETS][HELD];
#endif
};

/* R: halves of a k block, in registers or as descriptors. */
template <class DIVISION, int N, class R>
ECO_DEVICE void add_k_block(struct wgmma_sums<DIVISION, N> *sums, int t, R low, R high, unsigned b,
                            bool first, bool first_of_chain)
{
    const int set = t % wgmma_sums<DIVISION, N>::SETS;
#if defined(ECO_OPERAND_PAIR)
    multiply_by_warpgroup(sums->d[set], low, b, !first_of_chain);
    multiply_by_warpgroup(sums->rest[set], high, b, !first);
    multiply_by_warpgroup(sums->rest[set], low, b + HALF_K_BLOCK, 1);
#else
    multiply_by_warpgroup(sums->d[set], low, b, !first);
    multiply_by_warpgroup(sums->d[set], high, b + HALF_K_BLOCK, 1);
#endif
}

/* Ends a chain of pairs: its sums are added to the others. Plain operands go on. */
template <class DIVISION, int N>
ECO_DEVICE void end_k_blocks(struct wgmma_sums<DIVISION, N> *sums, bool first)
{
    wgmma_commit();
#if defined(ECO_OPERAND_PAIR)
    typedef wgmma_sums<DIVISION, N> kind;
#pragma unroll
    for (int s = 0; s < kind::SETS; s++) {
        wgmma_wait_for_sums<0>(sums->d[s]);
#pragma unroll
        for (int i = 0; i < kind::HELD; i++)
            sums->total[s][i] = first ? sums->d[s][i] : sums->total[s][i] + sums->d[s][i];
    }
#endif
}

/* After all k blocks. */
template <class DIVISION, int N> ECO_DEVICE void end_sums(struct wgmma_sums<DIVISION, N> *sums)
{
#pragma unroll
    for (int s = 0; s < wgmma_sums<DIVISION, N>::SETS; s++) {
#if defined(ECO_OPERAND_PAIR)
        wgmma_wait_for_sums<0>(sums->rest[s]);
#else
        wgmma_wait_for_sums<0>(sums->d[s]);
#endif
    }
}

#if defined(ECO_OPERAND_PAIR)
enum { CHAIN = 4 }; /* k blocks of a chain: as accurate as two, and faster */
#else
enum { CHAIN = eco_persistent_k_blocks(ECO_PERSISTENT_WGMMA, false, 1) };
#endif

/* Multiplies the k blocks of R that are in shared memory. */
template <class DIVISION, int N>
ECO_DEVICE void multiply_wgmma_by_shared(const struct block_context *block,
                                         struct wgmma_sums<DIVISION, N> *sums, unsigned b, int next,
                                         int across)
{
    enum { K_BLOCK_OF_R = WARPGROUP * 2 * WARP }; /* 64 rows */
    const int k_blocks = product_of<DIVISION>(block)->k_blocks;
    if (k_blocks <= DIVISION::k_blocks)
        return;
    unsigned a =
        describe_rows(shared_address(wgmma_in_shared<DIVISION>(block, DIVISION::k_blocks, 0)));
    b += (unsigned)(DIVISION::k_blocks * next);
#pragma unroll 1
    for (int i = DIVISION::k_blocks; i < k_blocks; i++, b += (unsigned)next) {
        wgmma_fence();
#pragma unroll
        for (int t = 0; t < TILES; t++, a += K_BLOCK_OF_R)
            add_k_block<DIVISION, N>(sums, t, a, a + HALF_K_BLOCK, b + (unsigned)(t * across),
                                     false, t < wgmma_sums<DIVISION, N>::SETS);
        end_k_blocks<DIVISION, N>(sums, false);
    }
}

/* Multiplies `N` tiles of 8 batch rows by `COUNT` k blocks of R in registers. */
template <class DIVISION, int N, int COUNT>
ECO_DEVICE void multiply_wgmma(const struct block_context *block,
                               const struct fragment r[DIVISION::k_blocks][TILES], int row_tile,
                               int sum_tile, int end)
{
    const struct product_share *const share = share_of<DIVISION>(block);
    typedef wgmma_sums<DIVISION, N> kind;
    enum { CHUNK = CHAIN < COUNT ? CHAIN : COUNT };
    const int next = block->memory.row_tiles * WARP;
    const int across = DIVISION::m64_tiles == 1 ? product_of<DIVISION>(block)->k_blocks * next : 0;
    const unsigned b = describe_rows(shared_address(shared + share->operand + row_tile * WARP));
    struct wgmma_sums<DIVISION, N> sums;
#pragma unroll
    for (int i = 0; i < COUNT; i += CHUNK) {
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < CHUNK; j++)
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                const bool start = j == 0 && t < kind::SETS;
                add_k_block<DIVISION, N>(&sums, t, r[i + j][t].first, r[i + j][t].second,
                                         b + (unsigned)((i + j) * next + t * across),
                                         i == 0 && start, start);
            }
        end_k_blocks<DIVISION, N>(&sums, i == 0);
    }
    if (COUNT == DIVISION::k_blocks)
        multiply_wgmma_by_shared<DIVISION, N>(block, &sums, b, next, across);
    end_sums<DIVISION, N>(&sums);
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int s = 0; s < kind::SETS; s++) {
            float d[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
#if defined(ECO_OPERAND_PAIR)
                d[i] = sums.total[s][4 * n + i] + sums.rest[s][4 * n + i];
#else
                d[i] = sums.d[s][4 * n + i];
#endif
            if (sum_tile + n < end)
                put_four<DIVISION>(share->sums + (sum_tile + n) * DIVISION::sum_tile +
                                       s * WARPGROUP * ECO_PERSISTENT_M,
                                   make_float4(d[0], d[1], d[2], d[3]), &block->scales);
        }
}

/* Tiles of 8 batch rows from `first` up to `end`. Those beyond the batch are not stored. */
template <class DIVISION, int COUNT>
ECO_DEVICE void multiply_wgmma_tiles(const struct block_context *block,
                                     const struct fragment r[DIVISION::k_blocks][TILES], int first,
                                     int end)
{
    int tile = first;
#pragma unroll 1
    for (; tile + 2 < end; tile += 4)
        multiply_wgmma<DIVISION, 4, COUNT>(block, r, tile, tile - first, end - first);
    if (tile < end)
        multiply_wgmma<DIVISION, 2, COUNT>(block, r, tile, tile - first, end - first);
}

template <class DIVISION>
ECO_DEVICE void multiply_by_warpgroups(const struct block_context *block,
                                       const struct fragment r[DIVISION::k_blocks][TILES],
                                       int first, int end)
{
    static_assert(!K_BLOCK_SCALES || !DIVISION::wgmma, "sums of k blocks are not told apart");
    const int k_blocks = product_of<DIVISION>(block)->k_blocks;
    if (k_blocks > 4)
        multiply_wgmma_tiles<DIVISION, DIVISION::k_blocks>(block, r, first, end);
    else if (k_blocks > 2)
        multiply_wgmma_tiles<DIVISION, 4>(block, r, first, end);
    else
        multiply_wgmma_tiles<DIVISION, 2>(block, r, first, end);
}

#endif /* ECO_GPU_PERSISTENT_MAINLOOP_WGMMA_CUH */
