/*
 * One step of a cell, a few rows and units in double, by hand: by its stages, with products as
 * plain loops, or straight from the graph of the text.  Knows nothing of the library but cell.h.
 */
#ifndef ECO_CELL_STEP_H
#define ECO_CELL_STEP_H

#include "common/cell/cell.h"

enum { N = 3, H = 5, I = 6, PLANE = N * H, MAX_WEIGHTS = H * I }; /* x itself: its first H */

typedef double plane[PLANE]; /* [N,H] */

struct inputs {
    double x[N * I];
    plane state[ECO_MAX_STATES], bernoulli[ECO_MAX_SOURCE];
    double weights[ECO_MAX_PARAMS][MAX_WEIGHTS]; /* W [H,I], R [H,H], vectors [H] */
    plane dnext[ECO_MAX_STATES];                 /* of the loss: sum of dnext * next */
};

/* What the stages read and write. */
struct memory {
    plane acc[ECO_MAX_ACCS], operand[ECO_MAX_OPERANDS], save[ECO_MAX_SAVES];
    plane state[ECO_MAX_STATES], next[ECO_MAX_STATES];
    plane dacc[ECO_MAX_ACCS + ECO_MAX_PARAMS], doperand[ECO_MAX_OPERANDS], dstate[ECO_MAX_STATES];
    plane factor[ECO_MAX_STATES], term[ECO_MAX_STATES]; /* of a scan */
    plane summand[ECO_MAX_MEANS]; /* the mean is taken when it is read: the row must be complete */
    int stage, stored_at[ECO_MAX_MEANS];
    int writes[ECO_OPCODES][ECO_MAX_ACCS + ECO_MAX_PARAMS];
};

extern struct ecornn_cell cell; /* the one under test */
extern struct inputs in;
extern struct memory memory;

/* Next states from the text's graph; returns the loss. */
double evaluate_graph(plane *next);
/* The stages; in_place: next states overwrite the previous ones, as in inference. */
void run_forward(bool in_place);
void run_backward(void);
void run_stage(const struct eco_program *program, bool in_place);
/* Stages compute what they need, or take from others what these hand on. */
extern bool carries_values;
/* [N,H], of operand k as forward or backward left it. */
const double *operand_value(int k);

#endif /* ECO_CELL_STEP_H */
