/*
 * Kernels of a scan, behind the printed text of a cell: a thread folds some steps into one factor
 * and term of each state, a block those of its threads, and blocks hand on states one after the
 * other; then each thread does its steps as any stage does them.  So memory is read and written
 * once, and what is handed on does not depend on timing.
 */
#ifndef ECO_GPU_SCAN_KERNELS_CUH
#define ECO_GPU_SCAN_KERNELS_CUH

#include "gpu/scan/words.cuh"

ECO_DEVICE constexpr bool is_linear(int s)
{
    return SCAN_LINEAR >> s & 1;
}

/* ---- a block's place ------------------------------------------------------------------------- */

struct scan_shared {
    vec factor[ECO_SCAN_WARPS][SCAN_STATES][ECO_SCAN_UNITS];
    vec term[ECO_SCAN_WARPS][SCAN_STATES][ECO_SCAN_UNITS];
    vec start[SCAN_STATES][ECO_SCAN_UNITS];
    uint32_t ticket;
};

struct scan_place {
    int32_t lane, warp, tile, tiles, group; /* group: 32 units of a row */
    int32_t n, unit, length;
    bool there;
};

ECO_DEVICE struct scan_place scan_place_of(const struct eco_scan_call *call,
                                           struct scan_shared *shared, int32_t tile_steps)
{
    const int32_t across = (call->hidden + ECO_SCAN_UNITS - 1) / ECO_SCAN_UNITS;
    const int32_t groups = across * call->rows;
    struct scan_place at;
    at.lane = (int32_t)threadIdx.x;
    at.warp = (int32_t)threadIdx.y;
    if (at.lane == 0 && at.warp == 0)
        shared->ticket = atomicAdd(call->ticket, 1u);
    __syncthreads();
    at.tile = (int32_t)(shared->ticket / (uint32_t)groups);
    at.tiles = (call->steps + tile_steps - 1) / tile_steps;
    at.group = (int32_t)(shared->ticket % (uint32_t)groups);
    at.n = at.group / across;
    at.unit = at.group % across * ECO_SCAN_UNITS + at.lane;
    at.there = at.unit < call->hidden;
    at.length = call->lengths ? call->lengths[at.n] : INT32_MAX;
    if (!at.there) /* what does not exist is read where something lies */
        at.unit = call->hidden - 1;
    return at;
}

/* Step number p of the chunk, in the order of the scan. */
ECO_DEVICE int32_t time_of(const struct eco_scan_call *call, int32_t p)
{
    const int32_t inside = p < call->steps ? p : call->steps - 1;
    return call->t0 + (call->falls ? call->steps - 1 - inside : inside);
}

ECO_DEVICE bool counts(const struct eco_scan_call *call, const struct scan_place *place, int32_t p)
{
    return p >= 0 && p < call->steps && place->there && time_of(call, p) < place->length;
}

/* ---- from tile to tile ----------------------------------------------------------------------- */

/* What comes to the block: the first one reads it, the others are told. */
ECO_DEVICE void receive(const struct eco_scan_call *call, const struct scan_place *place,
                        vec start[SCAN_STATES])
{
    const volatile vec *value = (const volatile vec *)call->value;
    const volatile uint32_t *flag = call->flag + place->group;
    if (place->lane == 0)
        while (*flag != (uint32_t)place->tile)
            __nanosleep(20);
    __syncwarp();
    __threadfence();
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        if (is_linear(s))
            start[s] =
                value[((int64_t)place->group * SCAN_STATES + s) * ECO_SCAN_UNITS + place->lane];
}

ECO_DEVICE void send(const struct eco_scan_call *call, const struct scan_place *place,
                     const vec end[SCAN_STATES])
{
    volatile vec *value = (volatile vec *)call->value;
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        if (is_linear(s))
            value[((int64_t)place->group * SCAN_STATES + s) * ECO_SCAN_UNITS + place->lane] =
                end[s];
    __threadfence();
    __syncwarp();
    if (place->lane == 0)
        *(volatile uint32_t *)(call->flag + place->group) = (uint32_t)place->tile + 1;
}

/* By all threads of a block, with factor and term of their steps: what comes to each thread's
 * first step.  first: what comes to the chunk. */
ECO_DEVICE void hand_on(const struct eco_scan_call *call, const struct scan_place *place,
                        struct scan_shared *shared, const vec factor[SCAN_STATES],
                        const vec term[SCAN_STATES], vec start[SCAN_STATES])
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        shared->factor[place->warp][s][place->lane] = factor[s];
        shared->term[place->warp][s][place->lane] = term[s];
    }
    __syncthreads();
    if (place->warp == 0) {
        vec end[SCAN_STATES];
        if (place->tile > 0)
            receive(call, place, start);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++) {
            shared->start[s][place->lane] = end[s] = start[s];
            for (int w = 0; w < ECO_SCAN_WARPS; w++)
                end[s] =
                    shared->factor[w][s][place->lane] * end[s] + shared->term[w][s][place->lane];
        }
        if (place->tile + 1 < place->tiles)
            send(call, place, end);
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        start[s] = shared->start[s][place->lane];
        for (int w = 0; w < place->warp; w++)
            start[s] =
                shared->factor[w][s][place->lane] * start[s] + shared->term[w][s][place->lane];
    }
}

