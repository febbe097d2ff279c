/*
 * Pairs of the steps of a chunk with a gate for each row of S (chunk.cuh).  A ratio G_t / G_s is a
 * vector [K] then, and a pair needs its own: q_t . (ratio_ts k_s).  For steps of two halves it
 * divides at the middle, into the gates from there to t and those from s to there, so halves of 32
 * and of 16 steps are products; within 16 steps, q_t goes back over the steps.  Nothing is divided:
 * a gate of 0 is exact.
 *
 * Rows of keys times their gates go to memory, where chunks_forward() reads them instead.
 */
#ifndef ECO_GPU_MATRIX_GATES_CUH
#define ECO_GPU_MATRIX_GATES_CUH

#include "gpu/matrix/chunk.cuh"

struct gates_share {
    float *query, *key, *read, *decay; /* [STEPS,KEYS]; decay: 0 at a reset */
    planes halves;                     /* [STEPS,KEYS] */
    pairs_share pairs;                 /* asked, heard, solved, kept, scale */
    bool reads;
};

template <int KEYS> ECO_DEVICE gates_share gates_share_of(const call_t &call)
{
    const struct eco_gpu_matrix_gates_room room =
        eco_gpu_matrix_gates_room(shape_of<KEYS, PLANES>(call));
    gates_share share;
    share.reads = has_term(call, ECO_GPU_MATRIX_READ);
    share.query = floats_at(room.query);
    share.key = floats_at(room.key);
    share.read = floats_at(room.read);
    share.decay = floats_at(room.decay);
    share.halves = planes_of(room.halves, STEPS, KEYS);
    share.pairs.solved = floats_at(0); /* when keys are done with */
    share.pairs.asked = floats_at(room.asked);
    share.pairs.heard = floats_at(room.heard);
    share.pairs.kept = floats_at(room.kept);
    share.pairs.scale = floats_at(room.scale);
    return share;
}

/* How a key's rows become floats: steps that take no part have `missing`; rows are times by, unless
 * it is NULL; `adds`: to what is there. */
struct how_loaded {
    float missing;
    const float *by;
    bool adds;
};

template <int KEYS>
ECO_DEVICE bool load_key_floats(const call_t &call, int k, const chunk_place &chunk, float *to,
                                how_loaded how)
{
    enum { STRIDE = key_groups<KEYS>::STRIDE };
    bool large = false;
    const key_groups<KEYS> own = groups_of_thread<KEYS>(call, call.term[k], chunk);
#pragma unroll 2
    for (int i = 0; i < key_groups<KEYS>::COUNT; i++) {
        const int32_t t = own.t + i * STRIDE;
        float x[GROUP_SIZE];
#pragma unroll
        for (int e = 0; e < GROUP_SIZE; e++)
            x[e] = how.missing;
        if (has_term(call, k) && takes_part(call, chunk, t))
            load_key_group(own, own.rows.at + i * STRIDE * own.rows.step, x);
#pragma unroll
        for (int e = 0; e < GROUP_SIZE; e++) {
            float *y = to + t * KEYS + own.group * GROUP_SIZE + e;
            *y = (how.by != nullptr ? how.by[t] : 1) * x[e] + (how.adds ? *y : 0);
            large = large || is_large(*y) || is_large(x[e]);
        }
    }
    return large;
}

/* Numbers of steps, and rows; the key may be `other`. */
template <int KEYS>
ECO_DEVICE bool load_gated_rows(const call_t &call, const chunk_place &chunk,
                                const gates_share &share, int key)
{
    static const int terms[] = {ECO_GPU_MATRIX_QUERY, ECO_GPU_MATRIX_KEY, ECO_GPU_MATRIX_DECAY,
                                ECO_GPU_MATRIX_READ}; /* as rows are in memory */
    bool large = load_numbers(call, chunk, share.pairs, true);
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < (share.reads ? 4 : 3); k++) {
        const bool gates = terms[k] == ECO_GPU_MATRIX_DECAY;
        large |=
            load_key_floats<KEYS>(call, terms[k] == ECO_GPU_MATRIX_KEY ? key : terms[k], chunk,
                                  share.query + k * STEPS * KEYS,
                                  {gates ? 1.f : 0.f, gates ? share.pairs.kept : nullptr, false});
    }
    __syncthreads();
    return large;
}

/* A number of a row times gates, in memory. */
ECO_DEVICE void store_gated(const call_t &call, const chunk_place &chunk, int k, int t, int i,
                            float x)
{
    if (i < call.K && takes_part(call, chunk, t))
        ((float *)call.gated[k]
             .slots)[slot_of(call, chunk.n, chunk.h, chunk.first + t) * call.K + i] = x;
}

