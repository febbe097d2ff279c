/*
 * Cells whose units never meet: a thread has one unit of one row, and goes through all steps of the
 * chunk. It computes SCAN_STEPS steps while what the next ones read is on its way.
 */
#ifndef ECO_GPU_SCAN_APART_CUH
#define ECO_GPU_SCAN_APART_CUH

#include "gpu/scan/position.cuh"

/* Finds the thread's unit; false: it has none. */
ECO_DEVICE bool begin_unit(const struct eco_scan_call *call, struct scan_position *position,
                           struct scan_step *at)
{
    const int64_t thread =
        ((int64_t)blockIdx.x * SCAN_WARPS + (int32_t)threadIdx.y) * 32 + (int32_t)threadIdx.x;
    if (thread >= (int64_t)call->rows * call->hidden)
        return false;
    *position = {};
    position->n = at->n = (int32_t)(thread / call->hidden);
    position->unit[0] = at->unit = (int32_t)(thread % call->hidden);
    set_active(call, position);
    at->call = call;
    for (int k = 0; k < SCAN_VECTORS; k++)
        at->vector[k] = vector_of(at, k);
    return true;
}

/* The unit's element of step p; `column` elements later in its row. */
template <class T>
ECO_DEVICE T *step_at(const struct eco_scan_call *call, const struct scan_position *position,
                      const struct eco_scan_array *array, int64_t column, int32_t p)
{
    const struct elements<T> of = elements_of<T>(call, position, array, column);
    return scan_element(&of, p);
}

ECO_DEVICE void write_narrow(const struct eco_scan_call *call, const struct scan_position *position,
                             const struct eco_scan_array *array, int64_t column, int32_t p, vec v)
{
    if (array->data)
        *step_at<narrow>(call, position, array, column, p) = to_narrow(v);
}

/* Runs all steps; those beyond the chunk read its last one. */
template <class READS, class READ, class DO>
ECO_DEVICE void go_through(const struct eco_scan_call *call, const struct scan_position *position,
                           READ read_step, DO do_step)
{
    READS now[SCAN_STEPS], then[SCAN_STEPS] = {};
    for (int32_t p = -SCAN_STEPS; p < call->steps; p += SCAN_STEPS) {
#pragma unroll
        for (int k = 0; k < SCAN_STEPS; k++) {
            const int32_t next = p + SCAN_STEPS + k, last = call->steps - 1;
            now[k] = then[k];
            read_step(call, position, next < last ? next : last, &then[k]);
            then[k].reset = reset_of(call, position, next);
        }
#pragma unroll
        for (int k = 0; k < SCAN_STEPS; k++)
            if (p >= 0 && p + k < call->steps)
                do_step(p + k, now[k]);
    }
}

#endif /* ECO_GPU_SCAN_APART_CUH */