/* One more step of a state. */
ECO_DEVICE void fold(vec *factor, vec *term, vec a, vec b)
{
    *term = a * *term + b;
    *factor = a * *factor;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* A state of the chunk's begin or end, at the element. */
ECO_DEVICE vec read_plane(const struct eco_scan_array *plane, const struct scan_place *place,
                          bool wide)
{
    const int64_t at = place->n * plane->row + place->unit;
    return wide && sizeof(narrow) < sizeof(real) ? ((const real *)plane->data)[at]
                                                 : to_real(((const narrow *)plane->data)[at]);
}

ECO_DEVICE void write_plane(const struct eco_scan_array *plane, const struct scan_place *place,
                            bool wide, vec v)
{
    const int64_t at = place->n * plane->row + place->unit;
    if (wide && sizeof(narrow) < sizeof(real))
        ((real *)plane->data)[at] = v;
    else
        ((narrow *)plane->data)[at] = to_narrow(v);
}

ECO_DEVICE vec state_at_begin(const struct eco_scan_call *call, const struct scan_place *place,
                              int s)
{
    return call->zero_states >> s & 1
               ? (vec)0
               : read_plane(&call->first[s], place, call->wide_states >> s & 1);
}

/* What a step leaves: states where they are wanted, y. */
ECO_DEVICE void leave_step(const struct eco_scan_call *call, const struct scan_place *place,
                           const struct scan_step *at, int32_t p, bool counted)
{
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const bool wide = call->wide_states >> s & 1;
        if (call->kept[s].data)
            write_narrow(&call->kept[s], at, 0, at->next[s]);
        const bool apart = !counted && p + 1 == call->steps; /* the last one is that of `last` */
        if (call->next[s].data && !apart && wide && sizeof(narrow) < sizeof(real))
            ((real *)call->next[s].data)[place_in(&call->next[s], at)] = at->next[s];
        else if (call->next[s].data && !apart)
            write_narrow(&call->next[s], at, 0, at->next[s]);
        if (counted && !counts(call, place, p + 1))
            write_plane(&call->last[s], place, wide, at->next[s]);
    }
    if (call->y.data)
        write_narrow(&call->y, at, 0, counted ? at->next[0] : (vec)0);
}

extern "C" __global__ void __launch_bounds__(ECO_SCAN_UNITS *ECO_SCAN_WARPS)
    scan_forward(const __grid_constant__ struct eco_scan_call call)
{
    enum { STEPS = ECO_SCAN_STEPS(SCAN_ACCS + SCAN_STATES) };
    __shared__ struct scan_shared shared;
    struct scan_step step[STEPS];
    vec factor[SCAN_STATES], term[SCAN_STATES], state[SCAN_STATES], bias[SCAN_ACCS];
    const struct scan_place place = scan_place_of(&call, &shared, STEPS * ECO_SCAN_WARPS);
    const int32_t p0 = (place.tile * ECO_SCAN_WARPS + place.warp) * STEPS;
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        step[k].call = &call;
        step[k].n = place.n;
        step[k].unit = place.unit;
        step[k].t = time_of(&call, p0 + k);
#pragma unroll
        for (int a = 0; a < SCAN_ACCS; a++)
            step[k].acc[a] = read_real(&call.acc, &step[k], (int64_t)call.column * a);
    }
#pragma unroll
    for (int a = 0; a < SCAN_ACCS; a++)
        bias[a] = call.bias[a] < 0 ? (vec)0 : load_vector(&step[0], call.bias[a]);
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const bool begins = place.tile == 0 && is_linear(s);
        factor[s] = 1;
        term[s] = 0;
        state[s] = begins ? state_at_begin(&call, &place, s) : (vec)0;
    }
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
#pragma unroll
        for (int a = 0; a < SCAN_ACCS; a++)
            step[k].acc[a] += bias[a];
        if (!counts(&call, &place, p0 + k))
            continue;
        SCAN_LINEAR_FORWARD(&step[k]);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            if (is_linear(s))
                fold(&factor[s], &term[s], step[k].factor[s], step[k].term[s]);
    }
    hand_on(&call, &place, &shared, factor, term, state);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        const bool counted = counts(&call, &place, p0 + k);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            step[k].before[s] = step[k].next[s] = state[s];
        if (counted)
            SCAN_FORWARD(&step[k]);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            state[s] = step[k].next[s];
        if (place.there && p0 + k < call.steps)
            leave_step(&call, &place, &step[k], p0 + k, counted);
    }
    /* A row that has no step in the chunk keeps its states. */
    const bool ends = p0 <= call.steps - 1 && call.steps - 1 < p0 + STEPS;
    if (ends && place.there && call.t0 >= place.length)
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            write_plane(&call.last[s], &place, call.wide_states >> s & 1,
                        state_at_begin(&call, &place, s));
}