ECO_DEVICE float2 times_pair(float2 a, float2 b)
{
    return make_float2(a.x * b.x, a.y * b.y);
}

template <int KEYS> ECO_DEVICE float2 key_pair(const float *rows, int t, int column)
{
    return *(const float2 *)(rows + t * KEYS + column);
}

/* In each block of two halves: keys of the first times the gates after them, and what reads, in the
 * second, times the gates from its beginning on.  `before`: a step reads what is there before it.
 */
template <int KEYS>
ECO_DEVICE void gate_halves(const gates_share &share, const float *reader, int half, bool before)
{
    enum { PAIRS = KEYS / 2 };
    const int column = (int)threadIdx.x % PAIRS * 2, task = (int)threadIdx.x / PAIRS,
              first = task / 2 * 2 * half;
    float2 ratio = make_float2(1, 1);
    if (first >= STEPS)
        return;
    for (int i = 0; i < half; i++) {
        const int t = task % 2 == 0 ? first + half - 1 - i : first + half + i;
        const float2 decay = key_pair<KEYS>(share.decay, t, column),
                     x = key_pair<KEYS>(task % 2 == 0 ? share.key : reader, t, column);
        const float2 after = times_pair(ratio, decay);
        float2 y = times_pair(x, task % 2 == 0 ? ratio : after);
        if (task % 2 != 0 && before)
            y = times_pair(times_pair(x, ratio),
                           make_float2(share.pairs.kept[t], share.pairs.kept[t]));
        store_split_pair<PLANES>(share.halves, t, column, y.x, y.y);
        ratio = after;
    }
}

/* Pairs of steps of two halves, times by_t unless it is NULL. */
template <int KEYS>
ECO_DEVICE void meet_halves(const gates_share &share, float *to, int half, const float *by)
{
    const int warp = (int)threadIdx.x / WARP, side = half / FRAGMENT,
              first = warp / (side * side) * 2 * half,
              row = first + half + warp / side % side * FRAGMENT,
              column = first + warp % side * FRAGMENT;
    if (first >= STEPS)
        return;
    planes_sums<1, 2> d;
    clear_sums(d);
    const int rows[1] = {row};
    add_product<PLANES, PLANES, false, true>(d, share.halves, rows, share.halves, column,
                                             {0, KEYS});
    each_pair(d, rows, column, [&](int t, int s, float &x, float &y) {
        const float times_t = by != nullptr ? by[t] : 1;
        to[t * PAIR_ROW + s] = times_t * x;
        to[t * PAIR_ROW + s + 1] = times_t * y;
    });
}

/* Pairs within 16 steps: a warp takes a step t, and its lanes the rows of S. */
template <int KEYS> ECO_DEVICE void meet_near(const gates_share &share, bool scaled)
{
    const bool reads = share.reads;
    enum { EACH = KEYS / WARP };
    const int lane = (int)threadIdx.x % WARP;
    for (int t = (int)threadIdx.x / WARP; t < STEPS; t += CHUNK_THREADS / WARP) {
        const int first = t / FRAGMENT * FRAGMENT;
        float q[EACH], b[EACH], sum[2 * FRAGMENT];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            q[e] = share.query[t * KEYS + lane + e * WARP];
            b[e] = reads ? share.read[t * KEYS + lane + e * WARP] * share.pairs.kept[t] : 0;
        }
#pragma unroll
        for (int j = FRAGMENT - 1; j >= 0; j--) {
            const int s = first + j;
            sum[j] = sum[FRAGMENT + j] = 0;
            if (s > t)
                continue;
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int at = s * KEYS + lane + e * WARP;
                const float k = share.key[at], w = share.decay[at];
                sum[j] = fmaf(q[e], k, sum[j]);
                q[e] *= w;
                if (s == t)
                    continue;
                sum[FRAGMENT + j] = fmaf(b[e], k, sum[FRAGMENT + j]);
                b[e] *= w;
            }
        }
        const float all = sum_by_exchange(sum, lane);
        const int s = first + lane % FRAGMENT;
        if (lane < FRAGMENT && s <= t)
            share.pairs.asked[t * PAIR_ROW + s] = all;
        if (lane >= FRAGMENT && reads && s < t)
            share.pairs.heard[t * PAIR_ROW + s] = (scaled ? share.pairs.scale[t] : 1) * all;
    }
}

/* Rows times the gates after them, of the key or of `other`, for products with S. */
template <int KEYS>
ECO_DEVICE bool store_gated_keys(const call_t &call, const chunk_place &chunk,
                                 const gates_share &share, int k)
{
    const int i = (int)threadIdx.x;
    float ratio = 1;
    bool large = false;
    for (int t = STEPS - 1; t >= 0 && i < KEYS; t--) {
        const float x = ratio * share.key[t * KEYS + i];
        large = large || is_large(x);
        store_gated(call, chunk, k, t, i, x);
        ratio *= share.decay[t * KEYS + i];
    }
    return large;
}

