/*
 * Steps back over S.  A thread has a row of 32 columns in registers, so gradients of keys are its
 * own; those of values are summed over all threads.  A block goes through the chunks of the slab
 * from the last to the first: forward from the state that was kept before the chunk, leaving S
 * after each step in memory, then back.
 *
 *     G += q dout^T    dq = S' dout    dk = G d    dd = G^T k    da = G u    du = scale dd + G^T a
 *     dw = rows of S * G    db = S du    G <- w G + b du^T
 */
#ifndef ECO_GPU_MATRIX_BACKWARD_CUH
#define ECO_GPU_MATRIX_BACKWARD_CUH

#include "gpu/matrix/forward.cuh"

/* What a block shares: sums of warps, two at a time, and columns of a step. */
struct block_sums {
    real *sum[2];            /* [warps,COLUMNS] */
    real *d, *dout, *u, *du; /* [COLUMNS]; du of each warp [warps,COLUMNS] */
    real *decay;             /* [warps] */
};

ECO_DEVICE block_sums block_sums_of(const place_in_state &at)
{
    block_sums share;
    share.sum[0] = (real *)shared_bytes;
    share.sum[1] = share.sum[0] + at.warps * COLUMNS;
    share.du = share.sum[1] + at.warps * COLUMNS;
    share.d = share.du + at.warps * COLUMNS;
    share.dout = share.d + COLUMNS;
    share.u = share.dout + COLUMNS;
    share.decay = share.u + COLUMNS;
    return share;
}

/* A row of 32 columns of a matrix [K,V]; NULL: of `missing`. */
ECO_DEVICE void load_row(const call_t &call, const place_in_state &at, real S[COLUMNS],
                         const real *from, bool adds, real missing)
{
    const int32_t i = (int32_t)threadIdx.x;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int32_t column = at.b * COLUMNS + c;
        const real x = i >= call.K || column >= call.V ? 0
                       : from == nullptr               ? missing
                                                       : from[(size_t)i * call.V + column];
        S[c] = adds ? S[c] + x : x;
    }
}

/* Stores a row, or adds it to what is there. */
ECO_DEVICE void store_row(const call_t &call, const place_in_state &at, const real S[COLUMNS],
                          real *to, bool adds)
{
    const int32_t i = (int32_t)threadIdx.x;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int32_t column = at.b * COLUMNS + c;
        real *x = to + (size_t)i * call.V + column;
        if (to != nullptr && i < call.K && column < call.V)
            *x = adds ? *x + S[c] : S[c];
    }
}

/* S after a step of the chunk, in the block's room. */
ECO_DEVICE real *room_at(const call_t &call, int32_t place, int c)
{
    const size_t step = (size_t)blockIdx.x * call.chunk + place % call.chunk;
    return (real *)call.room + (step * COLUMNS + c) * blockDim.x + threadIdx.x;
}

/* u of a step of the chunk. */
ECO_DEVICE real *room_u_at(const call_t &call, const place_in_state &at, int32_t place)
{
    const size_t step = (size_t)blockIdx.x * call.chunk + place % call.chunk;
    return (real *)call.room_u + step * COLUMNS + at.lane;
}

/* The thread's number of a key of a step; a number is the same for all rows. */
ECO_DEVICE real own_number(const call_t &call, const place_in_state &at, int k, int32_t place,
                           real missing)
{
    const bool wide = call.term[k].width > 1 || call.K == 1;
    if (!has_term(call, k))
        return missing;
    return (int32_t)threadIdx.x < call.K
               ? term_at(call, k, at.n, at.h, place, wide ? (int32_t)threadIdx.x : 0)
               : 0;
}

/* The column of a value of a step. */
ECO_DEVICE real own_value(const call_t &call, const place_in_state &at, int32_t place)
{
    return at.inside ? term_at(call, ECO_GPU_MATRIX_VALUE, at.n, at.h, place, at.column) : 0;
}

ECO_DEVICE real *whole_at(const call_t &call, const place_in_state &at, const void *array)
{
    return real_at(array, head_of(call, at.n, at.h), matrix_numbers(call));
}

