/*
 * The tape: the order of a run's operations.  It is not stored: a walk generates one operation
 * after the other, so that the cost of a plan or a run does not depend on steps it does not have.
 * plan/tape.c.
 *
 * Example: one layer, T = 100, chunks of 32 steps, forward, input read where it is.  The walk
 * yields ten ops: BEGIN, then INPUT and STEP for each of the chunks [0,32), [32,64), [64,96),
 * [96,100), then END, each a level of its own.  With a wavefront of two layers, the second layer
 * begins a chunk once the first has finished its STEP, and both layers' ops share levels from then
 * on.
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
    ECO_KEEP,   /* some of the states into the reserve, if backward replays */
    ECO_END,    /* final states out */
    /* backward */
    ECO_D_BEGIN, /* carry = gradient of the final states */
    ECO_REPLAY, /* recompute states and saved values of the steps, from the input and checkpoints */
    ECO_D_STEP, /* the recurrence back over the steps: dacc */
    ECO_D_INPUT,   /* dx of the steps = dacc W; add: to the other direction's */
    ECO_D_SCATTER, /* dx from the gather array to its destination: order, dropout */
    ECO_D_WEIGHTS, /* weight gradients of the steps; add: to earlier ones */
    ECO_D_END,     /* gradient of the initial states out */
    ECO_OP_KINDS
};

/* One rectangle of work: steps [t0,t1) of one layer and direction, all inside the run. */
struct eco_op {
    uint8_t kind; /* enum eco_op_kind */
    uint8_t layer, d;
    bool reversed; /* steps are taken from t1-1 down to t0 */
    bool add;      /* D_INPUT, D_SCATTER, D_WEIGHTS: add to the destination */
    bool gathered; /* INPUT, D_WEIGHTS read the gather array, D_INPUT writes it */
    int32_t t0, t1;
};

/* The step whose byte of resets says whether rows are reset before step t: t itself, or, in reverse
 * order, the step taken before it, whose x may be the first of an episode. */
static inline int32_t eco_op_reset(const struct eco_op *op, int32_t t)
{
    return t + (int32_t)op->reversed;
}

/* What one direction of a layer does with each chunk, one op per level. */
struct eco_course {
    uint8_t length;  /* number of ops */
    uint8_t whole;   /* after this many the chunk of y, or of dx, is complete */
    uint8_t kind[8]; /* enum eco_op_kind, or ECO_OP_KINDS for a pause */
};

/* Everything that the order of a run depends on.  The plan keeps the tape for its own T. */
struct eco_tape {
    const struct eco_problem *problem;
    int32_t T;               /* steps of the run */
    int32_t chunk, chunks;   /* steps of a chunk, except the last one; number of chunks */
    int32_t requested_chunk; /* as the algorithm requested it */
    int32_t group[2]; /* [layer > 0]: chunks for which weight gradients are computed together */
    bool backward;
    bool replays;                   /* forward keeps checkpoints, backward recomputes the rest */
    bool wavefront;                 /* layers overlap; only with one direction */
    bool reversed[2];               /* [d] */
    bool gathers[2], scatters[2];   /* [layer > 0]: x or dx is copied */
    struct eco_course course[2][2]; /* [layer > 0][d] */
};

/* Builds a tape.  ragged: lengths are given, so padding must not be read. */
void eco_tape_build(struct eco_tape *tape, const struct eco_problem *problem,
                    const struct eco_layout_request *request, bool backward, bool ragged);
/* The same tape for another T; with 0 steps each direction only begins and ends. */
void eco_tape_resize(struct eco_tape *tape, int32_t T);
/* Does the op need the result of the previous layer for the same steps? */
bool eco_tape_is_behind(const struct eco_tape *tape, const struct eco_op *op);
/* The number of operations. */
int64_t eco_tape_ops(const struct eco_tape *tape);

/* The progress of one direction of a layer. */
struct eco_lane {
    struct eco_op op; /* the current op */
    int32_t k;        /* current chunk, in the order of processing; -1: begins; chunks: ends */
    uint8_t position; /* index in its course */
    bool goes;        /* has an op in this level */
};

/* A walk over a tape, level by level.  A copy of it continues independently. */
struct eco_walk {
    const struct eco_tape *tape;
    int64_t level; /* of the last op; ops of one level do not depend on each other */
    int lanes, at; /* active lanes: all layers of a wavefront, else the directions of one layer, in
                      lockstep; the lane of the last op */
    int over;      /* finished layers; 0 with a wavefront */
    struct eco_lane lane[ECO_MAX_LAYERS];
};

void eco_walk_begin(struct eco_walk *walk, const struct eco_tape *tape);
/* The next op, of the same level or the next, valid until the next call; NULL: the end. */
const struct eco_op *eco_walk_next(struct eco_walk *walk);

#endif /* ECO_TAPE_H */