/* Rows times the gates before them, of the query and of what is read, and the product of all. */
template <int KEYS>
ECO_DEVICE bool store_gated_readers(const call_t &call, const chunk_place &chunk,
                                    const gates_share &share)
{
    const int i = (int)threadIdx.x - (CHUNK_THREADS - KEYS);
    float ratio = 1;
    bool large = false;
    for (int t = 0; t < STEPS && i >= 0; t++) {
        const float b = share.reads ? ratio * share.pairs.kept[t] * share.read[t * KEYS + i] : 0;
        ratio *= share.decay[t * KEYS + i];
        const float q = ratio * share.query[t * KEYS + i];
        large = large || is_large(q) || is_large(b);
        store_gated(call, chunk, ECO_GPU_MATRIX_QUERY, t, i, q);
        if (share.reads)
            store_gated(call, chunk, ECO_GPU_MATRIX_READ, t, i, b);
    }
    if (i >= 0)
        call.chunk_decay[chunk.at * ECO_GPU_MATRIX_CHUNK_KEYS + i] = ratio;
    return large || is_large(ratio);
}

/* Pairs of a reader in one half of a block of steps and a key in the other. */
template <int KEYS>
ECO_DEVICE void meet_far(const gates_share &share, const float *reader, bool before, float *to,
                         const float *by)
{
    for (int half = STEPS / 2; half >= FRAGMENT; half /= 2) {
        gate_halves<KEYS>(share, reader, half, before);
        __syncthreads();
        meet_halves<KEYS>(share, to, half, by);
        __syncthreads();
    }
}

/* All pairs of a key; heard is times the scale of its step, if that is wanted. */
template <int KEYS> ECO_DEVICE bool meet_key(const gates_share &share, bool scaled)
{
    meet_near<KEYS>(share, scaled);
    meet_far<KEYS>(share, share.query, false, share.pairs.asked, nullptr);
    if (share.reads)
        meet_far<KEYS>(share, share.read, true, share.pairs.heard,
                       scaled ? share.pairs.scale : nullptr);
    return any_is_large(share.pairs.asked, 0) ||
           (share.reads && any_is_large(share.pairs.heard, 1));
}

/* The key becomes other + scale key: what u is times, if d is put into S'. */
template <int KEYS>
ECO_DEVICE bool take_other(const call_t &call, const chunk_place &chunk, const gates_share &share)
{
    for (int x = (int)threadIdx.x; x < STEPS * KEYS; x += CHUNK_THREADS)
        share.key[x] *= share.pairs.scale[x / KEYS];
    __syncthreads();
    const bool large =
        load_key_floats<KEYS>(call, ECO_GPU_MATRIX_OTHER, chunk, share.key, {0, nullptr, true});
    __syncthreads();
    return large;
}

/* Does what pairs_of_chunks() does.  With `other`, the values of the key are v, and its own u:
 *
 *     u = solved (G_(t-1) b S + heard v)    o_t = G_t q_t S + asked v + asked_other u
 */
template <int KEYS>
static __global__ void __launch_bounds__(CHUNK_THREADS, 1)
    gated_pairs_of_chunks(const __grid_constant__ call_t call)
{
#if __CUDA_ARCH__ >= 800
    const chunk_place chunk = chunk_of_block(call);
    const gates_share share = gates_share_of<KEYS>(call);
    const bool others = has_term(call, ECO_GPU_MATRIX_OTHER);
    bool large = load_gated_rows<KEYS>(call, chunk, share, ECO_GPU_MATRIX_KEY);
    large |= store_gated_readers<KEYS>(call, chunk, share);
    large |= store_gated_keys<KEYS>(call, chunk, share, ECO_GPU_MATRIX_KEY);
    large |= meet_key<KEYS>(share, !others);
    store_lower(lower_of(call, call.asked, chunk), share.pairs.asked);
    if (others) {
        store_lower(lower_of(call, call.heard, chunk), share.pairs.heard, 1);
        __syncthreads();
        large |= take_other<KEYS>(call, chunk, share);
        large |= store_gated_keys<KEYS>(call, chunk, share, ECO_GPU_MATRIX_OTHER);
        large |= meet_key<KEYS>(share, false);
        store_lower(lower_of(call, call.asked_other, chunk), share.pairs.asked);
    }
    finish_chunk_pairs(call, chunk, share.pairs, large);
#endif
}

#endif /* ECO_GPU_MATRIX_GATES_CUH */
