/*
 * Products of a step by each warp alone (mma.sync): it multiplies its share of k and of the rows of
 * R by the gathered operands (gather.cuh), and stores its sums in shared memory.
 */
#ifndef ECO_GPU_PERSISTENT_MAINLOOP_MMA_CUH
#define ECO_GPU_PERSISTENT_MAINLOOP_MMA_CUH

#include "gpu/persistent/sums.cuh"

/* k blocks fetched ahead of their use; more take registers without being faster */
enum { K_BLOCKS_AHEAD = 4 };

/* Start of a warp's k blocks for the first tile of 8 batch rows, and the distance between tiles;
 * its scales; its first k block among those gathered. */
struct k_blocks_at {
    const uint4 *operand;
    int next, scale, next_scale, first;
};

template <class DIVISION>
ECO_DEVICE struct k_blocks_at k_blocks_of(const struct block_context *block, int row_tile)
{
    const struct product_share *const share = share_of<DIVISION>(block);
    const int row_tiles = block->memory.row_tiles;
    return {shared + share->operand + row_tile * WARP, row_tiles * WARP,
            share->scale + row_tile * ECO_PERSISTENT_N, row_tiles * ECO_PERSISTENT_N,
            share->k_block};
}

/* K block i of the nth tile. */
ECO_DEVICE uint4 read_k_block(const struct k_blocks_at *at, int i, int n)
{
    return at->operand[i * at->next + n * WARP];
}

template <class DIVISION>
ECO_DEVICE struct back read_scale(const struct k_blocks_at *at, int i, int n)
{
    if (!K_BLOCK_SCALES)
        return {};
    const int k_block = at->first + i,
              scale_block = DIVISION::scale_block::halves
                                ? 2 * k_block
                                : k_block / (int)DIVISION::scale_block::k_blocks,
              from = at->scale + scale_block * at->next_scale + n * ECO_PERSISTENT_N,
              next = DIVISION::scale_block::halves ? from + at->next_scale : from;
    return {*(const float2 *)floats(from), *(const float2 *)floats(next)};
}

/* Multiplies the k blocks of R that are in shared memory. */
template <class DIVISION, int N>
ECO_DEVICE void multiply_by_shared(const struct block_context *block, const struct k_blocks_at *at,
                                   struct sums d[N][TILES])
{
    enum { CHAINS = chains_of<DIVISION>(N) };
    uint4 v[N];
    struct back s[N];
#pragma unroll 2
    for (int i = DIVISION::k_blocks; i < product_of<DIVISION>(block)->k_blocks; i++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            v[n] = read_k_block(at, i, n);
            s[n] = read_scale<DIVISION>(at, i, n);
        }
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            const struct fragment kept = {*half_in_shared<DIVISION>(block, i, t, 0),
                                          *half_in_shared<DIVISION>(block, i, t, 1)};
#pragma unroll
            for (int n = 0; n < N; n++) {
                multiply_k_block<CHAINS>(&d[n][t], kept, v[n], true);
                if (K_BLOCK_SCALES || i % 2 != 0)
                    end_chain<DIVISION, CHAINS>(&d[n][t], s[n]);
            }
        }
    }
}

/* Multiplies `N` tiles of 8 batch rows, of which `there` exist, by `COUNT` k blocks in registers,
 * in chains of `CHAIN`. Operands are fetched some k blocks ahead. There are no branches that depend
 * on the warp. */
template <class DIVISION, int N, int COUNT, int CHAIN>
ECO_DEVICE void multiply_rows(const struct block_context *block,
                              const struct fragment r[DIVISION::k_blocks][TILES], int row_tile,
                              int sum_tile, int there)
{
    enum { MOST = K_BLOCKS_AHEAD / N, AHEAD = MOST < COUNT ? MOST : COUNT };
    enum { CHAINS = chains_of<DIVISION>(N) };
    const struct k_blocks_at at = k_blocks_of<DIVISION>(block, row_tile);
    struct sums d[N][TILES] = {};
    uint4 v[AHEAD][N];
    struct back s[N];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int n = 0; n < N; n++)
            v[i][n] = read_k_block(&at, i, n);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
        for (int n = 0; n < N; n++) {
            const bool ends = (i + 1) % CHAIN == 0 || (K_BLOCK_SCALES && i + 1 == COUNT);
            if (i % CHAIN == 0)
                s[n] = read_scale<DIVISION>(&at, i, n);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                multiply_k_block<CHAINS>(&d[n][t], r[i][t], v[i % AHEAD][n], i % CHAIN == 0);
                if (ends)
                    end_chain<DIVISION, CHAINS>(&d[n][t], s[n]);
            }
            if (i + AHEAD < COUNT)
                v[i % AHEAD][n] = read_k_block(&at, i + AHEAD, n);
        }
    if constexpr (COUNT == DIVISION::k_blocks && may_keep_in_shared<DIVISION>())
        multiply_by_shared<DIVISION, N>(block, &at, d);
    if (DIVISION::may_alias && block->call->shape.aliased)
        __syncthreads(); /* all operands have been read */
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int t = 0; t < TILES && n < there; t++)
            put_sums<DIVISION, CHAINS>(share_of<DIVISION>(block)->sums +
                                           (sum_tile + n) * DIVISION::sum_tile +
                                           t * ECO_PERSISTENT_M,
                                       &d[n][t], &block->scales);
}

/* Tiles of 8 batch rows from `first` up to `end`. */
template <class DIVISION, int COUNT, int CHAIN>
ECO_DEVICE void multiply_k_blocks(const struct block_context *block,
                                  const struct fragment r[DIVISION::k_blocks][TILES], int first,
                                  int end)
{
    int tile = first;
    /* With sums over the operands all rows are multiplied at once. If full runs have an even number
     * of tiles, there is no code for a single one. */
    enum {
        EVEN = usual.tiles > 0 && usual.tiles % 2 == 0,
        AT_ONCE = usual.tiles == 1 && !DIVISION::may_alias ? 1 : 2,
        LAST = EVEN ? 0 : AT_ONCE - 1
    };
#pragma unroll 1
    for (; tile + LAST < end; tile += AT_ONCE)
        multiply_rows<DIVISION, AT_ONCE, COUNT, CHAIN>(block, r, tile, tile - first,
                                                       EVEN ? end - tile : (int)AT_ONCE);
    if (LAST > 0 && tile < end)
        multiply_rows<DIVISION, 1, COUNT, CHAIN>(block, r, tile, tile - first, 1);
}

#endif /* ECO_GPU_PERSISTENT_MAINLOOP_MMA_CUH */
