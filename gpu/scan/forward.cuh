/*
 * The forward scan, which includes the printed text of a cell. Each thread folds its steps into one
 * factor and one term for each state; a block folds those of its threads; blocks pass states on,
 * one after the other; then each thread runs its steps as a stage would. So memory is read and
 * written once, and results do not depend on timing. Tiles that are not complete are read and
 * written by other code; but both kinds run the same texts, half of all code, whose results are
 * dropped for single steps that do not count: with a branch for each step none would overlap.
 */
#ifndef ECO_GPU_SCAN_FORWARD_CUH
#define ECO_GPU_SCAN_FORWARD_CUH

#include "gpu/scan/tiles.cuh"

template <int STEPS, bool WHOLE>
ECO_DEVICE void read_accs(const struct eco_scan_call *call, const struct scan_position *position,
                          struct scan_step step[STEPS][ECO_SCAN_WIDE])
{
    const int32_t last = last_of(call, position);
#pragma unroll
    for (int a = 0; a < SCAN_ACCS; a++) {
        const struct elements<const real> acc =
            elements_of<const real>(call, position, &call->acc, (int64_t)call->column * a);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const struct scan_units<real> units =
                read_units<WHOLE, real>(position, scan_element(&acc, inside<WHOLE>(k, last)));
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++)
                step[k][w].acc[a] = units.of[w];
        }
    }
#pragma unroll
    for (int a = 0; a < SCAN_ACCS; a++)
#pragma unroll
        for (int w = 0; w < ECO_SCAN_WIDE; w++) {
            const vec bias = call->bias[a] < 0 ? (vec)0 : load_vector(&step[0][w], call->bias[a]);
#pragma unroll
            for (int k = 0; k < STEPS; k++)
                step[k][w].acc[a] += bias;
        }
}

/* Writes states to planes, except those of the last step, which go to `last`. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void write_planes(const struct eco_scan_call *call, const struct scan_position *position,
                             int s, const struct scan_units<vec> values[STEPS])
{
    const struct elements<real> sums = elements_of<real>(call, position, &call->next[s], 0);
    const struct elements<narrow> rows = elements_of<narrow>(call, position, &call->next[s], 0);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        if (position->first + k + 1 >= call->steps)
            continue;
        if (is_sum_state(call, s))
            write_units<WHOLE>(position, scan_element(&sums, k), values[k]);
        else
            write_units<WHOLE>(position, scan_element(&rows, k), narrow_units(values[k]));
    }
}

/* Writes a state after the row's last step, if that is one of the thread's steps. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void write_last(const struct eco_scan_call *call, const struct scan_position *position,
                           int s, const struct scan_units<vec> values[STEPS])
{
    const int32_t last = position->to - 1 - position->first;
    struct scan_units<vec> at_last = values[STEPS - 1];
    if (last < 0 || last >= STEPS || !counts(position, position->to - 1))
        return;
#pragma unroll
    for (int k = 0; k < STEPS - 1 && !WHOLE; k++)
        at_last = k == last ? values[k] : at_last;
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++)
        if (position->there[w])
            write_at_end(call, position, s, w, at_last.of[w]);
}

/* Writes what the steps produce: saved values, requested states, y. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void leave_steps(const struct eco_scan_call *call, const struct scan_position *position,
                            const struct scan_step step[STEPS][ECO_SCAN_WIDE])
{
    struct scan_units<vec> values[STEPS];
#pragma unroll
    for (int i = 0; i < SCAN_SAVES; i++) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++)
                values[k].of[w] =
                    WHOLE || counts(position, position->first + k) ? step[k][w].saved[i] : (vec)0;
        write_steps<STEPS, WHOLE>(call, position, &call->save, (int64_t)call->hidden * i, values);
    }
#pragma unroll
    for (int s = SCAN_STATES - 1; s >= 0; s--) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++)
                values[k].of[w] = step[k][w].next[s];
        if (s > 0)
            write_steps<STEPS, WHOLE>(call, position, &call->kept[s], 0, values);
        if (call->next[s].data)
            write_planes<STEPS, WHOLE>(call, position, s, values);
        write_last<STEPS, WHOLE>(call, position, s, values);
    }
#pragma unroll
    for (int k = 0; k < STEPS; k++)
#pragma unroll
        for (int w = 0; w < ECO_SCAN_WIDE; w++)
            values[k].of[w] =
                WHOLE || counts(position, position->first + k) ? step[k][w].next[0] : (vec)0;
    write_steps<STEPS, WHOLE>(call, position, &call->y, 0, values);
}

/* The states of unit w after a reset. */
ECO_DEVICE void read_start(const struct eco_scan_call *call, const struct scan_position *position,
                           int w, vec start[SCAN_STATES])
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        start[s] = start_of(call, position, s, w);
}

