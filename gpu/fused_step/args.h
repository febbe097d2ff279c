/*
 * The argument of a fused step: the products of a stage and its cell in one launch, for runs of few
 * steps and for projections.  Also included by kernels that are compiled at run time.
 */
#ifndef ECO_GPU_FUSED_STEP_ARGS_H
#define ECO_GPU_FUSED_STEP_ARGS_H

#include "gpu/cell/args.h"

#define ECO_FUSED_VERSION 80 /* compute capability that the kernels need, times ten */

enum {
    ECO_FUSED_SOURCES = 2, /* of sums, at most: input and state */
    ECO_FUSED_WARPS = 8,
    ECO_FUSED_THREADS = 32 * ECO_FUSED_WARPS,
    ECO_FUSED_M = 16,     /* rows of a matrix that an instruction takes */
    ECO_FUSED_N = 8,      /* and batch rows */
    ECO_FUSED_SHAPES = 3, /* of blocks: 8, 16 and 32 batch rows */
    ECO_FUSED_BYTES = 64, /* of a row in a k block: a piece of 16 for each of four lanes */
    /* in place of a cell's number: sums are the state; no more of them */
    ECO_FUSED_PROJECTION = -1,
    ECO_FUSED_END = -2
};

/* Of a block: units, tiles of 16 rows of their accumulators and of 8 batch rows.  Its warps share
 * k. */
#define ECO_FUSED_UNITS(accs)    ((accs) % 2 != 0 ? 16 : 8)
#define ECO_FUSED_TILES(accs)    (((accs)*ECO_FUSED_UNITS(accs) + 15) / ECO_FUSED_M)
#define ECO_FUSED_ACROSS(shape)  (1 << (shape))
#define ECO_FUSED_COLUMNS(shape) (ECO_FUSED_N * ECO_FUSED_ACROSS(shape))
/* Floats from one batch row's sums to the next: neither who puts them by tiles nor who takes them
 * by units meets others at a bank. */
#define ECO_FUSED_LINE(accs) (ECO_FUSED_TILES(accs) * ECO_FUSED_M + 4)
#define ECO_FUSED_SHARED(accs, shape)                                                              \
    (ECO_FUSED_WARPS * ECO_FUSED_COLUMNS(shape) * ECO_FUSED_LINE(accs) * (int)sizeof(float))
/* Those there is a kernel for: of others a thread's sums are too many. */
#define ECO_FUSED_MADE(accs, shape) (ECO_FUSED_TILES(accs) * ECO_FUSED_ACROSS(shape) <= 12)

/* Rows of the batch times a matrix; warps take whole sources, so that what an accumulator has not
 * does not meet it. */
struct eco_fused_source {
    const void *rows, *matrix;  /* [N,k], [groups*column,k], in the type of rows */
    size_t row;                 /* elements from one to the next */
    int32_t matrix_row, k;      /* of the matrix: whole pieces, zeros behind k */
    int32_t warps;              /* along k, that multiply it */
    bool aligned;               /* rows lie at multiples of 16 bytes */
    int8_t group[ECO_MAX_ACCS]; /* which of the matrix's an accumulator adds; -1: none */
};

struct eco_fused_call {
    struct eco_stage_call stage; /* acc: not read */
    struct eco_fused_source source[ECO_FUSED_SOURCES];
    int8_t bias[ECO_MAX_ACCS]; /* the vector that each adds; -1: none */
};

#endif /* ECO_GPU_FUSED_STEP_ARGS_H */
