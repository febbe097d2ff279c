/*
 * Kernels of a scan, behind the printed text of a cell: a thread folds some steps into one factor
 * and term of each state, a block those of its threads, and blocks hand on states one after the
 * other; then each thread does its steps as any stage does them.  So memory is read and written
 * once, and what is handed on does not depend on timing.  Tiles of which everything counts have no
 * branches.
 */
#ifndef ECO_GPU_SCAN_KERNELS_CUH
#define ECO_GPU_SCAN_KERNELS_CUH

#include "gpu/scan/tiles.cuh"

/* The steps of a thread: their places; nothing is read. */
template <int STEPS>
ECO_DEVICE void begin_steps(const struct eco_scan_call *call, const struct scan_place *place,
                            struct scan_step step[STEPS])
{
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        step[k].call = call;
        step[k].n = place->n;
        step[k].unit = place->unit;
        step[k].t = time_of(call, place->first + k);
    }
}

/* The step that is read for step k. */
template <bool WHOLE> ECO_DEVICE int32_t inside(int k, int32_t last)
{
    return WHOLE || k < last ? k : last;
}

/* ---- forward --------------------------------------------------------------------------------- */

ECO_DEVICE bool is_sum_state(const struct eco_scan_call *call, int s)
{
    return sizeof(narrow) < sizeof(real) && (call->wide_states >> s & 1);
}

/* A state before the chunk. */
ECO_DEVICE vec state_at_begin(const struct eco_scan_call *call, const struct scan_place *place,
                              int s)
{
    if (call->zero_states >> s & 1)
        return 0;
    return is_sum_state(call, s) ? *plane_at<const real>(&call->first[s], place)
                                 : to_real(*plane_at<const narrow>(&call->first[s], place));
}

ECO_DEVICE void write_at_end(const struct eco_scan_call *call, const struct scan_place *place,
                             int s, vec v)
{
    if (is_sum_state(call, s))
        *plane_at<real>(&call->last[s], place) = v;
    else
        *plane_at<narrow>(&call->last[s], place) = to_narrow(v);
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void read_accs(const struct eco_scan_call *call, const struct scan_place *place,
                          struct scan_step step[STEPS])
{
    const int32_t last = last_of(call, place);
#pragma unroll
    for (int a = 0; a < SCAN_ACCS; a++) {
        const struct elements<const real> acc =
            elements_of<const real>(call, place, &call->acc, (int64_t)call->column * a);
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            step[k].acc[a] = *scan_element(&acc, inside<WHOLE>(k, last));
    }
#pragma unroll
    for (int a = 0; a < SCAN_ACCS; a++) {
        const vec bias = call->bias[a] < 0 ? (vec)0 : load_vector(&step[0], call->bias[a]);
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            step[k].acc[a] += bias;
    }
}

/* values[k] to the steps that there are. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void write_steps(const struct eco_scan_call *call, const struct scan_place *place,
                            const struct eco_scan_array *array, int64_t column,
                            const vec values[STEPS])
{
    const struct elements<narrow> to = elements_of<narrow>(call, place, array, column);
    if (to.at)
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            if (WHOLE || (place->there && place->first + k < call->steps))
                *scan_element(&to, k) = to_narrow(values[k]);
}

/* States where planes are: all but the last step's, which have their place in `last`. */
template <int STEPS>
ECO_DEVICE void write_planes(const struct eco_scan_call *call, const struct scan_place *place,
                             int s, const vec values[STEPS])
{
    const struct elements<real> sums = elements_of<real>(call, place, &call->next[s], 0);
    const struct elements<narrow> rows = elements_of<narrow>(call, place, &call->next[s], 0);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        if (!place->there || place->first + k + 1 >= call->steps)
            continue;
        if (is_sum_state(call, s))
            *scan_element(&sums, k) = values[k];
        else
            *scan_element(&rows, k) = to_narrow(values[k]);
    }
}

