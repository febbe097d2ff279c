/*
 * The gradients of keys, and of gates of rows of S, when all columns are summed up
 * (chunk_gradients.cuh).  What follows is of one row of S; ratio_ts = G_t / G_s is the product of
 * its gates after s up to t.  The loss has a term for each pair of a key and a step that reads,
 *
 *     (dasked_ts q_t ratio_ts + dheard_ts scale_t b_t ratio_(t-1)s) k_s
 *
 * and likewise for S before the chunk, a key of 1 whose gradients of pairs are dq0_t and db0_t, and
 * for G after it, of which a key has dk0_s.  The gradient of a gate sums the terms in whose ratio
 * it is, without that gate; to divide by it would fail at 0.
 *
 * So the chunk is halved, into blocks of 32 and of 16 steps.  X_t is the gradient of a query by
 * what was in the row before its block, as it was there; Y_s that of a key by what reads after its
 * block, as at its end; T sums the terms of what was before and what reads after, without the
 * block's gates. Of the chunk they are dq0_t, dk0_s, and the product of S and G.  With m the middle
 * of a block, h and i its halves, those of halves are
 *
 *     X_t in i: G_h X_t + sum of dasked_ts ratio_ms k_s     T of i: G_h T + sum of Y_s ratio_ms k_s
 *     Y_s in h: G_i Y_s + sum of dasked_ts ratio_tm q_t     T of h: G_i T + sum of X_t ratio_tm q_t
 *
 * (likewise of b), where sums over pairs are products of matrices, with the ratios of gates.cuh.
 * Over 16 steps a thread takes a row: S and each key go forward, and what reads goes back to them.
 */
#ifndef ECO_GPU_MATRIX_GATE_GRADIENTS_CUH
#define ECO_GPU_MATRIX_GATE_GRADIENTS_CUH

#include "gpu/matrix/chunk_finish.cuh"
#include "gpu/matrix/gates.cuh"

enum { GATE_TILES = STEPS / FRAGMENT };

/* Gates, rows and halves are where gates.cuh has them; of.pairs.kept is times the scale. */
template <int KEYS> struct gate_share {
    enum {
        MET_ROW = KEYS + GROUP_SIZE,
        MET = STEPS / 2 * MET_ROW,
        NEAR = GATE_TILES * FRAGMENT * FRAGMENT,
        PRODUCTS = 2 * GATE_TILES * KEYS, /* in parts: of the gates of tiles [GATE_TILES,KEYS] */
        ALL = 3 * GATE_TILES * KEYS,      /* T of the chunk, in two parts [2,KEYS] */
        DOT = ALL + 2 * KEYS,             /* gradients of scales, by warps [KEYS/WARP,STEPS] */
        KEPT = DOT + KEYS / WARP * STEPS  /* 0 at a reset, else 1 [STEPS] */
    };
    gates_share of;
    unsigned char *lower; /* gradients of asked and of heard [2,LOWER_BYTES] */
    float *near;          /* those within 16 steps, turned [2,GATE_TILES,FRAGMENT,FRAGMENT] */
    float *parts;         /* of T, by tiles, of 32 and of 16 steps [2,GATE_TILES,KEYS] */
    float *met; /* X of queries, Y, and X of reads of half the steps [3,STEPS/2,MET_ROW] */
    bool others, second;
};

template <int KEYS> ECO_DEVICE gate_share<KEYS> gate_share_of(const call_t &call)
{
    const struct eco_gpu_matrix_gates_room room =
        eco_gpu_matrix_gates_room(shape_of<KEYS, PLANES>(call));
    gate_share<KEYS> share;
    static_assert(2 * share.NEAR + share.KEPT + STEPS == ECO_GPU_MATRIX_GATE_FLOATS(KEYS), "room");
    share.of = gates_share_of<KEYS>(call);
    share.lower = shared_bytes + room.asked;
    share.near = floats_at(room.bytes);
    share.parts = share.near + 2 * share.NEAR;
    share.met = floats_at(room.halves);
    share.others = has_term(call, ECO_GPU_MATRIX_OTHER);
    share.second = share.others && call.of_other;
    return share;
}

/* The gradients of pairs: fragments of the triangle, and, turned, the blocks on its diagonal. */
template <int KEYS>
ECO_DEVICE void store_pairs(const gate_share<KEYS> &share, const planes_sums<2, 2> &d, int which)
{
    const warp_tiles at = tiles_of_warp();
    const int k = at.column / FRAGMENT;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        split_pair part[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            part[e] = split(d.at[i][e / 2][e % 2 * 2], d.at[i][e / 2][e % 2 * 2 + 1]);
#pragma unroll
        for (int p = 0; p < PLANES && k < at.tile[i]; p++)
            *lower_at(share.lower + which * LOWER_BYTES, at.tile[i], k, p) =
                make_uint4(part[0].plane[p], part[1].plane[p], part[2].plane[p], part[3].plane[p]);
#pragma unroll
        for (int e = 0; e < 8 && k == at.tile[i]; e++) {
            const int t = at.lane_row + e / 2 % 2 * 8,
                      s = at.lane_column + e / 4 * GROUP_SIZE + e % 2;
            share.near[which * share.NEAR + (k * FRAGMENT + s) * FRAGMENT + t] =
                t >= s ? d.at[i][e / 4][e % 4] : 0;
        }
    }
}

