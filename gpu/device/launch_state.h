/*
 * The order of the kernels of a run: may the next kernel become resident before its predecessors
 * have ended (a grid dependency)? Whatever is queued is noted here by one of three calls: a kernel
 * that may overlap its predecessor (after), a kernel that does not touch the exchange (concurrent),
 * or something that the next kernel must not overlap (serialize).
 */
#ifndef ECO_GPU_DEVICE_LAUNCH_STATE_H
#define ECO_GPU_DEVICE_LAUNCH_STATE_H

#include <stdbool.h>

struct eco_launch_state {
    bool can;         /* the device has grid dependencies */
    int lanes;        /* concurrent lanes of the tape */
    bool in_op;       /* the current op has queued a kernel on its stream */
    bool in_lane;     /* there is one lane, and a kernel of any op precedes */
    bool steps;       /* and a stage has run since R was prepared */
    bool unexchanged; /* kernels that do not touch the exchange were queued since the last
                         persistent kernel */
};

/* A kernel is queued. May it overlap its predecessor? With several lanes, the first kernel of an op
 * may not, because it may depend on several streams. */
static inline bool eco_launch_after(struct eco_launch_state *state)
{
    const bool ahead = state->in_op || state->in_lane;
    state->in_op = true;
    state->in_lane = state->lanes == 1;
    return ahead && state->can;
}

/* The same for a launch for all lanes of a level. */
static inline bool eco_launch_after_all(struct eco_launch_state *state)
{
    const bool ahead = state->in_lane;
    state->in_lane = state->lanes == 1;
    return ahead && state->can;
}

/* A kernel is queued that does not touch the exchange. */
static inline void eco_launch_concurrent(struct eco_launch_state *state)
{
    state->in_op = state->unexchanged = true;
    state->in_lane = state->lanes == 1;
}

/* Something is queued that the next kernel must not overlap: */
enum eco_serialized_by {
    ECO_SERIALIZED_RUN,      /* the beginning of a run */
    ECO_SERIALIZED_OP,       /* another op, on a stream that may have waited for others */
    ECO_SERIALIZED_COPY,     /* an operation other than a kernel */
    ECO_SERIALIZED_EXCHANGE, /* a persistent kernel */
    ECO_SERIALIZED_PREPARED, /* a copy of R, which steps read */
};
static inline void eco_launch_serialize(struct eco_launch_state *state, enum eco_serialized_by by)
{
    state->in_op = state->in_op && by != ECO_SERIALIZED_OP && by != ECO_SERIALIZED_COPY;
    state->in_lane = state->in_lane && (by == ECO_SERIALIZED_OP || by == ECO_SERIALIZED_PREPARED);
    state->steps = state->steps && by != ECO_SERIALIZED_OP && by != ECO_SERIALIZED_PREPARED;
    state->unexchanged =
        state->unexchanged && by != ECO_SERIALIZED_RUN && by != ECO_SERIALIZED_EXCHANGE;
}

/* May an exchange be marked while the preceding kernel runs? Not with several lanes, where the
 * stream may have waited for others since. */
static inline bool eco_launch_may_mark(const struct eco_launch_state *state)
{
    return state->can && state->unexchanged && state->lanes == 1;
}

#endif /* ECO_GPU_DEVICE_LAUNCH_STATE_H */
