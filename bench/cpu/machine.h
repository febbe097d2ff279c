/*
 * What the machine can do, measured; and how long a problem must take on it at least.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include "bench/core/problem.h"

/* Of so many threads that run together. */
struct machine {
    int threads;
    double flops;        /* multiply-adds, all threads, a second; a fused one counts twice */
    double inner, outer; /* bytes a second that one thread reads: next cache, shared cache */
    double resident;     /* bytes that stay in a thread's next cache while others stream by */
    double quotients;    /* exponential and division, of one thread, a second */
    double barrier;      /* seconds until all threads have met */
};

/* About a quarter of a second of loops; type: of the operands of products. */
struct machine machine_measure(ecornn_type type, int threads);

/* Seconds.  `floor` is the time of the products alone at the peak.  `bound` adds up, for each step,
 * the slower of its products and reading R, then the pointwise part and a barrier. */
struct bound {
    double floor, bound;
};
struct bound bound_of(const struct problem *problem, const ecornn_plan *plan,
                      const struct machine *machine);

#endif /* BENCH_MACHINE_H */