/* T of the chunk, and the products of gates of tiles. */
template <int KEYS>
ECO_DEVICE void store_gate_sums(const gate_share<KEYS> &share,
                                const sums_of_gradients<KEYS, true> &sum)
{
    chunk_block<KEYS> own;
    const int lane = (int)threadIdx.x % WARP, half = (int)threadIdx.x / WARP >> 2;
    place_state_warp(own);
#pragma unroll
    for (int i = 0; i < sum.PARTS; i++) {
        float all = sum.all[i];
        all += __shfl_xor_sync(~0u, all, 1);
        all += __shfl_xor_sync(~0u, all, 2);
        if (lane % 4 == 0)
            share.parts[share.ALL + half * KEYS + own.row[i / 2] + lane / 4 + i % 2 * 8] = all;
    }
    for (int x = (int)threadIdx.x; x < GATE_TILES * KEYS; x += CHUNK_THREADS) {
        const float *gate = share.of.decay + x / KEYS * FRAGMENT * KEYS + x % KEYS;
        float product = 1;
        for (int t = 0; t < FRAGMENT; t++)
            product *= gate[t * KEYS];
        share.parts[share.PRODUCTS + x] = product;
    }
}

/* ---- halves ---------------------------------------------------------------------------------- */

/* The sums over a tile's rows of its numbers times its gated rows, which are a part of T. */
template <int KEYS, int WIDE>
ECO_DEVICE void add_part(const gate_share<KEYS> &share, const planes_sums<1, WIDE> &x, int tile,
                         float *part, bool adds)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int j = 0; j < WIDE; j++) {
        const int column = key_column<KEYS>() + j * GROUP_SIZE + lane % 4 * 2;
        float2 sum = make_float2(0, 0);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int t = tile * FRAGMENT + lane / 4 + half * 8;
            const float2 row = planes_pair<PLANES>(share.of.halves, t, column);
            sum.x = fmaf(x.at[0][j][half * 2], row.x, sum.x);
            sum.y = fmaf(x.at[0][j][half * 2 + 1], row.y, sum.y);
        }
#pragma unroll
        for (int lanes = 4; lanes < WARP; lanes *= 2) {
            sum.x += __shfl_xor_sync(~0u, sum.x, lanes);
            sum.y += __shfl_xor_sync(~0u, sum.y, lanes);
        }
        float2 *to = (float2 *)(part + column);
        if (lane < 4)
            *to = adds ? make_float2(to->x + sum.x, to->y + sum.y) : sum;
    }
}

/* X of a tile in the second half, or, TURNED, Y of one in the first, by queries or by reads. */
template <int WHICH, bool TURNED, int KEYS, int WIDE>
ECO_DEVICE void cross_tile(const gate_share<KEYS> &share, planes_sums<2, WIDE> &d, int i, int tile,
                           range other)
{
    const int rows[1] = {0}, level = other.end - other.first == 1;
    const float *const products = share.parts + share.PRODUCTS;
    planes_sums<1, WIDE> x;
    copy_sums(x, 0, d, i);
    if (!TURNED || WHICH == 0) {
        add_part(share, x, tile, share.parts + (level * GATE_TILES + tile) * KEYS, WHICH != 0);
        each_pair(x, rows, key_column<KEYS>(), [&](int, int column, float &a, float &b) {
            for (int k = other.first; k < other.end; k++)
                a *= products[k * KEYS + column], b *= products[k * KEYS + column + 1];
        });
    }
    multiply_lower<PLANES, TURNED>(x, share.lower + WHICH * LOWER_BYTES, tile, share.of.halves,
                                   key_column<KEYS>(), other);
    copy_sums(d, i, x, 0);
}

/* Pairs of the halves of blocks. */
template <int WHICH, int KEYS, int WIDE>
ECO_DEVICE void cross_halves(const gate_share<KEYS> &share, planes_sums<2, WIDE> &X,
                             planes_sums<2, WIDE> &Y, int half)
{
    const int n = half / FRAGMENT;
    gate_halves<KEYS>(share.of, WHICH == 0 ? share.of.query : share.of.read, half, WHICH != 0);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int tile = tiles_of_warp().tile[i], first = (tile / n ^ 1) * n;
        if (first < tile)
            cross_tile<WHICH, false>(share, X, i, tile, {first, first + n});
        else
            cross_tile<WHICH, true>(share, Y, i, tile, {first, first + n});
    }
    __syncthreads();
}

