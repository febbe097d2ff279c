/*
 * A bound op: an op of the tape with the addresses of every array that it reads or writes, found
 * once for all of its steps and for every backend.  plan/bind.c.
 */
#ifndef ECO_BOUND_H
#define ECO_BOUND_H

#include "common/layout.h"
#include "common/plan.h"
#include "common/tape.h"

/* Rows of steps.  Those of step t begin (t - from) & mask times `step` bytes behind `first`. */
struct eco_view {
    char *first; /* NULL: there are none */
    size_t step, mask;
    size_t row; /* elements from one row to the next */
    int32_t from;
    ecornn_type type;
};

/* Element 0 of row 0 of step t; NULL: there are no rows. */
static inline void *eco_view_at(const struct eco_view *view, int32_t t)
{
    const size_t step = (size_t)((ptrdiff_t)t - view->from) & view->mask;
    return view->first == NULL ? NULL : view->first + step * view->step;
}

/*
 * What an op of each kind finds filled in; the rest is undefined.  Forward arrays are workspace or
 * reserve unless they say otherwise.  `first` and `last` are the steps at which a direction begins
 * and ends.
 */
struct eco_bound {
    const struct eco_op *op;
    int32_t first, last;

    /* BEGIN, END, STEP, KEEP: the states before and after a step, [N,width]; lean, KEEP: copies of
     * those after.  REPLAY: those of its chunk; lean, as D_STEP has them.  D_BEGIN, D_END, D_STEP:
     * what is carried. */
    struct eco_view before[ECO_MAX_STATES], next[ECO_MAX_STATES];
    struct eco_view carry[ECO_MAX_STATES];
    /* BEGIN, END, REPLAY: the caller's initial and final states; D_BEGIN, D_END: dfinal and
     * dinitial. */
    struct eco_view initial[ECO_MAX_STATES], final[ECO_MAX_STATES];
    /* Of a run with resets.  BEGIN, STEP, REPLAY, D_STEP: the caller's starts.  STEP, not lean:
     * what they took the place of.  REPLAY, D_STEP: `before` with the starts in their places, which
     * whoever comes first puts there; D_WEIGHTS finds it in `before`.  D_BEGIN, D_END, D_STEP: sums
     * of their gradients, and where the caller wants these. */
    struct eco_view start[ECO_MAX_STATES], replaced[ECO_MAX_STATES], with_resets[ECO_MAX_STATES];
    struct eco_view dstart[ECO_MAX_STATES], dstart_wanted[ECO_MAX_STATES];
    /* BEGIN, STEP, KEEP, END: where the caller wants states of every step; D_STEP: their gradients
     * there. */
    struct eco_view all_states[ECO_MAX_STATES];

    /* GATHER, INPUT, STEP, D_WEIGHTS: rows that the layer reads as they lie, [N,I]; their copy in
     * time order; whichever of the two products read. */
    struct eco_view x, gather, input;

    /* INPUT, STEP: accumulators [N,accs,H].  D_STEP, D_INPUT, D_WEIGHTS: their gradients. */
    struct eco_view acc;
    /* STEP, D_STEP: operands that the cell computes [N,slots,H], row means, saved values. */
    struct eco_view operand, mean, save;
    struct eco_view y; /* STEP, REPLAY and, lean, D_STEP, END: [N,P] of this direction;
                        * of a layer below the last, REPLAY: what it kept */
    struct eco_view checkpoint[ECO_MAX_STATES]; /* STEP, END, lean: copies; KEEP, REPLAY: by
                                                 * eco_layout_checkpoint_index */
    /* With a projection, h = P u: u [N,H]; h as sums [N,P], back its gradient dh. */
    struct eco_view u, h;

    /* D_STEP, D_WEIGHTS: before and next as forward kept them.  The state before the direction's
     * first step lies apart from those before other steps, in `initial`, where `begins` says so. */
    struct eco_view before_first[ECO_MAX_STATES];
    bool begins[ECO_MAX_STATES];
    bool copied;             /* lean: next[0] is a copy that D_STEP makes of y first */
    struct eco_view dvector; /* D_STEP, D_WEIGHTS: sums of vectors' gradients, from 0 on, by wish */
    struct eco_view dy;      /* D_STEP: [N,P] of this direction */
    struct eco_view doperand; /* gradients of operands [N,slots,H] */
    struct eco_view du;       /* of u [N,H] */

    /* D_INPUT: where dx goes, dense over the op's steps.  D_SCATTER: where it goes from dgather. */
    struct eco_view dx, dgather;
};

/* The arguments are those of the run that the layout is made for. */
void eco_bind(struct eco_bound *bound, const struct eco_layout *layout, const struct eco_args *args,
              const struct eco_op *op);

/* Where the state before step t lies. */
static inline const struct eco_view *eco_bound_before(const struct eco_bound *bound, int s,
                                                      int32_t t)
{
    return bound->begins[s] && t == bound->first ? &bound->before_first[s] : &bound->before[s];
}

/* A part of the packed weights, as they are, transposed for backward, and their gradient; NULL: of
 * 0 bytes. */
const void *eco_bind_weights(const struct eco_layout *layout, const struct eco_args *args,
                             const struct eco_op *op, int weight_id);
const void *eco_bind_weights_back(const struct eco_layout *layout, const struct eco_args *args,
                                  const struct eco_op *op, int weight_id);
void *eco_bind_gradient(const struct eco_layout *layout, const struct eco_args *args,
                        const struct eco_op *op, int weight_id);
/* One direction of one layer's state in a caller's array [L*D,N,width]. */
struct eco_view eco_bind_caller_state(const struct eco_layout *layout, const struct eco_args *args,
                                      const struct eco_op *op, int s, const void *data);
/* An array of the layout, from step `from` on. */
struct eco_view eco_bind_array(const struct eco_array *array, const struct eco_args *args,
                               int32_t from);
/* A scratch array of the op, in this run's direction. */
struct eco_view eco_bind_scratch(const struct eco_layout *layout, const struct eco_args *args,
                                 const struct eco_op *op, enum eco_scratch scratch);

#endif /* ECO_BOUND_H */
