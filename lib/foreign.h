/*
 * Other systems' cells: the order of their blocks, and of their gates by the names of our
 * parameters.  foreign.c has the tables and knows a cell by these names, be it built in or a text;
 * api_import.c moves the numbers.
 *
 * A block is a row of tensors.  G gates in the order of the tables, I the layer's input width
 * (later layers D*P); pair: layer after layer, in each the forward, then the reverse direction.
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

/* What a tensor is made of. */
enum eco_foreign_part {
    ECO_FOREIGN_INPUT,
    ECO_FOREIGN_RECURRENT,
    ECO_FOREIGN_BIAS,
    ECO_FOREIGN_SECOND_BIAS,
    ECO_FOREIGN_PEEPHOLE,
    ECO_FOREIGN_PARTS
};

/*
 * One cell of a system.  gates[part]: lines of the cell's text in the system's order, one letter
 * each; '-': a block we have no parameter for, ignored by import and zero after export; NULL: the
 * system has no such part.  Where both biases of a gate name the same line they are added,
 * otherwise the equations keep them apart.  z is the share of the old state in all systems; a cell
 * that has the share of the new one in its place calls it u: 1 - sigmoid(a) is sigmoid(-a), so its
 * parameters are those of z, negated.
 */
struct eco_foreign_cell {
    const char *name; /* of ours, for people */
    const char *gates[ECO_FOREIGN_PARTS];
    bool projection;
};

/* run: parts that follow each other for one pair, then for the next pair of the scope; W R b d p in
 * the order of enum eco_foreign_part, P is the projection. */
enum eco_foreign_scope { ECO_FOREIGN_PAIR, ECO_FOREIGN_LAYER, ECO_FOREIGN_NET };
struct eco_foreign_system {
    const char *name;
    const struct eco_foreign_cell *cells; /* ends with a name NULL */
    enum eco_foreign_scope scope;
    const char *run[5]; /* ends with NULL */
    bool transposed;    /* matrices [columns, G*H] */
};

/* NULL: there is none of this name; BAD_ARGUMENT says so. */
const struct eco_foreign_system *eco_foreign_find(const char *name);
/* The system's cell with the parameters of this one; or UNSUPPORTED, and how the nearest differs.
 * proj: with a projection to so many, which that cell must have; 0: without. */
ecornn_status eco_foreign_cell_find(const struct eco_foreign_system *system,
                                    const struct eco_recipe *recipe, int32_t proj,
                                    const struct eco_foreign_cell **found);
/* Which parameter is the line's in this part, -1: none; that of u, negated, for z where there is no
 * z. */
int eco_foreign_param(const struct eco_recipe *recipe, enum eco_foreign_part part, char line,
                      bool *negated);

#endif /* ECO_FOREIGN_H */
