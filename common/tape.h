/*
 * The tape: what happens in which order.  It is not stored: a walk makes its operations one after
 * the other, so that neither a plan nor a run takes longer for steps that it does not do.
 * plan/tape.c.
 */
#ifndef ECO_TAPE_H
#define ECO_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/problem.h"
#include "common/layout_request.h"

enum eco_op_kind {
    /* forward */
    ECO_BEGIN,  /* initial states into their planes */
    ECO_GATHER, /* input rows of the steps into the gather array: order, padding, dropout */
    ECO_INPUT,  /* acc of the steps = W x + bias */
    ECO_STEP,   /* the recurrence over the steps; y of the last layer; projection included */
    ECO_KEEP,   /* states of some of the steps into the reserve, where backward replays */
    ECO_END,    /* final states out */
    /* backward */
    ECO_D_BEGIN,   /* carry = gradient of the final states */
    ECO_REPLAY,    /* states and saved values of the steps again, from input and what was kept */
    ECO_D_STEP,    /* the recurrence back over the steps: dacc */
    ECO_D_INPUT,   /* dx of the steps = dacc W; add: to what the other direction left */
    ECO_D_SCATTER, /* dx from the gather array to its place: order, dropout */
    ECO_D_WEIGHTS, /* weight gradients of the steps; add: to what is there */
    ECO_D_END,     /* gradient of the initial states out */
    ECO_OP_KINDS
};

/* One rectangle of work: steps [t0,t1) of one layer and direction, none of them outside the run. */
struct eco_op {
    uint8_t kind; /* enum eco_op_kind */
    uint8_t layer, d;
    bool reversed; /* steps are taken from t1-1 down to t0 */
    bool add;      /* D_INPUT, D_SCATTER, D_WEIGHTS: to what is there */
    bool gathered; /* INPUT, D_WEIGHTS read, D_INPUT writes the gather array */
    int32_t t0, t1;
};

/* The step whose byte of resets tells whether rows begin anew before step t: t itself, and where
 * steps fall the one that was taken before, of which x may be the first of an episode. */
static inline int32_t eco_op_reset(const struct eco_op *op, int32_t t)
{
    return t + (int32_t)op->reversed;
}

/* What a direction of a layer does with each chunk, an op of a level. */
struct eco_course {
    uint8_t length, whole; /* after so many the chunk of y, or of dx, is whole */
    uint8_t kind[8];       /* enum eco_op_kind, or ECO_OP_KINDS: nothing */
};

/* All that the order of a run follows from.  The plan keeps that of its own T. */
struct eco_tape {
    const struct eco_problem *problem;
    int32_t T;               /* steps of the run, */
    int32_t chunk, chunks;   /* of a chunk, but for the last one; how many there are */
    int32_t requested_chunk; /* for steps of a chunk */
    int32_t group[2]; /* weight gradients once in so many chunks: of layer 0, of a later one */
    bool backward;
    bool replays;                   /* forward keeps states, backward computes the rest again */
    bool wavefront;                 /* layers overlap: those of one direction only */
    bool reversed[2];               /* [d] */
    bool gathers[2], scatters[2];   /* of layer 0, of a later one: x or dx is copied */
    struct eco_course course[2][2]; /* [layer > 0][d] */
};

/* ragged: padding must not be read (lengths given). */
void eco_tape_build(struct eco_tape *tape, const struct eco_problem *problem,
                    const struct eco_layout_request *request, bool backward, bool ragged);
/* The same for other steps; of none, each direction begins and ends. */
void eco_tape_resize(struct eco_tape *tape, int32_t T);
/* Does it need what the layer before it did with the same steps? */
bool eco_tape_is_behind(const struct eco_tape *tape, const struct eco_op *op);
/* How many operations there are. */
int64_t eco_tape_ops(const struct eco_tape *tape);

/* How far one direction of a layer has come. */
struct eco_lane {
    struct eco_op op; /* what it does now */
    int32_t k;        /* chunk at hand, in the order of processing; -1: begins; chunks: ends */
    uint8_t position; /* in its course */
    bool goes;        /* has something to do in this level */
};

/* A walk over a tape, from level to level.  A copy of it goes on by itself. */
struct eco_walk {
    const struct eco_tape *tape;
    int64_t level; /* of the last op; ops of equal level do not depend on each other */
    int lanes, at; /* lanes at hand: of a wavefront all, else the directions of a layer, which keep
                    * in step; the one of the last op */
    int over;      /* layers that are over; 0 with a wavefront */
    struct eco_lane lane[ECO_MAX_LAYERS];
};

void eco_walk_begin(struct eco_walk *walk, const struct eco_tape *tape);
/* The next op, of the level of the one before or of the next; it stays until the next call.  NULL:
 * there is none. */
const struct eco_op *eco_walk_next(struct eco_walk *walk);

#endif /* ECO_TAPE_H */
