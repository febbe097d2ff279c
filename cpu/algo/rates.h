/*
 * The rates and latencies from which times on a CPU are estimated.
 */
#ifndef ECO_CPU_ALGO_RATES_H
#define ECO_CPU_ALGO_RATES_H

/* Names that end in `products` are relative to the peak of a thread (eco_caps.flops), those that
 * end in `bytes` are bytes per second, all others are seconds unless another unit is given.
 * Example: a stage of a step of LSTM H256 for 8 rows in one thread takes 0.05e-6 + 8 * 50e-9 for
 * itself and its rows, and 8 * 256 * 4 * 1.4e-9 for its accumulators, together 12 us. */
struct eco_cpu_rates {
    double step_products, large_products; /* products of steps; of inputs and weight gradients */
    double tiles;                         /* the rate of AMX tiles over that of vectors */
    double cache_bytes;                   /* weights from the second-level cache */
    double exchanged_bytes;               /* what other threads have just written */
    double pass, pass_back; /* an accumulator in the pointwise pass, forward and backward */
    double row;             /* a row in that pass */
    double scan, scan_row;  /* the same in scans, which read no sums of products */
    double stage;           /* a stage of a step, however small */
    double barrier;         /* a barrier, for each doubling of the threads */
    double shared_line;     /* until a thread has a line that another has just written */
    double next_line;       /* or the neighbour of one, since processors fetch pairs */
    double late;            /* how much longer a step takes, for each doubling of the threads */
    double wake;            /* until other threads are awake */
};
/* Measured on two cores of a Zen 4; other CPUs differ in their peaks (eco_caps). */
extern const struct eco_cpu_rates eco_cpu_rates;

#endif /* ECO_CPU_ALGO_RATES_H */
