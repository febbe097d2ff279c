/*
 * Pairs of the steps of a chunk, and the numbers of its steps (chunk.cuh).
 */
#ifndef ECO_GPU_MATRIX_PAIRS_CUH
#define ECO_GPU_MATRIX_PAIRS_CUH

#include "gpu/matrix/chunk_rows.cuh"

struct pairs_share {
    planes query, key, read;
    float *asked, *heard, *solved; /* [STEPS,PAIR_ROW] */
    float *decay, *kept, *scale;   /* [STEPS]; kept: 0 at a reset, else 1 */
};

template <int KEYS, int COUNT> ECO_DEVICE pairs_share pairs_share_of(const call_t &call)
{
    const struct eco_gpu_matrix_pairs_room room =
        eco_gpu_matrix_pairs_room(shape_of<KEYS, COUNT>(call));
    return {planes_of(room.query, STEPS, KEYS),
            planes_of(room.key, STEPS, KEYS),
            planes_of(room.read, STEPS, KEYS),
            floats_at(room.asked),
            floats_at(room.heard),
            floats_at(0),
            floats_at(room.decay),
            floats_at(room.kept),
            floats_at(room.scale)};
}

/* Leaves ratio_ts in asked and ratio_(t-1)s, 0 at a reset, in heard: thread s has column s. Numbers
 * are loaded four at once, or each would wait for the stores before it. */
ECO_DEVICE void ratios(const call_t &call, const chunk_place &chunk, const pairs_share &share,
                       bool reads)
{
    enum { LOADED = 4 };
    const int s = (int)threadIdx.x;
    float ratio = 1, after = 1, own_before = 0, own_after = 0;
    for (int first = 0; s < STEPS && first < STEPS; first += LOADED) {
        float decay[LOADED], kept[LOADED];
#pragma unroll
        for (int i = 0; i < LOADED; i++)
            decay[i] = share.decay[first + i], kept[i] = share.kept[first + i];
#pragma unroll
        for (int i = 0; i < LOADED; i++) {
            const int t = first + i;
            const float before = ratio * kept[i];
            after *= kept[i];
            own_before = t == s ? after : own_before;
            after *= decay[i];
            own_after = t == s ? after : own_after;
            if (reads)
                share.heard[t * PAIR_ROW + s] = t > s ? before : 0;
            ratio = t > s ? before * decay[i] : 1;
            share.asked[t * PAIR_ROW + s] = t >= s ? ratio : 0;
        }
    }
    if (s >= STEPS)
        return;
    numbers_at(call, chunk, BEFORE)[s] = own_before;
    numbers_at(call, chunk, AFTER)[s] = own_after;
    numbers_at(call, chunk, TO_END)[s] = ratio;
}

/* to_ts *= a_t . k_s, times by_t unless it is NULL. */
template <int KEYS, int COUNT>
ECO_DEVICE bool meet_keys(float *to, const planes &a, const planes &keys, const float *by)
{
    const warp_tiles at = tiles_of_warp();
    bool large = false;
    planes_sums<2, 2> d;
    clear_sums(d);
    add_product<COUNT, COUNT, false, true>(d, a, at.row, keys, at.column, {0, KEYS});
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int t = at.row[i] + at.lane_row + e / 2 * 8,
                          s = at.column + j * GROUP_SIZE + at.lane_column + e % 2;
                float *x = to + t * PAIR_ROW + s;
                large = large || is_large(d.at[i][j][e]);
                *x = *x * d.at[i][j][e] * (by != nullptr ? by[t] : 1);
                large = large || is_large(*x);
            }
    return large;
}

/* Inverts the blocks of 16 on the diagonal of 1 - heard: a column by a thread. */
ECO_DEVICE void solve_diagonal(const pairs_share &share)
{
    const int column = (int)threadIdx.x % FRAGMENT, block = (int)threadIdx.x / FRAGMENT;
    if (block >= STEPS / FRAGMENT)
        return;
    const int first = block * FRAGMENT;
    float x[FRAGMENT];
#pragma unroll
    for (int i = 0; i < FRAGMENT; i++) {
        float sum = i == column;
#pragma unroll
        for (int k = 0; k < i; k++)
            sum = fmaf(share.heard[(first + i) * PAIR_ROW + first + k], x[k], sum);
        x[i] = sum;
        share.solved[(first + i) * PAIR_ROW + first + column] = sum;
    }
}

/* Then those below: X_ij = X_ii times the sum of H_ik X_kj; the sum is in X_ji. */
ECO_DEVICE void solve_below(const pairs_share &share)
{
    enum { TILES = STEPS / FRAGMENT, NUMBERS = FRAGMENT * FRAGMENT };
    for (int away = 1; away < TILES; away++)
        for (int half = 0; half < 2; half++) {
            __syncthreads();
            for (int x = (int)threadIdx.x; x < (TILES - away) * NUMBERS; x += CHUNK_THREADS) {
                const int j = x / NUMBERS * FRAGMENT, i = j + away * FRAGMENT,
                          row = x % NUMBERS / FRAGMENT, column = x % FRAGMENT;
                const float *a = half == 0 ? share.heard + (i + row) * PAIR_ROW + j
                                           : share.solved + (i + row) * PAIR_ROW + i,
                            *b = half == 0 ? share.solved + j * PAIR_ROW + j + column
                                           : share.solved + j * PAIR_ROW + i + column;
                const int terms = half == 0 ? away * FRAGMENT : FRAGMENT;
                float sum = 0;
#pragma unroll 16
                for (int k = 0; k < terms; k++)
                    sum = fmaf(a[k], b[k * PAIR_ROW], sum);
                share.solved[half == 0 ? (j + row) * PAIR_ROW + i + column
                                       : (i + row) * PAIR_ROW + j + column] = sum;
            }
        }
}

