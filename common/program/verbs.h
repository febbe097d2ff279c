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

/* The rows n of step t that a MOVE copies.  Rows with t >= lengths[n] have ended. */
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
 * scale; then value is rounded to the type of `to` before it is added.
 */
struct eco_move {
    const struct eco_op *op; /* layer and direction: of dropout and resets */
    struct eco_view to, from, start;
    int32_t to_t, t, steps, every, width;
    enum eco_move_rows rows;
    bool resets;
    bool add;
    bool to_accs; /* the units of `to` are stored in blocks, as eco_layout_acc_blocks */
    bool spreads; /* `from` is one element wide: all j read it; `to` is an accumulator */
    bool sums;    /* `to` is one element wide, and receives the sum over j, rounded as sums are */
    bool pads;    /* elements of `to` between its width and the next row become 0 */
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

/*
 * PRODUCT with a matrix M of the packed weights, for steps t in [t0,t1) and all n; "accs" are the
 * columns of the matrix's accumulators:
 *
 *     forward:  c[t,n,accs] (+)= a[t,n,:] M^T, and with bias all accumulators begin as biases or 0
 *     back:     c[t,n,:]    (+)= a[t,n,accs] M
 */
struct eco_weight_product {
    const struct eco_op *op; /* layer and direction */
    int weight_id;           /* enum eco_weight_id */
    int32_t t0, t1;
    struct eco_view a, c;
    bool back, bias, add;
};

/* One product for each operand.  A state has two, because before the direction's first step it is
 * in another array. */
enum { ECO_MOST_GRADIENTS = 1 + 2 * ECO_MAX_OPERANDS };

/*
 * GRADIENTS of an op's layer and direction: for each part, with sums over t in [t0,t1) and all n,
 *
 *     dM (+)= dacc[t,n,accs]^T c[t,n,:]       c without an array stands for zeros
 *
 * dvectors (+)= sums of dacc's columns, or of `dvector`; and with a projection, over all steps of
 * the op, dP (+)= dh[t,n,:]^T u[t,n,:].
 */
struct eco_gradients {
    const struct eco_op *op;
    struct eco_view dacc, dvector, dh, u;
    struct eco_gradient_term {
        int weight_id;
        int32_t t0, t1;
        struct eco_view c;
    } part[ECO_MOST_GRADIENTS];
    int n;
};

/* The verbs of a backend.  On a CPU every thread calls them and does its part. */
struct eco_verbs {
    void (*move)(void *run, const struct eco_move *move);
    void (*cut)(void *run, const struct eco_cut *cut);
    void (*product)(void *run, const struct eco_weight_product *product);
    void (*gradients)(void *run, const struct eco_gradients *gradients);
    void (*wait)(void *run); /* until all threads have done the verbs before; NULL: they have */
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
/* acc of steps [t0,t1) = W x + bias. */
void eco_expand_input(const struct eco_target *target, const struct eco_op *op,
                      const struct eco_view *acc, const struct eco_view *x, int32_t t0, int32_t t1);

#endif /* ECO_VERBS_H */
