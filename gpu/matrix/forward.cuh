/*
 * Steps forward over S.  A block has 32 columns of a head, a lane each; its warps divide the rows
 * and have them in registers, so S is read and written once a run.  Values of some steps are loaded
 * into shared memory at once.  A step waits twice: for the sums u of all warps, and for o.
 */
#ifndef ECO_GPU_MATRIX_FORWARD_CUH
#define ECO_GPU_MATRIX_FORWARD_CUH

#include "gpu/matrix/values.cuh"

enum { ROWS = ECO_GPU_MATRIX_ROW_BYTES / sizeof(real), COLUMNS = ECO_GPU_MATRIX_COLUMNS };
enum reads { READS_NOT, READS, READS_OTHER }; /* no u; u in d; in a u^T, too */

/* A block's columns of a head, and its thread's. */
struct place_in_state {
    int32_t n, h, b, column; /* of S */
    int32_t lane, warp, warps;
    bool inside; /* column < V */
};

ECO_DEVICE place_in_state place_of(const call_t &call, int32_t job)
{
    place_in_state at;
    const uint32_t rest = (uint32_t)job / (uint32_t)call.blocks;
    at.b = (int32_t)((uint32_t)job % (uint32_t)call.blocks);
    at.h = (int32_t)(rest % (uint32_t)call.heads);
    at.n = (int32_t)(rest / (uint32_t)call.heads);
    at.lane = (int32_t)threadIdx.x % WARP;
    at.warp = (int32_t)threadIdx.x / WARP;
    at.warps = (int32_t)blockDim.x / WARP;
    at.column = at.b * COLUMNS + at.lane;
    at.inside = at.column < call.V;
    return at;
}

/* Number j of a term of a step. */
ECO_DEVICE real term_at(const call_t &call, int k, int32_t n, int32_t h, int32_t place, int32_t j)
{
    const struct eco_gpu_matrix_source &term = call.term[k];
    if (term.slots != nullptr)
        return real_at(term.slots, slot_of(call, n, h, place), term.width)[j];
    const real x = to_real(head_row(term.rows, caller_row(call, n, place), h, term.width)[j]);
    return term.times != nullptr ? *real_at(term.times, slot_of(call, n, h, place), 1) * x : x;
}

ECO_DEVICE bool has_term(const call_t &call, int k)
{
    return call.term[k].node >= 0;
}

/* ---- values of some steps -------------------------------------------------------------------- */

/* Values of steps in shared memory: [tile,rows] and [tile,COLUMNS]; rows are those of all warps. */
struct loaded_steps {
    real *key, *query, *read, *other, *decay, *value, *scale, *sum, *out;
    unsigned char *counted, *reset;
    int32_t rows, first, steps; /* places of its steps */
};

ECO_DEVICE loaded_steps loaded_of(const call_t &call, const place_in_state &at, real *first)
{
    loaded_steps t;
    const int32_t rows = at.warps * ROWS, side = rows * call.tile;
    t.rows = rows;
    t.key = first;
    t.query = t.key + side;
    t.read = t.query + side;
    t.other = t.read + (has_term(call, ECO_GPU_MATRIX_READ) ? side : 0);
    t.decay = t.other + (has_term(call, ECO_GPU_MATRIX_OTHER) ? side : 0);
    t.value = t.decay + (has_term(call, ECO_GPU_MATRIX_DECAY) ? side : 0);
    t.scale = t.value + call.tile * COLUMNS;
    t.sum = t.scale + call.tile;
    t.out = t.sum + at.warps * COLUMNS;
    t.counted = (unsigned char *)(t.out + 2 * at.warps * COLUMNS);
    t.reset = t.counted + call.tile;
    return t;
}

/* Loads rows of a key; a number is repeated.  Rows past K are 0. */
ECO_DEVICE void load_key(const call_t &call, const place_in_state &at, const loaded_steps &tile,
                         real *to, int k)
{
    if (!has_term(call, k))
        return;
    const bool wide = call.term[k].width > 1 || call.K == 1;
    for (int32_t j = (int32_t)threadIdx.x; j < tile.steps * tile.rows; j += (int32_t)blockDim.x) {
        const int32_t t = j / tile.rows, i = j % tile.rows;
        to[j] = i < call.K && tile.counted[t]
                    ? term_at(call, k, at.n, at.h, tile.first + t, wide ? i : 0)
                    : 0;
    }
}

