/*
 * The reference backend, inside: one run, and one row of one step.  Everything is computed in
 * double straight from the recipe's graph.  Knows no layout, tape or lowered program: it is what
 * those are checked against.
 */
#ifndef ECO_REF_H
#define ECO_REF_H

#include "common/backend.h"
#include "common/ref/ref_rounding.h"

/* ref_backend.c, for tests and bounds of tuning: further runs on this reference device; seed: of
 * the random rounding. */
void eco_reference_rounding(struct ecornn_device *device, enum eco_rounding rounding,
                            struct eco_machine machine, uint64_t seed);

/* One run.  Where arrays over steps have T+1 planes, plane 0 or T holds the initial state. */
struct eco_reference {
    const struct eco_problem *problem;
    const struct eco_args *args;
    struct eco_arithmetic arithmetic;
    bool draws;   /* dropout and bernoulli() are drawn */
    bool replays; /* states that are read are as saved */
    int32_t T, N;
    double *weights, *dweights;    /* the parameter block                                         */
    double *dsome, *dchain;        /* of its gradient: sum of some chains; the chain at hand      */
    int32_t chain_rows, chains;    /* summed in these so far                                      */
    double *inputs;                /* [T,N,width] of each layer, then the last layer's output     */
    double *states;                /* [T+1,N,width] of each state, direction, layer               */
    double *dinput, *doutput;      /* [T,N,width] of one layer                                    */
    double *carry[ECO_MAX_STATES]; /* [width]: gradient of a row's states between steps        */
    double *held;                  /* [width]: gradient of a row's y where that is repeated */
    double *held_state[ECO_MAX_STATES];
    double *start[ECO_MAX_STATES]; /* [width]: what a row's states are reset to                   */
    double *dstart[ECO_MAX_STATES];
    double *value, *dvalue;      /* [n_nodes,width]: of one row of one step                     */
    double *operand;             /* [width or inputs]: what a product reads, as it is kept      */
    int32_t width;               /* of a node's row: the larger of H and P                      */
    bool live[ECO_MAX_NODES];    /* does a next state depend on the node?                       */
    int8_t chain[ECO_MAX_NODES]; /* chained: the accumulator of which the node is a part, or -1 */
    int16_t last[ECO_MAX_ACCS];  /* its last product, which has the sum: other parts are 0      */
    bool kept[ECO_MAX_NODES];    /* is its value saved for backward?                            */
    bool narrow[ECO_MAX_STATES]; /* is the state kept in the run's type?                        */
    /* of the layer and direction at hand */
    int layer, d;
    int32_t input;                     /* width of its input                                   */
    size_t offset[ECO_MAX_PARAMS + 1]; /* of its parameters, the projection last               */
};

/* ref_run.c: all of it, forward or backward. */
ecornn_status eco_reference_run(const struct ecornn_plan *plan, const struct eco_args *args);

/* ref_memory.c: takes the memory of a run, one block that the caller frees; NO_MEMORY. */
ecornn_status eco_reference_allocate(struct eco_reference *run, void **block);
/* Input of a layer [T,N,width]; layer L: the output of the last. */
double *eco_reference_input(const struct eco_reference *run, int layer);
/* State s of the layer and direction at hand, row n of a plane. */
double *eco_reference_state(const struct eco_reference *run, int s, int32_t plane, int32_t n);
/* The plane that step number k of the recurrence reads; it writes that of k + 1. */
int32_t eco_reference_plane(const struct eco_reference *run, int32_t k);

/* One row of one step. */
struct eco_reference_row {
    int32_t t, n;
    const double *x;                     /* [I of the layer]                                   */
    const double *state[ECO_MAX_STATES]; /* [width]                                            */
    double *next[ECO_MAX_STATES];        /* written forward                                    */
    double *dx;                          /* backward: added to                                 */
};

/* ref_arrays.c: between the caller's arrays and those of a run; NULL is read as zeros, and not
 * written.  Padding is not read. */
