/*
 * The argument of a stage's kernel: one stage of a cell over the [N,H] plane of one step.  Also
 * included by kernels that are compiled at run time: no header of ours but the cell's limits.
 */
#ifndef ECO_GPU_CELL_ARGS_H
#define ECO_GPU_CELL_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cell/limits.h"

enum { ECO_STAGE_THREADS = 256 }; /* of a block, at most */

/*
 * As on a CPU: inside a row, arrays with several H-wide columns have them `column` apart, save and
 * vector H; pointers a stage does not use may be NULL.  Masked rows (t >=
 * length), forward: operands become 0; in the last stage every next state becomes the state before
 * (next[0] becomes 0 if projected) and y 0.  Backward: dacc and operands become 0, carry stays.
 * Elements: save, operand, dacc, y, kept and most states are of the type of rows; acc, carry,
 * dnext, doperand, mean and vector of the type of sums.  Forward, kept[s] is a second copy of
 * next[s], s > 0; NULL: unwanted.  Forward, next[s] may be NULL, too.
 *
 * With resets (kernels of ECO_RESETS) a row's states begin anew where its byte of a step is not 0.
 * What is read of states before a step is then the row's start.  Forward, next states are starts
 * where the step that comes then resets the row: next[s] has what that one reads, y and kept what
 * this one gave.  Backward, the first stage cuts: what that step gave to its start goes from carry
 * to dstart.
 *
 * A scan takes the rows through several steps, each unit by itself: arrays over steps are one
 * behind the other, so row n of step k is row n + first_row + k * step_rows of each, and its time
 * t + k * step_t.  Without means and random numbers only.
 */
struct eco_stage_call {
    int32_t rows, hidden, t;
    int32_t
        column; /* elements from one H-wide column to the next, of acc, operand, dacc, doperand */
    int32_t n_states, n_slots, n_dacc;
    uint32_t means;       /* bit m: this stage stores mean m; a row is then one block's */
    uint16_t wide_states; /* bit s: state s before is kept as a sum, not in the type of rows */
    uint16_t wide_next;   /* and after */
    uint16_t zero_states; /* bit s: the state before is 0, whatever lies there */
    uint16_t zero_carry;  /* backward, bit s: the gradient of state s after the step is 0 */
    bool wide_dy;         /* dy is kept as a sum, too */
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
    const uint8_t *resets;             /* [rows]; NULL: there are none */
    const void *start[ECO_MAX_STATES]; /* [batch,hidden] in the type of rows; NULL: 0 */
    void *dstart[ECO_MAX_STATES];      /* backward: rows as of carry; NULL: unwanted */
    int32_t batch, reset_t, reset_end; /* time of row 0, of the run's end */
    int32_t then;                      /* +1, -1: the step after, in the direction's order */
    bool cuts;                         /* this stage does */
    uint32_t draw_step, draw_row;      /* random numbers count steps and rows from these */
    int32_t heads, head;               /* means are of so many parts of a row, units of one; */
    uint32_t head_means;               /* from those of one part to the next */
};

/* An instruction of a stage that was not compiled; 16 bytes: a program is a kernel's argument. */
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
