/*
 * Products of a step by each warp alone (mma.sync): it multiplies its share of k and of the rows of
 * R by what was gathered (gather.cuh), and leaves its sums in shared memory.
 */
#ifndef ECO_GPU_PERSISTENT_MAINLOOP_MMA_CUH
#define ECO_GPU_PERSISTENT_MAINLOOP_MMA_CUH

#include "gpu/persistent/sums.cuh"

/* Fetched of them while others are multiplied: more take registers, and nothing else. */
enum { ITEMS_AHEAD = 4 };

/* Where items of a warp begin, those of the first of some tiles of 8 rows of the batch, and how far
 * one is from the next; scales of scale blocks, and the first item, of those that the block
 * gathers. */
struct items_at {
    const uint4 *operand;
    int next, scale, next_scale, first;
};

ECO_DEVICE struct items_at items_of(const struct memory *memory, const struct thread *thread,
                                    int row_tile)
{
    return {shared + thread->operand + row_tile * WARP, memory->row_tiles * WARP,
            thread->scale + row_tile * ECO_PERSISTENT_N, memory->row_tiles * ECO_PERSISTENT_N,
            thread->item};
}

/* An item of the nth tile. */
ECO_DEVICE uint4 read_item(const struct items_at *at, int i, int n)
{
    return at->operand[i * at->next + n * WARP];
}

template <class CUT> ECO_DEVICE struct back read_scale(const struct items_at *at, int i, int n)
{
    if (!ITEM_SCALES)
        return {};
    const int item = at->first + i,
              scale_block =
                  CUT::scale_block::halves ? 2 * item : item / (int)CUT::scale_block::items,
              from = at->scale + scale_block * at->next_scale + n * ECO_PERSISTENT_N,
              next = CUT::scale_block::halves ? from + at->next_scale : from;
    return {*(const float2 *)floats(from), *(const float2 *)floats(next)};
}

/* The items of R that are kept in shared memory. */
template <class CUT, int N>
ECO_DEVICE void multiply_by_shared(const struct eco_persistent_call *call,
                                   const struct block *block, const struct items_at *at,
                                   struct sums d[N][TILES])
{
    enum { CHAINS = chains_of<CUT>(N) };
    uint4 v[N];
    struct back s[N];
#pragma unroll 2
    for (int i = CUT::items; i < call->shape.part[CUT::product].items; i++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            v[n] = read_item(at, i, n);
            s[n] = read_scale<CUT>(at, i, n);
        }
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            const struct fragment kept = {*half_in_shared<CUT>(call, block, i, t, 0),
                                          *half_in_shared<CUT>(call, block, i, t, 1)};
#pragma unroll
            for (int n = 0; n < N; n++) {
                multiply_item<CHAINS>(&d[n][t], kept, v[n], true);
                if (ITEM_SCALES || i % 2 != 0)
                    end_chain<CUT, CHAINS>(&d[n][t], s[n]);
            }
        }
    }
}

/* `N` tiles of 8 rows of the batch, `COUNT` items in registers, in chains of so many; what is read
 * of them is fetched some items ahead.  Nothing here depends on the warp: no lane waits for a
 * branch. */
template <class CUT, int N, int COUNT, int CHAIN>
ECO_DEVICE void multiply_rows(const struct eco_persistent_call *call, const struct block *block,
                              const struct memory *memory, const struct thread *thread,
                              const struct fragment r[CUT::items][TILES], int row_tile,
                              int sum_tile)
{
    enum { MOST = ITEMS_AHEAD / N, AHEAD = MOST < COUNT ? MOST : COUNT };
    enum { CHAINS = chains_of<CUT>(N) };
    const struct items_at at = items_of(memory, thread, row_tile);
    struct sums d[N][TILES] = {};
    uint4 v[AHEAD][N];
    struct back s[N];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int n = 0; n < N; n++)
            v[i][n] = read_item(&at, i, n);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
        for (int n = 0; n < N; n++) {
            const bool ends = (i + 1) % CHAIN == 0 || (ITEM_SCALES && i + 1 == COUNT);
            if (i % CHAIN == 0)
                s[n] = read_scale<CUT>(&at, i, n);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                multiply_item<CHAINS>(&d[n][t], r[i][t], v[i % AHEAD][n], i % CHAIN == 0);
                if (ends)
                    end_chain<CUT, CHAINS>(&d[n][t], s[n]);
            }
            if (i + AHEAD < COUNT)
                v[i % AHEAD][n] = read_item(&at, i + AHEAD, n);
        }
    if (COUNT == CUT::items)
        multiply_by_shared<CUT, N>(call, block, &at, d);
    if (CUT::may_alias && call->shape.aliased)
        __syncthreads(); /* all of it is multiplied */
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            put_sums<CUT, CHAINS>(thread->sums + (sum_tile + n) * CUT::sum_tile +
                                      t * ECO_PERSISTENT_M,
                                  &d[n][t], &thread->scales);
}

/* Tiles of 8 rows of the batch from `first` on, up to `end`. */
template <class CUT, int COUNT, int CHAIN>
ECO_DEVICE void multiply_items(const struct eco_persistent_call *call, const struct block *block,
                               const struct memory *memory, const struct thread *thread,
                               const struct fragment r[CUT::items][TILES], int first, int end)
{
    int tile = first;
#pragma unroll 1
    for (; tile + 1 < end; tile += 2)
        multiply_rows<CUT, 2, COUNT, CHAIN>(call, block, memory, thread, r, tile, tile - first);
    if (tile < end)
        multiply_rows<CUT, 1, COUNT, CHAIN>(call, block, memory, thread, r, tile, tile - first);
}

#endif /* ECO_GPU_PERSISTENT_MAINLOOP_MMA_CUH */
