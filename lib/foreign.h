/*
 * Weight blocks of other systems: the order of their tensors, and of their gates by the names of
 * our parameters.  foreign.c has the tables and recognises a cell by these names, built in or from
 * text; api_import.c moves the numbers.
 *
 * A block is a sequence of tensors.  G is the number of gates in the tables, I the layer's input
 * width (later layers D*P).  "Pair" means one layer and direction: layer after layer, first
 * forward, then reverse.
 *
 * torch, for each pair: weight_ih [G*H,I], weight_hh [G*H,P], bias_ih [G*H], bias_hh [G*H], with a
 * projection weight_hr [P,H].
 *
 * cudnn, for each pair: G input matrices [H,I], G recurrent ones [H,P], with a projection [P,H];
 * then for each pair: G input biases [H], G recurrent ones [H].
 *
 * keras, for each pair: kernel [I,G*H], recurrent_kernel [H,G*H], bias [G*H], of a gru [2,G*H],
 * with peepholes three [H].
 *
 * onnx, for each layer: W [D,G*H,I], R [D,G*H,H], B [D,2*G*H], with peepholes P [D,3*H].
 */
#ifndef ECO_FOREIGN_H
#define ECO_FOREIGN_H

#include <stdbool.h>

#include "common/cell/cell.h"

/* The kinds of tensor in a block. */
enum eco_foreign_part {
    ECO_FOREIGN_INPUT,
    ECO_FOREIGN_RECURRENT,
    ECO_FOREIGN_BIAS,
    ECO_FOREIGN_SECOND_BIAS,
    ECO_FOREIGN_PEEPHOLE,
    ECO_FOREIGN_PARTS
};

/*
 * One cell of a system.  gates[part] lists lines of the cell's text in the system's order, one
 * letter each.  '-' is a gate for which we have no parameter: import ignores it, export writes
 * zeros.  NULL: the system has no such part.  If both biases of a gate name the same line they are
 * added; otherwise the equations keep them apart.  In all systems z weights the old state.  A cell
 * whose gate weights the new state calls it u; since 1 - sigmoid(a) is sigmoid(-a), its parameters
 * are those of z, negated.
 */
struct eco_foreign_cell {
    const char *name; /* our name, for messages */
    const char *gates[ECO_FOREIGN_PARTS];
    bool projection;
};

/* run: the parts that follow each other for one pair, then for the next pair of the scope.  W R b d
 * p stand for enum eco_foreign_part in order, P for the projection. */
enum eco_foreign_scope { ECO_FOREIGN_PAIR, ECO_FOREIGN_LAYER, ECO_FOREIGN_NET };
struct eco_foreign_system {
    const char *name;
    const struct eco_foreign_cell *cells; /* terminated by a name NULL */
    enum eco_foreign_scope scope;
    const char *run[5]; /* terminated by NULL */
    bool transposed;    /* matrices [columns, G*H] */
};

/* NULL, with BAD_ARGUMENT, if no system has this name. */
const struct eco_foreign_system *eco_foreign_find(const char *name);
/* Finds the system's cell with the parameters of this one; or UNSUPPORTED, with the difference to
 * the nearest.  proj: width of the projection, which that cell must have; 0: none. */
ecornn_status eco_foreign_cell_find(const struct eco_foreign_system *system,
                                    const struct eco_recipe *recipe, int32_t proj,
                                    const struct eco_foreign_cell **found);
/* The parameter of a line in this part, or -1.  For z also that of u, with *negated set. */
int eco_foreign_param(const struct eco_recipe *recipe, enum eco_foreign_part part, char line,
                      bool *negated);

#endif /* ECO_FOREIGN_H */
