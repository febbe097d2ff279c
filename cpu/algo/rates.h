/*
 * The rates and latencies from which times on a CPU are estimated.
 */
#ifndef ECO_CPU_ALGO_RATES_H
#define ECO_CPU_ALGO_RATES_H

/* s: seconds; parts: of a thread's peak. */
struct eco_cpu_rates {
    double packed_step, packed_large; /* parts: products of a step and large ones, packed */
    double blas_step, blas_large;     /* the same with OpenBLAS 0.3.21 */
    double grid_step;                 /* parts: a step that threads divide */
    double tiles;                     /* rate of tiles over that of vectors */
    double from_cache;                /* bytes/s of weights from the second-level cache */
    double from_shared;               /* bytes/s from a cache that threads share */
    double from_others;               /* bytes/s of what other threads have just written */
    double pass, pass_back;           /* s: an accumulator in the pointwise pass */
    double row;                       /* s: each of its rows */
    double scan, scan_row;            /* s: the same in scans, which read no sums of products */
    double step;                      /* s: a stage of a step, however small */
    double barrier;                   /* s: for each doubling of the threads */
    double late;                      /* parts: of a step, for each doubling of the threads */
    double wake;                      /* s: until other threads are awake */
};
/* Measured on two cores of a Zen 4; other CPUs differ in their peaks (eco_caps). */
extern const struct eco_cpu_rates eco_cpu_rates;

#endif /* ECO_CPU_ALGO_RATES_H */
