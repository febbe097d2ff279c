/*
 * The gradient of additive scores, computed separately for each batch row and column: a lane has a
 * column, a warp has some queries in registers, and the block walks over positions, whose keys and
 * key gradients are in shared memory. In each round a warp has positions that no other warp has, so
 * sums over queries are added in one order, without atomics.
 */
#ifndef ECO_GPU_ATTENTION_GRADIENT_CUH
#define ECO_GPU_ATTENTION_GRADIENT_CUH

#include "gpu/attention/words.cuh"

enum {
    G_COLUMNS = ECO_ATTENTION_COLUMNS,
    G_QUERIES = ECO_ATTENTION_QUERIES,
    G_POSITIONS = ECO_ATTENTION_POSITION_BYTES / sizeof(real)
};

/* The data of a block: column h of n, positions [s0, s0 + live). */
struct gradient_block {
    real *key, *dkey; /* [live,G_COLUMNS]; keys as exponentials */
    real *dscore;     /* [live,row]: of the queries of all warps */
    int row, n, h, s0, live, warp, warps, lane;
    bool there; /* is h a column? */
};

/* Queries t .. t + G_QUERIES - 1 of a warp. */
struct gradient_queries {
    real query[G_QUERIES], sum[G_QUERIES]; /* exponentials; dquery */
    int t;
};

ECO_DEVICE struct gradient_block block_at_hand(const struct eco_attention_gradient_call &call,
                                               real *shared)
{
    const int groups = (call.H + G_COLUMNS - 1) / G_COLUMNS;
    const int positions = call.S < G_POSITIONS ? call.S : G_POSITIONS;
    struct gradient_block block;
    block.warp = (int)threadIdx.x / WARP;
    block.warps = (int)blockDim.x / WARP;
    block.lane = (int)threadIdx.x % WARP;
    block.row = block.warps * G_QUERIES + 4;
    block.n = (int)(blockIdx.x / groups);
    block.h = (int)(blockIdx.x % groups) * G_COLUMNS + block.lane;
    block.there = block.h < call.H;
    block.dscore = shared;
    block.key = block.dscore + positions * block.row;
    block.dkey = block.key + positions * G_COLUMNS;
    return block;
}

/* False if one is out of range. */
ECO_DEVICE bool load_positions(const struct eco_attention_gradient_call &call,
                               const struct gradient_block &block)
{
    bool in_range = true;
    for (int s = block.warp; s < block.live; s += block.warps) {
        const real x =
            block.there ? to_real(row_of(&call.keys, block.s0 + s, block.n)[block.h]) : (real)0;
        in_range = in_range && is_in_range(x);
        block.key[s * G_COLUMNS + block.lane] = exponential(x);
        block.dkey[s * G_COLUMNS + block.lane] = 0;
    }
    return in_range;
}

/* False if one is out of range. */
ECO_DEVICE bool load_queries(const struct eco_attention_gradient_call &call,
                             const struct gradient_block &block, struct gradient_queries &queries)
{
    bool in_range = true;
#pragma unroll
    for (int i = 0; i < G_QUERIES; i++) {
        const int t = queries.t + i;
        const bool there = block.there && t < call.T;
        const real x = there ? to_real(row_of(&call.query, t, block.n)[block.h]) : (real)0;
        in_range = in_range && is_in_range(x);
        queries.query[i] = exponential(x);
        queries.sum[i] =
            there && block.s0 > 0
                ? ((const real *)call.sums)[((size_t)block.n * call.T + t) * call.H + block.h]
                : (real)0;
    }
    return in_range;
}

/* Loads dscore for queries t0 .. of all warps, 0 beyond the last; queries are adjacent. */
ECO_DEVICE void load_dscores(const struct eco_attention_gradient_call &call,
                             const struct gradient_block &block, int t0)
{
    for (int q = block.warp; q < block.warps * G_QUERIES; q += block.warps) {
        const bool there = t0 + q < call.T;
        const real *from = (const real *)call.dscore +
                           ((size_t)block.n * call.T + (there ? t0 + q : 0)) * call.S + block.s0;
        for (int s = block.lane; s < block.live; s += WARP)
            block.dscore[s * block.row + q] = there ? from[s] : (real)0;
    }
}

/* A position: adds to the sums of the warp's queries and to dvector; returns its part of dkey. */
ECO_DEVICE real exponential_position(const struct gradient_block &block,
                                     struct gradient_queries &queries, int s, real *dvector)
{
    const real key = block.key[s * G_COLUMNS + block.lane];
    const real *dscore = block.dscore + s * block.row + block.warp * G_QUERIES;
    real_four d[G_QUERIES / 4];
    real dkey = 0;
#pragma unroll
    for (int i = 0; i < G_QUERIES / 4; i++)
        d[i] = *(const real_four *)(dscore + 4 * i);
#pragma unroll
    for (int i = 0; i < G_QUERIES; i++) {
        const real r = reciprocal(REAL(fma)(queries.query[i], key, (real)1));
        const real slope = REAL(fma)(-r, r, r), ds = d[i / 4].x[i % 4]; /* (1 - tanh^2) / 4 */
        queries.sum[i] = REAL(fma)(ds, slope, queries.sum[i]);
        dkey = REAL(fma)(ds, slope, dkey);
        *dvector = REAL(fma)(ds, REAL(fma)((real)-2, r, (real)1), *dvector);
    }
    return dkey;
}

