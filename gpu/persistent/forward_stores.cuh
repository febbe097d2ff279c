/*
 * What a forward step of a persistent kernel stores in device memory, and where.
 */
#ifndef ECO_GPU_PERSISTENT_FORWARD_STORES_CUH
#define ECO_GPU_PERSISTENT_FORWARD_STORES_CUH

#include "gpu/persistent/cluster_sums.cuh"
#include "gpu/persistent/elements.cuh"

/* Arrays that a step stores. For each one thread computes where the current step begins and
 * publishes it; NULL: not stored. */
enum {
    TO_Y,
    TO_SAVE,
    TO_STATE,
    TO_KEPT = TO_STATE + ECO_MAX_STATES,
    ARRAYS = TO_KEPT + ECO_MAX_STATES
};
static __shared__ char *written[2][ARRAYS]; /* for even and odd steps: blocks may meet only once */
static_assert(sizeof written + sizeof arrivals <= eco_persistent_static_bytes(false),
              "no more room");

struct address_walker {
    char *at;
    int64_t step; /* bytes */
    bool last_only;
};

ECO_DEVICE struct address_walker address_walker_of(const struct block_context *block)
{
    const struct eco_persistent_job *job = job_of(block);
    const int k = (int)threadIdx.x, s = (k - TO_STATE) % ECO_MAX_STATES;
    struct address_walker address_walker = {NULL, 0, false};
    if (k == TO_Y) {
        address_walker.at = (char *)job->y;
        address_walker.step = job->y_step * (int64_t)sizeof(narrow);
    } else if (k == TO_SAVE) {
        address_walker.at = (char *)job->save;
        address_walker.step = job->save_step * (int64_t)sizeof(narrow);
    } else if (k >= TO_KEPT && k < ARRAYS && s < block->call->n_states) {
        address_walker.at = (char *)job->kept[s];
        address_walker.step = job->next_step[s] * (int64_t)sizeof(narrow);
    } else if (k < ARRAYS && s < block->call->n_states) {
        const int64_t bytes = (int64_t)(s == 0 ? sizeof(narrow) : sizeof(real));
        address_walker.last_only = !(job->kept_states >> s & 1);
        address_walker.at = (char *)job->next[s];
        address_walker.step = address_walker.last_only ? 0 : job->next_step[s] * bytes;
    }
    return address_walker;
}

ECO_DEVICE void publish_addresses(struct address_walker *address_walker, int parity, bool last)
{
    if (threadIdx.x < ARRAYS) {
        written[parity][threadIdx.x] =
            last || !address_walker->last_only ? address_walker->at : NULL;
        if (address_walker->at)
            address_walker->at += address_walker->step;
    }
}

/* Uses predicates; branches are taken only if all threads agree, or they would be waited for. */

/* Values that the text has saved so far in this stage. */
template <class CELL> ECO_DEVICE void write_saves(struct element_of<CELL> *at)
{
    char *const save = written[at->parity][TO_SAVE];
    narrow *to = (narrow *)save + offset_at(at->row, at->call->save_row, at->unit);
#pragma unroll
    for (int i = 0; i < CELL::saves; i++) {
        write_row(at->there && !at->masked && save && at->stored[i], to, to_narrow(at->save[i]));
        to += at->call->hidden;
        at->stored[i] = false;
    }
}

/* State s as the next step reads it. */
template <class ELEMENT> ECO_DEVICE float then_read(const ELEMENT *at, int s)
{
    return HAS_RESETS && at->restarts ? at->start[s] : at->next[s];
}

template <class CELL> ECO_DEVICE void write_element(struct element_of<CELL> *at)
{
    const struct eco_persistent_call *call = at->call;
    char *const y = written[at->parity][TO_Y];
    const narrow h = to_narrow(at->next[0]);
    write_row(at->there && y, (narrow *)y + offset_at(at->row, call->y_row, at->unit),
              at->masked ? to_narrow(0) : h);
    if (call->keeps) {
        write_saves(at);
#pragma unroll
        for (int s = 1; s < CELL::states; s++) {
            char *const kept = written[at->parity][TO_KEPT + s];
            write_row(at->there && kept,
                      (narrow *)kept + offset_at(at->row, call->state_row[s], at->unit),
                      to_narrow(at->next[s]));
        }
    }
    if (at->job->kept_states != 0 || at->step == at->job->steps - 1)
#pragma unroll
        for (int s = 0; s < CELL::states; s++) {
            char *const base = written[at->parity][TO_STATE + s];
            const uint32_t where = offset_at(at->row, call->state_row[s], at->unit);
            const float then = then_read(at, s);
            if (s == 0)
                write_row(at->there && base, (narrow *)base + where, to_narrow(then));
            else
                store_4_if(at->there && base, (real *)base + where, __float_as_uint(then));
        }
}

#endif /* ECO_GPU_PERSISTENT_FORWARD_STORES_CUH */
