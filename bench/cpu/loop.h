/*
 * The opponents: a recurrent layer as a framework's loop over steps computes it, with products of a
 * BLAS and elementwise passes, nothing fused.  One layer, forward in time, F32, no projection.
 */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include "passes.h"
#include "bench/core/problem.h"

/* unfused: two products a step (all gates of x, all gates of h), vector passes on several threads.
 * naive: a product for each gate and operand, plain passes. */
enum loop_style { LOOP_UNFUSED, LOOP_NAIVE };

struct loop;
/* How a cell is computed, on top of the products; see loop_cells.c. */
struct loop_cell {
    const char *name;
    int gates;          /* G: matrices in W, and in R */
    bool apart;         /* the products of h are not simply added to those of x */
    int slots;          /* arrays [N,H] a step keeps or uses up */
    int backward_slots; /* the same, of a backward step */
    void (*forward)(struct loop *loop, int t);
    void (*backward)(struct loop *loop, int t);
};
extern const struct loop_cell loop_cells[];
extern const int loop_cell_count;

struct loop {
    const struct problem *problem;
    const struct loop_cell *cell;
    const struct passes *passes;
    bool split;               /* products gate by gate */
    int T, N, I, H, kept;     /* kept: steps whose slots exist; t uses t mod kept */
    const float *x, *W, *R;   /* [T,N,I] [G*H,I] [G*H,H] */
    float *y, *dx, *dparams;  /* [T,N,H] [T,N,I], the parameter block */
    float *bias_x, *bias_h;   /* [G*H] */
    float *gates_x, *gates_h; /* [N,G*H] pre-activations of a step; h only when apart */
    float *dgates_x, *dgates_h;
    float *dbias_x, *dbias_h;
    float *slots;          /* [slots,kept,N,H] */
    float *backward_slots; /* [backward_slots,N,H] */
    float *dh;             /* [N,H]: what step t+1 says of h */
    float *zeros, *ones;   /* [N,H], [N] */
};

/* ---- for the cells ---- */

/* h before step t, [N,H]. */
struct rows loop_h(const struct loop *loop, int t);
struct rows loop_slot(const struct loop *loop, int slot, int t);
struct rows loop_backward_slot(const struct loop *loop, int slot);
/* Gate g of gates_x or another array of gates. */
struct rows loop_gate(const struct loop *loop, float *gates, int g);
/* A pass over [N,H]; b may be any rows where the pass takes one argument. */
void loop_pass(const struct loop *loop, enum pass pass, struct rows to, struct rows a,
               struct rows b);

#endif /* BENCH_LOOP_H */
