/*
 * Which steps and units a thread of a scan has, and how it reads and writes their rows.
 */
#ifndef ECO_GPU_SCAN_POSITION_CUH
#define ECO_GPU_SCAN_POSITION_CUH

#include "gpu/scan/words.cuh"

/* ---- the position of a thread ---------------------------------------------------------------- */

/* Steps are counted in the order of the scan. Steps `from` up to `to` are active: all of the chunk,
 * unless a row has ended or not begun. */
struct scan_position {
    int32_t lane, warp, tile, tiles, group; /* group: ECO_SCAN_UNITS of a row */
    int32_t n, first;                       /* the thread's first step */
    int32_t unit[ECO_SCAN_WIDE];
    int32_t from, to;
    uint32_t resets;           /* see restarts() */
    bool there[ECO_SCAN_WIDE]; /* if not, another unit is read instead, and nothing is written */
    bool whole; /* all steps and units of the tile are active, and aligned as pairs */
};

ECO_DEVICE bool counts(const struct scan_position *position, int32_t p)
{
    return p >= position->from && p < position->to;
}

/* Does any of the thread's steps? The same for all threads of a warp. */
ECO_DEVICE bool some_count(const struct scan_position *position, int32_t steps)
{
    return position->first < position->to && position->first + steps > position->from;
}

ECO_DEVICE int32_t time_of(const struct eco_scan_call *call, int32_t p)
{
    return call->t0 + (call->falls ? call->steps - 1 - p : p);
}

/* Not 0: the row is reset before step p. */
ECO_DEVICE uint8_t reset_of(const struct eco_scan_call *call, const struct scan_position *position,
                            int32_t p)
{
    if (!HAS_RESETS || !call->resets)
        return 0;
    const int32_t end = call->lengths ? call->lengths[position->n] : call->resets_end,
                  at = time_of(call, p) + call->resets_ahead;
    return counts(position, p) && at < end ? call->resets[(int64_t)at * call->rows + position->n]
                                           : (uint8_t)0;
}

/* Needs the other members. */
ECO_DEVICE uint32_t resets_of(const struct eco_scan_call *call,
                              const struct scan_position *position, int32_t steps)
{
    uint32_t resets = 0;
    for (int32_t k = 0; k < steps; k++)
        if (reset_of(call, position, position->first + k) != 0)
            resets |= 1u << k;
    return resets;
}

/* Does the row begin again before the thread's step k? */
ECO_DEVICE bool restarts(const struct scan_position *position, int k)
{
    return HAS_RESETS && (position->resets >> k & 1);
}

/* Sets from and to by the row's length. */
ECO_DEVICE void set_active(const struct eco_scan_call *call, struct scan_position *at)
{
    const int32_t length = call->lengths ? call->lengths[at->n] - call->t0 : call->steps;
    const int32_t some = length < 0 ? 0 : length < call->steps ? length : call->steps;
    at->from = call->falls ? call->steps - some : 0;
    at->to = call->falls ? call->steps : some;
}

ECO_DEVICE struct scan_position scan_position_of(const struct eco_scan_call *call,
                                                 uint32_t *shared_ticket, int32_t steps)
{
    const int32_t across = (call->hidden + ECO_SCAN_UNITS - 1) / ECO_SCAN_UNITS;
    const int32_t groups = across * call->rows, tile = steps * SCAN_WARPS;
    struct scan_position at;
    at.lane = (int32_t)threadIdx.x;
    at.warp = (int32_t)threadIdx.y;
    if (at.lane == 0 && at.warp == 0)
        *shared_ticket = atomicAdd(call->ticket, 1u);
    __syncthreads();
    at.tile = (int32_t)(*shared_ticket / (uint32_t)groups);
    at.tiles = (call->steps + tile - 1) / tile;
    at.group = (int32_t)(*shared_ticket % (uint32_t)groups);
    at.n = at.group / across;
    const int32_t unit = at.group % across * ECO_SCAN_UNITS;
    at.first = (at.tile * SCAN_WARPS + at.warp) * steps;
    set_active(call, &at);
    at.whole = at.from <= at.tile * tile && (at.tile + 1) * tile <= at.to &&
               unit + ECO_SCAN_UNITS <= call->hidden && call->pairs;
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++) {
        at.unit[w] = unit + at.lane * ECO_SCAN_WIDE + w;
        at.there[w] = at.unit[w] < call->hidden;
        if (!at.there[w])
            at.unit[w] = call->hidden - 1;
    }
    at.resets = resets_of(call, &at, steps);
    return at;
}

/* ---- rows of steps --------------------------------------------------------------------------- */

/* A thread's elements of an array, for its first unit, one for each of its steps; or NULL. */
template <class T> struct elements {
    T *at;
    int64_t stride;
};

/* The column that begins `column` elements later. Steps beyond the chunk read its last step. */
template <class T>
ECO_DEVICE struct elements<T> elements_of(const struct eco_scan_call *call,
                                          const struct scan_position *position,
                                          const struct eco_scan_array *array, int64_t column) {
    const int32_t first = position->first < call->steps ? position->first : call->steps - 1;
    const int64_t step = (int64_t)(time_of(call, first) - call->t0) * array->step;
    T *data = (T *)array->data;
    return {data ? data + step + position->n * array->row + position->unit[0] + column : data,
            call->falls ? -array->step : array->step};
}