/* ---- 16 steps -------------------------------------------------------------------------------- */

/* Numbers of the steps of a tile, for a row of S.  b is times its scale, and 0 at a reset; db is
 * times neither. */
struct row_steps {
    float w[FRAGMENT], q[FRAGMENT], b[FRAGMENT], dw[FRAGMENT], dq[FRAGMENT], db[FRAGMENT];
};

/* Key x of step s, -1 for what was there before, goes forward, and the gradient y of it after the
 * tile goes back to s, where it is returned.  Gradients of pairs are 0 before s. */
template <bool READS>
ECO_DEVICE float follow_gates(row_steps &of, int s, float x, float y, const float dasked[FRAGMENT],
                              const float dheard[FRAGMENT])
{
    float after[FRAGMENT], dx = 0, now = s < 0 ? x : 0;
#pragma unroll
    for (int t = FRAGMENT - 1; t >= 0; t--) {
        y = fmaf(dasked[t], of.q[t], y);
        after[t] = t > s ? y : 0;
        dx = t == s ? y : dx;
        y = of.w[t] * y;
        if (READS)
            y = fmaf(dheard[t], of.b[t], y);
    }
#pragma unroll
    for (int t = 0; t < FRAGMENT; t++) {
        of.dw[t] = fmaf(now, after[t], of.dw[t]);
        if (READS)
            of.db[t] = fmaf(dheard[t], now, of.db[t]);
        now = t == s ? x : of.w[t] * now;
        of.dq[t] = fmaf(dasked[t], now, of.dq[t]);
    }
    return dx;
}

/* T of a tile. */
template <int KEYS> ECO_DEVICE float term_of_tile(const gate_share<KEYS> &share, int tile, int i)
{
    const float *part = share.parts + i, *gates = part + share.PRODUCTS, *all = part + share.ALL;
    const int other = tile < GATE_TILES / 2 ? GATE_TILES / 2 : 0, next = tile ^ 1;
    float T = all[0] + all[KEYS];
    T = fmaf(gates[other * KEYS] * gates[(other + 1) * KEYS], T,
             part[other * KEYS] + part[(other + 1) * KEYS]);
    return fmaf(gates[next * KEYS], T, part[(GATE_TILES + next) * KEYS]);
}

/* The gradients of a tile's steps, for a row: dq, dk and db replace X and Y, and dw the gate. */
template <int KEYS, bool READS>
ECO_DEVICE void go_over_tile(const gate_share<KEYS> &share, int tile, float *met)
{
    const int i = (int)threadIdx.x % KEYS, first = tile * FRAGMENT, row = first * KEYS + i;
    float X[FRAGMENT], X_read[FRAGMENT];
    row_steps of;
#pragma unroll
    for (int t = 0; t < FRAGMENT; t++) {
        of.w[t] = share.of.decay[row + t * KEYS];
        of.q[t] = share.of.query[row + t * KEYS];
        of.b[t] = READS ? share.of.pairs.kept[first + t] * share.of.read[row + t * KEYS] : 0;
        X[t] = met[t * share.MET_ROW];
        X_read[t] = READS ? met[2 * share.MET + t * share.MET_ROW] : 0;
        of.dw[t] = of.dq[t] = of.db[t] = 0;
    }
    follow_gates<READS>(of, -1, 1, term_of_tile(share, tile, i), X, X_read);
#pragma unroll 1
    for (int s = 0; s < FRAGMENT; s++) {
        const float4 *pairs = (const float4 *)(share.near + (first + s) * FRAGMENT);
        float *y = met + share.MET + s * share.MET_ROW;
#pragma unroll
        for (int t = 0; t < FRAGMENT; t += 4) {
            *(float4 *)(X + t) = pairs[t / 4];
            if (READS)
                *(float4 *)(X_read + t) = pairs[(share.NEAR + t) / 4];
        }
        *y = follow_gates<READS>(of, s, share.of.key[row + s * KEYS], *y, X, X_read);
    }
    float dscale[WARP];
#pragma unroll
    for (int t = 0; t < FRAGMENT; t++) {
        const float kept = share.parts[share.KEPT + first + t];
        share.of.decay[row + t * KEYS] = kept * of.dw[t];
        met[t * share.MET_ROW] = of.dq[t];
        if (READS)
            met[2 * share.MET + t * share.MET_ROW] = share.of.pairs.kept[first + t] * of.db[t];
        dscale[t] = READS ? kept * of.db[t] * share.of.read[row + t * KEYS] : 0;
        dscale[FRAGMENT + t] = 0;
    }
    const float sum = READS ? sum_by_exchange(dscale, i % WARP) : 0;
    if (READS && i % WARP < FRAGMENT)
        share.parts[share.DOT + i / WARP * STEPS + first + i % WARP] = sum;
}

