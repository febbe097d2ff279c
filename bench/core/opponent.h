/*
 * The other side of a measurement: something else that computes the same problem.  A kind is a
 * constant; adding one is a file and a line in opponent.c.
 */
#ifndef BENCH_OPPONENT_H
#define BENCH_OPPONENT_H

#include "problem.h"

struct opponent {
    const struct opponent_kind *kind; /* NULL: there is none */
    const struct problem *problem;
    void *own;                          /* the kind's */
    char detail[160];                   /* how it computes, in a few words; or "" */
    const float *y, *dx, *dparams;      /* after fetch, in the order of ours */
    double seconds, core_seconds;       /* of the last run: core without its packing */
    size_t weights, workspace, reserve; /* bytes, as in ecornn_sizes; all 0: not known */
};

struct opponent_kind {
    const char *name, *about;
    /* Prints why not, when this problem is beyond it.  The plan names the parameters.  free is
     * called in any case. */
    bool (*create)(struct opponent *opponent, const ecornn_plan *plan);
    /* Inference or training with all gradients, as the problem says, on input number `set`. */
    bool (*run)(struct opponent *opponent, int set);
    /* Results of the last run to where y, dx and dparams point. */
    bool (*fetch)(struct opponent *opponent);
    void (*free)(struct opponent *opponent);
};

/* NULL: there is none of this name, or it is not built in. */
const struct opponent_kind *opponent_find(const char *name);
/* Number index, NULL past the last. */
const struct opponent_kind *opponent_at(int index);

extern const struct opponent_kind opponent_unfused, opponent_naive, opponent_onednn;

#endif /* BENCH_OPPONENT_H */