ECO_DEVICE void load_tile(const call_t &call, const place_in_state &at, const loaded_steps &tile)
{
    __syncthreads();
    if ((int32_t)threadIdx.x < tile.steps) {
        const int32_t p = tile.first + (int32_t)threadIdx.x;
        tile.counted[threadIdx.x] = is_counted(call, at.n, p);
        tile.reset[threadIdx.x] = begins_again(call, at.n, p);
    }
    __syncthreads();
    load_key(call, at, tile, tile.key, ECO_GPU_MATRIX_KEY);
    load_key(call, at, tile, tile.query, ECO_GPU_MATRIX_QUERY);
    load_key(call, at, tile, tile.read, ECO_GPU_MATRIX_READ);
    load_key(call, at, tile, tile.other, ECO_GPU_MATRIX_OTHER);
    load_key(call, at, tile, tile.decay, ECO_GPU_MATRIX_DECAY);
    for (int32_t t = at.warp; t < tile.steps; t += at.warps) {
        if (!tile.counted[t])
            continue;
        tile.value[t * COLUMNS + at.lane] =
            at.inside ? term_at(call, ECO_GPU_MATRIX_VALUE, at.n, at.h, tile.first + t, at.column)
                      : 0;
        if (at.lane == 0 && has_term(call, ECO_GPU_MATRIX_SCALE))
            tile.scale[t] = term_at(call, ECO_GPU_MATRIX_SCALE, at.n, at.h, tile.first + t, 0);
    }
    __syncthreads();
}

/* ---- S --------------------------------------------------------------------------------------- */

/* The rows of its warp that a thread has. */
ECO_DEVICE int32_t own_rows(const call_t &call, const place_in_state &at)
{
    return at.inside ? call.K - at.warp * ROWS : 0;
}

/* Calls f(r, offset) for each row that the thread has.  A thread with all ROWS needs no branch for
 * each.  One offset runs over the rows, because one for each would take more registers than S. */
template <typename F>
ECO_DEVICE void each_own_row(const call_t &call, const place_in_state &at, const F &f)
{
    const int32_t rows = own_rows(call, at);
    int32_t offset = at.warp * ROWS * call.V + at.column;
    if (rows >= ROWS) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            f(r, offset);
            offset = pinned(offset + call.V);
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (r < rows)
            f(r, offset);
        offset = pinned(offset + call.V);
    }
}

/* A matrix [K,V] of a head in the caller's or other memory; NULL: the cell's start. */
ECO_DEVICE void load_own_columns(const call_t &call, const place_in_state &at, real S[ROWS],
                                 const real *from)
{
    const int32_t rows = from == nullptr ? own_rows(call, at) : 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        S[r] = r < rows ? (real)call.start[call.matrix] : 0;
    if (from != nullptr)
        each_own_row(call, at, [&](int r, int32_t offset) { S[r] = from[offset]; });
}

ECO_DEVICE void store_own_columns(const call_t &call, const place_in_state &at, const real S[ROWS],
                                  real *to)
{
    if (to != nullptr)
        each_own_row(call, at, [&](int r, int32_t offset) { to[offset] = S[r]; });
}

ECO_DEVICE size_t matrix_numbers(const call_t &call)
{
    return (size_t)call.width[call.matrix];
}

/* S in the caller's initial or final states. */
ECO_DEVICE real *matrix_of(const call_t &call, const place_in_state &at, const void *const array[])
{
    return stream_at<real>(call, array[call.matrix], at.n, at.h, call.width[call.matrix]);
}

/* S before the chunk of a place, in the reserve. */
ECO_DEVICE real *kept_at(const call_t &call, int32_t n, int32_t h, int32_t place)
{
    return real_at(call.kept_matrix, head_of(call, n, h) * call.chunks + place / call.chunk,
                   matrix_numbers(call));
}

/* The sum of what warps have stored, in their order. */
ECO_DEVICE real warps_sum(const real *sum, const place_in_state &at)
{
    real all = sum[at.lane];
    for (int w = 1; w < at.warps; w++)
        all += sum[w * COLUMNS + at.lane];
    return all;
}

/* Did chunks give up on the block's columns? */
ECO_DEVICE bool retries_at(const call_t &call, const place_in_state &at)
{
    enum { BLOCKS = ECO_GPU_MATRIX_CHUNK_COLUMNS / COLUMNS };
    const size_t blocks = ((size_t)call.blocks + BLOCKS - 1) / BLOCKS;
    return call.retries[head_of(call, at.n, at.h) * blocks + at.b / BLOCKS] != 0;
}

/* Lane c gets the sum of column c over the lanes: in each exchange a lane gives half of its columns
 * away.  In a loop over halves, columns would be in local memory. */
template <int HALF = WARP / 2> ECO_DEVICE real sum_by_exchange(real x[COLUMNS], int32_t lane)
{
    const bool upper = (lane & HALF) != 0;
#pragma unroll
    for (int c = 0; c < HALF; c++) {
        const real given = upper ? x[c] : x[c + HALF], kept = upper ? x[c + HALF] : x[c];
        x[c] = kept + __shfl_xor_sync(~0u, given, HALF);
    }
    if constexpr (HALF > 1)
        return sum_by_exchange<HALF / 2>(x, lane);
    return x[0];
}

