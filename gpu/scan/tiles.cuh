/*
 * Where a thread of a scan is, how it finds the rows of its steps, and what tiles tell each other.
 */
#ifndef ECO_GPU_SCAN_TILES_CUH
#define ECO_GPU_SCAN_TILES_CUH

#include "gpu/scan/words.cuh"

ECO_DEVICE constexpr bool is_linear(int s)
{
    return SCAN_LINEAR >> s & 1;
}

/* ---- a thread's place ------------------------------------------------------------------------ */

struct scan_shared {
    vec factor[ECO_SCAN_WARPS][SCAN_STATES][ECO_SCAN_UNITS];
    vec term[ECO_SCAN_WARPS][SCAN_STATES][ECO_SCAN_UNITS];
    vec start[SCAN_STATES][ECO_SCAN_UNITS];
    uint32_t ticket;
};

/* Steps are counted in the order of the scan.  Of the chunk's those from `from` to `to` count: all,
 * but for a row that has ended or not begun. */
struct scan_place {
    int32_t lane, warp, tile, tiles, group; /* group: 32 units of a row */
    int32_t n, unit, first;                 /* the thread's first step */
    int32_t from, to;
    bool there; /* else its unit is read, and not written */
    bool whole; /* all steps and units of the tile count */
};

ECO_DEVICE struct scan_place scan_place_of(const struct eco_scan_call *call,
                                           struct scan_shared *shared, int32_t steps)
{
    const int32_t across = (call->hidden + ECO_SCAN_UNITS - 1) / ECO_SCAN_UNITS;
    const int32_t groups = across * call->rows, tile = steps * ECO_SCAN_WARPS;
    struct scan_place at;
    at.lane = (int32_t)threadIdx.x;
    at.warp = (int32_t)threadIdx.y;
    if (at.lane == 0 && at.warp == 0)
        shared->ticket = atomicAdd(call->ticket, 1u);
    __syncthreads();
    at.tile = (int32_t)(shared->ticket / (uint32_t)groups);
    at.tiles = (call->steps + tile - 1) / tile;
    at.group = (int32_t)(shared->ticket % (uint32_t)groups);
    at.n = at.group / across;
    at.unit = at.group % across * ECO_SCAN_UNITS + at.lane;
    at.first = (at.tile * ECO_SCAN_WARPS + at.warp) * steps;
    const int32_t length = call->lengths ? call->lengths[at.n] - call->t0 : call->steps;
    const int32_t some = length < 0 ? 0 : length < call->steps ? length : call->steps;
    at.from = call->falls ? call->steps - some : 0;
    at.to = call->falls ? call->steps : some;
    at.there = at.unit < call->hidden;
    at.whole = at.from <= at.tile * tile && (at.tile + 1) * tile <= at.to &&
               at.unit - at.lane + ECO_SCAN_UNITS <= call->hidden;
    if (!at.there)
        at.unit = call->hidden - 1;
    return at;
}

ECO_DEVICE bool counts(const struct scan_place *place, int32_t p)
{
    return place->there && p >= place->from && p < place->to;
}

ECO_DEVICE int32_t time_of(const struct eco_scan_call *call, int32_t p)
{
    return call->t0 + (call->falls ? call->steps - 1 - p : p);
}

/* ---- rows of steps --------------------------------------------------------------------------- */

/* A thread's elements of an array, one for each of its steps; NULL: there are none. */
template <class T> struct elements {
    T *at;
    int64_t stride;
};

/* Of the column that begins `column` elements behind the first.  Steps past the chunk's are read
 * where its last one lies. */
template <class T>
ECO_DEVICE struct elements<T> elements_of(const struct eco_scan_call *call,
                                          const struct scan_place *place,
                                          const struct eco_scan_array *array, int64_t column) {
    const int32_t first = place->first < call->steps ? place->first : call->steps - 1;
    const int64_t step = (int64_t)(time_of(call, first) - call->t0) * array->step;
    T *data = (T *)array->data;
    return {data ? data + step + place->n * array->row + place->unit + column : data,
            call->falls ? -array->step : array->step};
}

template <class T>
ECO_DEVICE T *scan_element(const struct elements<T> *of, int32_t k)
{
    return of->at + k * of->stride;
}

/* How many of a thread's steps there are, at least one: others are read in place of the last. */
ECO_DEVICE int32_t last_of(const struct eco_scan_call *call, const struct scan_place *place)
{
    const int32_t left = call->steps - 1 - place->first;
    return left < 0 ? 0 : left;
}

/* An element of one step's rows, such as states at the chunk's begin. */
template <class T>
ECO_DEVICE T *plane_at(const struct eco_scan_array *plane, const struct scan_place *place)
{
    return (T *)plane->data + place->n * plane->row + place->unit;
}

/* ---- from tile to tile ----------------------------------------------------------------------- */

/* What comes to the block from the tile before. */
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

ECO_DEVICE void send_on(const struct eco_scan_call *call, const struct scan_place *place,
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

/* A state after some steps.  Their factors together may be infinite, where a state that is 0 stays
 * so. */
ECO_DEVICE vec state_after(vec factor, vec term, vec state)
{
    return state == 0 ? term : factor * state + term;
}

/* By all threads of a block, with factor and term of their steps.  start: what comes to the chunk,
 * becomes what comes to the thread's first step. */
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
                end[s] = state_after(shared->factor[w][s][place->lane],
                                     shared->term[w][s][place->lane], end[s]);
        }
        if (place->tile + 1 < place->tiles)
            send_on(call, place, end);
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        start[s] = shared->start[s][place->lane];
        for (int w = 0; w < place->warp; w++)
            start[s] = state_after(shared->factor[w][s][place->lane],
                                   shared->term[w][s][place->lane], start[s]);
    }
}

/* One more step of a state.  A factor of 0 forgets what came before, be it too large for a number.
 */
ECO_DEVICE void fold(vec *factor, vec *term, vec a, vec b)
{
    *term = a * *term + b;
    *factor = a == 0 ? (vec)0 : a * *factor;
}

#endif /* ECO_GPU_SCAN_TILES_CUH */
