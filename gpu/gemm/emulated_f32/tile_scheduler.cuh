/*
 * Assigns tiles of C and their stages to clusters. The blocks of a cluster work on tiles below each
 * other.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_TILE_SCHEDULER_CUH
#define ECO_GPU_GEMM_EMULATED_F32_TILE_SCHEDULER_CUH

#include "gpu/gemm/emulated_f32/operand.cuh"

enum { PAIR = ECO_EMULATED_PAIR };

/* The clusters take whole pairs of tiles in turn. The remaining pairs, fewer than clusters, are
 * shared: some clusters each take the stages between two bounds, before their own pairs. For shared
 * tiles blocks store partial sums, in the order of threads and registers, for at most two tiles:
 * the one they begin in and the one they end in. Example: 10 pairs on 4 clusters: each takes 2
 * whole pairs, and the stages of the last 2 pairs are divided by 4. */
struct schedule {
    int32_t steps, tiles_m, tiles_n, pairs, clusters; /* steps: stages of a tile */
    int32_t whole, sharing;                           /* pairs; clusters, at least one */
};

struct position {
    int32_t pair, step;
};

ECO_DEVICE schedule schedule_of(const eco_emulated_call &call, int32_t clusters)
{
    schedule c;
    c.steps = (call.k + DEPTH - 1) / DEPTH;
    c.tiles_m = (call.a.rows + TILE - 1) / TILE;
    c.tiles_n = (call.b.rows + TILE - 1) / TILE;
    c.pairs = (c.tiles_m + PAIR - 1) / PAIR * c.tiles_n;
    c.clusters = clusters;
    c.whole = call.parts == nullptr ? c.pairs : c.pairs / clusters * clusters;
    c.sharing = max(min(clusters, (c.pairs - c.whole) * c.steps), 1);
    return c;
}

/* The first stage of a cluster in the shared pairs. */
ECO_DEVICE position bound(const schedule &c, int32_t cluster)
{
    const int32_t stage = (c.pairs - c.whole) * c.steps * min(cluster, c.sharing) / c.sharing,
                  pair = stage / c.steps;
    return {c.whole + pair, stage - pair * c.steps};
}

ECO_DEVICE bool before(const position &p, const position &q)
{
    return p.pair < q.pair || (p.pair == q.pair && p.step < q.step);
}

/* A cluster's stages of a pair. */
struct work {
    int32_t pair, from, to;
};

/* The ith piece of a cluster's work; from == to: there is none. */
ECO_DEVICE work work_of(const schedule &c, int32_t cluster, int32_t i)
{
    const position first = bound(c, cluster), end = bound(c, cluster + 1);
    const int32_t shared = before(first, end) ? end.pair - first.pair + (end.step > 0) : 0,
                  pair = i < shared ? first.pair + i : cluster + (i - shared) * c.clusters;
    if (i >= shared)
        return {pair, 0, pair < c.whole ? c.steps : 0};
    return {pair, i > 0 ? 0 : first.step, pair < end.pair ? c.steps : end.step};
}

ECO_DEVICE bool is_whole(const schedule &c, const work &t)
{
    return t.to - t.from == c.steps;
}

/* A block's tile of a pair; m may be beyond the last. */
struct tile {
    int32_t m, n;
};

ECO_DEVICE tile tile_of(const schedule &c, int32_t pair, int32_t rank)
{
    const int32_t m = pair / c.tiles_n;
    return {m * PAIR + rank, pair - m * c.tiles_n};
}

/* [16][CONSUMERS] of the first or last tile that a block shares. */
ECO_DEVICE float4 *part_of(const eco_emulated_call &call, int32_t cluster, int32_t rank, bool last)
{
    const size_t block = (size_t)cluster * PAIR + rank;
    return (float4 *)call.parts + (2 * block + last) * (TILE * TILE / 4);
}

#endif /* ECO_GPU_GEMM_EMULATED_F32_TILE_SCHEDULER_CUH */