/* Rows of a warp begin at multiples of 16 bytes, so four numbers are one load. */
ECO_DEVICE const real *rows_of_16_bytes(const real *rows)
{
    return (const real *)__builtin_assume_aligned(rows, 16);
}

/* S' of a step, and o. */
template <bool BY_ROW, int READ>
ECO_DEVICE real step_state(const call_t &call, const place_in_state &at, const loaded_steps &tile,
                           int t, real S[ROWS], bool odd)
{
    const int32_t first = t * tile.rows + at.warp * ROWS;
    const real *key = rows_of_16_bytes(tile.key + first),
               *query = rows_of_16_bytes(tile.query + first),
               *read = rows_of_16_bytes(tile.read + first),
               *other = rows_of_16_bytes(tile.other + first),
               *decay = rows_of_16_bytes(tile.decay + first);
    const bool decays = has_term(call, ECO_GPU_MATRIX_DECAY);
    const real w = decays ? decay[0] : 1;
    real u = 0, d = tile.value[t * COLUMNS + at.lane], o = 0;
    if (READ != READS_NOT) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            u = fused(read[r], S[r], u);
        tile.sum[at.warp * COLUMNS + at.lane] = u;
        __syncthreads();
        u = warps_sum(tile.sum, at);
        if (has_term(call, ECO_GPU_MATRIX_SCALE))
            d = fused(tile.scale[t], u, d);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        real x = (BY_ROW ? decay[r] : w) * S[r];
        x = fused(key[r], d, x);
        if (READ == READS_OTHER)
            x = fused(other[r], u, x);
        S[r] = x;
        o = fused(query[r], x, o);
    }
    real *out = tile.out + odd * at.warps * COLUMNS;
    out[at.warp * COLUMNS + at.lane] = o;
    __syncthreads();
    return at.warp == 0 ? warps_sum(out, at) : 0;
}

/* Stores o, or y if it is o. */
ECO_DEVICE void store_out(const call_t &call, const place_in_state &at, int32_t place, real o)
{
    if (at.warp != 0 || !at.inside)
        return;
    if (!call.direct) {
        real_at(call.o, slot_of(call, at.n, at.h, place), call.V)[at.column] = o;
        return;
    }
    narrow *to[3] = {
        narrow_at(call.args.y, head_of(call, caller_row(call, at.n, place), at.h), call.V),
        narrow_at(call.args.states[0], head_of(call, mark_of(call, at.n, place), at.h), call.V),
        call.args.final[0] != nullptr && next_counted(call, at.n, place + 1) == call.args.T
            ? stream_at<narrow>(call, call.args.final[0], at.n, at.h, call.V)
            : nullptr};
    for (int k = 0; k < 3; k++)
        if (to[k] != nullptr)
            to[k][at.column] = to_narrow(o);
}

template <bool BY_ROW, int READ>
static __global__ void __launch_bounds__(ECO_GPU_MATRIX_WARPS *WARP)
    step_forward(const __grid_constant__ call_t call)
{
    const place_in_state at = place_of(call, blockIdx.x);
    if (call.retry && !retries_at(call, at))
        return;
    loaded_steps tile = loaded_of(call, at, (real *)shared_bytes);
    const int s = call.matrix;
    const size_t numbers = matrix_numbers(call), head = head_of(call, at.n, at.h);
    const bool begins = call.first == 0, ends = call.first + call.steps == call.args.T;
    bool odd = false; /* warps that wait for no u may be a step ahead of the sum of o */
    real S[ROWS];
    load_own_columns(call, at, S,
                     call.again ? kept_at(call, at.n, at.h, call.first)
                     : begins   ? matrix_of(call, at, call.args.initial)
                                : real_at(call.carried[s], head, numbers));
    for (int32_t done = 0; done < call.steps; done += call.tile) {
        const int32_t left = call.steps - done;
        tile.first = call.first + done;
        tile.steps = left < call.tile ? left : call.tile;
        load_tile(call, at, tile);
        for (int32_t t = 0; t < tile.steps; t++) {
            const int32_t place = tile.first + t;
            if (call.training && !call.again && place % call.chunk == 0)
                store_own_columns(call, at, S, kept_at(call, at.n, at.h, place));
            if (!tile.counted[t])
                continue;
            if (tile.reset[t])
                load_own_columns(call, at, S, real_at(start_state(call, s), head, numbers));
            const real o = step_state<BY_ROW, READ>(call, at, tile, t, S, odd);
            odd = !odd;
            store_out(call, at, place, o);
            if (call.args.states[s] != nullptr)
                store_own_columns(call, at, S,
                                  real_at(call.args.states[s],
                                          head_of(call, mark_of(call, at.n, place), at.h),
                                          numbers));
        }
    }
    if (!call.again)
        store_own_columns(call, at, S,
                          ends ? matrix_of(call, at, call.args.final)
                               : real_at(call.carried[s], head, numbers));
}

#endif /* ECO_GPU_MATRIX_FORWARD_CUH */
