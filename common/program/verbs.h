/*
 * Verbs: what a backend does for the ops of a tape that are not claims.  An op is expanded into a
 * few verbs, each with one struct of views and sizes, whose meaning is the equation above it.
 * tests/core/test_verbs.c compares the verbs of every backend with plain loops.
 *
 * A claim is an op whose order of work belongs to an algorithm: STEP, D_STEP and REPLAY.
 *
 * Example: END of an LSTM is two MOVEs, of h and of c, from the planes after the last step to the
 * caller's arrays.
 */
#ifndef ECO_VERBS_H
#define ECO_VERBS_H

#include "common/bound.h"

/* Which rows n of a step t take part in a MOVE.  Rows with t >= lengths[n] have ended. */
enum eco_move_rows {
    ECO_ROWS_ALL,     /* every row, at the step that is given */
    ECO_ROWS_AT_LAST, /* every row, in both arrays at its own last step, lengths[n] - 1 */
    ECO_ROWS_LIVE,    /* not those that have ended: nothing reads what they become */
    ECO_ROWS_CLEARED  /* those that have ended become 0 if anything reads them */
};

/*
 * MOVE: to[to_t + i, n, j] (+)= value[t + i * every, n, j] for i < steps and j < width, where
 *
 *     value[t, n, j] = keep(t, n, j) * (start[n, j] if step t resets row n, else from[t, n, j])
 *
 * A view without an array stands for zeros.  keep is 1, or with drop the mask of dropout: 0 or
 * scale.
 */
struct eco_move {
    const struct eco_op *op; /* layer and direction: of dropout and resets */
    struct eco_view to, from, start;
    int32_t to_t, t, steps, every, width;
    enum eco_move_rows rows;
    bool resets;
    bool add;
    bool pads; /* elements of `to` between its width and the next row become 0 */
    bool drop;
    uint64_t threshold; /* draws below it drop an element */
    double scale;
};

/* CUT: sum[n,:] += carry[n,:] and carry[n,:] = 0 for every row n that is reset before step t.  Both
 * are [N,width] sums; without an array, `sum` is not needed. */
struct eco_cut {
    const struct eco_op *op;
    struct eco_view sum, carry;
    int32_t t, width;
};

/* The verbs of a backend.  On a CPU every thread calls them and does its part. */
struct eco_verbs {
    void (*move)(void *run, const struct eco_move *move);
    void (*cut)(void *run, const struct eco_cut *cut);
};

/* What an op is expanded for. */
struct eco_target {
    const struct eco_verbs *verbs;
    void *run; /* the backend's, the first argument of every verb */
    const struct eco_layout *layout;
    const struct eco_args *args;
    uint16_t skipped; /* BEGIN, D_BEGIN, END, bit s: state s needs no MOVE, because claims read or
                         write the caller's array, or know that it is zero */
};

/* program/expand.c: calls the verbs of an op that is no claim. */
void eco_expand(const struct eco_target *target, const struct eco_bound *bound);

#endif /* ECO_VERBS_H */
