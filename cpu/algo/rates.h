/*
 * What parts of a run take on a CPU: every rate and latency that estimates are made of.  What was
 * measured of a machine comes in its place.
 */
#ifndef ECO_CPU_ALGO_RATES_H
#define ECO_CPU_ALGO_RATES_H

#include "common/backend.h"

/* s: seconds; parts: of a thread's peak. */
struct eco_cpu_rates {
    double packed_step, packed_large; /* parts: of products of a step and of large ones, packed */
    double blas_step, blas_large;     /* and of OpenBLAS 0.3.21 */
    double grid_step;                 /* parts: of a step, where threads share it out */
    double tiles;                     /* rate of tiles over that of vectors */
    double f64, bf16;                 /* rates of these types, parts of that of F32 */
    double from_cache;                /* bytes a second of weights from the second-level cache */
    double from_shared;               /* bytes a second from a cache that threads share */
    double from_others;               /* bytes a second of what other threads have just written */
    double pass, pass_back;           /* s: of an accumulator in the pointwise pass */
    double row;                       /* s: and of each of its rows */
    double scan, scan_row;            /* s: the same in scans, which read no sums of products */
    double step;                      /* s: of a stage of a step, however small */
    double barrier;                   /* s: for each doubling of the threads */
    double late;                      /* parts: of a step, for each doubling of the threads */
    double wake;                      /* s: until other threads are awake */
};
/* Measured on two cores of a Zen 4. */
extern const struct eco_cpu_rates eco_cpu_rates_usual;
/* Those in force. */
const struct eco_cpu_rates *eco_cpu_rates_of(const struct eco_caps *caps);
/* Rate of products of a problem over that of F32. */
double eco_cpu_rate_of(const struct eco_problem *problem, const struct eco_caps *caps);

/* What is measured of a CPU, as eco_backend.measures; ../run/measure.c. */
enum eco_cpu_measured {
    ECO_MEASURED_F32, /* flops of a thread, in products of many rows */
    ECO_MEASURED_F64,
    ECO_MEASURED_BF16,
    ECO_MEASURED_MEMORY,  /* bytes a second that a thread reads */
    ECO_MEASURED_BARRIER, /* s, of all threads */
};
extern const struct eco_measure eco_cpu_measures[];
/* The same from what was measured; also caps. */
void eco_cpu_rates_measured(struct eco_cpu_rates *rates, struct eco_caps *caps,
                            const double value[ECO_MAX_MEASURES]);

#endif /* ECO_CPU_ALGO_RATES_H */
