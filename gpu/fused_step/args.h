/*
 * The argument of a fused step: the products of a stage and its cell in one launch, for runs of few
 * steps and for projections. Kernels that are compiled at run time include this file, too.
 */
#ifndef ECO_GPU_FUSED_STEP_ARGS_H
#define ECO_GPU_FUSED_STEP_ARGS_H

#include "gpu/cell/args.h"

#define ECO_FUSED_VERSION 80 /* needed compute capability, times ten */

enum {
    ECO_FUSED_SOURCES = 2, /* most sources of a sum: input and state */
    ECO_FUSED_WARPS = 8,
    ECO_FUSED_THREADS = 32 * ECO_FUSED_WARPS,
    ECO_FUSED_M = 16,     /* rows of a matrix in an instruction */
    ECO_FUSED_N = 8,      /* batch rows in an instruction */
    ECO_FUSED_SHAPES = 3, /* blocks of 8, 16 and 32 batch rows */
    ECO_FUSED_BYTES = 64, /* bytes of a row in a k block: 16 for each of four lanes */
    /* instead of a cell's number: the sums are the state; the list ends */
    ECO_FUSED_PROJECTION = -1,
    ECO_FUSED_END = -2
};

/* A block's units, tiles of 16 rows of their accumulators, tiles of 8 batch rows. Warps divide
 * k. */
#define ECO_FUSED_UNITS(accs)    ((accs) % 2 != 0 ? 16 : 8)
#define ECO_FUSED_TILES(accs)    (((accs)*ECO_FUSED_UNITS(accs) + 15) / ECO_FUSED_M)
#define ECO_FUSED_ACROSS(shape)  (1 << (shape))
#define ECO_FUSED_COLUMNS(shape) (ECO_FUSED_N * ECO_FUSED_ACROSS(shape))
/* Floats between the sums of batch rows, without bank conflicts by tiles or by units. */
#define ECO_FUSED_LINE(accs) (ECO_FUSED_TILES(accs) * ECO_FUSED_M + 4)
#define ECO_FUSED_SHARED(accs, shape)                                                              \
    (ECO_FUSED_WARPS * ECO_FUSED_COLUMNS(shape) * ECO_FUSED_LINE(accs) * (int)sizeof(float))
/* The kernels that exist; with others a thread would have too many sums. */
#define ECO_FUSED_MADE(accs, shape) (ECO_FUSED_TILES(accs) * ECO_FUSED_ACROSS(shape) <= 12)

/* Batch rows times a matrix. A warp takes one source, so accumulators without it are not
 * affected. */
struct eco_fused_source {
    const void *rows, *matrix;  /* [N,k], [groups*column,k], in the type of rows */
    size_t row;                 /* elements from row to row */
    int32_t matrix_row, k;      /* of the matrix: whole pieces, zeros after k */
    int32_t warps;              /* warps along k that multiply it */
    bool aligned;               /* rows are aligned to 16 bytes */
    int8_t group[ECO_MAX_ACCS]; /* which of the matrix's groups an accumulator adds; -1: none */
};

struct eco_fused_call {
    struct eco_stage_call stage; /* acc is not used */
    struct eco_fused_source source[ECO_FUSED_SOURCES];
    int8_t bias[ECO_MAX_ACCS]; /* the bias vector of each accumulator; -1: none */
};

#endif /* ECO_GPU_FUSED_STEP_ARGS_H */
