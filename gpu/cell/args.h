/*
 * The argument of a stage's kernel: one stage of a cell over the [N,H] plane of one step. Kernels
 * that are compiled at run time include this file, too, so of our headers it uses only the cell's
 * limits.
 */
#ifndef ECO_GPU_CELL_ARGS_H
#define ECO_GPU_CELL_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cell/limits.h"

enum { ECO_STAGE_THREADS = 256 }; /* of a block, at most */

/*
 * As on a CPU. In a row, H-wide columns of an array are `column` elements apart (H in save and
 * vector). Pointers that a stage does not use may be NULL. Masked rows (t >= length), forward:
 * operands are 0; in the last stage each next state is the state before it, but next[0] is 0 if
 * projected, and y is 0. Backward: dacc and operands are 0, carry stays. Types: save, operand,
 * dacc, y, kept and most states are of the type of rows; acc, carry, dnext, doperand, mean and
 * vector of the type of sums. Forward, kept[s] is a second copy of next[s], s > 0, and both may be
 * NULL.
 *
 * With resets (ECO_RESETS) the states of a row restart where its byte of a step is not 0: states
 * before that step are read from `start`. Forward, if the next step resets the row, next[s] has its
 * start, and y and kept have the result of this step. Backward, the stage with `cuts` moves the
 * gradient of the start from carry to dstart.
 *
 * A scan runs several steps for each unit in turn. Arrays of steps are contiguous: row n of step k
 * is row n + first_row + k * step_rows, at time t + k * step_t. Not with means or random numbers.
 */
struct eco_stage_call {
    int32_t rows, hidden, t;
    int32_t column; /* elements between H-wide columns of acc, operand, dacc, doperand */
    int32_t n_states, n_slots, n_dacc;
    uint32_t means;       /* bit m: this stage stores mean m, and one block has a whole row */
    uint16_t wide_states; /* bit s: state s before the step is F32, not of the type of rows */
    uint16_t wide_next;   /* bit s: and state s after it */
    uint16_t zero_states; /* bit s: the state before is 0, whatever is in memory */
    uint16_t zero_carry;  /* backward, bit s: the gradient of state s after the step is 0 */
    uint16_t replaced;    /* backward, bit s: what the stage stores of carry s is 0 and not read */
    bool wide_dy;         /* dy is F32, too */
    bool last, projected, training;
    uint32_t layer, direction;
    uint64_t seed;
    const int32_t *lengths;
    const void *vector;
    const void *state[ECO_MAX_STATES];
    void *next[ECO_MAX_STATES];
    union {
        void *kept[ECO_MAX_STATES];  /* forward */
        void *carry[ECO_MAX_STATES]; /* backward */
    };
    size_t state_row[ECO_MAX_STATES], next_row[ECO_MAX_STATES];
    union {
        size_t kept_row[ECO_MAX_STATES], carry_row[ECO_MAX_STATES];
    };
    void *save, *operand, *mean, *y, *dacc;
    size_t save_row, operand_row, mean_row, y_row, dacc_row;
    const void *acc, *dnext, *dy, *doperand;
    size_t acc_row, dnext_row, dy_row, doperand_row;
    int32_t steps, step_t; /* of a scan; 0: one step */
    int64_t first_row, step_rows;
    const uint8_t *resets;             /* [rows]; NULL: no resets */
    const void *start[ECO_MAX_STATES]; /* [batch,hidden] in the type of rows; NULL: 0 */
    void *dstart[ECO_MAX_STATES];      /* backward: laid out as carry; or NULL */
    int32_t batch, reset_t, reset_end; /* time of row 0; end of the run */
    int32_t then;                      /* +1, -1: to the next step in the direction's order */
    bool cuts;                         /* this stage moves gradients to dstart */
    uint32_t draw_step, draw_row;      /* random numbers count steps and rows from these */
    int32_t heads, head;               /* heads of a row; units of each */
    uint32_t head_means;               /* distance between the means of two heads */
};

/* An instruction of an interpreted stage; 16 bytes, because a program is a kernel's argument. */
struct eco_instruction {
    uint8_t op, index;
    int16_t a, b, c;
    double value;
};
struct eco_interpreted_call {
    struct eco_stage_call call;
    int32_t n;
    struct eco_instruction code[ECO_MAX_CODE];
};

#endif /* ECO_GPU_CELL_ARGS_H */
