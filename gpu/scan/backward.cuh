/*
 * The backward scan, around the printed text of a cell: like forward, with gradients.
 */
#ifndef ECO_GPU_SCAN_BACKWARD_CUH
#define ECO_GPU_SCAN_BACKWARD_CUH

#include "gpu/scan/tiles.cuh"

/* ---- loads of steps -------------------------------------------------------------------------- */

/* A state as backward reads it. */
ECO_DEVICE struct elements<const narrow> states_of(const struct eco_scan_call *call,
                                                   const struct scan_position *position,
                                                   const struct eco_scan_array *array) {
    return elements_of<const narrow>(call, position, array, 0);
}

/* Reads states after steps and before them. The state before a step is the one after the thread's
 * next step, so only one more step is read. */
template <int STEPS>
ECO_DEVICE void read_states_of_whole(const struct eco_scan_call *call,
                                     const struct scan_position *position,
                                     struct scan_step step[STEPS][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const struct elements<const narrow> before = states_of(call, position, &call->before[s]),
                                            next = states_of(call, position, &call->next[s]);
        struct scan_units<narrow> units[STEPS + 1];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            units[k] = read_units<true, narrow>(position, scan_element(&next, k));
        units[STEPS] = read_units<true, narrow>(position, scan_element(&before, STEPS - 1));
#pragma unroll
        for (int k = 0; k < STEPS; k++)
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++) {
                step[k][w].next[s] = to_real(units[k].of[w]);
                step[k][w].before[s] = to_real(units[k + 1].of[w]);
            }
    }
}

/* The array of the states before a step, if they are not those after the previous step. */
template <int STEPS>
ECO_DEVICE void read_states_around(const struct eco_scan_call *call,
                                   const struct scan_position *position,
                                   struct scan_step step[STEPS][ECO_SCAN_WIDE])
{
    const int32_t last = last_of(call, position);
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const struct elements<const narrow> before = states_of(call, position, &call->before[s]),
                                            next = states_of(call, position, &call->next[s]);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const int32_t from = inside<false>(k, last);
            const int32_t p =
                position->first + from < call->steps ? position->first + from : call->steps - 1;
            const bool begins = (call->begins >> s & 1) && time_of(call, p) == call->begin;
            const bool zero = begins && !call->initial[s].data;
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++) {
                const int32_t behind = position->unit[w] - position->unit[0];
                const narrow *there =
                    !begins ? scan_element(&before, from) + behind
                    : zero  ? scan_element(&next, from) + behind /* read, but not used */
                            : plane_at<const narrow>(&call->initial[s], position, w);
                step[k][w].before[s] = zero ? (vec)0 : to_real(*there);
                step[k][w].next[s] = to_real(scan_element(&next, from)[behind]);
            }
        }
    }
}

/* Puts starts in place of the states before steps that begin again. */
template <int STEPS>
ECO_DEVICE void replace_states(const struct scan_position *position,
                               struct scan_step step[STEPS][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int i = 0; i < STEPS * SCAN_STATES * ECO_SCAN_WIDE; i++) {
        const int s = i / ECO_SCAN_WIDE % SCAN_STATES, w = i % ECO_SCAN_WIDE,
                  k = i / ECO_SCAN_WIDE / SCAN_STATES;
        if (restarts(position, k))
            step[k][w].before[s] = start_of(step[k][w].call, position, s, w);
    }
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void read_saved(const struct eco_scan_call *call, const struct scan_position *position,
                           struct scan_step step[STEPS][ECO_SCAN_WIDE])
{
    const int32_t last = last_of(call, position);
#pragma unroll
    for (int i = 0; i < SCAN_SAVES; i++) {
        const struct elements<const narrow> save =
            elements_of<const narrow>(call, position, &call->save, (int64_t)call->hidden * i);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const struct scan_units<narrow> units =
                read_units<WHOLE, narrow>(position, scan_element(&save, inside<WHOLE>(k, last)));
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++)
                step[k][w].saved[i] = to_real(units.of[w]);
        }
    }
}

