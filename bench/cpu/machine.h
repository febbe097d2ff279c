/*
 * What a CPU can do, measured, and the least time that a problem takes on it.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include "bench/core/problem.h"

/* Rates of a number of threads that run together. */
struct machine {
    int threads;
    double flops;        /* FLOP/s of all threads; a fused multiply-add counts twice */
    double inner, outer; /* bytes/s that one thread reads from its L2 and from the shared cache */
    double resident;     /* bytes that stay in the L2 of a thread while others stream through */
    double quotients;    /* exponentials with a division, per second of one thread */
    double barrier;      /* seconds until all threads have met */
};

/* Measures for about a quarter of a second.  type: the type of the operands of products. */
struct machine machine_measure(ecornn_type type, int threads);

/* Seconds.  `floor` is the time of the products alone at the peak.  `bound` adds up, for each step,
 * the slower of its products and reading R, then the pointwise part and a barrier. */
struct bound {
    double floor, bound;
};
struct bound bound_of(const struct problem *problem, const ecornn_plan *plan,
                      const struct machine *machine);

#endif /* BENCH_MACHINE_H */