/* The same from the numbers themselves; rarely needed. */
ECO_DEVICE real tanh_position(const struct eco_attention_gradient_call &call,
                              const struct gradient_block &block, struct gradient_queries &queries,
                              int s, real *dvector)
{
    const real *dscore = block.dscore + s * block.row + block.warp * G_QUERIES;
    real dkey = 0;
    if (!block.there)
        return 0;
    const real key = to_real(row_of(&call.keys, block.s0 + s, block.n)[block.h]);
#pragma unroll
    for (int i = 0; i < G_QUERIES; i++)
        if (queries.t + i < call.T) {
            const real query = to_real(row_of(&call.query, queries.t + i, block.n)[block.h]);
            const real y = REAL(tanh)(query + key);
            const real part = dscore[i] * (real)0.25 * REAL(fma)(-y, y, (real)1);
            queries.sum[i] += part;
            dkey += part;
            *dvector = REAL(fma)(dscore[i], y, *dvector);
        }
    return dkey;
}

/* All positions, in as many rounds as there are warps. */
ECO_DEVICE void walk_positions(const struct eco_attention_gradient_call &call,
                               const struct gradient_block &block, struct gradient_queries &queries,
                               bool out_of_range, real *dvector)
{
    const int each = (block.live + block.warps - 1) / block.warps;
    for (int round = 0; round < block.warps; round++) {
        const int part = (block.warp + round) % block.warps, first = part * each;
        const int end = first + each < block.live ? first + each : block.live;
        for (int s = first; s < end; s++) {
            real *dkey = &block.dkey[s * G_COLUMNS + block.lane];
            *dkey += out_of_range ? tanh_position(call, block, queries, s, dvector)
                                  : exponential_position(block, queries, s, dvector);
        }
        __syncthreads();
    }
}

/* last: no positions follow. */
ECO_DEVICE void store_queries(const struct eco_attention_gradient_call &call,
                              const struct gradient_block &block,
                              const struct gradient_queries &queries, real factor, bool last)
{
#pragma unroll
    for (int i = 0; i < G_QUERIES; i++) {
        const int t = queries.t + i;
        if (!block.there || t >= call.T)
            continue;
        if (!last)
            ((real *)call.sums)[((size_t)block.n * call.T + t) * call.H + block.h] = queries.sum[i];
        else if (call.dquery.data)
            row_of(&call.dquery, t, block.n)[block.h] = to_narrow(factor * queries.sum[i]);
    }
}

static __global__ void __launch_bounds__(ECO_ATTENTION_WARPS *WARP, sizeof(real) == 8 ? 1 : 3)
    additive_gradient(const __grid_constant__ struct eco_attention_gradient_call call)
{
    extern __shared__ real_four shared[];
    struct gradient_block block = block_at_hand(call, (real *)shared);
    const int length = length_of(call.lengths, block.n, call.S);
    const real factor = block.there ? 4 * ((const real *)call.vector)[block.h] : (real)0;
    real dvector = 0;
    for (block.s0 = 0; block.s0 < call.S; block.s0 += G_POSITIONS) {
        const int left = length - block.s0 < 0 ? 0 : length - block.s0;
        block.live = left < G_POSITIONS ? left : G_POSITIONS;
        const bool keys_out_of_range = __syncthreads_or(!load_positions(call, block)) != 0;
        for (int t0 = 0; t0 < call.T && (block.live > 0 || block.s0 == 0);
             t0 += block.warps * G_QUERIES) {
            struct gradient_queries queries;
            queries.t = t0 + block.warp * G_QUERIES;
            const bool in_range = load_queries(call, block, queries);
            load_dscores(call, block, t0);
            const bool out_of_range = __syncthreads_or(!in_range) != 0 || keys_out_of_range;
            walk_positions(call, block, queries, out_of_range, &dvector);
            store_queries(call, block, queries, factor, left <= G_POSITIONS);
        }
        for (int s = block.warp; s < G_POSITIONS && block.s0 + s < call.S; s += block.warps)
            if (call.dkeys.data && block.there)
                row_of(&call.dkeys, block.s0 + s, block.n)[block.h] = to_narrow(
                    s < block.live ? factor * block.dkey[s * G_COLUMNS + block.lane] : (real)0);
        __syncthreads();
    }
    real *part = block.dscore; /* dscore is no longer needed */
    part[block.warp * G_COLUMNS + block.lane] = dvector;
    __syncthreads();
    if (block.warp > 0 || !block.there)
        return;
    for (int w = 1; w < block.warps; w++)
        dvector += part[w * G_COLUMNS + block.lane];
    ((real *)call.dvector)[(size_t)block.n * call.H + block.h] = dvector;
}

/* The sum over the batch, in double: each thread of a column takes every
 * eighth row. */
static __global__ void __launch_bounds__(ECO_ATTENTION_VECTOR_ACROSS *ECO_ATTENTION_VECTOR_DOWN)
    sum_vectors(const __grid_constant__ struct eco_attention_vector call)
{
    __shared__ double share[ECO_ATTENTION_VECTOR_DOWN][ECO_ATTENTION_VECTOR_ACROSS];
    const int across = (int)threadIdx.x % ECO_ATTENTION_VECTOR_ACROSS;
    const int down = (int)threadIdx.x / ECO_ATTENTION_VECTOR_ACROSS;
    const int h = (int)blockIdx.x * ECO_ATTENTION_VECTOR_ACROSS + across;
    double sum = 0;
    for (int n = down; h < call.H && n < call.N; n += ECO_ATTENTION_VECTOR_DOWN)
        sum += (double)((const real *)call.part)[(size_t)n * call.H + h];
    share[down][across] = sum;
    __syncthreads();
    if (down > 0 || h >= call.H)
        return;
    for (int k = 1; k < ECO_ATTENTION_VECTOR_DOWN; k++)
        sum += share[k][across];
    real *to = (real *)call.dvector + h;
    *to = (real)(call.add ? (double)*to + sum : sum);
}

#endif /* ECO_GPU_ATTENTION_GRADIENT_CUH */