/* Each loop has loads only, so that all of them are in flight at once. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void read_dy(const struct eco_scan_call *call, const struct scan_position *position,
                        struct scan_units<real> dy[STEPS])
{
    const int32_t last = last_of(call, position);
    const struct elements<real> sums = elements_of<real>(call, position, &call->y, 0);
    const struct elements<narrow> rows = elements_of<narrow>(call, position, &call->y, 0);
    if (!call->y.data) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            dy[k] = {};
    } else if (call->wide_dy) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            dy[k] = read_units<WHOLE, real>(position, scan_element(&sums, inside<WHOLE>(k, last)));
    } else {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            dy[k] = real_units(
                read_units<WHOLE, narrow>(position, scan_element(&rows, inside<WHOLE>(k, last))));
    }
}

/* The gradients that the caller gives besides dy, of the states after steps. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void add_given(const struct eco_scan_call *call, const struct scan_position *position,
                          struct scan_units<real> given[SCAN_GIVEN][STEPS])
{
    const int32_t last = last_of(call, position);
#pragma unroll
    for (int s = 0; s < SCAN_GIVEN; s++) {
        const struct elements<narrow> rows =
            elements_of<narrow>(call, position, &call->given[s], 0);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            struct scan_units<real> more;
            more = {};
            if (rows.at)
                more = real_units(read_units<WHOLE, narrow>(
                    position, scan_element(&rows, inside<WHOLE>(k, last))));
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++)
                given[s][k].of[w] = s == 0 ? given[s][k].of[w] + more.of[w] : more.of[w];
        }
    }
}

/* All that the steps read. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void read_steps(const struct eco_scan_call *call, const struct scan_position *position,
                           struct scan_step step[STEPS][ECO_SCAN_WIDE],
                           struct scan_units<real> given[SCAN_GIVEN][STEPS])
{
    read_saved<STEPS, WHOLE>(call, position, step);
    read_dy<STEPS, WHOLE>(call, position, given[0]);
    if (SCAN_GIVES)
        add_given<STEPS, WHOLE>(call, position, given);
    if (WHOLE)
        read_states_of_whole<STEPS>(call, position, step);
    else
        read_states_around<STEPS>(call, position, step);
}

/* The gradient of a state after step k: what is carried, and what the caller gives. */
template <int STEPS>
ECO_DEVICE vec gradient_of(const struct scan_units<real> given[SCAN_GIVEN][STEPS], int s, int k,
                           int w, vec carry)
{
    return s < SCAN_GIVEN ? carry + given[s][k].of[w] : carry;
}

/* Sets the gradient of output states: carried for the row's first step, else only given. */
template <int STEPS>
ECO_DEVICE void take_outputs(const struct eco_scan_call *call, const struct scan_position *position,
                             struct scan_step *at, int k, int w,
                             const struct scan_units<real> given[SCAN_GIVEN][STEPS])
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        if (is_linear(s))
            continue;
        const bool comes = position->first + k == position->from && !(call->zero_carry >> s & 1);
        const vec carry = comes ? *plane_at<const real>(&call->carry[s], position, w) : (real)0;
        at->dnext[s] = gradient_of<STEPS>(given, s, k, w, carry);
    }
}

/* ---- stores of steps ------------------------------------------------------------------------- */

/* The gradient of output states is not carried further. */
ECO_DEVICE void clear_outputs(const struct eco_scan_call *call,
                              const struct scan_position *position, int32_t p, int w)
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        if (!is_linear(s) && position->there[w] &&
            ((counts(position, p) && p == position->from) ||
             (p == 0 && (call->zero_carry >> s & 1))))
            *plane_at<real>(&call->carry[s], position, w) = 0;
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void leave_gradients(const struct eco_scan_call *call,
                                const struct scan_position *position,
                                const struct scan_step step[STEPS][ECO_SCAN_WIDE],
                                const vec carry[SCAN_STATES][ECO_SCAN_WIDE])
{
    struct scan_units<vec> values[STEPS];
#pragma unroll
    for (int a = 0; a < SCAN_DACCS; a++) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++)
                values[k].of[w] =
                    WHOLE || counts(position, position->first + k) ? step[k][w].dacc[a] : (vec)0;
        write_steps<STEPS, WHOLE>(call, position, &call->acc, (int64_t)call->column * a, values);
    }
    const bool ends = position->first < call->steps && position->first + STEPS >= call->steps;
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++) {
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            if (is_linear(s) && ends && position->there[w])
                *plane_at<real>(&call->carry[s], position, w) = carry[s][w];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            clear_outputs(call, position, position->first + k, w);
    }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* Adds to a step's terms what it makes of the gradients that the caller gives after it. */
template <int STEPS>
ECO_DEVICE void add_to_terms(struct scan_step *at, int k, int w,
                             const struct scan_units<real> given[SCAN_GIVEN][STEPS])
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
#pragma unroll
        for (int v = 0; v < SCAN_GIVEN; v++)
            if (is_linear(s) && is_coupled(s, v))
                at->term[s] = made_of(at->factor[factor_of(s, v)], given[v][k].of[w]) + at->term[s];
}

/* Folds all steps of each unit into factors and terms. */
template <int STEPS>
ECO_DEVICE void
fold_steps_back(const struct eco_scan_call *call, const struct scan_position *position,
                struct scan_step step[STEPS][ECO_SCAN_WIDE],
                const struct scan_units<real> given[SCAN_GIVEN][STEPS],
                vec factor[SCAN_FACTORS][ECO_SCAN_WIDE], vec term[SCAN_STATES][ECO_SCAN_WIDE])
{
    const vec none[SCAN_STATES] = {0};
#pragma unroll
    for (int i = 0; i < STEPS * ECO_SCAN_WIDE; i++) {
        const int k = i % STEPS, w = i / STEPS;
        struct scan_step *at = &step[k][w];
        take_outputs<STEPS>(call, position, at, k, w, given);
        SCAN_LINEAR_BACKWARD(at);
        add_to_terms<STEPS>(at, k, w, given);
        fold(counts(position, position->first + k), w, at->factor, at->term, factor, term);
        if (restarts(position, k))
            fold_reset(w, none, factor, term);
    }
}

