/*
 * Medians, quartiles and the clock of the command.
 */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

/* Order statistics of a list of numbers. */
struct spread {
    double median, low, high; /* low and high: quartiles */
    double tail;              /* 99 of 100 are at most this */
};
/* Sorts the numbers; count is at least 1. */
struct spread spread_of(double *numbers, int count);

/* Seconds since an arbitrary moment; never decreases. */
double now(void);

#endif /* BENCH_STATS_H */
