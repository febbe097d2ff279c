/*
 * The gradients of the keys and numbers of a chunk's steps, when all columns are summed up
 * (chunk_gradients.cuh).  With before_ts = ratio_(t-1)s, or 0 across a reset, and all products of
 * steps being sums over s or t,
 *
 *     dq_t = G_t dq0_t + ratio_ts dasked_ts k_s
 *     db_t = scale_t (G_(t-1) db0_t + before_ts dheard_ts k_s)    dscale_t = db_t . b_t / scale_t
 *     dk_s = ratio_64s dk0_s + ratio_ts dasked_ts q_t + scale_t before_ts dheard_ts b_t
 *
 * but for the division.  The gradient of ratio_ts, times the gate of t, is one of ratio_(t-1)s, so
 * gradients of ratios are found from the last step to the first.
 */
#ifndef ECO_GPU_MATRIX_CHUNK_FINISH_CUH
#define ECO_GPU_MATRIX_CHUNK_FINISH_CUH

#include "gpu/matrix/chunk_back.cuh"

/* What a warp has of the sums over columns: rows of its tiles, and a quarter of the keys. */
template <int KEYS, bool GATED = false> struct sums_of_gradients {
    enum { PARTS = GATED ? 2 * chunk_block<KEYS>::TALL : 1 };
    typedef planes_sums<2, KEYS / 4 / GROUP_SIZE> keys;
    keys dquery, dread, dkey;         /* without what comes from pairs */
    planes_sums<2, 2> dasked, dheard; /* of pairs without their ratios and scales */
    float all[PARTS];                 /* a thread's parts of the products of rows of S and G */
};

/* Products of rows, in parts by columns of warps. */
enum chunk_dot { DOT_QUERY, DOT_KEY, DOT_READ, CHUNK_DOTS };
enum { KEY_PARTS = 4 };
static_assert(CHUNK_DOTS * KEY_PARTS == ECO_GPU_MATRIX_CHUNK_DOTS, "args.h has as many");

struct finish_share {
    float *number; /* [CHUNK_NUMBERS,STEPS] */
    float *dafter; /* [STEPS] */
    float *dot;    /* [CHUNK_DOTS,KEY_PARTS,STEPS] */
    float *all;    /* of warps [STEPS] */
    pairs_share pairs;
    planes weighed;       /* gradients of pairs [STEPS,STEPS] */
    float *asked, *heard; /* a pair times its gradient, unweighted [STEPS,PAIR_ROW] */
};

/* Ratios are in pairs.asked and pairs.heard; `read` takes the room of `query`. */
template <int KEYS, int COUNT> ECO_DEVICE finish_share finish_share_of(const call_t &call)
{
    const struct eco_gpu_matrix_gradients_room room =
        eco_gpu_matrix_gradients_room(shape_of<KEYS, COUNT>(call));
    finish_share share;
    share.number = floats_at(room.number);
    share.dafter = floats_at(room.dafter);
    share.all = floats_at(room.all);
    share.dot = floats_at(room.dot);
    share.pairs.decay = floats_at(room.decay);
    share.pairs.kept = floats_at(room.kept);
    share.pairs.scale = share.number + SCALE * STEPS;
    share.pairs.query = planes_of(room.query, STEPS, KEYS);
    share.pairs.key = planes_of(room.key, STEPS, KEYS);
    share.pairs.read = planes_of(room.read, STEPS, KEYS);
    share.weighed = planes_of(room.weighed, STEPS, STEPS);
    share.asked = share.pairs.asked = floats_at(room.asked);
    share.pairs.heard = floats_at(room.heard);
    share.heard = floats_at(room.heard_too);
    return share;
}

