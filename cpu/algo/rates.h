/*
 * The rates and latencies from which times on a CPU are estimated. Measured values replace them.
 */
#ifndef ECO_CPU_ALGO_RATES_H
#define ECO_CPU_ALGO_RATES_H

#include "common/backend.h"

/* s: seconds; parts: of a thread's peak. */
struct eco_cpu_rates {
    double packed_step, packed_large; /* parts: products of a step and large ones, packed */
    double blas_step, blas_large;     /* the same with OpenBLAS 0.3.21 */
    double grid_step;                 /* parts: a step that threads divide */
    double tiles;                     /* rate of tiles over that of vectors */
    double f64, bf16;                 /* rates of these types over that of F32 */
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
/* Measured on two cores of a Zen 4. */
extern const struct eco_cpu_rates eco_cpu_rates_usual;
/* The table of a device. */
const struct eco_cpu_rates *eco_cpu_rates_of(const struct eco_caps *caps);
/* Rate of a problem's products over that of F32. */
double eco_cpu_rate_of(const struct eco_problem *problem, const struct eco_caps *caps);

/* What is measured of a CPU, eco_backend.measures; ../run/measure.c. */
enum eco_cpu_measured {
    ECO_MEASURED_F32, /* flops of a thread, in products of many rows */
    ECO_MEASURED_F64,
    ECO_MEASURED_BF16,
    ECO_MEASURED_MEMORY,  /* bytes/s that a thread reads */
    ECO_MEASURED_BARRIER, /* s, of all threads */
};
extern const struct eco_measure eco_cpu_measures[];
/* Replaces rates, and fields of caps, by what was measured. */
void eco_cpu_rates_measured(struct eco_cpu_rates *rates, struct eco_caps *caps,
                            const double value[ECO_MAX_MEASURES]);

#endif /* ECO_CPU_ALGO_RATES_H */
