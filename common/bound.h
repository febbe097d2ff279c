/*
 * A bound op: an op of the tape with the addresses of every array that it reads or writes.  They
 * are looked up once for all steps of the op and for every backend.  plan/bind.c.
 *
 * Example: the forward STEP of steps 32 to 63, with chunks of 32.  acc is an array over the chunk,
 * so acc.from = 32, and step 40 is found 8 * acc.step bytes after acc.first.  before and next are
 * planes of the same array; for step 40 they are planes 40 and 41.
 */
#ifndef ECO_BOUND_H
#define ECO_BOUND_H

#include "common/layout.h"
#include "common/plan.h"
#include "common/tape.h"

/* Rows over steps.  Step t begins ((t - from) & mask) * step bytes after `first`. */
struct eco_view {
    char *first; /* NULL: there is no such array */
    size_t step, mask;
    size_t row; /* elements from one row to the next */
    int32_t from;
    ecornn_type type;
    bool stream; /* row n is that of eco_args.rows[n] */
    bool caller; /* rows are in the caller's order; else in that of the run, which a CPU may sort */
};

/* The address of element 0 of row 0 of step t; NULL if there is no such array. */
static inline void *eco_view_at(const struct eco_view *view, int32_t t)
{
    const size_t step = (size_t)((ptrdiff_t)t - view->from) & view->mask;
    return view->first == NULL ? NULL : (void *)((uintptr_t)view->first + step * view->step);
}

/* The view from a column of its rows on. */
static inline struct eco_view eco_view_column(const struct eco_view *view, size_t column)
{
    struct eco_view part = *view;
    if (part.first != NULL)
        part.first += column * eco_type_bytes(view->type);
    return part;
}

/*
 * Each field says for which kinds of op it is filled in; otherwise it is undefined.  Arrays of
 * forward are in workspace or reserve unless they belong to the caller.  `first` and `last` are the
 * steps at which the direction begins and ends.
 */
struct eco_bound {
    const struct eco_op *op;
    int32_t first, last;

    /* BEGIN, END, STEP, KEEP: the states before and after a step, [N,width]; in a lean KEEP, `next`
     * is the copies of states after the step. REPLAY: the states of its chunk, in a lean run as for
     * D_STEP.  carry, for D_BEGIN, D_END, D_STEP: the gradients between steps. */
    struct eco_view before[ECO_MAX_STATES], next[ECO_MAX_STATES];
    struct eco_view carry[ECO_MAX_STATES];
    /* The caller's arrays.  BEGIN, END, REPLAY: initial and final states.  D_BEGIN, D_END: the
     * gradients of the others, because the pass begins at the final states. */
    struct eco_view initial[ECO_MAX_STATES], final[ECO_MAX_STATES];
    /* With resets.  start, for BEGIN, STEP, REPLAY, D_STEP: the caller's reset states.  replaced,
     * for STEP, not lean: the states they replaced.  with_resets, for REPLAY, D_STEP: `before` with
     * resets applied by the first op that needs it; D_WEIGHTS has it in `before`.  dstart, for
     * D_BEGIN, D_END, D_STEP: sums of the gradients of reset states, and the caller's array for
     * them. */
    struct eco_view start[ECO_MAX_STATES], replaced[ECO_MAX_STATES], with_resets[ECO_MAX_STATES];
    struct eco_view dstart[ECO_MAX_STATES], dreset_state[ECO_MAX_STATES];
    /* BEGIN, STEP, KEEP, END: the caller's states of every step; D_STEP: their gradient. */
    struct eco_view all_states[ECO_MAX_STATES];

    /* GATHER, INPUT, STEP, D_WEIGHTS: the rows that the layer reads, [N,I]; their copy in time
     * order; and the one of the two that products read. */
    struct eco_view x, gather, input;

    /* INPUT, STEP: accumulators [N,accs,H].  D_STEP, D_INPUT, D_WEIGHTS: their gradients. */
    struct eco_view acc;
    /* STEP, D_STEP: computed operands [N,slots,H], row means, saved values. */
    struct eco_view operand, mean, save;
    /* KEEP, REPLAY: save and u in the save type; without one undefined. */
    struct eco_view kept_save, kept_u;
    struct eco_view y; /* STEP, REPLAY and, lean, D_STEP, END: this direction's [N,P]; REPLAY below
                          the last layer: the copy that was kept */
    struct eco_view checkpoint[ECO_MAX_STATES]; /* lean STEP, END: copies of states; KEEP, REPLAY:
                                                   indexed by eco_layout_checkpoint_index */
    /* With a projection h = P u: u [N,H]; h as sums [N,P], backward its gradient dh. */
    struct eco_view u, h;

    /* D_STEP, D_WEIGHTS: `before` and `next` are as forward left them.  If `begins` is set, the
     * state before the direction's first step is in `before_first`, apart from the others. */
    struct eco_view before_first[ECO_MAX_STATES];
    bool begins[ECO_MAX_STATES];
    bool copied;              /* lean: next[0] is a copy of y that D_STEP makes first */
    struct eco_view dvector;  /* D_STEP, D_WEIGHTS, on request: sums of vectors' gradients */
    struct eco_view dy;       /* D_STEP: this direction's [N,P] */
    struct eco_view doperand; /* gradients of operands [N,slots,H] */
    struct eco_view du;       /* gradient of u [N,H] */

    /* The destination of D_INPUT, dense over the op's steps, or of D_SCATTER from dgather. */
    struct eco_view dx, dgather;
    struct eco_view dsum; /* where dx waits for the second direction, if it does */
};

/* Fills in the fields for an op.  The layout must be made for the run of these arguments. */
void eco_bind(struct eco_bound *bound, const struct eco_layout *layout, const struct eco_args *args,
              const struct eco_op *op);

/* The state before step t. */
static inline const struct eco_view *eco_bound_before(const struct eco_bound *bound, int s,
                                                      int32_t t)
{
    return bound->begins[s] && t == bound->first ? &bound->before_first[s] : &bound->before[s];
}

/* A weight as packed, transposed for backward, and its gradient; NULL if it has 0 bytes. */
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
struct eco_view eco_bind_view(const struct eco_array *array, const struct eco_args *args,
                              int32_t from);
/* An array of the op in this run's pass; index as in eco_layout_array. */
struct eco_view eco_bind_array(const struct eco_layout *layout, const struct eco_args *args,
                               const struct eco_op *op, enum eco_inner which, int index);

/* Columns of the caller's x and dx: I, or without parts that are arrays of their own. */
int32_t eco_args_input(const struct eco_problem *problem, const struct eco_args *args);
/* x of the first layer (eco_accumulator.copy is 0), or a part of it; `x` is what the layer reads.
 * gradient: the same of dx. */
struct eco_view eco_bind_x(const struct eco_layout *layout, const struct eco_args *args,
                           const struct eco_view *x, int copy, bool gradient);

#endif /* ECO_BOUND_H */