template <class T>
ECO_DEVICE T *scan_element(const struct elements<T> *of, int32_t k)
{
    return of->at + k * of->stride;
}

/* Has a tile of `steps` steps the one whose previous states are in `initial`? */
ECO_DEVICE bool has_begin(const struct eco_scan_call *call, const struct scan_position *position,
                          int32_t steps)
{
    const int32_t one = time_of(call, position->tile * steps),
                  other = time_of(call, position->tile * steps + steps - 1);
    const bool between = (one <= call->begin && call->begin <= other) ||
                         (other <= call->begin && call->begin <= one);
    return call->begins != 0 && between;
}

/* Index of a thread's last existing step, at least 0; others read that one instead. */
ECO_DEVICE int32_t last_of(const struct eco_scan_call *call, const struct scan_position *position)
{
    const int32_t left = call->steps - 1 - position->first;
    return left < 0 ? 0 : left;
}

/* The step that is read for step k. */
template <bool WHOLE> ECO_DEVICE int32_t inside(int k, int32_t last)
{
    return WHOLE || k < last ? k : last;
}

/* The steps of a thread: sets positions, reads nothing. */
template <int STEPS>
ECO_DEVICE void begin_steps(const struct eco_scan_call *call, const struct scan_position *position,
                            struct scan_step step[STEPS][ECO_SCAN_WIDE])
{
#pragma unroll
    for (int k = 0; k < STEPS; k++)
#pragma unroll
        for (int w = 0; w < ECO_SCAN_WIDE; w++) {
            step[k][w].call = call;
            step[k][w].n = position->n;
            step[k][w].unit = position->unit[w];
            step[k][w].t = time_of(call, position->first + k);
        }
}

/* All units of a thread, from its first one on. */
template <class T> struct __align__(sizeof(T) * ECO_SCAN_WIDE) scan_units
{
    T of[ECO_SCAN_WIDE];
};

template <bool WHOLE, class T>
ECO_DEVICE struct scan_units<T> read_units(const struct scan_position *position, const T *from) {
    struct scan_units<T> units;
    if (WHOLE)
        return *(const struct scan_units<T> *)from;
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++)
        units.of[w] = from[position->unit[w] - position->unit[0]];
    return units;
}

template <bool WHOLE, class T>
ECO_DEVICE void write_units(const struct scan_position *position, T *to,
                            const struct scan_units<T> &units)
{
    if (WHOLE) {
        *(struct scan_units<T> *)to = units;
        return;
    }
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++)
        if (position->there[w])
            to[w] = units.of[w];
}

ECO_DEVICE struct scan_units<narrow> narrow_units(const struct scan_units<vec> &units) {
    struct scan_units<narrow> narrows;
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++)
        narrows.of[w] = to_narrow(units.of[w]);
    return narrows;
}

ECO_DEVICE struct scan_units<real>
real_units(const struct scan_units<narrow> &units) {
    struct scan_units<real> reals;
#pragma unroll
    for (int w = 0; w < ECO_SCAN_WIDE; w++)
        reals.of[w] = to_real(units.of[w]);
    return reals;
}

/* Writes values[k] to the existing steps. */
template <int STEPS, bool WHOLE>
ECO_DEVICE void write_steps(const struct eco_scan_call *call, const struct scan_position *position,
                            const struct eco_scan_array *array, int64_t column,
                            const struct scan_units<vec> values[STEPS])
{
    const struct elements<narrow> to = elements_of<narrow>(call, position, array, column);
    if (to.at)
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            if (WHOLE || position->first + k < call->steps)
                write_units<WHOLE>(position, scan_element(&to, k), narrow_units(values[k]));
}

/* An element of a single step's rows, such as states before the chunk, for the thread's unit w. */
template <class T>
ECO_DEVICE T *plane_at(const struct eco_scan_array *plane, const struct scan_position *position,
                       int w)
{
    return (T *)plane->data + position->n * plane->row + position->unit[w];
}

/* The state of unit w after a reset. */
ECO_DEVICE vec start_of(const struct eco_scan_call *call, const struct scan_position *position,
                        int s, int w)
{
    return call->start[s].data ? to_real(*plane_at<const narrow>(&call->start[s], position, w))
                               : (real)0;
}

ECO_DEVICE bool is_sum_state(const struct eco_scan_call *call, int s)
{
    return sizeof(narrow) < sizeof(real) && (call->wide_states >> s & 1);
}

/* A state before the chunk. */
ECO_DEVICE vec state_at_begin(const struct eco_scan_call *call,
                              const struct scan_position *position, int s, int w)
{
    if (call->zero_states >> s & 1)
        return 0;
    return is_sum_state(call, s) ? *plane_at<const real>(&call->first[s], position, w)
                                 : to_real(*plane_at<const narrow>(&call->first[s], position, w));
}

ECO_DEVICE void write_at_end(const struct eco_scan_call *call, const struct scan_position *position,
                             int s, int w, vec v)
{
    if (is_sum_state(call, s))
        *plane_at<real>(&call->last[s], position, w) = v;
    else
        *plane_at<narrow>(&call->last[s], position, w) = to_narrow(v);
}

#endif /* ECO_GPU_SCAN_POSITION_CUH */