/* The gradient of S after the slab, where chunks_backward left it. */
ECO_DEVICE real *after_chunks(const call_t &call, const place_in_state &at)
{
    const size_t chunks = (size_t)(call.steps + call.chunk - 1) / call.chunk;
    return real_at(call.chunk_gradients, (head_of(call, at.n, at.h) + 1) * chunks - 1,
                   matrix_numbers(call));
}

/* Did chunks give up on a head?  The same for all threads of a block. */
ECO_DEVICE bool head_retries(const call_t &call, int32_t n, int32_t h)
{
    enum { WIDE = ECO_GPU_MATRIX_CHUNK_COLUMNS };
    const int32_t blocks = (call.V + WIDE - 1) / WIDE;
    const int32_t *retries = call.retries + head_of(call, n, h) * blocks;
    bool any = false;
    for (int32_t b = (int32_t)threadIdx.x; b < blocks; b += (int32_t)blockDim.x)
        any = any || retries[b] != 0;
    return __syncthreads_or(any) != 0;
}

/* ---- the chunk again ------------------------------------------------------------------------- */

/* S' of a step; u of the block's columns is left in share.u and in the room. */
template <int READ>
ECO_DEVICE void step_again(const call_t &call, const place_in_state &at, const block_sums &share,
                           int32_t place, real S[COLUMNS])
{
    const real b = READ != READS_NOT ? own_number(call, at, ECO_GPU_MATRIX_READ, place, 0) : 0,
               k = own_number(call, at, ECO_GPU_MATRIX_KEY, place, 0),
               w = own_number(call, at, ECO_GPU_MATRIX_DECAY, place, 1),
               a = READ == READS_OTHER ? own_number(call, at, ECO_GPU_MATRIX_OTHER, place, 0) : 0;
    real u = 0;
    if (READ != READS_NOT) {
        real x[COLUMNS];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            x[c] = b * S[c];
        share.sum[0][at.warp * COLUMNS + at.lane] = sum_by_exchange(x, at.lane);
        __syncthreads();
        u = warps_sum(share.sum[0], at);
    }
    if (at.warp == 0) {
        real d = own_value(call, at, place);
        if (READ != READS_NOT && has_term(call, ECO_GPU_MATRIX_SCALE))
            d = fused(term_at(call, ECO_GPU_MATRIX_SCALE, at.n, at.h, place, 0), u, d);
        share.d[at.lane] = d;
        share.u[at.lane] = u;
        *room_u_at(call, at, place) = u;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        S[c] = fused(k, share.d[c], w * S[c]);
        if (READ == READS_OTHER)
            S[c] = fused(a, share.u[c], S[c]);
        *room_at(call, place, c) = S[c];
    }
    __syncthreads();
}

/* ---- back ------------------------------------------------------------------------------------ */

/* Adds the caller's gradients of S after a step, and after those that repeat it. */
ECO_DEVICE void add_dstates(const call_t &call, const place_in_state &at, int32_t place,
                            real G[COLUMNS])
{
    const void *array = call.args.dstates[call.matrix];
    if (array == nullptr)
        return;
    const int32_t end = next_counted(call, at.n, place + 1);
    for (int32_t p = place; p < end; p++)
        if (p == place || repeats(call, at.n, p))
            load_row(
                call, at, G,
                real_at(array, head_of(call, mark_of(call, at.n, p), at.h), matrix_numbers(call)),
                true, 0);
}

/* A number of a term's gradient, of this block of columns: in a sum of its own, or added to that of
 * the blocks before, which are the same threads'. */
ECO_DEVICE void store_gradient(const call_t &call, const place_in_state &at, int k, int32_t place,
                               int32_t j, real value)
{
    const struct eco_gpu_matrix_source &term = call.term[k];
    const size_t slots = (size_t)call.steps * call.args.N * call.heads,
                 slot = at.b % call.partials * slots + slot_of(call, at.n, at.h, place);
    if (term.node < 0 || j >= term.width)
        return;
    real *to = real_at(call.dterm[k], slot, term.width) + j;
    *to = at.b >= call.partials ? *to + value : value;
}

/* Gradients of a column's d and u. */
struct downs {
    real dd, du;
};

/* Enters the step from its end: G with the gradient of o; the gradients of q, k and a, and, in each
 * warp, lane c's dd, and du without what d gives it. */