bool eco_reference_is_padding(const struct eco_reference *run, int32_t t, int32_t n);
/* Does step t count for the row: is it neither padding nor masked? */
bool eco_reference_counts(const struct eco_reference *run, int32_t t, int32_t n);
/* Does the row repeat its output there? */
bool eco_reference_repeats(const struct eco_reference *run, int32_t t, int32_t n);
/* What random numbers know of step t: how many steps of the row count ahead of it, those of the run
 * that this one is a piece of too. */
uint32_t eco_reference_number(const struct eco_reference *run, int32_t t, int32_t n);
/* Do the row's states start anew before step t? */
bool eco_reference_resets(const struct eco_reference *run, int32_t t, int32_t n);
void eco_reference_load_weights(struct eco_reference *run);
/* x or dy to time order [T,N,width]; y or dx from it.  x has zeros where no step counts. */
void eco_reference_load_sequence(const struct eco_reference *run, double *to, const void *array,
                                 size_t width);
void eco_reference_store_sequence(const struct eco_reference *run, void *array, const double *from,
                                  size_t width);
/* State s of row n of the layer and direction at hand, or its gradient. */
void eco_reference_load_state(const struct eco_reference *run, double *to, const void *array, int s,
                              int32_t n);
/* The same; NULL: where the cell begins. */
void eco_reference_begin_state(const struct eco_reference *run, double *to, const void *array,
                               int s, int32_t n);
void eco_reference_store_state(const struct eco_reference *run, void *array, const double *from,
                               int s, int32_t n);
/* One of every step, in a caller's [L*D,T,N,width]: added to what is there, and out. */
void eco_reference_add_shown(const struct eco_reference *run, double *to, const void *array, int s,
                             const struct eco_reference_row *row);
void eco_reference_show(const struct eco_reference *run, void *array, const double *from, int s,
                        const struct eco_reference_row *row);
/* All initial states in, or final states out. */
void eco_reference_move_states(struct eco_reference *run, bool out);

/* ref_product.c: what a product reads of a value; good until the next call. */
const double *eco_reference_input_operand(struct eco_reference *run, const double *x); /* of W x */
const double *eco_reference_operand(struct eco_reference *run, const double *value, int32_t width);
/* out[rows] += M[rows,cols] in[cols]; heads: M [H,cols], each head from its own part of in. */
void eco_reference_multiply(struct eco_reference *run, double *out, const double *matrix,
                            int32_t rows, const double *in, int32_t cols);
void eco_reference_multiply_heads(struct eco_reference *run, double *out, const double *matrix,
                                  const double *in, int32_t cols);
/* A product out = M in, or of heads, rows and cols those of one: its place in the block, and the
 * gradients of its sides. */
struct eco_reference_product {
    size_t matrix; /* offset in the parameter block */
    int32_t rows, cols;
    const double *in, *dout;
    double *din;
};
void eco_reference_multiply_gradient(struct eco_reference *run,
                                     const struct eco_reference_product *product);
void eco_reference_multiply_heads_gradient(struct eco_reference *run,
                                           const struct eco_reference_product *product);

/* ref_sum.c: the sums of gradients of weights, as a machine adds them; begin: what they start from.
 * add: of element `at`; row: a row of a step is done; pair: so is a layer and direction; end: all
 * is in dweights. */
void eco_reference_sum_begin(struct eco_reference *run, const void *before, ecornn_type type);
static inline void eco_reference_sum_add(struct eco_reference *run, size_t at, double term)
{
    eco_round_add(&run->arithmetic, &run->dchain[at], term);
}
void eco_reference_sum_row(struct eco_reference *run);
void eco_reference_sum_pair(struct eco_reference *run);
void eco_reference_sum_end(struct eco_reference *run);

/* ref_step.c: the next states of a row, the projection included. */
void eco_reference_forward(struct eco_reference *run, const struct eco_reference_row *row);
/* ... and back: carry from the gradient of the next states to that of the previous ones; adds to
 * dx and dweights. */
void eco_reference_backward(struct eco_reference *run, const struct eco_reference_row *row);

/* ---- attention, ref_attention.c -------------------------------------------------------------- */

extern const struct eco_attention_backend eco_reference_attention;

#endif /* ECO_REF_H */
