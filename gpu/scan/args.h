/*
 * The argument of a scan: all steps of a chunk of a cell that is linear in its states, or whose
 * units never meet. Kernels that are compiled at run time include this file, too, so of our headers
 * it uses only the cell's limits.
 */
#ifndef ECO_GPU_SCAN_ARGS_H
#define ECO_GPU_SCAN_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cell/limits.h"

/* Each thread has some steps of ECO_SCAN_WIDE neighbouring units, and the next warp the next steps.
 * Units of a block. */
enum { ECO_SCAN_WIDE = 2, ECO_SCAN_UNITS = 32 * ECO_SCAN_WIDE };

/* Rows of steps: element (t, n, u) of the chunk is at (t - t0) * step + n * row + u; or NULL. */
struct eco_scan_array {
    void *data;
    int64_t step, row;
};

/*
 * A tile has some steps of ECO_SCAN_UNITS units of a row. Blocks take tiles by ticket, earlier
 * steps first. A tile passes its last states (backward: gradients of states) to the next tile. Each
 * 4 bytes travel with the number of the tile that reads them. Before the launch all words and the
 * ticket are 0. Example: T=1000 in tiles of 64 steps: the tile with steps 64 to 127, number 1,
 * folds its steps into a factor and a term, waits until all its words of `passed` have a 1, and
 * replaces them by its own with a 2. Sums of gradients of reset states travel in the same way, in
 * `summed`. Units that never meet have no tiles, tickets and words.
 *
 * Masked rows (t >= length), forward: states stay and y is 0; backward: dacc is 0, carry stays.
 * Types are those of a stage (cell/args.h).
 */
struct eco_scan_call {
    int32_t rows, hidden, column; /* column: between accumulators of acc and dacc */
    int32_t t0, steps;            /* of the chunk */
    bool falls;                   /* the last step comes first */
    bool training, wide_dy;
    bool pairs;           /* neighbouring units of every array may be accessed as one */
    uint16_t wide_states; /* bit s: state s before and after the chunk is F32 */
    uint16_t zero_states; /* bit s: it is 0 before the chunk */
    uint16_t zero_carry;
    int32_t begin;   /* backward: the step whose previous states are in `initial` */
    uint16_t begins; /* bit s: state s has one */
    uint32_t layer, direction;
    uint64_t seed;
    uint32_t draw_step, draw_row; /* random numbers count steps and rows from these */
    const int32_t *lengths;
    const void *vector;
    int8_t bias[ECO_MAX_ACCS]; /* forward: the bias vector of accumulator a, or -1 */
    struct eco_scan_array acc; /* backward: dacc */
    struct eco_scan_array save;
    struct eco_scan_array y; /* backward: dy */
    /* Forward: all steps: copies for backward (kept) and states in planes (next); first and last
     * have the states before and after the chunk. Backward: states before and after steps. */
    struct eco_scan_array kept[ECO_MAX_STATES], next[ECO_MAX_STATES];
    struct eco_scan_array first[ECO_MAX_STATES], last[ECO_MAX_STATES];
    struct eco_scan_array before[ECO_MAX_STATES], initial[ECO_MAX_STATES], carry[ECO_MAX_STATES];
    uint32_t *ticket;
    uint64_t *passed;
    /* With resets: the row starts at its step t if byte t + resets_ahead, [T,rows], is not 0. */
    const uint8_t *resets;
    int32_t resets_ahead, resets_end;            /* end: T, whatever the chunk */
    struct eco_scan_array start[ECO_MAX_STATES]; /* data NULL: 0 */
    /* Backward. dstart: sums of gradients of starts; data NULL: not needed; summed NULL: none is.
     * given: the caller's gradients of states after steps, besides dy. */
    struct eco_scan_array dstart[ECO_MAX_STATES], given[ECO_MAX_STATES];
    uint64_t *summed;
};

#endif /* ECO_GPU_SCAN_ARGS_H */
