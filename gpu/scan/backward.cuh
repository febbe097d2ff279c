/*
 * The backward scan, around the printed text of a cell: like forward, with gradients.
 */
#ifndef ECO_GPU_SCAN_BACKWARD_CUH
#define ECO_GPU_SCAN_BACKWARD_CUH

#include "gpu/scan/tiles.cuh"

/* ---- loads of steps -------------------------------------------------------------------------- */

/* A state as backward reads it. */
ECO_DEVICE struct elements<const narrow> states_of(const struct eco_scan_call *call,
                                                   const struct scan_place *place,
                                                   const struct eco_scan_array *array) {
    return elements_of<const narrow>(call, place, array, 0);
}

/* Reads states after steps and before them. The state before a step is the one after the thread's
 * next step, so only one more step is read. */
template <int STEPS>
ECO_DEVICE void read_states_of_whole(const struct eco_scan_call *call,
                                     const struct scan_place *place,
                                     struct scan_step step[STEPS][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const struct elements<const narrow> before = states_of(call, place, &call->before[s]),
                                            next = states_of(call, place, &call->next[s]);
        struct scan_units<narrow> units[STEPS + 1];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            units[k] = read_units<true, narrow>(place, scan_element(&next, k));
        units[STEPS] = read_units<true, narrow>(place, scan_element(&before, STEPS - 1));
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
ECO_DEVICE void read_states_around(const struct eco_scan_call *call, const struct scan_place *place,
                                   struct scan_step step[STEPS][ECO_SCAN_WIDE])
{
    const int32_t last = last_of(call, place);
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const struct elements<const narrow> before = states_of(call, place, &call->before[s]),
                                            next = states_of(call, place, &call->next[s]);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const int32_t from = inside<false>(k, last);
            const int32_t p =
                place->first + from < call->steps ? place->first + from : call->steps - 1;
            const bool begins = (call->begins >> s & 1) && time_of(call, p) == call->begin;
            const bool zero = begins && !call->initial[s].data;
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++) {
                const int32_t behind = place->unit[w] - place->unit[0];
                const narrow *there =
                    !begins ? scan_element(&before, from) + behind
                    : zero  ? scan_element(&next, from) + behind /* read, but not used */
                            : plane_at<const narrow>(&call->initial[s], place, w);
                step[k][w].before[s] = zero ? (vec)0 : to_real(*there);
                step[k][w].next[s] = to_real(scan_element(&next, from)[behind]);
            }
        }
    }
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void read_saved(const struct eco_scan_call *call, const struct scan_place *place,
                           struct scan_step step[STEPS][ECO_SCAN_WIDE])
{
    const int32_t last = last_of(call, place);
#pragma unroll
    for (int i = 0; i < SCAN_SAVES; i++) {
        const struct elements<const narrow> save =
            elements_of<const narrow>(call, place, &call->save, (int64_t)call->hidden * i);
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            const struct scan_units<narrow> units =
                read_units<WHOLE, narrow>(place, scan_element(&save, inside<WHOLE>(k, last)));
#pragma unroll
            for (int w = 0; w < ECO_SCAN_WIDE; w++)
                step[k][w].saved[i] = to_real(units.of[w]);
        }
    }
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void read_dy(const struct eco_scan_call *call, const struct scan_place *place,
                        vec dy[STEPS][ECO_SCAN_WIDE])
{
    const int32_t last = last_of(call, place);
    const struct elements<const real> sums = elements_of<const real>(call, place, &call->y, 0);
    const struct elements<const narrow> rows = elements_of<const narrow>(call, place, &call->y, 0);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        struct scan_units<real> units = {
        };
        const int32_t from = inside<WHOLE>(k, last);
        if (call->y.data && call->wide_dy)
            units = read_units<WHOLE, real>(place, scan_element(&sums, from));
        else if (call->y.data)
            units = real_units(read_units<WHOLE, narrow>(place, scan_element(&rows, from)));
#pragma unroll
        for (int w = 0; w < ECO_SCAN_WIDE; w++)
            dy[k][w] = units.of[w];
    }
}

/* Sets the gradient of output states: carried for the row's first step, else from dy. */
ECO_DEVICE void take_outputs(const struct eco_scan_call *call, const struct scan_place *place,
                             struct scan_step *at, int32_t p, int w, vec dy)
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        if (is_linear(s))
            continue;
        const bool comes = p == place->from && !(call->zero_carry >> s & 1);
        const vec carry = comes ? *plane_at<const real>(&call->carry[s], place, w) : (real)0;
        at->dnext[s] = s == 0 ? carry + dy : carry;
    }
}

/* ---- stores of steps ------------------------------------------------------------------------- */

