/* One measurement: a problem on a device, alone or in turn with an opponent. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "bench/cpu/machine.h"
#include "opponent.h"
#include "stats.h"

struct request {
    const char *problem, *device;    /* device NULL: the fastest */
    bool gpu;                        /* the device is a GPU */
    const ecornn_cell *cell;         /* the cell that the problem names; NULL: a built-in one */
    double seconds;                  /* seconds of timed runs, for each side and way */
    bool bounds;                     /* also measures what the CPU can do at most */
    const struct opponent *opponent; /* NULL: ecornn alone */
};

/* What was measured in one way of running. */
struct measurement {
    const struct problem *problem;
    ecornn_device_info info;
    ecornn_sizes sizes;
    enum way way;
    int rounds;
    struct spread total, core;       /* seconds of a run; core: without packing and unpacking */
    struct bound bound;              /* on a CPU zero without bounds */
    double peak_before, peak_after;  /* GFLOP/s of multiply-adds, around a CPU's rounds; or 0 */
    const struct opponent *opponent; /* NULL: alone, or it does not support the problem */
    struct side side;                /* the opponent's detail and bytes */
    struct spread other, other_core,
        ratio;              /* the opponent's seconds; and their ratio to ecornn's, by round */
    struct spread calls[2]; /* seconds of single calls of streaming problems: ecornn's, its */
};

enum { MOST_WAYS = 3 };
/* Measures a problem in each way its device has: one on a CPU, eager and graph on a GPU.  Calls
 * `report` once with the list.  False, with a line on standard error: something failed, the two
 * sides disagree, or the opponent does not support the problem; then ecornn is reported alone. */
bool measure(const struct request *request,
             void (*report)(void *context, const struct measurement *list, int n), void *context);

#endif /* BENCH_MEASURE_H */