template <int READ>
ECO_DEVICE downs enter_back(const call_t &call, const place_in_state &at, const block_sums &share,
                            int32_t place, const real S[COLUMNS], real G[COLUMNS])
{
    const int32_t i = (int32_t)threadIdx.x;
    const real q = own_number(call, at, ECO_GPU_MATRIX_QUERY, place, 0),
               k = own_number(call, at, ECO_GPU_MATRIX_KEY, place, 0);
    real dq = 0, dk = 0, da = 0, x[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        G[c] = fused(q, share.dout[c], G[c]);
        dq = fused(S[c], share.dout[c], dq);
        dk = fused(G[c], share.d[c], dk);
        x[c] = k * G[c];
    }
    store_gradient(call, at, ECO_GPU_MATRIX_QUERY, place, i, dq);
    store_gradient(call, at, ECO_GPU_MATRIX_KEY, place, i, dk);
    share.sum[0][at.warp * COLUMNS + at.lane] = sum_by_exchange(x, at.lane);
    if (READ == READS_OTHER) {
        const real a = own_number(call, at, ECO_GPU_MATRIX_OTHER, place, 0);
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            da = fused(G[c], share.u[c], da);
            x[c] = a * G[c];
        }
        store_gradient(call, at, ECO_GPU_MATRIX_OTHER, place, i, da);
        share.sum[1][at.warp * COLUMNS + at.lane] = sum_by_exchange(x, at.lane);
    }
    __syncthreads();
    return {warps_sum(share.sum[0], at), READ == READS_OTHER ? warps_sum(share.sum[1], at) : 0};
}

/* Leaves the step: the gradients of w and b, and G before it. */
template <bool BY_ROW, int READ>
ECO_DEVICE void leave_back(const call_t &call, const place_in_state &at, const block_sums &share,
                           int32_t place, const real S[COLUMNS], real G[COLUMNS])
{
    const int32_t i = (int32_t)threadIdx.x;
    const bool decays = has_term(call, ECO_GPU_MATRIX_DECAY);
    const real w = own_number(call, at, ECO_GPU_MATRIX_DECAY, place, 1),
               b = READ != READS_NOT ? own_number(call, at, ECO_GPU_MATRIX_READ, place, 0) : 0,
               *du = share.du + at.warp * COLUMNS;
    real dw = 0, db = 0;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        dw = fused(S[c], G[c], dw);
        G[c] = w * G[c];
        if (READ != READS_NOT) {
            db = fused(S[c], du[c], db);
            G[c] = fused(b, du[c], G[c]);
        }
    }
    if (READ != READS_NOT)
        store_gradient(call, at, ECO_GPU_MATRIX_READ, place, i, db);
    if (BY_ROW)
        store_gradient(call, at, ECO_GPU_MATRIX_DECAY, place, i, dw);
    if (BY_ROW || !decays)
        return;
    dw = lanes_sum(dw);
    if (at.lane == 0)
        share.decay[at.warp] = dw;
    __syncthreads();
    real all = 0;
    for (int v = 0; i == 0 && v < at.warps; v++)
        all += share.decay[v];
    if (i == 0)
        store_gradient(call, at, ECO_GPU_MATRIX_DECAY, place, 0, all);
}

