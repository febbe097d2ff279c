/*
 * An opponent: another library that computes the same problem.  It is a constant with five
 * functions in a file of bench/versus, and a line in bench/program.c.
 *
 * A measurement has two sides, ecornn's and the opponent's, which run in turns.  For each problem
 * the opponent's `prepare` makes everything that a user would make once, `run` is timed, and `free`
 * ends it.  Between the first two, `results` gives what a first run computed, and nothing is timed
 * that differs from ecornn's results.
 */
#ifndef BENCH_OPPONENT_H
#define BENCH_OPPONENT_H

#include "problem.h"

/* How runs follow each other.  A CPU finishes each call.  On a GPU calls are queued (eager),
 * ours with other addresses each time, or replayed from a CUDA graph; PACKING is a graph that also
 * packs weights and unpacks gradients. */
enum way { ON_CPU, EAGER, GRAPH, PACKING };

/* The opponent's side of one measurement. */
struct side {
    const struct problem *problem;
    const ecornn_plan *plan; /* ecornn's, which names the parameters */
    const char *device;
    int threads;
    enum way way;
    void *context; /* what prepare made */
    int set;       /* the input of the next run, see problem->sets */

    /* Set by prepare. */
    char detail[160];                   /* version and algorithm, or "" */
    size_t weights, workspace, reserve; /* bytes, as in ecornn_sizes; all 0: not known */
    /* Set by results; rows and gradients in the order of ecornn's arrays, NULL: not compared. */
    const float *y, *dx, *dparams;
    /* Set by run: the mean of its repeats; core_seconds without packing and unpacking. */
    double seconds, core_seconds;
    double *calls; /* [most_calls] seconds of single runs, of streaming problems on CPUs */
    int call_count, most_calls;
};

struct opponent {
    const char *name, *about;
    /* NULL if it can compute this problem, else why not ("does not support lengths"). */
    const char *(*refuses)(const struct problem *problem);
    /* All of these print the reason on standard error when they return false. */
    bool (*prepare)(struct side *side);
    bool (*run)(struct side *side, int repeats);
    bool (*results)(
        struct side *side); /* gives the results of a first run on input 0; NULL: not compared */
    void (*free)(struct side *side); /* also after a prepare that failed */

    /* Which devices it runs on, and how. */
    bool gpu;                                       /* GPUs; otherwise CPUs */
    enum { IN_PROCESS, IN_CHILD, IN_PYTHON } where; /* IN_PYTHON: a class of versus/peers.py */
    const char *params;                             /* IN_PYTHON: the system of ecornn_export */
    double round_seconds;                           /* the shortest round; 0: the usual one */
    double pause; /* seconds before each round, until the other side's threads sleep */
};

/* A `run` made of single runs: calls `once`, which sets seconds and core_seconds, for one input
 * after the other, and keeps the means and the single times. */
bool side_repeat(struct side *side, int repeats, bool (*once)(struct side *side, int set));

#endif /* BENCH_OPPONENT_H */
