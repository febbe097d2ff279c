/*
 * Additive scores. A warp has two queries, with their columns in its lanes' registers, and walks
 * over positions, whose keys are in shared memory. So no tile of queries or positions needs
 * padding.
 */
#ifndef ECO_GPU_ATTENTION_ADDITIVE_CUH
#define ECO_GPU_ATTENTION_ADDITIVE_CUH

#include "gpu/attention/words.cuh"

/* FOURS: groups of four columns of a lane, 4 * WARP apart. */
template <int FOURS> struct lane_columns {
    real_four of[FOURS];
};

template <int FOURS>
ECO_DEVICE void load_columns(lane_columns<FOURS> &to, const narrow *row, int h0, int H, bool whole)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < FOURS; k++)
        to.of[k] = load_four(row, h0 + (k * WARP + lane) * 4, H, whole);
}

template <int FOURS> ECO_DEVICE bool are_in_range(const lane_columns<FOURS> &columns)
{
    bool in_range = true;
#pragma unroll
    for (int k = 0; k < FOURS; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            in_range = in_range && is_in_range(columns.of[k].x[i]);
    return in_range;
}

template <int FOURS> ECO_DEVICE void to_exponentials(lane_columns<FOURS> &columns)
{
#pragma unroll
    for (int k = 0; k < FOURS; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            columns.of[k].x[i] = exponential(columns.of[k].x[i]);
}

/* Sums of two queries, the first in the lower lanes, the second in the upper lanes. */
ECO_DEVICE real sum_pair(real first, real second)
{
    const bool upper = (threadIdx.x & (WARP / 2)) != 0;
    const real kept = upper ? second : first, given = upper ? first : second;
    real sum = kept + __shfl_xor_sync(EVERY_LANE, given, WARP / 2);
#pragma unroll
    for (int lanes = WARP / 4; lanes > 0; lanes /= 2)
        sum += __shfl_xor_sync(EVERY_LANE, sum, lanes);
    return sum;
}

/* The data of a warp: queries t and t + 1 of n. */
template <int FOURS> struct additive_warp {
    lane_columns<FOURS>
        query[2]; /* exponentials; or the numbers themselves if a query is out of range */
    lane_columns<FOURS> vector;
    int t, n, h0;
};

/* The sum over a lane's columns for the position with keys at `key`. */
template <int FOURS>
ECO_DEVICE real exponential_score(const lane_columns<FOURS> &query,
                                  const lane_columns<FOURS> &vector, const lane_columns<FOURS> &key)
{
    real sum[2] = {0, 0};
#pragma unroll
    for (int k = 0; k < FOURS; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const real r = reciprocal(REAL(fma)(query.of[k].x[i], key.of[k].x[i], (real)1));
            sum[i % 2] = REAL(fma)(vector.of[k].x[i], REAL(fma)((real)-2, r, (real)1), sum[i % 2]);
        }
    return sum[0] + sum[1];
}

/* The same from the numbers themselves; rarely needed. */
ECO_DEVICE real tanh_score(const struct eco_attention_additive &call, int t, int s, int n, int h0,
                           int end)
{
    real sum = 0;
    if (t >= call.T)
        return 0;
    const narrow *query = row_of(&call.query, t, n), *key = row_of(&call.keys, s, n);
#pragma unroll 1
    for (int h = h0 + (int)threadIdx.x % WARP; h < end; h += WARP)
        sum = REAL(fma)(((const real *)call.vector)[h],
                        REAL(tanh)(to_real(query[h]) + to_real(key[h])), sum);
    return sum;
}

/* Stores keys of positions [s0, s0 + TILE) as exponentials; false if one is out of range. */
template <int FOURS>
ECO_DEVICE bool load_keys(real_four *tile, const struct eco_attention_additive &call, int s0,
                          int length, int n, int h0)
{
    enum { WARPS = ECO_ATTENTION_THREADS / WARP, EACH = ECO_ATTENTION_TILE / WARPS };
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    bool in_range = true;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int at = warp * EACH + j;
        if (s0 + at < length) {
            lane_columns<FOURS> columns;
            load_columns<FOURS>(columns, row_of(&call.keys, s0 + at, n), h0, call.H, call.whole);
            in_range = in_range && are_in_range<FOURS>(columns);
            to_exponentials<FOURS>(columns);
#pragma unroll
            for (int k = 0; k < FOURS; k++)
                tile[(at * FOURS + k) * WARP + lane] = columns.of[k];
        }
    }
    return in_range;
}

/* Scores of the warp's queries for its positions of a tile. */
template <int FOURS>
ECO_DEVICE void score_tile(const additive_warp<FOURS> &warp, const real_four *tile,
                           const struct eco_attention_additive &call, int s0, int length,
                           bool in_range)
{
    const int lane = (int)threadIdx.x % WARP, groups = ECO_ATTENTION_THREADS / WARP / call.pairs;
    const int group = (int)threadIdx.x / WARP / call.pairs, half = lane / (WARP / 2);
    const int rows = length - s0 < ECO_ATTENTION_TILE ? length - s0 : ECO_ATTENTION_TILE;
    const int end = call.H - warp.h0 < FOURS * 4 * WARP ? call.H : warp.h0 + FOURS * 4 * WARP;
    real mine = 0;
    for (int j = group; j < rows; j += groups) {
        real score[2];
        if (in_range) {
            lane_columns<FOURS> key;
#pragma unroll
            for (int k = 0; k < FOURS; k++)
                key.of[k] = tile[(j * FOURS + k) * WARP + lane];
            score[0] = exponential_score<FOURS>(warp.query[0], warp.vector, key);
            score[1] = exponential_score<FOURS>(warp.query[1], warp.vector, key);
        } else {
            score[0] = tanh_score(call, warp.t, s0 + j, warp.n, warp.h0, end);
            score[1] = tanh_score(call, warp.t + 1, s0 + j, warp.n, warp.h0, end);
        }
        const real sum = sum_pair(score[0], score[1]);
        if (lane % (WARP / 2) == j)
            mine = sum;
    }
    const int j = lane % (WARP / 2), t = warp.t + half;
    if (j < rows && j % groups == group && t < call.T) {
        real *to = (real *)call.score + ((size_t)warp.n * call.T + t) * call.S + (s0 + j);
        *to = warp.h0 > 0 ? *to + mine : mine;
    }
}

template <int FOURS>
static __global__ void __launch_bounds__(ECO_ATTENTION_THREADS, sizeof(real) == 8 ? 1 : 2)
    additive_scores(const __grid_constant__ struct eco_attention_additive call)
{
    enum { COLUMNS = FOURS * 4 * WARP };
    __shared__ real_four tile[ECO_ATTENTION_TILE * FOURS * WARP];
    const int tiles = (call.T + 2 * call.pairs - 1) / (2 * call.pairs);
    const int lane = (int)threadIdx.x % WARP, pair = (int)threadIdx.x / WARP % call.pairs;
    additive_warp<FOURS> warp;
    warp.n = (int)(blockIdx.x / tiles);
    warp.t = ((int)(blockIdx.x % tiles) * call.pairs + pair) * 2;
    const int length = length_of(call.lengths, warp.n, call.S);
    for (warp.h0 = 0; warp.h0 < call.H; warp.h0 += COLUMNS) {
        bool queries_in_range = true;
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const bool there = warp.t + q < call.T;
            load_columns<FOURS>(warp.query[q], row_of(&call.query, there ? warp.t + q : 0, warp.n),
                                warp.h0, call.H, call.whole);
            queries_in_range = queries_in_range && (!there || are_in_range<FOURS>(warp.query[q]));
            to_exponentials<FOURS>(warp.query[q]);
        }
#pragma unroll
        for (int k = 0; k < FOURS; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int h = warp.h0 + (k * WARP + lane) * 4 + i;
                warp.vector.of[k].x[i] = h < call.H ? ((const real *)call.vector)[h] : (real)0;
            }
        for (int s0 = 0; s0 < length; s0 += ECO_ATTENTION_TILE) {
            const bool in_range = load_keys<FOURS>(tile, call, s0, length, warp.n, warp.h0);
            const bool out_of_range = __syncthreads_or(!(in_range && queries_in_range)) != 0;
            score_tile<FOURS>(warp, tile, call, s0, length, !out_of_range);
            __syncthreads();
        }
    }
}

#endif /* ECO_GPU_ATTENTION_ADDITIVE_CUH */