/* The first column of keys of a warp. */
template <int KEYS> ECO_DEVICE int key_column()
{
    return (int)threadIdx.x / WARP / 2 * (KEYS / KEY_PARTS);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Ratios of pairs, what their step t is times, NULL: 1, and room for what they met. */
struct weights_of_pairs {
    const float *ratio, *by;
    float *met;
};

/* For pairs a_t . k_s with these gradients: leaves the gradients times the ratios and by_t in
 * planes, and the products with the pairs in `met`, which may be where the ratios are. */
template <int KEYS, int COUNT>
ECO_DEVICE void weigh_pairs(const finish_share &share, planes_sums<2, 2> &gradient, const planes &a,
                            const weights_of_pairs &of)
{
    const warp_tiles at = tiles_of_warp();
    planes_sums<2, 2> pairs;
    clear_sums(pairs);
    add_product<COUNT, COUNT, false, true>(pairs, a, at.row, share.pairs.key, at.column, {0, KEYS});
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int t = at.row[i] + at.lane_row + half * 8,
                          s = at.column + j * GROUP_SIZE + at.lane_column;
                const float *d = gradient.at[i][j] + half * 2, *pair = pairs.at[i][j] + half * 2;
                const float2 ratios = *(const float2 *)(of.ratio + t * PAIR_ROW + s);
                const float times = of.by != nullptr ? of.by[t] : 1;
                store_split_pair<PLANES>(share.weighed, t, s, times * ratios.x * d[0],
                                         times * ratios.y * d[1]);
                *(float2 *)(of.met + t * PAIR_ROW + s) =
                    make_float2(d[0] * pair[0], d[1] * pair[1]);
            }
}

/* d += weighed pairs times rows of keys; TURNED: their transpose.  They are a lower triangle. */
template <int COUNT, bool TURNED, int WIDE>
ECO_DEVICE void add_weighed(const finish_share &share, planes_sums<2, WIDE> &d, const planes &rows,
                            int column)
{
    const warp_tiles at = tiles_of_warp();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int row[1] = {at.row[i]}, first = TURNED ? at.row[i] : 0,
                  end = TURNED ? (int)STEPS : at.row[i] + FRAGMENT;
        planes_sums<1, WIDE> x;
        copy_sums(x, 0, d, i);
        add_product<PLANES, COUNT, TURNED, false>(x, share.weighed, row, rows, column,
                                                  {first, end});
        copy_sums(d, i, x, 0);
    }
}

/* Leaves the products of rows of keys with their gradients. */
template <int COUNT, int WIDE>
ECO_DEVICE void dot_rows(const finish_share &share, int which, planes_sums<2, WIDE> &d,
                         const planes &rows, int column)
{
    const warp_tiles at = tiles_of_warp();
    const int part = (int)threadIdx.x / WARP / 2;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int t = at.row[i] + at.lane_row + half * 8;
            float sum = 0;
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                const float2 key =
                    planes_pair<COUNT>(rows, t, column + j * GROUP_SIZE + at.lane_column);
                sum = fmaf(d.at[i][j][half * 2], key.x, sum);
                sum = fmaf(d.at[i][j][half * 2 + 1], key.y, sum);
            }
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if (at.lane_column == 0)
                share.dot[(which * KEY_PARTS + part) * STEPS + t] = sum;
        }
}

ECO_DEVICE float dot_at(const finish_share &share, int which, int t)
{
    float sum = 0;
#pragma unroll
    for (int part = 0; part < KEY_PARTS; part++)
        sum += share.dot[(which * KEY_PARTS + part) * STEPS + t];
    return sum;
}

/* The slot's gradient of a term. */
ECO_DEVICE real *gradient_at(const call_t &call, const chunk_place &chunk, int k, int32_t t)
{
    return real_at(call.dterm[k], slot_of(call, chunk.n, chunk.h, chunk.first + t),
                   call.term[k].width);
}