/* The fragments of a lower triangle, from shared memory; less: 1 leaves out the diagonal. */
ECO_DEVICE void store_lower(void *to, const float *from, int less = 0)
{
    const warp_tiles at = tiles_of_warp();
    const int warp = (int)threadIdx.x / WARP;
    for (int tile = warp; tile < LOWER_FRAGMENTS; tile += CHUNK_THREADS / WARP) {
        const int i = tile < 1 ? 0 : tile < 3 ? 1 : tile < 6 ? 2 : 3, k = tile - i * (i + 1) / 2;
        split_pair part[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int t = i * FRAGMENT + at.lane_row + (e & 1) * 8,
                      s = k * FRAGMENT + at.lane_column + (e >> 1) * 8;
            part[e] = split(s + less <= t ? from[t * PAIR_ROW + s] : 0,
                            s + 1 + less <= t ? from[t * PAIR_ROW + s + 1] : 0);
        }
#pragma unroll
        for (int p = 0; p < PLANES; p++)
            *lower_at(to, i, k, p) =
                make_uint4(part[0].plane[p], part[1].plane[p], part[2].plane[p], part[3].plane[p]);
    }
}

/* Has a triangle a large number?  `less`: 1 leaves out the diagonal. */
ECO_DEVICE bool any_is_large(const float *pairs, int less)
{
    bool large = false;
    for (int x = (int)threadIdx.x; x < STEPS * STEPS; x += CHUNK_THREADS)
        if (x % STEPS + less <= x / STEPS)
            large = large || is_large(pairs[x / STEPS * PAIR_ROW + x % STEPS]);
    return large;
}

ECO_DEVICE chunk_place chunk_of_block(const call_t &call)
{
    const int32_t chunks = slab_chunks(call), head = (int32_t)(blockIdx.x / (unsigned)chunks);
    return chunk_at(call, head / call.heads, head % call.heads,
                    (int32_t)(blockIdx.x % (unsigned)chunks));
}

/* The numbers of the steps: decay, unless it is of rows, kept and scale. */
ECO_DEVICE bool load_numbers(const call_t &call, const chunk_place &chunk, const pairs_share &share,
                             bool by_row)
{
    const int32_t t = (int32_t)threadIdx.x, place = chunk.first + t;
    if (t >= STEPS)
        return false;
    const bool part = takes_part(call, chunk, t);
    const float scale = part && has_term(call, ECO_GPU_MATRIX_SCALE)
                            ? term_at(call, ECO_GPU_MATRIX_SCALE, chunk.n, chunk.h, place, 0)
                            : 0,
                decay = part && !by_row && has_term(call, ECO_GPU_MATRIX_DECAY)
                            ? term_at(call, ECO_GPU_MATRIX_DECAY, chunk.n, chunk.h, place, 0)
                            : 1;
    share.kept[t] = part && begins_again(call, chunk.n, place) ? 0 : 1;
    share.scale[t] = scale;
    numbers_at(call, chunk, SCALE)[t] = scale;
    if (!by_row)
        share.decay[t] = decay;
    for (int k = 0; k < SCALE && by_row; k++)
        numbers_at(call, chunk, k)[t] = 1; /* keys have their gates */
    return is_large(scale) || is_large(decay);
}

/* Solves, and stores what is solved, and whether a number is large. */
ECO_DEVICE void finish_chunk_pairs(const call_t &call, const chunk_place &chunk,
                                   const pairs_share &share, bool large)
{
    if (has_term(call, ECO_GPU_MATRIX_READ)) {
        solve_diagonal(share);
        solve_below(share);
        __syncthreads();
        large |= any_is_large(share.solved, 0);
        store_lower(lower_of(call, call.solved, chunk), share.solved);
    }
    large = __syncthreads_or(large) != 0;
    if (threadIdx.x == 0)
        call.chunk_large[chunk.at] = large;
}

/* Computes a chunk's asked and solved, and the numbers of its steps. */
template <int KEYS, int COUNT>
static __global__ void __launch_bounds__(CHUNK_THREADS)
    pairs_of_chunks(const __grid_constant__ call_t call)
{
#if __CUDA_ARCH__ >= 800
    const chunk_place chunk = chunk_of_block(call);
    const pairs_share share = pairs_share_of<KEYS, COUNT>(call);
    const bool reads = has_term(call, ECO_GPU_MATRIX_READ);
    load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_QUERY, false, chunk, share.query);
    load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_KEY, false, chunk, share.key);
    if (reads && !call.same_key)
        load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_READ, false, chunk, share.read);
    bool large = load_numbers(call, chunk, share, false);
    cp_async_wait_all();
    __syncthreads();
    ratios(call, chunk, share, reads);
    __syncthreads();
    large |= meet_keys<KEYS, COUNT>(share.asked, share.query, share.key, nullptr);
    if (reads)
        large |= meet_keys<KEYS, COUNT>(share.heard, share.read, share.key, share.scale);
    __syncthreads();
    store_lower(lower_of(call, call.asked, chunk), share.asked);
    finish_chunk_pairs(call, chunk, share, large);
#endif
}

#endif /* ECO_GPU_MATRIX_PAIRS_CUH */