/* What the steps leave: saved values, states where they are wanted, y. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void leave_steps(const struct eco_scan_call *call, const struct scan_place *place,
                            const struct scan_step step[STEPS])
{
    vec values[STEPS];
#pragma unroll
    for (int i = 0; i < SCAN_SAVES; i++) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            values[k] = WHOLE || counts(place, place->first + k) ? step[k].saved[i] : (vec)0;
        write_steps<STEPS, WHOLE>(call, place, &call->save, (int64_t)call->hidden * i, values);
    }
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            values[k] = step[k].next[s];
        if (s > 0)
            write_steps<STEPS, WHOLE>(call, place, &call->kept[s], 0, values);
        if (call->next[s].data)
            write_planes<STEPS>(call, place, s, values);
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            if ((!WHOLE || k + 1 == STEPS) && counts(place, place->first + k) &&
                place->first + k + 1 == place->to)
                write_at_end(call, place, s, values[k]);
    }
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        values[k] = WHOLE || counts(place, place->first + k) ? step[k].next[0] : (vec)0;
    write_steps<STEPS, WHOLE>(call, place, &call->y, 0, values);
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void scan_tile(const struct eco_scan_call *call, const struct scan_place *place,
                          struct scan_shared *shared)
{
    struct scan_step step[STEPS];
    vec factor[SCAN_STATES], term[SCAN_STATES], state[SCAN_STATES];
    begin_steps<STEPS>(call, place, step);
    read_accs<STEPS, WHOLE>(call, place, step);
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        factor[s] = 1;
        term[s] = 0;
        state[s] = place->tile == 0 && is_linear(s) ? state_at_begin(call, place, s) : (vec)0;
    }
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        if (!WHOLE && !counts(place, place->first + k))
            continue;
        SCAN_LINEAR_FORWARD(&step[k]);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            if (is_linear(s))
                fold(&factor[s], &term[s], step[k].factor[s], step[k].term[s]);
    }
    hand_on(call, place, shared, factor, term, state);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            step[k].before[s] = step[k].next[s] = state[s];
        if (WHOLE || counts(place, place->first + k))
            SCAN_FORWARD(&step[k]);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            state[s] = step[k].next[s];
    }
    leave_steps<STEPS, WHOLE>(call, place, step);
}

extern "C" __global__ void __launch_bounds__(ECO_SCAN_UNITS *ECO_SCAN_WARPS)
    scan_forward(const __grid_constant__ struct eco_scan_call call)
{
    enum { STEPS = ECO_SCAN_STEPS(SCAN_ACCS + SCAN_STATES) };
    __shared__ struct scan_shared shared;
    const struct scan_place place = scan_place_of(&call, &shared, STEPS);
    if (place.whole)
        scan_tile<STEPS, true>(&call, &place, &shared);
    else
        scan_tile<STEPS, false>(&call, &place, &shared);
    /* A row that has no step in the chunk keeps its states. */
    if (place.there && place.from == place.to && place.tile == 0 && place.warp == 0)
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            write_at_end(&call, &place, s, state_at_begin(&call, &place, s));
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The array where the states before a step lie, if not where those after the step before do. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void read_states_around(const struct eco_scan_call *call, const struct scan_place *place,
                                   struct scan_step step[STEPS])
{
    const int32_t last = last_of(call, place);
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const struct elements<const narrow> before = elements_of<const narrow>(call, place,
                                                                               &call->before[s], 0),
                                            next = elements_of<const narrow>(call, place,
                                                                             &call->next[s], 0);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const int32_t from = inside<WHOLE>(k, last);
            const bool begins =
                (call->begins >> s & 1) && time_of(call, place->first + from) == call->begin;
            const bool zero = begins && !call->initial[s].data;
            const narrow *there = !begins ? scan_element(&before, from)
                                  : zero  ? scan_element(&next, from) /* read, and not taken */
                                          : plane_at<const narrow>(&call->initial[s], place);
            step[k].before[s] = zero ? (vec)0 : to_real(*there);
            step[k].next[s] = to_real(*scan_element(&next, from));
        }
    }
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void read_steps(const struct eco_scan_call *call, const struct scan_place *place,
                           struct scan_step step[STEPS], vec dy[STEPS])
{
    const int32_t last = last_of(call, place);
    const struct elements<const real> sums = elements_of<const real>(call, place, &call->y, 0);
    const struct elements<const narrow> rows = elements_of<const narrow>(call, place, &call->y, 0);
#pragma unroll
    for (int i = 0; i < SCAN_SAVES; i++) {
        const struct elements<const narrow> save =
            elements_of<const narrow>(call, place, &call->save, (int64_t)call->hidden * i);
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            step[k].saved[i] = to_real(*scan_element(&save, inside<WHOLE>(k, last)));
    }
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        dy[k] = 0;
    if (call->y.data && call->wide_dy)
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            dy[k] = *scan_element(&sums, inside<WHOLE>(k, last));
    else if (call->y.data)
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            dy[k] = to_real(*scan_element(&rows, inside<WHOLE>(k, last)));
    read_states_around<STEPS, WHOLE>(call, place, step);
}

