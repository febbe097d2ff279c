/*
 * Computes one step of a cell, for a few rows and units in double, either by its stages, with
 * products as plain loops, or directly from the graph of its text. Of the library it uses only
 * cell.h.
 */
#ifndef ECO_CELL_STEP_H
#define ECO_CELL_STEP_H

#include "common/cell/cell.h"

enum {
    N = 3,
    H = 5,
    I = 6,
    PLANE = N * H,
    MAX_WEIGHTS = H * I
}; /* a cell that reads x itself reads its first H elements; its parts are arrays of their own */

typedef double plane[PLANE]; /* [N,H] */

struct inputs {
    double x[N * I];
    plane part[ECO_MAX_PARTS]; /* of a single number: the first of each row */
    plane state[ECO_MAX_STATES], bernoulli[ECO_MAX_SOURCE];
    double weights[ECO_MAX_PARAMS][MAX_WEIGHTS]; /* W [H,I], R [H,H], vectors [H] */
    plane dnext[ECO_MAX_STATES]; /* gradients of the loss, which is the sum of dnext * next */
};

/* What the stages read and write. */
struct memory {
    plane acc[ECO_MAX_ACCS], operand[ECO_MAX_OPERANDS], save[ECO_MAX_SAVES];
    plane state[ECO_MAX_STATES], next[ECO_MAX_STATES];
    plane dacc[ECO_MAX_ACCS + ECO_MAX_PARAMS], doperand[ECO_MAX_OPERANDS], dstate[ECO_MAX_STATES];
    plane factor[ECO_MAX_STATES * ECO_MAX_STATES], term[ECO_MAX_STATES]; /* of a scan */
    plane summand[ECO_MAX_MEANS]; /* the mean is computed when it is read, because the row must be
                                     complete */
    int stage, stored_at[ECO_MAX_MEANS];
    int writes[ECO_OPCODES][ECO_MAX_ACCS + ECO_MAX_PARAMS];
};

extern struct ecornn_cell cell; /* the one under test */
extern struct inputs in;
extern struct memory memory;

/* Makes the text the cell under test. */
void compile(const char *text);
/* Computes the next states from the graph of the text; returns the loss.  hold: every stop() keeps
 * the value of the call before. */
double evaluate_graph(plane *next, bool hold);
/* Run the stages. in_place: next states overwrite the previous ones, as in inference. */
void run_forward(bool in_place);
void run_backward(void);
void run_stage(const struct eco_program *program, bool in_place);
/* Stages take values that an earlier stage carries to them, instead of computing them again. */
extern bool carries_values;
/* What unit e % H of row e / H reads of x itself, 0, or of part copy - 1. */
double *x_at(int copy, int e);
/* The value [N,H] of operand k after run_forward or run_backward. */
const double *operand_value(int k);

#endif /* ECO_CELL_STEP_H */
