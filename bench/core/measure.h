/*
 * One measurement: a problem, a number of threads, perhaps an opponent.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>

#include "opponent.h"
#include "report.h"

struct request {
    const char *problem, *device; /* device NULL: cpu:THREADS */
    const ecornn_cell *cell;      /* of the problem string, or NULL */
    int threads;
    double seconds;                     /* of runs, each side */
    bool capped;                        /* to an instruction set */
    const struct opponent_kind *versus; /* NULL: nobody */
    enum form form;
};

/* Measures and prints.  False, with a line on standard error, where that is not possible or the two
 * sides disagree. */
bool measure(const struct request *request);

#endif /* BENCH_MEASURE_H */