/* What comes to output states: of the row's first step that counts from behind, else from y. */
ECO_DEVICE void take_outputs(const struct eco_scan_call *call, const struct scan_place *place,
                             struct scan_step *at, int32_t p, vec dy)
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        if (is_linear(s))
            continue;
        const bool comes = p == place->from && !(call->zero_carry >> s & 1);
        const vec carry = comes ? *plane_at<const real>(&call->carry[s], place) : (real)0;
        at->dnext[s] = s == 0 ? carry + dy : carry;
    }
}

/* Nothing of output states goes further. */
ECO_DEVICE void clear_outputs(const struct eco_scan_call *call, const struct scan_place *place,
                              int32_t p)
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        if (!is_linear(s) && ((counts(place, p) && p == place->from) ||
                              (p == 0 && place->there && (call->zero_carry >> s & 1))))
            *plane_at<real>(&call->carry[s], place) = 0;
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void leave_gradients(const struct eco_scan_call *call, const struct scan_place *place,
                                const struct scan_step step[STEPS], const vec carry[SCAN_STATES])
{
    vec values[STEPS];
#pragma unroll
    for (int a = 0; a < SCAN_DACCS; a++) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            values[k] = WHOLE || counts(place, place->first + k) ? step[k].dacc[a] : (vec)0;
        write_steps<STEPS, WHOLE>(call, place, &call->acc, (int64_t)call->column * a, values);
    }
    const bool ends = place->first < call->steps && place->first + STEPS >= call->steps;
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        if (is_linear(s) && ends && place->there)
            *plane_at<real>(&call->carry[s], place) = carry[s];
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        clear_outputs(call, place, place->first + k);
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void scan_tile_back(const struct eco_scan_call *call, const struct scan_place *place,
                               struct scan_shared *shared)
{
    struct scan_step step[STEPS];
    vec factor[SCAN_STATES], term[SCAN_STATES], carry[SCAN_STATES], dy[STEPS];
    begin_steps<STEPS>(call, place, step);
    read_steps<STEPS, WHOLE>(call, place, step, dy);
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const bool begins = place->tile == 0 && is_linear(s) && !(call->zero_carry >> s & 1);
        factor[s] = 1;
        term[s] = 0;
        carry[s] = begins ? *plane_at<const real>(&call->carry[s], place) : (real)0;
    }
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        if (!WHOLE && !counts(place, place->first + k))
            continue;
        take_outputs(call, place, &step[k], place->first + k, dy[k]);
        SCAN_LINEAR_BACKWARD(&step[k]);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            if (is_linear(s))
                fold(&factor[s], &term[s], step[k].factor[s],
                     s == 0 ? step[k].factor[s] * dy[k] + step[k].term[s] : step[k].term[s]);
    }
    hand_on(call, place, shared, factor, term, carry);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        if (!WHOLE && !counts(place, place->first + k))
            continue;
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            if (is_linear(s))
                step[k].dnext[s] = s == 0 ? carry[s] + dy[k] : carry[s];
        SCAN_BACKWARD(&step[k]);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            carry[s] = step[k].dbefore[s];
    }
    leave_gradients<STEPS, WHOLE>(call, place, step, carry);
}

extern "C" __global__ void __launch_bounds__(ECO_SCAN_UNITS *ECO_SCAN_WARPS)
    scan_backward(const __grid_constant__ struct eco_scan_call call)
{
    enum { STEPS = ECO_SCAN_STEPS(SCAN_SAVES + 2 * SCAN_STATES) };
    __shared__ struct scan_shared shared;
    const struct scan_place place = scan_place_of(&call, &shared, STEPS);
    if (place.whole)
        scan_tile_back<STEPS, true>(&call, &place, &shared);
    else
        scan_tile_back<STEPS, false>(&call, &place, &shared);
}

#endif /* ECO_GPU_SCAN_KERNELS_CUH */
