/*
 * One step of torch.nn's LSTMCell, GRUCell and RNNCell on a CPU, in F32, on torch's own weights.
 */
#ifndef ECO_TORCH_CELL_H
#define ECO_TORCH_CELL_H

#include "python/native/points.h"
#include "python/native/tensors.h"

/* Bits of `given`, as in ecornn/torch/cells.py. */
enum {
    CELL_BIAS = 1 << 0,
    CELL_KEEP = 1 << 1, /* return the gates for backward */
    CELL_DH = 1 << 2,
    CELL_DC = 1 << 3,
    CELL_WANT_DX = 1 << 4,
    CELL_WANT_DH = 1 << 5,
    CELL_WANT_DWEIGHTS = 1 << 6,
    CELL_ALL = (1 << 7) - 1
};

torch_kernel operator_cell, operator_cell_backward;

/* The arrays of a step.  A step reads weights in torch's order, so nothing is packed or compared.
 */
struct step {
    enum cell_kind kind;
    int64_t rows, input, hidden, width; /* N, I, H, and the row of `gates`, [N,width] */
    const float *x, *h, *c, *w, *r, *bias_x, *bias_h;
    float *gates, *new_h, *new_c;
    const float *dh, *dc;
    float *dgates, *dx, *old_dh, *old_dc, *dw, *dr, *dbias_x, *dbias_h;
    bool ok;
};

/* Rows of w and of r: H for each gate. */
int64_t step_weight_rows(const struct step *step);
/* new_h, new_c and gates from all that is read. */
void step_forward(struct step *step);
/* The gradients that are not NULL; dgates is scratch. */
void step_backward(struct step *step);

#endif /* ECO_TORCH_CELL_H */
