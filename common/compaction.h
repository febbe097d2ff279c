/*
 * Squeezing: how a run in which steps do not count for some rows becomes one that knows only
 * lengths.  Of each row the steps that count are moved together, the algorithm runs, and its
 * results are moved apart.  So no algorithm and no kernel knows of masks.  plan/compaction.c says
 * what is moved; cpu/ops/compaction.c and gpu/ops/compaction.c move it.
 */
#ifndef ECO_COMPACTION_H
#define ECO_COMPACTION_H

#include "common/layout.h"
#include "common/plan.h"
#include "common/compact_run.h"
#include "common/util.h"

enum { ECO_COMPACT_MOVES = 4 + ECO_MAX_STATES };

struct eco_compaction {
    const struct eco_args *args; /* the caller's */
    struct eco_args inside;      /* the algorithm's */
    struct eco_compact_run run;  /* the backend fills what its pointers of the run's point at */
    /* Before the algorithm, after those numbers are there; and behind it. */
    struct eco_compact_move in[ECO_COMPACT_MOVES], out[ECO_COMPACT_MOVES];
    int ins, outs;
};

/* Bytes of the workspace, behind all else. */
struct eco_size eco_compaction_bytes(const struct eco_layout *layout);
/* Does a run take it? */
bool eco_needs_compaction(const struct eco_layout *layout, const struct eco_args *args);
/* `args` must outlive it. */
void eco_compaction_begin(struct eco_compaction *compaction, const struct eco_layout *layout,
                          const struct eco_args *args);

#endif /* ECO_COMPACTION_H */
