/*
 * All steps backward of a cell whose units never meet, around its printed text.
 */
#ifndef ECO_GPU_SCAN_APART_BACKWARD_CUH
#define ECO_GPU_SCAN_APART_BACKWARD_CUH

#include "gpu/scan/apart.cuh"

/* What a step reads, not converted: a conversion would wait for it. */
struct back_reads {
    narrow saved[SCAN_SAVES + 1], before[SCAN_STATES], next[SCAN_STATES], given[SCAN_STATES], dy;
    real wide_dy;
    uint8_t reset;
};

ECO_DEVICE void read_back(const struct eco_scan_call *call, const struct scan_position *position,
                          int32_t p, struct back_reads *reads)
{
    for (int i = 0; i < SCAN_SAVES; i++)
        reads->saved[i] =
            *step_at<const narrow>(call, position, &call->save, (int64_t)call->hidden * i, p);
    for (int s = 0; s < SCAN_STATES; s++) {
        const bool begins = call->begins >> s & 1 && time_of(call, p) == call->begin;
        const narrow *next = step_at<const narrow>(call, position, &call->next[s], 0, p),
                     *before = step_at<const narrow>(call, position, &call->before[s], 0, p);
        reads->before[s] = *(begins ? next : before);
        reads->next[s] = *next;
        if (SCAN_GIVES && call->given[s].data)
            reads->given[s] = *step_at<const narrow>(call, position, &call->given[s], 0, p);
    }
    if (call->y.data && sizeof(narrow) < sizeof(real) && call->wide_dy)
        reads->wide_dy = *step_at<const real>(call, position, &call->y, 0, p);
    else if (call->y.data)
        reads->dy = *step_at<const narrow>(call, position, &call->y, 0, p);
}

/* Sets what the text reads: states, saved values, and the gradients of states after the step, which
 * are what the step after it has left, and the caller's. */
ECO_DEVICE void set_step(const struct eco_scan_call *call, const struct scan_position *position,
                         struct scan_step *at, const struct back_reads *reads,
                         const vec initial[SCAN_STATES])
{
    for (int i = 0; i < SCAN_SAVES; i++)
        at->saved[i] = to_real(reads->saved[i]);
    for (int s = 0; s < SCAN_STATES; s++) {
        const bool begins = call->begins >> s & 1 && at->t == call->begin;
        at->before[s] = begins ? initial[s] : to_real(reads->before[s]);
        if (HAS_RESETS && reads->reset != 0)
            at->before[s] = start_of(call, position, s, 0);
        at->next[s] = to_real(reads->next[s]);
        at->dnext[s] = at->dbefore[s];
        if (SCAN_GIVES && call->given[s].data)
            at->dnext[s] += to_real(reads->given[s]);
    }
    if (call->y.data)
        at->dnext[0] +=
            sizeof(narrow) < sizeof(real) && call->wide_dy ? reads->wide_dy : to_real(reads->dy);
}

extern "C" __global__ void __launch_bounds__(32 * SCAN_WARPS, SCAN_BLOCKS)
    apart_backward(const __grid_constant__ struct eco_scan_call call)
{
    struct scan_position position;
    struct scan_step at;
    vec sum[SCAN_STATES] = {}, initial[SCAN_STATES];
    if (!begin_unit(&call, &position, &at))
        return;
    for (int s = 0; s < SCAN_STATES; s++) {
        const bool zero = call.zero_carry >> s & 1,
                   given = call.begins >> s & 1 && call.initial[s].data;
        initial[s] =
            given ? to_real(*plane_at<const narrow>(&call.initial[s], &position, 0)) : (vec)0;
        at.dbefore[s] = zero ? (vec)0 : *plane_at<const real>(&call.carry[s], &position, 0);
        if (HAS_RESETS && call.dstart[s].data)
            sum[s] = *plane_at<const real>(&call.dstart[s], &position, 0);
    }
    go_through<struct back_reads>(
        &call, &position, read_back, [&](int32_t p, const struct back_reads &reads) {
            const bool live = counts(&position, p);
            at.t = time_of(&call, p);
            set_step(&call, &position, &at, &reads, initial);
            if (live)
                SCAN_BACKWARD(&at);
            for (int s = 0; s < SCAN_STATES && HAS_RESETS && reads.reset != 0; s++) {
                sum[s] += at.dbefore[s];
                at.dbefore[s] = 0;
            }
            for (int a = 0; a < SCAN_DACCS; a++)
                write_narrow(&call, &position, &call.acc, (int64_t)call.column * a, p,
                             live ? at.dacc[a] : (vec)0);
        });
    for (int s = 0; s < SCAN_STATES; s++) {
        *plane_at<real>(&call.carry[s], &position, 0) = at.dbefore[s];
        if (HAS_RESETS && call.dstart[s].data)
            *plane_at<real>(&call.dstart[s], &position, 0) = sum[s];
    }
}

#endif /* ECO_GPU_SCAN_APART_BACKWARD_CUH */
