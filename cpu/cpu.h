/*
 * What the files of the CPU backend share: the device's private part, one thread's view of a run,
 * and the large products.  Knows the tape's operations, no cell and no instruction set.
 */
#ifndef ECO_CPU_H
#define ECO_CPU_H

#include <stdatomic.h>

#include "common/backend.h"
#include "cpu/pointwise.h"

struct eco_cpu {
    const struct eco_isa *isa;
    int threads;
    bool small_products; /* this CBLAS multiplies small matrices without packing them */
};

/* ---- the team of threads of one run, team.c -------------------------------------------------- */

/* Each counter in a cache line of its own: waiting threads do not disturb arriving ones. */
struct eco_team {
    _Alignas(128) _Atomic int arrived;
    _Alignas(128) _Atomic unsigned generation;
};

/* One thread's view of a run.  All threads walk the same tape; id of count tells them apart. */
struct eco_cpu_run {
    const struct eco_cpu *cpu;
    const struct eco_problem *problem;
    const struct eco_lowered *lowered;
    const struct eco_layout *layout;
    const struct eco_args *args;
    const struct eco_pointwise_kernels *kernels;
    struct eco_team *team;
    int id, count;
};

/* An op of the tape, done by all threads together; it ends with everything it wrote visible to the
 * thread that wrote it: the walker waits for the others. */
typedef void (*eco_cpu_kernel)(const struct eco_cpu_run *run, const struct eco_op *op);

/* Walks the tape: kernel[kind] for every op, on at most threads threads. */
ecornn_status eco_cpu_walk(const struct eco_cpu_run *run, const struct eco_tape *tape,
                           const eco_cpu_kernel *kernel, int threads);
/* Waits until every thread of the run is here; what they wrote is then visible to all. */
void eco_cpu_wait(const struct eco_cpu_run *run);
/* Called once per process: runs in a forked child take one thread, since the team is not there. */
void eco_cpu_watch_forks(void);

/* This thread's part of n things, in whole groups. */
struct eco_part {
    int32_t from, to;
};
struct eco_part eco_cpu_part(const struct eco_cpu_run *run, int32_t n, int32_t group);

/* ---- addresses, rows.c ----------------------------------------------------------------------- */

/* Element 0 of step `step` of an array of the run's blocks. */
void *eco_cpu_at(const struct eco_cpu_run *run, const struct eco_array *array, size_t step);
/* The packed weights at a byte offset from eco_layout_*. */
const void *eco_cpu_weights(const struct eco_cpu_run *run, size_t offset);
/* Address `elements` after p. */
const void *eco_cpu_after(const struct eco_cpu_run *run, const void *p, size_t elements);
void *eco_cpu_after_mutable(const struct eco_cpu_run *run, void *p, size_t elements);

/* Rows of one step: element 0 of row 0, and elements from one row to the next. */
struct eco_rows {
    const void *data; /* NULL: there are none */
    size_t row;
};
/* A caller's sequence of `width` wide rows (x, y and their gradients) at step t, in either order.
 */
struct eco_rows eco_cpu_sequence(const struct eco_cpu_run *run, const void *data, int32_t t,
                                 size_t width);
/* Rows that layer `op->layer` reads as input at step t, before gathering. */
struct eco_rows eco_cpu_input(const struct eco_cpu_run *run, const struct eco_op *op, int32_t t);
/* Input rows of the op's steps for a product: gathered or in place; dense over the steps. */
struct eco_rows eco_cpu_product_input(const struct eco_cpu_run *run, const struct eco_op *op);

/* The ops that only move rows; the same for every CPU algorithm. */
void eco_cpu_begin(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_cpu_gather(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_cpu_end(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_cpu_d_begin(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_cpu_d_scatter(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_cpu_d_end(const struct eco_cpu_run *run, const struct eco_op *op);

/* ---- products, product.c --------------------------------------------------------------------- */

enum eco_product_kind {
    ECO_PRODUCT_NT, /* C[m,n] += A[m,k] B[n,k]^T */
    ECO_PRODUCT_NN, /* C[m,n] += A[m,k] B[k,n]   */
    ECO_PRODUCT_TN  /* C[m,n] += A[k,m]^T B[k,n] */
};

struct eco_product {
    enum eco_product_kind kind;
    int32_t m, n, k;
    const void *a, *b;
    void *c;
    size_t a_row, b_row, c_row; /* elements between rows */
    bool add;                   /* to C; else C is overwritten */
};

/* This thread's share of the product, in pieces whose shape depends on m, n, k alone: the bits do
 * not depend on the number of threads.  The caller waits before C is read. */
void eco_cpu_product(const struct eco_cpu_run *run, const struct eco_product *product);

/* ---- the parts of algorithm blas ------------------------------------------------------------- */

/* Neighbouring accumulators [first, end) that share a product. */
struct eco_span {
    int first, end, before; /* before: how many with that product come earlier */
};
/* The next span at or after accumulator `from`: of W (operand < 0) or of an operand's R. */
bool eco_span_next(const struct eco_lowered *lowered, int operand, int from, struct eco_span *span);

/* The fields of a pointwise call that are the same for every step of an op. */
struct eco_pointwise eco_blas_call(const struct eco_cpu_run *run, const struct eco_op *op);
/* This thread's part of the [N,H] plane: rows if there are enough, else units. */
void eco_blas_take_part(const struct eco_cpu_run *run, struct eco_pointwise *call);

void eco_blas_input(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_blas_step(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_blas_d_step(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_blas_d_input(const struct eco_cpu_run *run, const struct eco_op *op);
void eco_blas_d_weights(const struct eco_cpu_run *run, const struct eco_op *op);

extern const struct eco_algo eco_algo_blas;

#endif /* ECO_CPU_H */
