/*
 * What was measured, printed for people or as a table.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench_opponent.h"
#include "bench_ours.h"
#include "bench_stats.h"

struct measurement {
    const struct ours *ours;
    int threads, rounds;
    double peak_before, peak_after;  /* GFLOP/s */
    struct spread total, core;       /* seconds of a run of ours: all, without pack and unpack */
    const struct opponent *versus;   /* NULL: nobody */
    struct spread other, other_core; /* seconds of theirs */
    struct spread ratio;             /* theirs / ours, round by round */
    double error[3], tolerance[3];   /* relative, of y, dx, gradients of the weights */
};

void report_head(bool csv);
void report_print(const struct measurement *m, bool csv);

#endif /* BENCH_REPORT_H */
