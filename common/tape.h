/*
 * The tape: what happens in which order.  plan/tape.c.
 */
#ifndef ECO_TAPE_H
#define ECO_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/problem.h"
#include "common/wishes.h"

enum eco_op_kind {
    /* forward */
    ECO_BEGIN,  /* initial states into their planes */
    ECO_GATHER, /* input rows of the steps into the gather array: order, padding, dropout */
    ECO_INPUT,  /* acc of the steps = W x + bias */
    ECO_STEP,   /* the recurrence over the steps; y of the last layer; projection included */
    ECO_END,    /* final states out */
    /* backward */
    ECO_D_BEGIN,   /* carry = gradient of the final states */
    ECO_D_STEP,    /* the recurrence back over the steps: dacc */
    ECO_D_INPUT,   /* dx of the steps = dacc W; add: to what the other direction left */
    ECO_D_SCATTER, /* dx from the gather array to its place: order, dropout */
    ECO_D_WEIGHTS, /* weight gradients of the steps; add: to what is there */
    ECO_D_END,     /* gradient of the initial states out */
    ECO_OP_KINDS
};

/* One rectangle of work: steps [t0,t1) of one layer and direction.  Ops of equal level do not
 * depend on each other.  Clip to the run's T before use: eco_op_clip. */
struct eco_op {
    uint8_t kind; /* enum eco_op_kind */
    uint8_t layer, d;
    bool reversed; /* steps are taken from t1-1 down to t0 */
    bool add;      /* D_INPUT, D_SCATTER, D_WEIGHTS: to what is there */
    bool gathered; /* INPUT, D_WEIGHTS read, D_INPUT writes the gather array */
    int32_t t0, t1;
    int32_t level;
    int32_t after; /* level of an op of the layer before it that it needs too; -1: of none */
};

struct eco_tape {
    struct eco_op *op;
    int n, levels;
};

/* Builds into memory of its own; NO_MEMORY.  ragged: padding must not be read (lengths given). */
ecornn_status eco_tape_build(struct eco_tape *tape, const struct eco_problem *problem,
                             const struct eco_wishes *wishes, bool backward, bool ragged);
void eco_tape_free(struct eco_tape *tape);
/* The op's steps within a run of T steps; false: none are left, skip it.  Ops without steps
 * (BEGIN, END, D_BEGIN, D_END) always stay. */
bool eco_op_clip(const struct eco_op *op, int32_t T, struct eco_op *clipped);

#endif /* ECO_TAPE_H */
