/*
 * The reference backend: one run, and one row of one step.  Everything is computed in double
 * directly from the recipe's graph.  It does not use layout, tape or lowered programs, because it
 * checks them.
 */
#ifndef ECO_REF_H
#define ECO_REF_H

#include "common/backend.h"
#include "common/ref/ref_rounding.h"

/* ref_backend.c, for tests and for bounds of tuning: changes the rounding of further runs on this
 * reference device.  seed: for random rounding. */
void eco_reference_rounding(struct ecornn_device *device, enum eco_rounding rounding,
                            struct eco_machine machine, uint64_t seed);

/* For tests: further runs on the device write the values of every stop() to `values`, or take them
 * from there, so that differences show what passes elsewhere; NULL: neither. */
void eco_reference_stopped(struct ecornn_device *device, double *values, bool hold);

/* One run.  Arrays of T+1 planes have the initial state in plane 0 or T. */
struct eco_reference {
    const struct eco_problem *problem;
    const struct eco_args *args;
    struct eco_arithmetic arithmetic;
    bool draws;   /* draws dropout and bernoulli() */
    bool replays; /* states are read as they were saved */
    int32_t T, N;
    double *weights, *dweights; /* the parameter block                                         */
    double *dsome,
        *dchain; /* for gradients of parameters: sum of some chains, and the current chain */
    int32_t chain_rows, chains;    /* summed in these so far */
    double *inputs;                /* [T,N,width] for each layer, and the last layer's output */
    double *states;                /* [T+1,N,width] for each state, direction and layer */
    double *dinput, *doutput;      /* [T,N,width] of one layer                                    */
    double *carry[ECO_MAX_STATES]; /* [width]: gradient of a row's states between steps */
    double *held;                  /* [width]: gradient of a row's repeated y */
    double *held_state[ECO_MAX_STATES];
    double *start[ECO_MAX_STATES]; /* [width]: a row's reset states */
    double *dstart[ECO_MAX_STATES];
    double *value, *dvalue;      /* [n_nodes,width]: for one row of one step */
    double *operand;             /* [width or inputs]: operand of a product, as it is stored */
    int32_t width;               /* width of a node's row: the largest of H, P and states */
    bool live[ECO_MAX_NODES];    /* does a next state depend on the node?                       */
    int8_t chain[ECO_MAX_NODES]; /* chained: the accumulator that the node belongs to, or -1 */
    int16_t last[ECO_MAX_ACCS]; /* its last product, which holds the sum; its other members are 0 */
    bool saved[ECO_MAX_NODES];  /* is the value saved for backward? */
    bool narrow[ECO_MAX_STATES]; /* is the state stored in the run's type? */
    /* of the current layer and direction */
    int layer, d;
    int32_t state_rows;                /* rows of the caller's arrays of states: N, or of streams */
    int32_t input;                     /* columns of its W: without the parts of x             */
    size_t offset[ECO_MAX_PARAMS + 1]; /* offsets of its parameters, the projection last */
};

/* ref_run.c: a whole run, forward or backward. */
ecornn_status eco_reference_run(const struct ecornn_plan *plan, const struct eco_args *args);

/* ref_memory.c: allocates the memory of a run as one block, which the caller frees; NO_MEMORY. */
ecornn_status eco_reference_allocate(struct eco_reference *run, void **block);
/* Input of a layer [T,N,width]; for layer L the output of the last. */
double *eco_reference_input(const struct eco_reference *run, int layer);
/* State s of the current layer and direction, row n of a plane. */
double *eco_reference_state(const struct eco_reference *run, int s, int32_t plane, int32_t n);
/* The plane that step k of the recurrence reads; it writes the plane of k + 1. */
int32_t eco_reference_plane(const struct eco_reference *run, int32_t k);

/* One row of one step. */
struct eco_reference_row {
    int32_t t, n;
    const double *x;                     /* [I of the layer]                                   */
    const double *state[ECO_MAX_STATES]; /* [width]                                            */
    double *next[ECO_MAX_STATES];        /* written forward                                    */
    double *dx;                          /* backward: added to                                 */
};

/* ref_arrays.c: moves data between the caller's arrays and those of a run.  NULL is read as zeros
 * and not written; padding is not read. */
bool eco_reference_is_padding(const struct eco_reference *run, int32_t t, int32_t n);
/* Does step t count for the row, that is, is it neither padding nor masked? */
bool eco_reference_counts(const struct eco_reference *run, int32_t t, int32_t n);
/* Does the row repeat its output at this step? */
bool eco_reference_repeats(const struct eco_reference *run, int32_t t, int32_t n);
/* The step's coordinate for random numbers: the number of counted steps of the row before it,
 * including those of the larger run that this one is a piece of. */