/* The gradient of output states is not carried further. */
ECO_DEVICE void clear_outputs(const struct eco_scan_call *call, const struct scan_place *place,
                              int32_t p, int w)
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        if (!is_linear(s) && place->there[w] &&
            ((counts(place, p) && p == place->from) || (p == 0 && (call->zero_carry >> s & 1))))
            *plane_at<real>(&call->carry[s], place, w) = 0;
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void leave_gradients(const struct eco_scan_call *call, const struct scan_place *place,
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
                    WHOLE || counts(place, place->first + k) ? step[k][w].dacc[a] : (vec)0;
        write_steps<STEPS, WHOLE>(call, place, &call->acc, (int64_t)call->column * a, values);
    }
    const bool ends = place->first < call->steps && place->first + STEPS >= call->steps;
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++) {
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            if (is_linear(s) && ends && place->there[w])
                *plane_at<real>(&call->carry[s], place, w) = carry[s][w];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            clear_outputs(call, place, place->first + k, w);
    }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* Folds all steps of unit w into a factor and a term. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void
fold_steps_back(const struct eco_scan_call *call, const struct scan_place *place, int w,
                struct scan_step step[STEPS][ECO_SCAN_WIDE], const vec dy[STEPS][ECO_SCAN_WIDE],
                vec factor[SCAN_STATES][ECO_SCAN_WIDE], vec term[SCAN_STATES][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        struct scan_step *at = &step[k][w];
        if (!WHOLE && !counts(place, place->first + k))
            continue;
        take_outputs(call, place, at, place->first + k, w, dy[k][w]);
        SCAN_LINEAR_BACKWARD(at);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            if (is_linear(s))
                fold(&factor[s][w], &term[s][w], at->factor[s],
                     s == 0 ? at->factor[s] * dy[k][w] + at->term[s] : at->term[s]);
    }
}

/* Runs the steps of unit w, one after the other. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void
do_steps_back(const struct scan_place *place, int w, struct scan_step step[STEPS][ECO_SCAN_WIDE],
              const vec dy[STEPS][ECO_SCAN_WIDE], vec carry[SCAN_STATES][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        struct scan_step *at = &step[k][w];
        if (!WHOLE && !counts(place, place->first + k))
            continue;
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            if (is_linear(s))
                at->dnext[s] = s == 0 ? carry[s][w] + dy[k][w] : carry[s][w];
        SCAN_BACKWARD(at);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            carry[s][w] = at->dbefore[s];
    }
}

template <int STEPS, bool WHOLE>
ECO_DEVICE void scan_tile_back(const struct eco_scan_call *call, const struct scan_place *place,
                               struct scan_shared *shared)
{
    struct scan_step step[STEPS][ECO_SCAN_WIDE];
    vec factor[SCAN_STATES][ECO_SCAN_WIDE], term[SCAN_STATES][ECO_SCAN_WIDE],
        carry[SCAN_STATES][ECO_SCAN_WIDE], dy[STEPS][ECO_SCAN_WIDE];
    begin_steps<STEPS>(call, place, step);
    read_saved<STEPS, WHOLE>(call, place, step);
    read_dy<STEPS, WHOLE>(call, place, dy);
    if (WHOLE)
        read_states_of_whole<STEPS>(call, place, step);
    else
        read_states_around<STEPS>(call, place, step);
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++) {
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++) {
            const bool begins = place->tile == 0 && is_linear(s) && !(call->zero_carry >> s & 1);
            factor[s][w] = 1;
            term[s][w] = 0;
            carry[s][w] = begins ? *plane_at<const real>(&call->carry[s], place, w) : (real)0;
        }
        fold_steps_back<STEPS, WHOLE>(call, place, w, step, dy, factor, term);
    }
    hand_on(call, place, shared, factor, term, carry);
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++)
        do_steps_back<STEPS, WHOLE>(place, w, step, dy, carry);
    leave_gradients<STEPS, WHOLE>(call, place, step, carry);
}

extern "C" __global__ void __launch_bounds__(32 * ECO_SCAN_WARPS, SCAN_BLOCKS)
    scan_backward(const __grid_constant__ struct eco_scan_call call)
{
    enum { STEPS = ECO_SCAN_STEPS(SCAN_SAVES + 2 * SCAN_STATES) };
    __shared__ struct scan_shared shared;
    const struct scan_place place = scan_place_of(&call, &shared.ticket, STEPS);
    if (place.whole && !has_begin(&call, &place, STEPS * ECO_SCAN_WARPS))
        scan_tile_back<STEPS, true>(&call, &place, &shared);
    else
        scan_tile_back<STEPS, false>(&call, &place, &shared);
}

#endif /* ECO_GPU_SCAN_BACKWARD_CUH */