template <int WIDE>
ECO_DEVICE bool store_keys(const call_t &call, const chunk_place &chunk, int k,
                           planes_sums<2, WIDE> &d, int column)
{
    bool large = false;
    const warp_tiles at = tiles_of_warp();
    const row_cursor rows = slots_of(call, chunk, call.dterm[k], call.term[k].width);
    each_pair(d, at.row, column,
              [&](int, int, float &x, float &y) { large = large || is_large(x) || is_large(y); });
    if (chunk.whole && call.term[k].width > 1) {
        store_whole<float>(d, rows, at.row, column);
        return large;
    }
    each_pair(d, at.row, column, [&](int t, int i, float &x, float &y) {
        if (takes_part(call, chunk, t))
            store_two((float *)row_of_step(rows, t) + i, call.K - i, x, y);
    });
    return large;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* What gradients_of_ratios() reads of a step. */
struct ratio_step {
    float asked, heard, before, decay, kept, scale;
};

ECO_DEVICE ratio_step ratio_step_of(const finish_share &share, int s, int t, bool reads)
{
    const pairs_share &of = share.pairs;
    const int at = t * PAIR_ROW + s;
    const bool pair = s < STEPS;
    return {pair ? share.asked[at] : dot_at(share, DOT_QUERY, t),
            !reads ? 0
            : pair ? share.heard[at]
                   : dot_at(share, DOT_READ, t),
            pair ? of.heard[at] : 0,
            of.decay[t],
            of.kept[t],
            of.scale[t]};
}

/* Thread s goes back over column s of the gradients of ratios, and leaves them times ratio_(t-1)s
 * in share.asked.  One more thread goes back over the gradients of G_t, in share.dafter.  Steps are
 * loaded four at once, or each would wait for the store before it. */
ECO_DEVICE void gradients_of_ratios(const finish_share &share, bool reads)
{
    enum { LOADED = 4 };
    const int s = (int)threadIdx.x, least = s < STEPS ? s : -1;
    float d = s < STEPS ? dot_at(share, DOT_KEY, s) : 0;
    for (int w = 0; s == STEPS && w < CHUNK_THREADS / WARP; w++)
        d += share.all[w];
    for (int end = STEPS; s <= STEPS && end > least + 1; end -= LOADED) {
        ratio_step step[LOADED];
#pragma unroll
        for (int i = 0; i < LOADED; i++)
            step[i] = ratio_step_of(share, s, end - 1 - i, reads);
#pragma unroll
        for (int i = 0; i < LOADED; i++) {
            const int t = end - 1 - i;
            if (t <= least)
                break;
            d += step[i].asked;
            if (s == STEPS)
                share.dafter[t] = d;
            else
                share.asked[t * PAIR_ROW + s] = d * step[i].before;
            d = step[i].kept * fmaf(step[i].decay, d, step[i].scale * step[i].heard);
        }
    }
}

/* The gradients of gates and scales: a step by a warp. */
ECO_DEVICE bool store_numbers(const call_t &call, const chunk_place &chunk,
                              const finish_share &share)
{
    const int lane = (int)threadIdx.x % WARP;
    bool large = false;
    for (int t = (int)threadIdx.x / WARP; t < STEPS; t += CHUNK_THREADS / WARP) {
        float dgate = 0, dscale = 0;
        for (int s = lane; s < t; s += WARP) {
            const int at = t * PAIR_ROW + s;
            dgate += share.asked[at];
            dscale = fmaf(share.pairs.heard[at], share.heard[at], dscale);
        }
        if (!takes_part(call, chunk, t))
            continue;
        const float before = share.number[BEFORE * STEPS + t];
        if (has_term(call, ECO_GPU_MATRIX_DECAY)) {
            dgate = fmaf(before, share.dafter[t], lanes_sum(dgate));
            large = large || is_large(dgate);
            if (lane == 0)
                *gradient_at(call, chunk, ECO_GPU_MATRIX_DECAY, t) = dgate;
        }
        if (has_term(call, ECO_GPU_MATRIX_SCALE)) {
            dscale = fmaf(before, dot_at(share, DOT_READ, t), lanes_sum(dscale));
            large = large || is_large(dscale);
            if (lane == 0)
                *gradient_at(call, chunk, ECO_GPU_MATRIX_SCALE, t) = dscale;
        }
    }
    return large;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The gradients of q, and of k without those of pairs with b. */
template <int KEYS, int COUNT>
ECO_DEVICE bool finish_asked(const call_t &call, const chunk_place &chunk,
                             const finish_share &share, sums_of_gradients<KEYS> &sum)
{
    const pairs_share &of = share.pairs;
    const warp_tiles at = tiles_of_warp();
    const int column = key_column<KEYS>();
    dot_rows<COUNT>(share, DOT_QUERY, sum.dquery, of.query, column);
    dot_rows<COUNT>(share, DOT_KEY, sum.dkey, of.key, column);
    weigh_pairs<KEYS, COUNT>(share, sum.dasked, of.query, {of.asked, nullptr, share.asked});
    __syncthreads();
    scale_steps(sum.dquery, at.row, share.number + AFTER * STEPS);
    add_weighed<COUNT, false>(share, sum.dquery, of.key, column);
    scale_steps(sum.dkey, at.row, share.number + TO_END * STEPS);
    add_weighed<COUNT, true>(share, sum.dkey, of.query, column);
    __syncthreads();
    return store_keys(call, chunk, ECO_GPU_MATRIX_QUERY, sum.dquery, column);
}

/* The gradients of b, and those of k that come from it. */
template <int KEYS, int COUNT>
ECO_DEVICE bool finish_heard(const call_t &call, const chunk_place &chunk,
                             const finish_share &share, sums_of_gradients<KEYS> &sum)
{
    const pairs_share &of = share.pairs;
    const warp_tiles at = tiles_of_warp();
    const int column = key_column<KEYS>();
    if (!call.same_key) {
        load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_READ, false, chunk, of.read);
        cp_async_wait_all();
        __syncthreads();
    }
    __syncwarp();
    dot_rows<COUNT>(share, DOT_READ, sum.dread, of.read, column);
    weigh_pairs<KEYS, COUNT>(share, sum.dheard, of.read, {of.heard, of.scale, share.heard});
    __syncthreads();
    scale_steps(sum.dread, at.row, of.scale);
    scale_steps(sum.dread, at.row, share.number + BEFORE * STEPS);
    add_weighed<COUNT, false>(share, sum.dread, of.key, column);
    add_weighed<COUNT, true>(share, sum.dkey, of.read, column);
    return store_keys(call, chunk, ECO_GPU_MATRIX_READ, sum.dread, column);
}

template <int KEYS, int COUNT>
ECO_DEVICE bool finish_chunk(const call_t &call, const chunk_place &chunk,
                             sums_of_gradients<KEYS> &sum)
{
    const finish_share share = finish_share_of<KEYS, COUNT>(call);
    const bool reads = has_term(call, ECO_GPU_MATRIX_READ);
    const int t = (int)threadIdx.x;
    bool large = false;
    load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_QUERY, false, chunk, share.pairs.query);
    load_key_planes<COUNT, KEYS>(call, ECO_GPU_MATRIX_KEY, false, chunk, share.pairs.key);
    load_numbers(call, chunk, share.pairs, false);
    sum.all[0] = lanes_sum(sum.all[0]);
    if (t % WARP == 0)
        share.all[t / WARP] = sum.all[0];
    cp_async_wait_all();
    __syncthreads();
    ratios(call, chunk, share.pairs, true);
    __syncthreads();
    large |= finish_asked<KEYS, COUNT>(call, chunk, share, sum);
    if (reads)
        large |= finish_heard<KEYS, COUNT>(call, chunk, share, sum);
    large |= store_keys(call, chunk, ECO_GPU_MATRIX_KEY, sum.dkey, key_column<KEYS>());
    __syncthreads();
    gradients_of_ratios(share, reads);
    __syncthreads();
    return large | store_numbers(call, chunk, share);
}

#endif /* ECO_GPU_MATRIX_CHUNK_FINISH_CUH */
