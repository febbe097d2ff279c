/*
 * How the kernels of a run follow each other: may the next one be put in place before those ahead
 * have ended (a grid dependency)?  Whoever queues something says how it stands to what is ahead:
 * after it, beside it, or apart.
 */
#ifndef ECO_GPU_DEVICE_LAUNCH_STATE_H
#define ECO_GPU_DEVICE_LAUNCH_STATE_H

#include <stdbool.h>

struct eco_launch_state {
    bool can;         /* the device has grid dependencies */
    int lanes;        /* of the tape that run beside each other */
    bool in_op;       /* the op at hand has queued a kernel on its stream */
    bool in_lane;     /* in one lane there is a kernel ahead, of whatever op */
    bool steps;       /* and a stage since R was prepared */
    bool unexchanged; /* kernels that touch nothing that is exchanged, since the last persistent
                       * one */
};

/* A kernel comes next.  May it be put in place before the one ahead has ended?  Not an op's first,
 * unless there is but one lane: it may come after several streams. */
static inline bool eco_launch_after(struct eco_launch_state *state)
{
    const bool ahead = state->in_op || state->in_lane;
    state->in_op = true;
    state->in_lane = state->lanes == 1;
    return ahead && state->can;
}

/* The same of a launch for all lanes of a level. */
static inline bool eco_launch_after_all(struct eco_launch_state *state)
{
    const bool ahead = state->in_lane;
    state->in_lane = state->lanes == 1;
    return ahead && state->can;
}

/* A kernel is queued that touches nothing that is exchanged. */
static inline void eco_launch_beside(struct eco_launch_state *state)
{
    state->in_op = state->unexchanged = true;
    state->in_lane = state->lanes == 1;
}

/* What comes next is apart from what is queued, because this came between: */
enum eco_apart {
    ECO_APART_RUN,      /* the begin of a run */
    ECO_APART_OP,       /* another op, on a stream that may have waited for others */
    ECO_APART_COPY,     /* something that is no kernel */
    ECO_APART_EXCHANGE, /* a persistent kernel */
    ECO_APART_PREPARED, /* a copy of R, which steps read */
};
static inline void eco_launch_apart(struct eco_launch_state *state, enum eco_apart by)
{
    state->in_op = state->in_op && by != ECO_APART_OP && by != ECO_APART_COPY;
    state->in_lane = state->in_lane && (by == ECO_APART_OP || by == ECO_APART_PREPARED);
    state->steps = state->steps && by != ECO_APART_OP && by != ECO_APART_PREPARED;
    state->unexchanged = state->unexchanged && by != ECO_APART_RUN && by != ECO_APART_EXCHANGE;
}

/* May marks of an exchange be written while the kernel ahead runs?  In several lanes the stream may
 * have waited for others since. */
static inline bool eco_launch_marks_beside(const struct eco_launch_state *state)
{
    return state->can && state->unexchanged && state->lanes == 1;
}

#endif /* ECO_GPU_DEVICE_LAUNCH_STATE_H */