/* Runs the steps of unit w, one after the other. sum: adds the gradients of starts. */
template <int STEPS>
ECO_DEVICE void do_steps_back(const struct scan_position *position, int w,
                              struct scan_step step[STEPS][ECO_SCAN_WIDE],
                              const struct scan_units<real> given[SCAN_GIVEN][STEPS],
                              vec carry[SCAN_STATES][ECO_SCAN_WIDE],
                              vec sum[SCAN_STATES][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        struct scan_step *at = &step[k][w];
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            if (is_linear(s))
                at->dnext[s] = gradient_of<STEPS>(given, s, k, w, carry[s][w]);
        SCAN_BACKWARD(at);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++) {
            if (counts(position, position->first + k))
                carry[s][w] = at->dbefore[s];
            if (restarts(position, k)) {
                sum[s][w] += carry[s][w];
                carry[s][w] = 0;
            }
        }
    }
}

/* ---- gradients of reset states --------------------------------------------------------------- */

/* Adds the sums of a block's threads to those that the previous tiles pass on; the last tile adds
 * all of them to the run's. */
ECO_DEVICE void pass_sums_on(const struct eco_scan_call *call, const struct scan_position *position,
                             struct scan_shared *shared, const vec sum[SCAN_STATES][ECO_SCAN_WIDE])
{
    vec total[SCAN_STATES][ECO_SCAN_WIDE] = {};
#pragma unroll
    for (int i = 0; i < SCAN_STATES * ECO_SCAN_WIDE; i++)
        shared->start[position->warp][i / ECO_SCAN_WIDE][i % ECO_SCAN_WIDE][position->lane] =
            sum[i / ECO_SCAN_WIDE][i % ECO_SCAN_WIDE];
    __syncthreads();
    if (position->warp > 0)
        return;
    if (position->tile > 0)
        while (!__all_sync(0xffffffffu, receives(call->summed, position, total)))
            __nanosleep(20);
#pragma unroll
    for (int i = 0; i < SCAN_STATES * ECO_SCAN_WIDE; i++) {
        const int s = i / ECO_SCAN_WIDE, w = i % ECO_SCAN_WIDE;
#pragma unroll
        for (int k = 0; k < SCAN_WARPS; k++)
            total[s][w] += shared->start[k][s][w][position->lane];
        if (is_linear(s) && position->tile + 1 == position->tiles && position->there[w] &&
            call->dstart[s].data)
            *plane_at<real>(&call->dstart[s], position, w) += total[s][w];
    }
    if (position->tile + 1 < position->tiles)
        send_on(call->summed, position, total);
}

template <int STEPS>
ECO_DEVICE void scan_tile_back(const struct eco_scan_call *call,
                               const struct scan_position *position, struct scan_shared *shared)
{
    struct scan_step step[STEPS][ECO_SCAN_WIDE];
    vec factor[SCAN_FACTORS][ECO_SCAN_WIDE], term[SCAN_STATES][ECO_SCAN_WIDE],
        carry[SCAN_STATES][ECO_SCAN_WIDE], sum[SCAN_STATES][ECO_SCAN_WIDE] = {};
    struct scan_units<real> given[SCAN_GIVEN][STEPS];
    const bool whole = position->whole && !has_begin(call, position, STEPS * SCAN_WARPS),
               some = some_count(position, STEPS);
    begin_steps<STEPS>(call, position, step);
    if (whole)
        read_steps<STEPS, true>(call, position, step, given);
    else
        read_steps<STEPS, false>(call, position, step, given);
    if (HAS_RESETS)
        replace_states<STEPS>(position, step);
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++)
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++) {
            const bool begins = position->tile == 0 && is_linear(s) && !(call->zero_carry >> s & 1);
            begin_fold(s, w, factor, term);
            carry[s][w] = begins ? *plane_at<const real>(&call->carry[s], position, w) : (real)0;
        }
    if (some)
        fold_steps_back<STEPS>(call, position, step, given, factor, term);
    pass_on(call, position, shared, factor, term, carry);
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE && some; w++)
        do_steps_back<STEPS>(position, w, step, given, carry, sum);
    if (whole)
        leave_gradients<STEPS, true>(call, position, step, carry);
    else
        leave_gradients<STEPS, false>(call, position, step, carry);
    if (HAS_RESETS && call->summed)
        pass_sums_on(call, position, shared, sum);
}

extern "C" __global__ void __launch_bounds__(32 * SCAN_WARPS, SCAN_BLOCKS)
    scan_backward(const __grid_constant__ struct eco_scan_call call)
{
    __shared__ struct scan_shared shared;
    const struct scan_position position = scan_position_of(&call, &shared.ticket, SCAN_STEPS);
    scan_tile_back<SCAN_STEPS>(&call, &position, &shared);
}

#endif /* ECO_GPU_SCAN_BACKWARD_CUH */
