/*
 * What was measured, printed for people or as a table.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench/cpu/machine.h"
#include "opponent.h"
#include "ours.h"
#include "stats.h"

/* How it is printed: for people, comma separated, or as a row of a table in a manual. */
enum form { PEOPLE, CSV, MARKDOWN };

struct measurement {
    const struct ours *ours;
    int threads, rounds;
    bool capped; /* to fewer instructions than the processor has */
    struct machine machine;
    struct bound bound;
    double peak_before, peak_after;  /* GFLOP/s */
    struct spread total, core;       /* seconds of a run of ours: all, without pack and unpack */
    const struct opponent *versus;   /* NULL: nobody */
    struct spread other, other_core; /* seconds of theirs */
    struct spread calls[2];          /* seconds of single calls, streaming: ours and theirs */
    struct spread ratio;             /* theirs / ours, round by round */
    double error[3], tolerance[3];   /* relative, of y, dx, gradients of the weights */
};

void report_head(enum form form);
void report_print(const struct measurement *m, enum form form);

#endif /* BENCH_REPORT_H */