uint32_t eco_reference_number(const struct eco_reference *run, int32_t t, int32_t n);
/* Are the row's states reset before step t? */
bool eco_reference_resets(const struct eco_reference *run, int32_t t, int32_t n);
/* Copies n numbers of a row of a parameter, rounded to a type; S8: to integers times a scale. */
void eco_reference_round_row(void *to, ecornn_type to_type, const void *from, ecornn_type from_type,
                             size_t n, ecornn_type rounding);
void eco_reference_load_weights(struct eco_reference *run);
/* Loads x or dy to time order [T,N,width], with 0 for uncounted steps; stores y or dx. */
void eco_reference_load_sequence(const struct eco_reference *run, double *to, const void *array,
                                 size_t width);
void eco_reference_store_sequence(const struct eco_reference *run, void *array, const double *from,
                                  size_t width);
/* Moves x of all columns in, or its gradient out: one array, or parts in arrays of their own. */
void eco_reference_move_x(const struct eco_reference *run, double *inside, bool out);
/* State s of row n of the current layer and direction, or its gradient. */
void eco_reference_load_state(const struct eco_reference *run, double *to, const void *array, int s,
                              int32_t n);
/* The same; NULL: the cell's start value. */
void eco_reference_begin_state(const struct eco_reference *run, double *to, const void *array,
                               int s, int32_t n);
/* The same after a reset. */
void eco_reference_begin_again(const struct eco_reference *run, double *to, int s, int32_t n);
void eco_reference_store_state(const struct eco_reference *run, void *array, const double *from,
                               int s, int32_t n);
/* A state of every step in a caller's array [L*D,T,N,width]: adds it to `to`, or stores it. */
void eco_reference_add_states(const struct eco_reference *run, double *to, const void *array, int s,
                              const struct eco_reference_row *row);
void eco_reference_show(const struct eco_reference *run, void *array, const double *from, int s,
                        const struct eco_reference_row *row);
/* Loads all initial states, or stores all final states. */
void eco_reference_move_states(struct eco_reference *run, bool out);

/* ref_product.c: the operand of a product as a machine stores it; valid until the next call. */
const double *eco_reference_input_operand(struct eco_reference *run, const double *x); /* for W x */
const double *eco_reference_operand(struct eco_reference *run, const double *value, int32_t width);
/* out[rows] += M[rows,cols] in[cols]; heads: M is [H,cols], each on its part of in. */
void eco_reference_multiply(struct eco_reference *run, double *out, const double *matrix,
                            int32_t rows, const double *in, int32_t cols);
void eco_reference_multiply_heads(struct eco_reference *run, double *out, const double *matrix,
                                  const double *in, int32_t cols);
/* A product out = M in (of one head): its offset in the block, gradients of both sides. */
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

/* ref_sum.c: sums gradients of weights in the order of a machine.  begin: sets the values to start
 * from; add: adds to element `at`; row: ends a row of a step; pair: ends a layer and direction;
 * end: stores everything to dweights. */
void eco_reference_sum_begin(struct eco_reference *run, const void *before, ecornn_type type);
static inline void eco_reference_sum_add(struct eco_reference *run, size_t at, double term)
{
    eco_round_add(&run->arithmetic, &run->dchain[at], term);
}
void eco_reference_sum_row(struct eco_reference *run);
void eco_reference_sum_pair(struct eco_reference *run);
void eco_reference_sum_end(struct eco_reference *run);

/* ref_matrix.c: in a cell with a matrix state, the value of a node that sums or multiplies across a
 * head, and its sweep: adds the gradient to that of its arguments.  value, dvalue: [n_nodes,width].
 */
bool eco_reference_is_across(const struct eco_recipe *recipe, const struct eco_node *node);
void eco_reference_across(struct eco_reference *run, int node);
void eco_reference_sweep_across(struct eco_reference *run, int node);
/* Numbers of a node's value, and which of an argument's meets number j of it. */
int32_t eco_reference_size(const struct eco_reference *run, int node);
int32_t eco_reference_place(const struct eco_reference *run, int argument, int node, int32_t j);

/* ref_step.c: computes the next states of a row, projection included. */
void eco_reference_forward(struct eco_reference *run, const struct eco_reference_row *row);
/* ... and the reverse: turns carry from the gradient of the next states into that of the previous
 * ones, and adds to dx and dweights. */
void eco_reference_backward(struct eco_reference *run, const struct eco_reference_row *row);

/* ---- attention, ref_attention.c -------------------------------------------------------------- */

extern const struct eco_attention_backend eco_reference_attention;

#endif /* ECO_REF_H */
