/*
 * The argument of a wide step: both products of many rows and the cell in one launch, by matrix
 * instructions of four warps (wgmma).
 */
#ifndef ECO_GPU_WIDE_STEP_ARGS_H
#define ECO_GPU_WIDE_STEP_ARGS_H

#include <cuda.h>

#include "gpu/cell/args.h"

enum {
    ECO_WIDE_OPS = 5,       /* most ops of a launch: one in each z of the grid */
    ECO_WIDE_SOURCES = 2,   /* sources of a sum: input and state */
    ECO_WIDE_ACCS = 4,      /* most accumulators */
    ECO_WIDE_LINE = 128,    /* bytes of a row that are copied at once: a stage of k */
    ECO_WIDE_M = 64,        /* batch rows of an instruction */
    ECO_WIDE_GROUP = 128,   /* threads of a warpgroup */
    ECO_WIDE_UNITS = 8,     /* units come in multiples of this, some of them padding */
    ECO_WIDE_DACCS = 8,     /* most gradients of accumulators and vectors of a step back */
    ECO_WIDE_QUAD = 4,      /* units of a thread of a step back */
    ECO_WIDE_BARRIERS = 16, /* bytes, of a stage */
    ECO_WIDE_PERIOD = 8     /* stages of a matrix, of which some should stay in the L2 */
};

/*
 * Shapes of blocks, CALL(number, down, across, tiles, units, stages, blocks, cluster): warpgroups
 * along the batch and along the units; tiles of 64 rows of each; its units for a cell with 3 or 4
 * accumulators; stages of k in flight; blocks of a multiprocessor; blocks of a cluster, which share
 * copies of batch rows. The last shape, for a large R, has half of its stages if a multiprocessor
 * gets two blocks.
 */
#define ECO_WIDE_LIST(CALL)                                                                        \
    CALL(0, 1, 2, 1, 16, 4, 2, 1)                                                                  \
    CALL(1, 2, 1, 1, 24, 4, 2, 1)                                                                  \
    CALL(2, 2, 1, 1, 32, 3, 2, 1)                                                                  \
    CALL(3, 2, 1, 1, 64, 4, 1, 1)                                                                  \
    CALL(4, 2, 1, 2, 48, 4, 1, 1)                                                                  \
    CALL(5, 2, 1, 1, 16, 8, 2, 2)
enum { ECO_WIDE_SHAPES = 6, ECO_WIDE_END = -1 /* instead of a cell's number */ };

/* With fewer accumulators a warpgroup has more units. The numbers that have kernels. */
#define ECO_WIDE_MORE(accs) ((accs) > 2 ? 1 : 4 / (accs))
#define ECO_WIDE_MADE(accs) ((accs) <= ECO_WIDE_ACCS && (accs) != 2)
/* Threads that copy, by the blocks of a multiprocessor. */
#define ECO_WIDE_MORE_THREADS(blocks) ((blocks) > 1 ? 32 : ECO_WIDE_GROUP)

/* Batch rows times a matrix. */
struct eco_wide_source {
    CUtensorMap rows, matrix; /* [N,k], [groups*column,k] */
    int32_t k_blocks;         /* the last one zero-padded */
    int32_t first, count;     /* the accumulators that add it */
    int32_t kept;             /* stages of each ECO_WIDE_PERIOD that should stay in the L2 */
    int32_t column;           /* lines between these accumulators */
    bool early;               /* rows were complete before the preceding kernel became resident */
};

struct eco_wide_call {
    struct eco_wide_source source[ECO_WIDE_SOURCES];
    struct eco_stage_call stage; /* acc: sums to which products add; or NULL */
    int8_t bias[ECO_WIDE_ACCS];  /* the bias vector of each accumulator; -1: none */
    int8_t stages;               /* of k; kernels without clusters have a number of their own */
    bool early; /* stage.acc was complete before the preceding kernel became resident */
};
struct eco_wide_calls {
    struct eco_wide_call of[ECO_WIDE_OPS];
};

#endif /* ECO_GPU_WIDE_STEP_ARGS_H */