/* One step back; S is that after it, then that before it. */
template <bool BY_ROW, int READ>
ECO_DEVICE void step_back(const call_t &call, const place_in_state &at, const block_sums &share,
                          int32_t place, real S[COLUMNS], real G[COLUMNS])
{
    const int s = call.matrix;
    const int32_t least = place / call.chunk * call.chunk,
                  before = last_counted(call, at.n, place, least);
    const bool reset = begins_again(call, at.n, place);
    const bool scales = READ != READS_NOT && has_term(call, ECO_GPU_MATRIX_SCALE);
    const real scale = scales ? term_at(call, ECO_GPU_MATRIX_SCALE, at.n, at.h, place, 0) : 0;
    add_dstates(call, at, place, G);
    if (at.warp == 0) {
        const real u = *room_u_at(call, at, place), v = own_value(call, at, place);
        share.u[at.lane] = u;
        share.d[at.lane] = scales ? fused(scale, u, v) : v;
        share.dout[at.lane] =
            at.inside ? real_at(call.dout, slot_of(call, at.n, at.h, place), call.V)[at.column] : 0;
    }
    __syncthreads();
    const downs down = enter_back<READ>(call, at, share, place, S, G);
    share.du[at.warp * COLUMNS + at.lane] = fused(scale, down.dd, down.du);
    if (at.warp == 0) {
        if (at.inside)
            real_at(call.dvalue, slot_of(call, at.n, at.h, place), call.V)[at.column] = down.dd;
        const real dscale = lanes_sum(share.u[at.lane] * down.dd);
        if (scales && at.lane == 0)
            store_gradient(call, at, ECO_GPU_MATRIX_SCALE, place, 0, dscale);
    }
    __syncwarp();
    if (reset)
        load_row(call, at, S, whole_at(call, at, start_state(call, s)), false, (real)call.start[s]);
    else if (before < least)
        load_row(call, at, S, kept_at(call, at.n, at.h, place), false, 0);
    else
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            S[c] = *room_at(call, before, c);
    leave_back<BY_ROW, READ>(call, at, share, place, S, G);
    if (reset) {
        store_row(call, at, G, whole_at(call, at, start_gradient(call, s)), true);
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            G[c] = 0;
        if (before >= least)
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                S[c] = *room_at(call, before, c);
    }
    __syncthreads();
}

/* All steps of a chunk: forward, then back. */
template <bool BY_ROW, int READ>
ECO_DEVICE void chunk_back(const call_t &call, const place_in_state &at, const block_sums &share,
                           int32_t first, real G[COLUMNS])
{
    const int32_t end = first + call.chunk < call.args.T ? first + call.chunk : call.args.T;
    real S[COLUMNS];
    load_row(call, at, S, kept_at(call, at.n, at.h, first), false, 0);
    for (int32_t place = first; place < end; place++) {
        if (!is_counted(call, at.n, place))
            continue;
        if (begins_again(call, at.n, place))
            load_row(call, at, S, whole_at(call, at, start_state(call, call.matrix)), false,
                     (real)call.start[call.matrix]);
        step_again<READ>(call, at, share, place, S);
    }
    for (int32_t place = end - 1; place >= first; place--)
        if (is_counted(call, at.n, place))
            step_back<BY_ROW, READ>(call, at, share, place, S, G);
}

/* All steps of the slab, for the columns of a block. */
template <bool BY_ROW, int READ>
ECO_DEVICE void slab_back(const call_t &call, const place_in_state &at)
{
    const int s = call.matrix;
    const bool last = call.first + call.steps == call.args.T;
    const int32_t end = (call.first + call.steps - 1) / call.chunk * call.chunk;
    const block_sums share = block_sums_of(at);
    real G[COLUMNS];
    load_row(call, at, G,
             call.retry ? after_chunks(call, at)
                        : whole_at(call, at, last ? final_gradient(call, s) : call.dcarried[s]),
             false, 0);
    for (int32_t chunk = end; chunk >= call.first; chunk -= call.chunk)
        chunk_back<BY_ROW, READ>(call, at, share, chunk, G);
    store_row(call, at, G,
              whole_at(call, at, call.first == 0 ? initial_gradient(call, s) : call.dcarried[s]),
              false);
    __syncthreads();
}

template <bool BY_ROW, int READ>
static __global__ void __launch_bounds__(ECO_GPU_MATRIX_WARPS *ROWS)
    steps_backward(const __grid_constant__ call_t call)
{
    const int64_t jobs = (int64_t)call.args.N * call.heads * call.partials;
    for (int64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
        const int64_t head = job / call.partials;
        place_in_state at = place_of(call, (int32_t)head * call.blocks);
        if (call.retry && !head_retries(call, at.n, at.h))
            continue;
        for (int32_t b = (int32_t)(job % call.partials); b < call.blocks; b += call.partials) {
            at = place_of(call, (int32_t)head * call.blocks + b);
            slab_back<BY_ROW, READ>(call, at);
        }
    }
}

#endif /* ECO_GPU_MATRIX_BACKWARD_CUH */