/* Stores the gradients of a tile's steps; those of `second` add to the first. */
template <int KEYS>
ECO_DEVICE bool store_tile(const call_t &call, const chunk_place &chunk,
                           const gate_share<KEYS> &share, int tile, const float *met)
{
    const int i = (int)threadIdx.x % KEYS,
              key = share.second ? ECO_GPU_MATRIX_OTHER : ECO_GPU_MATRIX_KEY,
              term[4] = {key, ECO_GPU_MATRIX_QUERY, ECO_GPU_MATRIX_DECAY, ECO_GPU_MATRIX_READ};
    bool large = false;
#pragma unroll 2
    for (int t = tile * FRAGMENT; t < (tile + 1) * FRAGMENT; t++, met += share.MET_ROW) {
        const float x[4] = {met[share.MET], met[0], share.of.decay[t * KEYS + i],
                            share.of.reads ? met[2 * share.MET] : 0};
        if (i >= call.K || (!chunk.whole && !takes_part(call, chunk, t)))
            continue;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float *const d = gradient_at(call, chunk, term[k], t) + i;
            if (!has_term(call, term[k]))
                continue;
            *d = x[k] + (k > 0 && share.second ? *d : 0);
            large = large || is_large(*d);
        }
    }
    return large;
}

/* X or Y of half the steps go from warps to the threads that have their rows of S. */
template <int KEYS, int WIDE>
ECO_DEVICE void exchange(const gate_share<KEYS> &share, int which, const planes_sums<2, WIDE> &d,
                         int half)
{
    const warp_tiles at = tiles_of_warp();
    const int rows[1] = {(half == 0 ? at.row[0] : at.row[1]) % (STEPS / 2)};
    planes_sums<1, WIDE> x;
    copy_sums(x, 0, d, 0);
    if (half > 0)
        copy_sums(x, 0, d, 1);
    each_pair(x, rows, key_column<KEYS>(), [&](int row, int column, float &a, float &b) {
        *(float2 *)(share.met + which * share.MET + row * share.MET_ROW + column) = {a, b};
    });
}

template <int KEYS>
ECO_DEVICE bool finish_gated_chunk(const call_t &call, const chunk_place &chunk,
                                   sums_of_gradients<KEYS, true> &sum)
{
    const gate_share<KEYS> share = gate_share_of<KEYS>(call);
    const bool reads = share.of.reads, scales = has_term(call, ECO_GPU_MATRIX_SCALE);
    const int t = (int)threadIdx.x, part = t / KEYS;
    store_pairs(share, sum.dasked, 0);
    if (reads)
        store_pairs(share, sum.dheard, 1);
    bool large = load_gated_rows<KEYS>(call, chunk, share.of,
                                       share.second ? ECO_GPU_MATRIX_OTHER : ECO_GPU_MATRIX_KEY);
    if (t < STEPS)
        share.parts[share.KEPT + t] = share.of.pairs.kept[t];
    if (t < STEPS && scales)
        share.of.pairs.kept[t] *= share.of.pairs.scale[t];
    store_gate_sums(share, sum);
#pragma unroll 1
    for (int half = STEPS / 2; half >= FRAGMENT; half /= 2) {
        cross_halves<0>(share, sum.dquery, sum.dkey, half);
        if (reads)
            cross_halves<1>(share, sum.dread, sum.dkey, half);
    }
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
        const int tile = half * GATE_TILES / 2 + part;
        float *const met = share.met + part * FRAGMENT * share.MET_ROW + t % KEYS;
        exchange(share, 0, sum.dquery, half);
        exchange(share, 1, sum.dkey, half);
        if (reads)
            exchange(share, 2, sum.dread, half);
        __syncthreads();
        if (part < GATE_TILES / 2 && reads)
            go_over_tile<KEYS, true>(share, tile, met);
        else if (part < GATE_TILES / 2)
            go_over_tile<KEYS, false>(share, tile, met);
        if (part < GATE_TILES / 2)
            large |= store_tile(call, chunk, share, tile, met);
        __syncthreads();
    }
    if (!scales || t >= STEPS || !takes_part(call, chunk, t))
        return large;
    float dscale = 0;
    for (int k = 0; k < KEYS / WARP; k++)
        dscale += share.parts[share.DOT + k * STEPS + t];
    *gradient_at(call, chunk, ECO_GPU_MATRIX_SCALE, t) = dscale;
    return large || is_large(dscale);
}

#endif /* ECO_GPU_MATRIX_GATE_GRADIENTS_CUH */