/* Folds all steps of unit w into factors and terms. */
template <int STEPS>
ECO_DEVICE void
fold_steps(const struct scan_position *position, int w, struct scan_step step[STEPS][ECO_SCAN_WIDE],
           vec factor[SCAN_FACTORS][ECO_SCAN_WIDE], vec term[SCAN_STATES][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        struct scan_step *at = &step[k][w];
        if (restarts(position, k)) {
            vec start[SCAN_STATES];
            read_start(at->call, position, w, start);
            fold_reset(w, start, factor, term);
        }
        SCAN_LINEAR_FORWARD(at);
        fold(counts(position, position->first + k), w, at->factor, at->term, factor, term);
    }
}

/* In place of steps that do not count. */
template <int STEPS>
ECO_DEVICE void hold_states(int w, struct scan_step step[STEPS][ECO_SCAN_WIDE],
                            const vec state[SCAN_STATES][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int k = 0; k < STEPS; k++)
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            step[k][w].next[s] = state[s][w];
}

/* Runs the steps of unit w, one after the other. */
template <int STEPS>
ECO_DEVICE void do_steps(const struct scan_position *position, int w,
                         struct scan_step step[STEPS][ECO_SCAN_WIDE],
                         vec state[SCAN_STATES][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++) {
            if (restarts(position, k))
                state[s][w] = start_of(step[k][w].call, position, s, w);
            step[k][w].before[s] = step[k][w].next[s] = state[s][w];
        }
        SCAN_FORWARD(&step[k][w]);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++) {
            if (!counts(position, position->first + k))
                step[k][w].next[s] = state[s][w];
            state[s][w] = step[k][w].next[s];
        }
    }
}

template <int STEPS>
ECO_DEVICE void scan_tile(const struct eco_scan_call *call, const struct scan_position *position,
                          struct scan_shared *shared)
{
    struct scan_step step[STEPS][ECO_SCAN_WIDE];
    vec factor[SCAN_FACTORS][ECO_SCAN_WIDE], term[SCAN_STATES][ECO_SCAN_WIDE],
        state[SCAN_STATES][ECO_SCAN_WIDE];
    const bool some = some_count(position, STEPS);
    begin_steps<STEPS>(call, position, step);
    if (position->whole)
        read_accs<STEPS, true>(call, position, step);
    else
        read_accs<STEPS, false>(call, position, step);
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++) {
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++) {
            const bool begins = position->tile == 0 && is_linear(s);
            begin_fold(s, w, factor, term);
            state[s][w] = begins ? state_at_begin(call, position, s, w) : (vec)0;
        }
        if (some)
            fold_steps<STEPS>(position, w, step, factor, term);
    }
    pass_on(call, position, shared, factor, term, state);
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++)
        if (some)
            do_steps<STEPS>(position, w, step, state);
        else
            hold_states<STEPS>(w, step, state);
    if (position->whole)
        leave_steps<STEPS, true>(call, position, step);
    else
        leave_steps<STEPS, false>(call, position, step);
}

extern "C" __global__ void __launch_bounds__(32 * SCAN_WARPS, SCAN_BLOCKS)
    scan_forward(const __grid_constant__ struct eco_scan_call call)
{
    __shared__ struct scan_shared shared;
    const struct scan_position position = scan_position_of(&call, &shared.ticket, SCAN_STEPS);
    scan_tile<SCAN_STEPS>(&call, &position, &shared);
    /* A row without a step in the chunk keeps its states. */
    if (position.from == position.to && position.tile == 0 && position.warp == 0)
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++)
                if (position.there[w])
                    write_at_end(&call, &position, s, w, state_at_begin(&call, &position, s, w));
}

#endif /* ECO_GPU_SCAN_FORWARD_CUH */
