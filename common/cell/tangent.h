/*
 * The tangent of a cell: a cell that carries the derivatives of the states along a direction
 * besides the states.  tangent.c.
 */
#ifndef ECO_TANGENT_H
#define ECO_TANGENT_H

#include "common/cell/cell.h"

/* How a parameter of the tangent cell relates to one of the cell. */
enum eco_tangent_role {
    ECO_TANGENT_VALUE, /* it is the parameter; W stands for [W, 0] */
    ECO_TANGENT_SLOPE, /* it is the derivative along the direction; W stands for [W', W] */
    ECO_TANGENT_AGAIN  /* R once more, multiplied by the derivative of its operand */
};
struct eco_tangent_param {
    int16_t param; /* parameter of the original cell */
    uint8_t role;  /* enum eco_tangent_role */
};

struct eco_tangent {
    struct ecornn_cell cell;
    struct eco_tangent_param param[ECO_MAX_PARAMS]; /* by parameter of the tangent cell */
};

/*
 * Makes of a cell with S states a cell with 2 S: first the derivatives of the states, so that its
 * output is the derivative of the output state, then the states.  Its input is x concatenated with
 * the derivative of x.  False if it would be too large; error says why.
 */
bool eco_cell_tangent(struct eco_tangent *tangent, const struct ecornn_cell *cell,
                      struct eco_cell_error *error);

#endif /* ECO_TANGENT_H */
