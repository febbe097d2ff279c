/*
 * Squeezing: how a run in which steps do not count for some rows becomes one that knows only
 * lengths.  Of each row the steps that count are moved together, the algorithm runs, and its
 * results are moved apart.  So no algorithm and no kernel knows of masks.  plan/squeeze.c says what
 * is moved; cpu/ops/squeeze.c and gpu/ops/squeeze.c move it.
 */
#ifndef ECO_SQUEEZE_H
#define ECO_SQUEEZE_H

#include "common/layout.h"
#include "common/plan.h"
#include "common/squeezed.h"
#include "common/util.h"

enum { ECO_SQUEEZE_MOVES = 4 + ECO_MAX_STATES };

struct eco_squeeze {
    const struct eco_args *args; /* the caller's */
    struct eco_args inside;      /* the algorithm's */
    struct eco_squeezed run;     /* the backend fills what its pointers of the run's point at */
    /* Before the algorithm, after those numbers are there; and behind it. */
    struct eco_squeeze_move in[ECO_SQUEEZE_MOVES], out[ECO_SQUEEZE_MOVES];
    int ins, outs;
};

/* Bytes of the workspace, behind all else. */
struct eco_size eco_squeeze_bytes(const struct eco_layout *layout);
/* Does a run take it? */
bool eco_squeezes(const struct eco_layout *layout, const struct eco_args *args);
/* `args` must outlive it. */
void eco_squeeze_begin(struct eco_squeeze *squeeze, const struct eco_layout *layout,
                       const struct eco_args *args);

#endif /* ECO_SQUEEZE_H */
