/*
 * The argument of a scan: all steps of a chunk of a cell that is linear in its states.  Also
 * included by kernels that are compiled at run time: no header of ours but the cell's limits.
 */
#ifndef ECO_GPU_SCAN_ARGS_H
#define ECO_GPU_SCAN_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cell/limits.h"

/* Each thread has some steps of so many neighbouring units, a warp the next ones: units and warps
 * of a block. */
enum { ECO_SCAN_WIDE = 2, ECO_SCAN_UNITS = 32 * ECO_SCAN_WIDE, ECO_SCAN_WARPS = 8 };
/* Steps of a thread, fewer where a step has more numbers in registers. */
#define ECO_SCAN_STEPS(numbers) ((numbers) <= 6 ? 8 : (numbers) <= 12 ? 4 : 2)

/* Rows of steps: element (t, n, u) of the chunk at (t - t0) * step + n * row + u.  data NULL: there
 * are none. */
struct eco_scan_array {
    void *data;
    int64_t step, row;
};

/*
 * Blocks take tiles, so many steps of some units of a row, by ticket: those of earlier steps first.
 * The tile before tells what its states are, or gradients of states on the way back, in `value` and
 * then `flag`, one for each ECO_SCAN_UNITS of a row; all flags and the ticket are 0 before.
 *
 * Masked rows (t >= length), forward: states stay and y is 0; backward: dacc is 0, carry stays.
 * Types as of a stage (cell/args.h).
 */
struct eco_scan_call {
    int32_t rows, hidden, column; /* column: from one accumulator to the next, of acc and dacc */
    int32_t t0, steps;            /* of the chunk */
    bool falls;                   /* the last step comes first */
    bool training, wide_dy;
    bool pairs;           /* neighbouring units of every array may be read, and written, as one */
    uint16_t wide_states; /* bit s: state s before the chunk, and after, is kept as a sum */
    uint16_t zero_states; /* bit s: it is 0 before */
    uint16_t zero_carry;
    int32_t begin;   /* backward: the step whose states before are in `initial` */
    uint16_t begins; /* bit s: there is one for state s */
    uint32_t layer, direction;
    uint64_t seed;
    uint32_t draw_step, draw_row; /* random numbers of step 0 and row 0 are of these */
    const int32_t *lengths;
    const void *vector;
    int8_t bias[ECO_MAX_ACCS]; /* forward: vector that accumulator a adds, or -1 */
    struct eco_scan_array acc; /* backward: dacc */
    struct eco_scan_array save;
    struct eco_scan_array y; /* backward: dy */
    /* Forward: of all steps, copies for backward (kept) and states where planes are (next); first
     * and last have those before and after the chunk.  Backward: states before and after steps. */
    struct eco_scan_array kept[ECO_MAX_STATES], next[ECO_MAX_STATES];
    struct eco_scan_array first[ECO_MAX_STATES], last[ECO_MAX_STATES];
    struct eco_scan_array before[ECO_MAX_STATES], initial[ECO_MAX_STATES], carry[ECO_MAX_STATES];
    uint32_t *ticket, *flag;
    void *value;
};

#endif /* ECO_GPU_SCAN_ARGS_H */
