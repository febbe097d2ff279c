/*
 * What a step forward of algorithm resident writes outside the chip, and where.
 */
#ifndef ECO_GPU_PERSISTENT_FORWARD_STORES_CUH
#define ECO_GPU_PERSISTENT_FORWARD_STORES_CUH

#include "gpu/persistent/cluster_sums.cuh"
#include "gpu/persistent/elements.cuh"

/* Arrays that a step writes outside the chip.  One thread to each knows where the step at hand
 * begins and tells the others; NULL: nothing is written there. */
enum {
    TO_Y,
    TO_SAVE,
    TO_STATE,
    TO_KEPT = TO_STATE + ECO_MAX_STATES,
    ARRAYS = TO_KEPT + ECO_MAX_STATES
};
static __shared__ char *written[2][ARRAYS]; /* of steps in turn, where blocks meet once in each */
static_assert(sizeof written + sizeof arrivals <= ECO_RESIDENT_STATIC_BYTES(false), "no more room");

struct writer {
    char *at;
    int64_t step; /* bytes */
    bool last_only;
};

ECO_DEVICE struct writer writer_of(const struct eco_resident_call *call, const struct share *share)
{
    const struct eco_resident_job *job = &call->job[share->job];
    const int k = (int)threadIdx.x, s = (k - TO_STATE) % ECO_MAX_STATES;
    struct writer writer = {NULL, 0, false};
    if (k == TO_Y) {
        writer.at = (char *)job->y;
        writer.step = job->y_step * (int64_t)sizeof(narrow);
    } else if (k == TO_SAVE) {
        writer.at = (char *)job->save;
        writer.step = job->save_step * (int64_t)sizeof(narrow);
    } else if (k >= TO_KEPT && k < ARRAYS && s < call->n_states) {
        writer.at = (char *)job->kept[s];
        writer.step = job->next_step[s] * (int64_t)sizeof(narrow);
    } else if (k < ARRAYS && s < call->n_states) {
        const int64_t bytes = (int64_t)(s == 0 ? sizeof(narrow) : sizeof(real));
        writer.last_only = !(job->kept_states >> s & 1);
        writer.at = (char *)job->next[s];
        writer.step = writer.last_only ? 0 : job->next_step[s] * bytes;
    }
    return writer;
}

ECO_DEVICE void tell(struct writer *writer, int turn, bool last)
{
    if (threadIdx.x < ARRAYS) {
        written[turn][threadIdx.x] = last || !writer->last_only ? writer->at : NULL;
        if (writer->at)
            writer->at += writer->step;
    }
}

/* Predicates, no branches but where all threads agree: every one of them would be waited for. */

template <class PLACE> ECO_DEVICE void write_saves(const PLACE *at, int saves)
{
    char *const save = written[at->turn][TO_SAVE];
    narrow *to = (narrow *)save + element_at(at->row, at->call->save_row, at->unit);
#pragma unroll
    for (int i = 0; i < saves; i++) {
        write_row(at->there && !at->masked && save && stores(at, i), to, to_narrow(at->save[i]));
        to += at->call->hidden;
    }
}

template <class CELL, class PLACE> ECO_DEVICE void write_pair(const PLACE *at)
{
    const struct eco_resident_call *call = at->call;
    char *const y = written[at->turn][TO_Y];
    const narrow h = to_narrow(at->next[0]);
    write_row(at->there && y, (narrow *)y + element_at(at->row, call->y_row, at->unit),
              at->masked ? to_narrow(0) : h);
    if (call->training) {
        write_saves(at, CELL::saves);
#pragma unroll
        for (int s = 1; s < CELL::states; s++) {
            char *const kept = written[at->turn][TO_KEPT + s];
            write_row(at->there && kept,
                      (narrow *)kept + element_at(at->row, call->state_row[s], at->unit),
                      to_narrow(at->next[s]));
        }
    }
    if (at->job->kept_states != 0 || at->step == at->job->steps - 1)
#pragma unroll
        for (int s = 0; s < CELL::states; s++) {
            char *const base = written[at->turn][TO_STATE + s];
            const uint32_t where = element_at(at->row, call->state_row[s], at->unit);
            if (s == 0)
                write_row(at->there && base, (narrow *)base + where, h);
            else
                store_4_if(at->there && base, (real *)base + where, __float_as_uint(at->next[s]));
        }
}

#endif /* ECO_GPU_PERSISTENT_FORWARD_STORES_CUH */
