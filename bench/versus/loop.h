/*
 * The opponent "loop": a recurrent layer as a framework computes it that loops over the steps. Each
 * step has two products by a CBLAS (all gates of x, all gates of h) and elementwise passes, none of
 * them fused.  It has one layer, forward in time, in F32.
 */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include "bench/core/problem.h"
#include "bench/cpu/passes.h"

struct loop;
/* What a cell computes between the products, see loop_cells.c. */
struct loop_cell {
    const char *name;
    int gates;          /* G: matrices in W, and in R */
    bool separate;      /* keeps the products of h apart from those of x */
    int slots;          /* arrays [N,H] that a step keeps or needs */
    int backward_slots; /* the same for a backward step */
    void (*forward)(struct loop *loop, int t);
    void (*backward)(struct loop *loop, int t);
};
extern const struct loop_cell loop_cells[];
extern const int loop_cell_count;

struct loop {
    const struct problem *problem;
    const struct loop_cell *cell;
    int T, N, I, H, kept;     /* kept: number of steps that have slots; t uses t mod kept */
    const float *x, *W, *R;   /* [T,N,I] [G*H,I] [G*H,H] */
    float *y, *dx, *dparams;  /* [T,N,H] [T,N,I], the parameter block */
    float *bias_x, *bias_h;   /* [G*H] */
    float *gates_x, *gates_h; /* [N,G*H] pre-activations of a step; h only if separate */
    float *dgates_x, *dgates_h;
    float *dbias_x, *dbias_h;
    float *slots;          /* [slots,kept,N,H] */
    float *backward_slots; /* [backward_slots,N,H] */
    float *dh;             /* [N,H]: the gradient of h from step t+1 */
    float *zeros, *ones;   /* [N,H], [N] */
};

/* h before step t, [N,H]. */
struct rows loop_h(const struct loop *loop, int t);
struct rows loop_slot(const struct loop *loop, int slot, int t);
struct rows loop_backward_slot(const struct loop *loop, int slot);
/* Gate g of gates_x or another array of gates. */
struct rows loop_gate(const struct loop *loop, float *gates, int g);
/* A pass over [N,H]; b is ignored if the pass has one argument. */
void loop_pass(const struct loop *loop, enum pass pass, struct rows to, struct rows a,
               struct rows b);

#endif /* BENCH_LOOP_H */
