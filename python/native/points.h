/*
 * What a cell of torch.nn computes in one step, in F32: products of a few rows with torch's
 * weights, and the elementwise part of any number of rows, with its gradient.
 */
#ifndef ECO_TORCH_POINTS_H
#define ECO_TORCH_POINTS_H

#include <stdint.h>

/* Numbers of cells, as in ecornn/torch/cells.py. */
enum cell_kind { CELL_LSTM, CELL_GRU, CELL_TANH, CELL_RELU, CELL_KINDS };

/* One row of a step.  The gates [4*H] are, in order, of an LSTM i, f, g, o; of a GRU r, z, n and
 * the part of n that r multiplies.  Other cells have one gate, h itself. */
struct point {
    int64_t hidden;
    float *gates;                    /* in: sums of products; out: activations */
    const float *h, *c;              /* previous states [H]; c: of an LSTM */
    float *new_h, *new_c;            /* [H]; of other cells than an LSTM new_c is not used */
    const float *dh, *dc;            /* gradients of the new states [H]; NULL: 0 */
    float *dgates, *old_dh, *old_dc; /* gradients of sums [4*H] and, without products, of states */
};

/* gates, new_h and new_c from gates, h and c. */
void point_forward(enum cell_kind kind, const struct point *row);
/* dgates, old_dh and old_dc from all the rest; old_dh is of a GRU only. */
void point_backward(enum cell_kind kind, const struct point *row);

/* out[i] += sum over k of weights[i,k] * x[k]; weights: [count,size]. */
void add_dots(float *out, const float *weights, const float *x, int64_t count, int64_t size);
/* out[k] += factor * row[k]; [size]. */
void add_scaled(float *out, float factor, const float *row, int64_t size);
void set_scaled(float *out, float factor, const float *row, int64_t size); /* out[k] = ... */

#endif /* ECO_TORCH_POINTS_H */
