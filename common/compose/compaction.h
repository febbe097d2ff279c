/*
 * Compaction: turns a run with a mask into one that knows only lengths.  The counted steps of each
 * row are moved together, the algorithm runs, and its results are moved back.  So no algorithm and
 * no kernel knows about masks.  compose/compaction.c decides what is moved; compact_part.c and
 * gpu/copy/compaction.cu move it.
 *
 * Example: a row with the mask 1 0 1 1 0 has counted = 1 1 2 3 3 and the length 3.  Its x of steps
 * 0, 2, 3 moves to steps 0, 1, 2; after a forward run, y of steps 0, 1, 2 moves to steps 0, 2, 3,
 * and steps 1 and 4 repeat the output before them.
 */
#ifndef ECO_COMPACTION_H
#define ECO_COMPACTION_H

#include "common/compose/call.h"
#include "common/layout.h"
#include "common/plan.h"
#include "common/util.h"

enum { ECO_COMPACT_MOVES = 4 + ECO_MAX_STATES };

struct eco_compaction {
    const struct eco_args *args; /* the caller's */
    struct eco_args inside;      /* the algorithm's */
    struct eco_compact_run run;  /* the backend fills the arrays of the run */
    struct eco_compact_move move[2 * ECO_COMPACT_MOVES];
    /* Before the algorithm: fills these arrays, then moves; and after it. */
    struct eco_call in[1 + ECO_COMPACT_MOVES], out[ECO_COMPACT_MOVES];
    int moves, ins, outs;
};

/* Bytes at the end of the workspace. */
struct eco_size eco_compaction_bytes(const struct eco_layout *layout);
/* Does this run need compaction? */
bool eco_needs_compaction(const struct eco_layout *layout, const struct eco_args *args);
/* Prepares a compaction.  `args` must outlive it. */
void eco_compaction_begin(struct eco_compaction *compaction, const struct eco_layout *layout,
                          const struct eco_args *args);

/* compact_part.c: slice `id` of `threads` of ECO_CALL_COUNT and ECO_CALL_COMPACT in host memory. */
void eco_count_part(const struct eco_call *call, int id, int threads);
void eco_compact_part(const struct eco_call *call, int id, int threads);

#endif /* ECO_COMPACTION_H */
