/*
 * All steps forward of a cell whose units never meet, around its printed text.
 */
#ifndef ECO_GPU_SCAN_APART_FORWARD_CUH
#define ECO_GPU_SCAN_APART_FORWARD_CUH

#include "gpu/scan/apart.cuh"

/* What a step reads. */
struct forward_reads {
    real acc[SCAN_ACCS + 1];
    uint8_t reset;
};

ECO_DEVICE void read_forward(const struct eco_scan_call *call, const struct scan_position *position,
                             int32_t p, struct forward_reads *reads)
{
    for (int a = 0; a < SCAN_ACCS; a++)
        reads->acc[a] =
            *step_at<const real>(call, position, &call->acc, (int64_t)call->column * a, p);
}

/* Writes what a step leaves. A row that has ended keeps its states, and its y is 0. */
ECO_DEVICE void leave_step(const struct eco_scan_call *call, const struct scan_position *position,
                           const struct scan_step *at, int32_t p, bool live)
{
    for (int i = 0; i < SCAN_SAVES; i++)
        write_narrow(call, position, &call->save, (int64_t)call->hidden * i, p,
                     live ? at->saved[i] : (vec)0);
    for (int s = SCAN_STATES - 1; s >= 0; s--) {
        if (s > 0)
            write_narrow(call, position, &call->kept[s], 0, p, at->next[s]);
        const bool planes = call->next[s].data && p + 1 < call->steps; /* else in `last` */
        if (planes && is_sum_state(call, s))
            *step_at<real>(call, position, &call->next[s], 0, p) = at->next[s];
        else if (planes)
            write_narrow(call, position, &call->next[s], 0, p, at->next[s]);
    }
    write_narrow(call, position, &call->y, 0, p, live ? at->next[0] : (vec)0);
}

/* States are rounded between steps as in algorithm step, which stores them. */
extern "C" __global__ void __launch_bounds__(32 * SCAN_WARPS, SCAN_BLOCKS)
    apart_forward(const __grid_constant__ struct eco_scan_call call)
{
    struct scan_position position;
    struct scan_step at;
    vec bias[SCAN_ACCS + 1];
    if (!begin_unit(&call, &position, &at))
        return;
    for (int a = 0; a < SCAN_ACCS; a++)
        bias[a] = call.bias[a] < 0 ? (vec)0 : vector_of(&at, call.bias[a]);
    for (int s = 0; s < SCAN_STATES; s++)
        at.next[s] = state_at_begin(&call, &position, s, 0);
    go_through<struct forward_reads>(
        &call, &position, read_forward, [&](int32_t p, const struct forward_reads &reads) {
            const bool live = counts(&position, p);
            at.t = time_of(&call, p);
            for (int a = 0; a < SCAN_ACCS; a++)
                at.acc[a] = reads.acc[a] + bias[a];
            for (int s = 0; s < SCAN_STATES; s++) {
                const vec state = is_sum_state(&call, s) ? at.next[s] : as_kept(at.next[s]);
                const bool reset = HAS_RESETS && reads.reset != 0;
                at.before[s] = at.next[s] = reset ? start_of(&call, &position, s, 0) : state;
            }
            if (live)
                SCAN_FORWARD(&at);
            leave_step(&call, &position, &at, p, live);
        });
    for (int s = 0; s < SCAN_STATES; s++)
        write_at_end(&call, &position, s, 0, at.next[s]);
}

#endif /* ECO_GPU_SCAN_APART_FORWARD_CUH */
