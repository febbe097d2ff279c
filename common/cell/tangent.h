/*
 * The tangent of a cell: a cell that carries, beside the states, their derivatives along a
 * direction.  tangent.c.
 */
#ifndef ECO_TANGENT_H
#define ECO_TANGENT_H

#include "common/cell/cell.h"

/* What a parameter of the tangent cell is of one of the cell's. */
enum eco_tangent_role {
    ECO_TANGENT_VALUE, /* the parameter; W stands for [W, 0]                                     */
    ECO_TANGENT_SLOPE, /* its derivative along the direction; W stands for [W', W]                */
    ECO_TANGENT_AGAIN  /* R once more, times the derivative of what it multiplies                 */
};
struct eco_tangent_param {
    int16_t param; /* of the cell */
    uint8_t role;  /* enum eco_tangent_role */
};

struct eco_tangent {
    struct ecornn_cell cell;
    struct eco_tangent_param param[ECO_MAX_PARAMS]; /* by parameter of that cell */
};

/*
 * For a cell of S states a cell of 2 S: first the derivatives of the states, so that its output is
 * that of the output state, then the states.  Its input is x and the derivative of x, side by side.
 * False, and why: it would be too large.
 */
bool eco_cell_tangent(struct eco_tangent *tangent, const struct ecornn_cell *cell,
                      struct eco_cell_error *error);

#endif /* ECO_TANGENT_H */