/* ---- backward -------------------------------------------------------------------------------- */

ECO_DEVICE real *carry_at(const struct eco_scan_call *call, const struct scan_place *place, int s)
{
    return (real *)call->carry[s].data + place->n * call->carry[s].row + place->unit;
}

/* States of a step, saved values; the gradient of y joins that of the output state. */
ECO_DEVICE void read_step(const struct eco_scan_call *call, struct scan_step *at, vec *dy)
{
#pragma unroll
    for (int i = 0; i < SCAN_SAVES; i++)
        at->saved[i] = read_narrow(&call->save, at, (int64_t)call->hidden * i);
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const bool begins = (call->begins >> s & 1) && at->t == call->begin;
        const struct eco_scan_array *from = begins && call->initial[s].data ? &call->initial[s]
                                            : begins ? &call->next[s] /* read, and not taken */
                                                     : &call->before[s];
        const vec there = read_narrow(from, at, 0);
        at->before[s] = begins && !call->initial[s].data ? (vec)0 : there;
        at->next[s] = read_narrow(&call->next[s], at, 0);
    }
    *dy = !call->y.data   ? (vec)0
          : call->wide_dy ? read_real(&call->y, at, 0)
                          : read_narrow(&call->y, at, 0);
}

/* What comes to output states: of the chunk's first step that counts from behind, else from y. */
ECO_DEVICE void take_outputs(const struct eco_scan_call *call, const struct scan_place *place,
                             struct scan_step *at, int32_t p, vec dy)
{
    const bool comes = !counts(call, place, p - 1);
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        if (is_linear(s))
            continue;
        const bool there = comes && !(call->zero_carry >> s & 1);
        const vec carry = there ? *carry_at(call, place, s) : (real)0;
        at->dnext[s] = s == 0 ? carry + dy : carry;
    }
}

/* Nothing of output states goes further. */
ECO_DEVICE void clear_outputs(const struct eco_scan_call *call, const struct scan_place *place,
                              int32_t p)
{
    const bool first = counts(call, place, p) && !counts(call, place, p - 1);
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++)
        if (!is_linear(s) && (first || (p == 0 && (call->zero_carry >> s & 1))))
            *carry_at(call, place, s) = 0;
}

extern "C" __global__ void __launch_bounds__(ECO_SCAN_UNITS *ECO_SCAN_WARPS)
    scan_backward(const __grid_constant__ struct eco_scan_call call)
{
    enum { STEPS = ECO_SCAN_STEPS(SCAN_SAVES + 2 * SCAN_STATES) };
    __shared__ struct scan_shared shared;
    struct scan_step step[STEPS];
    vec factor[SCAN_STATES], term[SCAN_STATES], carry[SCAN_STATES], dy[STEPS];
    const struct scan_place place = scan_place_of(&call, &shared, STEPS * ECO_SCAN_WARPS);
    const int32_t p0 = (place.tile * ECO_SCAN_WARPS + place.warp) * STEPS;
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        step[k].call = &call;
        step[k].n = place.n;
        step[k].unit = place.unit;
        step[k].t = time_of(&call, p0 + k);
        read_step(&call, &step[k], &dy[k]);
    }
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const bool begins = place.tile == 0 && is_linear(s) && !(call.zero_carry >> s & 1);
        factor[s] = 1;
        term[s] = 0;
        carry[s] = begins ? *carry_at(&call, &place, s) : (real)0;
    }
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        if (!counts(&call, &place, p0 + k))
            continue;
        take_outputs(&call, &place, &step[k], p0 + k, dy[k]);
        SCAN_LINEAR_BACKWARD(&step[k]);
#pragma unroll
        for (int s = 0; s < SCAN_STATES; s++)
            if (is_linear(s))
                fold(&factor[s], &term[s], step[k].factor[s],
                     s == 0 ? step[k].factor[s] * dy[k] + step[k].term[s] : step[k].term[s]);
    }
    hand_on(&call, &place, &shared, factor, term, carry);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        if (!place.there || p0 + k >= call.steps)
            continue;
        if (counts(&call, &place, p0 + k)) {
#pragma unroll
            for (int s = 0; s < SCAN_STATES; s++)
                if (is_linear(s))
                    step[k].dnext[s] = s == 0 ? carry[s] + dy[k] : carry[s];
            SCAN_BACKWARD(&step[k]);
#pragma unroll
            for (int s = 0; s < SCAN_STATES; s++)
                carry[s] = step[k].dbefore[s];
        } else {
            for (int a = 0; a < SCAN_DACCS; a++)
                store_dacc(&step[k], a, 0);
        }
        clear_outputs(&call, &place, p0 + k);
        if (p0 + k + 1 == call.steps)
#pragma unroll
            for (int s = 0; s < SCAN_STATES; s++)
                if (is_linear(s))
                    *carry_at(&call, &place, s) = carry[s];
    }
}

#endif /* ECO_GPU_SCAN_KERNELS_CUH */
