/*
 * Runs of one step in inference, such as ticks of streams: one kernel does all.  A block has 32
 * columns of a head.  It first asks the L2 for them; while they come, one warp computes the text's
 * values before S, and, after the step, those that follow it.  A block executes most of its code
 * once, so fetching and issuing instructions takes a large part of its time.
 *
 * If the cell has other states, which no block may store while another has yet to read them, or y a
 * sum over what was read of S', a block has all columns of the head, 32 for each of its teams of
 * warps at a time.  Sums have the order of step_forward, so where T is cut changes no bit.
 */
#ifndef ECO_GPU_MATRIX_DECODE_CUH
#define ECO_GPU_MATRIX_DECODE_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/matrix/forward.cuh"

/* Columns of S of the thread's team, of which `done` blocks are done. */
ECO_DEVICE place_in_state columns_of(const call_t &call, int32_t done)
{
    place_in_state at = place_of(call, (int32_t)blockIdx.x * (call.one_block ? call.blocks : 1));
    at.warps /= call.teams;
    at.b += done + at.warp / at.warps;
    at.warp %= at.warps;
    at.column = at.b * COLUMNS + at.lane;
    at.inside = at.column < call.V;
    return at;
}

/* The room of a thread's team, after the values of the text. */
ECO_DEVICE loaded_steps team_room(const call_t &call, const place_in_state &at)
{
    const int32_t team = (int32_t)threadIdx.x / WARP / at.warps;
    return loaded_of(call, at, (real *)(shared_bytes + call.values_bytes + team * call.team_bytes));
}

/* ---- before S -------------------------------------------------------------------------------- */

/* Asks for a warp's rows, a lane for each: the sectors of its columns. */
ECO_DEVICE void ask_for_columns(const call_t &call, const place_in_state &at, const real *from)
{
    enum { SECTOR = 32 / sizeof(real) };
    const int32_t i = at.warp * ROWS + at.lane, first = at.column - at.lane;
    const bool there = from != nullptr && at.lane < ROWS && i < call.K;
    const real *const row = from + (size_t)i * call.V + first;
#pragma unroll
    for (int32_t j = 0; j < COLUMNS; j += SECTOR)
        prefetch_l2_if(there && first + j < call.V, row + j);
}

/* The parts of x, all on their way at once. */
ECO_DEVICE void load_parts_at_once(const call_t &call, const head_step &row)
{
    const size_t at = caller_row(call, row.n, call.first);
    const int32_t most = call.K > call.V ? call.K : call.V;
    for (int32_t j = (int32_t)threadIdx.x; j < most; j += (int32_t)blockDim.x) {
        narrow x[ECO_MAX_PARTS];
#pragma unroll
        for (int k = 0; k < ECO_MAX_PARTS; k++)
            if (call.part_node[k] >= 0 && j < call.part_width[k])
                x[k] = head_row(call.part[k], at, row.h, call.part_width[k])[j];
#pragma unroll
        for (int k = 0; k < ECO_MAX_PARTS; k++)
            if (call.part_node[k] >= 0 && j < call.part_width[k])
                values_of(call, row, call.part_node[k])[j] = to_real(x[k]);
    }
}

/* The values of the text before S. */
ECO_DEVICE void evaluate_before(const call_t &call, const head_step &row)
{
    load_parts_at_once(call, row);
    __syncthreads();
    if (threadIdx.x < WARP) {
        if (call.remembers)
            enter_step(call, row, call.first);
        __syncwarp();
        evaluate(call, row, ECO_GPU_MATRIX_BEFORE);
        if (call.remembers)
            keep_next(call, row);
    }
    __syncthreads();
}

/* A warp's rows of what the rule reads; a number is repeated.  Rows past K are 0. */
ECO_DEVICE void take_rows(const call_t &call, const place_in_state &at, const head_step &row,
                          real *to, int k)
{
    const int32_t i = at.warp * ROWS + at.lane, node = call.term[k].node;
    if (node >= 0 && at.lane < ROWS)
        to[i] = i >= call.K
                    ? 0
                    : values_of(call, row, node)[call.node[node].kind == ECO_KIND_KEY ? i : 0];
}

ECO_DEVICE void take_terms(const call_t &call, const place_in_state &at, const head_step &row,
                           const loaded_steps &tile)
{
    take_rows(call, at, row, tile.key, ECO_GPU_MATRIX_KEY);
    take_rows(call, at, row, tile.query, ECO_GPU_MATRIX_QUERY);
    take_rows(call, at, row, tile.read, ECO_GPU_MATRIX_READ);
    take_rows(call, at, row, tile.other, ECO_GPU_MATRIX_OTHER);
    take_rows(call, at, row, tile.decay, ECO_GPU_MATRIX_DECAY);
    if (at.warp == 0) {
        const real *value = values_of(call, row, call.term[ECO_GPU_MATRIX_VALUE].node);
        tile.value[at.lane] = at.inside ? value[at.column] : 0;
        if (at.lane == 0 && has_term(call, ECO_GPU_MATRIX_SCALE))
            *tile.scale = *values_of(call, row, call.term[ECO_GPU_MATRIX_SCALE].node);
    }
    __syncthreads();
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <bool BY_ROW, int READ>
static __global__ void __launch_bounds__(ECO_GPU_MATRIX_WARPS *WARP, sizeof(real) > 4 ? 1 : 2)
    decode_step(const __grid_constant__ call_t call)
{
    place_in_state at = columns_of(call, 0);
    const head_step row = {(real *)shared_bytes, at.n, at.h, at.lane};
    const bool counted = is_counted(call, at.n, call.first);
    const real *const from = counted && begins_again(call, at.n, call.first)
                                 ? real_at(start_state(call, call.matrix),
                                           head_of(call, at.n, at.h), matrix_numbers(call))
                                 : matrix_of(call, at, call.args.initial);
    const int32_t end = call.one_block ? call.blocks : 1;
    for (int32_t done = 0; done < end; done += call.teams)
        ask_for_columns(call, columns_of(call, done), from);
    if (threadIdx.x < WARP && call.remembers)
        begin_states(call, row);
    if (counted)
        evaluate_before(call, row);
    for (int32_t done = 0; done < end; done += call.teams) {
        real S[ROWS];
        at = columns_of(call, done);
        load_own_columns(call, at, S, from);
        if (counted) {
            const loaded_steps tile = team_room(call, at);
            take_terms(call, at, row, tile);
            const real o = step_state<BY_ROW, READ>(call, at, tile, 0, S, false);
            if (call.direct)
                store_out(call, at, call.first, o);
            else if (at.warp == 0 && at.inside)
                values_of(call, row, call.out)[at.column] = o;
        }
        store_own_columns(call, at, S, matrix_of(call, at, call.args.final));
        if (counted)
            store_own_columns(call, at, S,
                              real_at(call.args.states[call.matrix],
                                      head_of(call, mark_of(call, at.n, call.first), at.h),
                                      matrix_numbers(call)));
    }
    if (call.direct && !call.remembers)
        return;
    __syncthreads();
    if (threadIdx.x >= WARP)
        return;
    if (counted) {
        const int32_t first = call.direct      ? call.V
                              : call.one_block ? 0
                                               : at.column - at.lane,
                      most = call.one_block ? call.V : COLUMNS;
        if (!call.direct)
            evaluate(call, row, ECO_GPU_MATRIX_AFTER);
        store_step(call, row, call.first, first, first + most < call.V ? first + most : call.V);
    }
    if (call.remembers)
        end_states(call, row);
}

#endif /* ECO_GPU_MATRIX_DECODE_CUH */
