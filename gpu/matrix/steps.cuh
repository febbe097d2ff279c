/*
 * The steps of a row that count, their order, and where the caller's arrays have them.  A place is
 * a number in the order of the run; t is that of the caller's arrays.
 */
#ifndef ECO_GPU_MATRIX_STEPS_CUH
#define ECO_GPU_MATRIX_STEPS_CUH

#include "gpu/matrix/args.h"
#include "gpu/tile/rows.cuh"

typedef struct eco_gpu_matrix_call call_t;

extern __shared__ __align__(16) unsigned char shared_bytes[];

ECO_DEVICE int32_t time_at(const call_t &call, int32_t place)
{
    return call.reverse ? call.args.T - 1 - place : place;
}

ECO_DEVICE size_t mark_of(const call_t &call, int32_t n, int32_t place)
{
    return (size_t)time_at(call, place) * call.args.N + n;
}

/* Row (t,n) of x and y. */
ECO_DEVICE size_t caller_row(const call_t &call, int32_t n, int32_t place)
{
    return call.batch_major ? (size_t)n * call.args.T + time_at(call, place)
                            : mark_of(call, n, place);
}

ECO_DEVICE bool is_padding(const call_t &call, int32_t n, int32_t place)
{
    return call.args.lengths != nullptr && time_at(call, place) >= call.args.lengths[n];
}

ECO_DEVICE bool is_counted(const call_t &call, int32_t n, int32_t place)
{
    return !is_padding(call, n, place) &&
           (call.args.mask == nullptr || call.args.mask[mark_of(call, n, place)] != 0);
}

/* A step that does not count: does it repeat the last y? */
ECO_DEVICE bool repeats(const call_t &call, int32_t n, int32_t place)
{
    return call.repeats || !is_padding(call, n, place);
}

ECO_DEVICE int32_t next_counted(const call_t &call, int32_t n, int32_t place)
{
    if (call.args.mask == nullptr && call.args.lengths == nullptr)
        return place;
    while (place < call.args.T && !is_counted(call, n, place))
        place++;
    return place;
}

/* The last place before this one, and not before `least`, that counts; else least - 1. */
ECO_DEVICE int32_t last_counted(const call_t &call, int32_t n, int32_t place, int32_t least)
{
    do
        place--;
    while (place >= least && !is_counted(call, n, place));
    return place;
}

/* Do the states begin again before this step?  In reverse order the step before has the later x. */
ECO_DEVICE bool begins_again(const call_t &call, int32_t n, int32_t place)
{
    if (call.args.resets == nullptr)
        return false;
    const int32_t marked = call.reverse ? last_counted(call, n, place, 0) : place;
    return marked >= 0 && call.args.resets[mark_of(call, n, marked)] != 0;
}

/* The caller's arrays of a state: after a reset, its gradient, and those of the ends of a run. */
ECO_DEVICE const void *start_state(const call_t &call, int s)
{
    return call.args.reset_state[s];
}

ECO_DEVICE void *start_gradient(const call_t &call, int s)
{
    return call.args.dreset_state[s];
}

ECO_DEVICE const void *final_gradient(const call_t &call, int s)
{
    return call.args.dfinal[s];
}

ECO_DEVICE void *initial_gradient(const call_t &call, int s)
{
    return call.args.dinitial[s];
}

/* The row of a value in an array of the slab. */
ECO_DEVICE size_t slot_of(const call_t &call, int32_t n, int32_t h, int32_t place)
{
    return ((size_t)(place - call.first) * call.args.N + n) * call.heads + h;
}

/* A head of a row in an array [rows,heads]. */
ECO_DEVICE size_t head_of(const call_t &call, size_t n, int32_t h)
{
    return n * call.heads + h;
}

/* A head's part of an array of streams; NULL, too, for a row that pads a list of streams. */
template <typename element>
ECO_DEVICE element *stream_at(const call_t &call, const void *array, int32_t n, int32_t h,
                              int32_t width)
{
    const int32_t *const rows = call.args.rows, stream = rows != nullptr ? rows[n] : n;
    const bool pads = rows != nullptr && (uint32_t)stream >= (uint32_t)call.args.streams;
    return array == nullptr || pads ? nullptr
                                    : (element *)array + head_of(call, (size_t)stream, h) * width;
}

/* A head's numbers in a row of the caller's; NULL: there is no array. */
ECO_DEVICE narrow *head_row(const struct eco_gpu_matrix_rows &rows, size_t row, int32_t h,
                            int32_t width)
{
    return rows.data == nullptr ? nullptr
                                : (narrow *)rows.data + row * rows.row + (size_t)h * width;
}

/* A head's part of an array [rows,heads,width] of reals; NULL: there is no array. */
ECO_DEVICE real *real_at(const void *array, size_t head, size_t width)
{
    return array == nullptr ? nullptr : (real *)array + head * width;
}

ECO_DEVICE narrow *narrow_at(const void *array, size_t head, size_t width)
{
    return array == nullptr ? nullptr : (narrow *)array + head * width;
}

ECO_DEVICE real fused(real a, real b, real c)
{
    return REAL(fma)(a, b, c);
}

ECO_DEVICE real lanes_sum(real x)
{
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(~0u, x, lanes);
    return x;
}

#endif /* ECO_GPU_MATRIX_STEPS_CUH */
