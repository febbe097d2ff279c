/*
 * The argument of a persistent kernel: one launch runs all steps of some (layer, direction)s, R
 * stays on the chip.  Also included by kernels that are compiled at run time.
 */
#ifndef ECO_GPU_PERSISTENT_ARGS_H
#define ECO_GPU_PERSISTENT_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cell/limits.h"

#define ECO_PERSISTENT_VERSION 80 /* compute capability that the kernels need, times ten */

enum {
    ECO_PERSISTENT_SHIFT = 3,  /* of the fewest units of a block */
    ECO_PERSISTENT_SHIFTS = 4, /* 8, 16, 32 and 64 of them */
    ECO_PERSISTENT_THREADS = 256,
    ECO_PERSISTENT_WARPS = 8,
    ECO_PERSISTENT_WARPGROUP = 4, /* warps that multiply squares together */
    ECO_PERSISTENT_JOBS = 4,      /* (layer, direction)s of a launch, at most */
    ECO_PERSISTENT_PRODUCTS = 2,  /* of a step, one after the other, at most */
    ECO_PERSISTENT_BYTES = 64,    /* of a row in a k block: two or more matrix instructions */
    ECO_PERSISTENT_CLUSTERS = 3,  /* clusters of 1, 2 and 4 blocks */
    ECO_PERSISTENT_MAINLOOPS = 5, /* below */
    ECO_PERSISTENT_SHAPES =
        ECO_PERSISTENT_MAINLOOPS * ECO_PERSISTENT_CLUSTERS * ECO_PERSISTENT_SHIFTS,
    ECO_PERSISTENT_M = 16, /* rows of R of a matrix instruction */
    ECO_PERSISTENT_N = 8,  /* and batch rows */
    ECO_PERSISTENT_READ_BYTES =
        65536,             /* of R that comes at a time, at least; of what is kept half */
    ECO_PERSISTENT_RUN = 5 /* units of a scale block: 1 << this at most */
};

/*
 * Numbers that have scales are exchanged in scale blocks: what some neighbouring units of a block
 * send of a batch row, of one accumulator after the other, in whole k blocks; a scale block has one
 * scale.
 */
#define ECO_PERSISTENT_RUN_OF(shift)                                                               \
    ((shift) < (int)ECO_PERSISTENT_RUN ? (shift) : (int)ECO_PERSISTENT_RUN)
#define ECO_PERSISTENT_SCALE_BLOCK(runs, shift, k_block, backward) /* numbers of it */             \
    (ECO_PERSISTENT_HALVES(runs, shift, k_block, backward)                                         \
         ? (k_block) / 2                                                                           \
         : (((runs) << ECO_PERSISTENT_RUN_OF(shift)) + (k_block)-1) / (k_block) * (k_block))
/* Of a row: how many there are. */
#define ECO_PERSISTENT_SCALE_BLOCKS(hidden, shift)                                                 \
    (((hidden) + (1 << ECO_PERSISTENT_RUN_OF(shift)) - 1) >> ECO_PERSISTENT_RUN_OF(shift))
/* Forward there may be two in a k block, one for each matrix instruction. */
#define ECO_PERSISTENT_HALVES(runs, shift, k_block, backward)                                      \
    (!(backward) && (k_block) == 32 && (runs) << ECO_PERSISTENT_RUN_OF(shift) <= 16)

/* Matrix instructions for a k block: of operands that are one number, or a pair (block_scales.cuh).
 */
enum { ECO_PERSISTENT_PLAIN = 2, ECO_PERSISTENT_PAIR = 3 };

/*
 * How a kernel multiplies: each warp by itself, with few or many k blocks of R in registers; each
 * warp what it gathers itself, of 8 batch rows at most (mainloop_direct.cuh), or, with more rows of
 * R so that fewer warps read the same, of 16; or four warps together, by instructions of 64 rows of
 * R and 16 or 32 batch rows (mainloop_wgmma.cuh), which take as long for 32 batch rows as others do
 * for 20.
 */
enum {
    ECO_PERSISTENT_MMA,
    ECO_PERSISTENT_MMA_MANY,
    ECO_PERSISTENT_DIRECT,
    ECO_PERSISTENT_DIRECT_WIDE,
    ECO_PERSISTENT_WGMMA
};
#define ECO_PERSISTENT_IS_DIRECT(mainloop)                                                         \
    ((mainloop) == ECO_PERSISTENT_DIRECT || (mainloop) == ECO_PERSISTENT_DIRECT_WIDE)

/* Tiles of 16 rows of R that a warp has; of 8 batch rows, that it multiplies as it gathers them. */
#define ECO_PERSISTENT_TILES(mainloop) ((mainloop) == ECO_PERSISTENT_DIRECT_WIDE ? 4 : 2)
#define ECO_PERSISTENT_DIRECT_TILES(mainloop, instructions)                                        \
    ((mainloop) == ECO_PERSISTENT_DIRECT_WIDE && (instructions) == ECO_PERSISTENT_PAIR ? 2 : 1)

/* K blocks, of so much k and of those rows of R (of a square alone in its k 16, and twice the k),
 * that a warp keeps in registers.  More of them leave the compiler less room, so kernels that keep
 * many are for shapes that have them.  With scales two are multiplied before a sum is scaled; warps
 * that multiply what they gather have six where scale blocks are of three k blocks or six: whole
 * chains. */
#define ECO_PERSISTENT_K_BLOCKS(mainloop, scaled, k_blocks)                                          \
    ((mainloop) == ECO_PERSISTENT_MMA_MANY                                    ? ((scaled) ? 10 : 11) \
     : (mainloop) == ECO_PERSISTENT_DIRECT_WIDE                               ? 4                    \
     : (mainloop) == ECO_PERSISTENT_DIRECT && (scaled) && (k_blocks) % 3 == 0 ? 6                    \
                                                                              : 8)
/* Of n k blocks a warp that multiplies what it gathers takes so many: there is code for one, two,
 * half of those in registers and all of them. */
#define ECO_PERSISTENT_DIRECT_K_BLOCKS(n, most)                                                    \
    ((n) <= 2 ? (n) : (n) <= (most) / 2 ? (most) / 2 : (n) <= (most) ? (most) : (n))

/* A place among kernels of different shapes, and what is of that shape. */
#define ECO_PERSISTENT_PLACE(shift, cluster_log2, mainloop)                                        \
    (((mainloop)*ECO_PERSISTENT_CLUSTERS + (cluster_log2)) * ECO_PERSISTENT_SHIFTS +               \
     (shift)-ECO_PERSISTENT_SHIFT)
#define ECO_PERSISTENT_SHIFT_OF(place) (ECO_PERSISTENT_SHIFT + (place) % ECO_PERSISTENT_SHIFTS)
#define ECO_PERSISTENT_CLUSTER_LOG2_OF(place)                                                      \
    ((place) / ECO_PERSISTENT_SHIFTS % ECO_PERSISTENT_CLUSTERS)
#define ECO_PERSISTENT_MAINLOOP_OF(place)                                                          \
    ((place) / ECO_PERSISTENT_SHIFTS / ECO_PERSISTENT_CLUSTERS)

/*
 * Those there is a kernel for: bits eco_persistent_place(), a hexadecimal digit for each size of
 * cluster, from the right, with a bit for each shift; then the same of the next mainloop.  Clusters
 * pay where a block would gather much: backward, and in large layers, the sooner the longer
 * operands are. Operands of two numbers leave no room for many.  Squares know no scales.  What no
 * size on any device was predicted to be fastest with is left out (tests/gpu/test_persistent.c
 * looks): of cells with one accumulator some more.
 */
#define ECO_PERSISTENT_MADE(products, recurrent, backward, instructions, scaled)                   \
    ((products) == 2    ? 0x00000Full                                                              \
     : (recurrent) == 1 ? ECO_PERSISTENT_OF_ONE(backward, instructions, scaled)                    \
     : (instructions) == ECO_PERSISTENT_PLAIN ? ((backward) ? 0x22466866Cull                       \
                                                 : (scaled) ? 0x602C02Eull                         \
                                                            : 0x02600400302C02Eull)                \
                                              : ((backward) ? 0x22400076Cull                       \
                                                 : (scaled) ? 0x600013Eull                         \
                                                            : 0x01200200300013Eull))
#define ECO_PERSISTENT_OF_ONE(backward, instructions, scaled)                                      \
    ((instructions) == ECO_PERSISTENT_PLAIN                                                        \
         ? ((backward) ? (scaled) ? 0x00444844Cull : 0x02444844Cull                                \
            : (scaled) ? 0x400C02Eull                                                              \
                       : 0x02600400300C02Eull)                                                     \
         : ((backward) ? 0x22400066Cull                                                            \
            : (scaled) ? 0x400002Eull                                                              \
                       : 0x00200200300013Eull))

/* Tiles of rows of R, of 16 each, in whole squares: one, two or four of 64 rows. */
#define ECO_PERSISTENT_SQUARE_TILES(tiles)                                                         \
    ((tiles) <= ECO_PERSISTENT_WARPGROUP ? ECO_PERSISTENT_WARPGROUP                                \
     : (tiles) <= 2 * ECO_PERSISTENT_WARPGROUP                                                     \
         ? 2 * ECO_PERSISTENT_WARPGROUP                                                            \
         : ((tiles) + 4 * ECO_PERSISTENT_WARPGROUP - 1) / (4 * ECO_PERSISTENT_WARPGROUP) * 4 *     \
               ECO_PERSISTENT_WARPGROUP)

/* One product of a step. */
struct eco_persistent_part {
    int32_t k;            /* width of an exchanged row in whole k blocks */
    int32_t slice;        /* k blocks of it that a block of a cluster takes */
    int32_t tiles;        /* of 16 rows of R in a block */
    int32_t down, across; /* warps, or shares of them */
    int32_t parts;        /* of a sum, that are added up */
    int32_t k_blocks;     /* of a warp */
    int32_t in_shared;    /* of them in shared memory, beyond those in registers */
};

/*
 * How the work is cut.  `members` blocks are a group: together they hold R, each the rows of
 * 1 << unit_shift units, and take `group_rows` batch rows through all steps.  The blocks of a
 * cluster hold the rows of all its units together, each a slice of k, so that each gathers a slice
 * only; what they sum they tell each other through shared memory.  In a block the warps stand in a
 * grid, down along the rows of R (two tiles each), across along k; where four multiply together
 * each has a tile of every square of theirs.
 */
struct eco_persistent_shape {
    int32_t unit_shift, members, groups, group_rows;
    int32_t cluster_log2;                /* 1 << cluster_log2 blocks of a group are a cluster */
    int32_t mainloop;                    /* of its kernel */
    int32_t chunk;                       /* tiles of 8 batch rows whose sums there is room for */
    bool aliased;                        /* sums lie where what was multiplied lay: no room else */
    size_t shared_bytes, exchange_bytes; /* of a block, of a launch's job */
    struct eco_persistent_part part[ECO_PERSISTENT_PRODUCTS]; /* zeros: there is no second one */
    /* In shared memory: k blocks of R of a warp, of all products; k blocks that are gathered, and
     * sums of 8 batch rows, of the product that has most. */
    int32_t in_shared, room, sums;
};

/* Of shared memory that every kernel has anyway. */
#define ECO_PERSISTENT_STATIC_BYTES(backward) ((backward) ? 896 : 256)

/* Floats between the parts of a sum, in whole lines of 32 banks; between the sums of two batch
 * rows, an even and an odd one, and of 8 of them: behind each two of them are 8 more.  So the words
 * that a warp writes at once, of 8 rows of R and 4 even batch rows, lie in different banks, and
 * those that it reads, of all units of a block and batch rows beside each other. */
#define ECO_PERSISTENT_SUM_PART(tiles)       (((tiles)*ECO_PERSISTENT_M + 31) / 32 * 32)
#define ECO_PERSISTENT_SUM_ROW(tiles, parts) ((parts)*ECO_PERSISTENT_SUM_PART(tiles) + 16)
#define ECO_PERSISTENT_SUM_AT(n, row)        ((n) * (row) + (n) / 2 * 8)
/* And of those that the blocks of a cluster send each other: an odd multiple of the units. */
#define ECO_PERSISTENT_PART_ROW(row_groups, shift) (((row_groups) | 1) << (shift))

/* Where one (layer, direction) lies.  Pointers are those of the first step run; `_step` is what is
 * added for the next one, in elements, and may be negative. */
struct eco_persistent_job {
    /* of each product: forward [its accumulators * column, recurrent_row]: R; backward [column,
     * recurrent_row]: R^T; filled up by zeros */
    const void *recurrent[ECO_PERSISTENT_PRODUCTS];
    const void *vector;
    const void *acc; /* forward: [steps, N, accs, column] sums, W x; columns multiples of 8 */
    /* [steps, groups, rows, k] numbers, and behind those of a group their scales, if they have
     * any: [scale blocks, rows]; all bits set: not yet written; of rows and k that are nobody's: 0.
     * Of two products [steps, groups]: what the second reads, then the first */
    void *exchange;
    /* Where the run starts: the caller's [N,H] in the type of rows, NULL: zeros; states before the
     * first step, backward gradients of the final ones, instead of `state` and `carry`. */
    const void *given[ECO_MAX_STATES];
    bool starts;
    const void *state[ECO_MAX_STATES]; /* before the first step */
    void *next[ECO_MAX_STATES];        /* after it; of states not kept: after the last one */
    void *kept[ECO_MAX_STATES];        /* forward: after it, in the type of rows; NULL: unwanted */
    /* backward [N,H]: before the last step, of states with a bit in `begins`; one in `zeros`: it
     * is 0, whatever lies there */
    const void *initial[ECO_MAX_STATES];
    uint32_t begins, zeros;
    uint32_t kept_states; /* bit s: state s is wanted after every step, not the last only */
    void *save, *y; /* backward: only read, y is dy; rows of it, of states and of save as forward */
    void *dacc, *carry[ECO_MAX_STATES]; /* backward: [steps, N, n_accs, H], [N, H] */
    void *operand;                      /* backward: [steps, N, H] of the second product */
    int64_t operand_step, acc_step, next_step[ECO_MAX_STATES], save_step, y_step;
    uint32_t layer, direction;
    int32_t steps;
    int32_t t, t_step; /* time of the first step; +1 or -1 */
};

/* Of kernels with resets, ECO_RESETS: what rows of a job begin anew from. */
struct eco_persistent_starts {
    const void *start[ECO_MAX_STATES]; /* [N,width] in the type of rows; NULL: zeros */
    void *dstart[ECO_MAX_STATES];      /* backward: sums of their gradients, rows as of carry; NULL:
                                          unwanted */
};
struct eco_persistent_resets {
    const uint8_t *bytes; /* [steps, N]; NULL: this run has none */
    int32_t steps;        /* of the run */
    struct eco_persistent_starts of[ECO_PERSISTENT_JOBS];
};

struct eco_persistent_call {
    struct eco_persistent_shape shape;
    int32_t rows, hidden;
    int32_t column; /* from one accumulator to the next: in rows of acc and dacc, and of R */
    /* of an exchanged row without scales, by product: H; backward: columns of accumulators with R
     */
    int32_t width[ECO_PERSISTENT_PRODUCTS];
    int32_t n_accs, n_states;
    bool training;
    bool far; /* forward: the L2 may not have acc any more, when it is read */
    /* of R, or R^T: multiples of 16 bytes, whole pieces of operands */
    int32_t recurrent_row[ECO_PERSISTENT_PRODUCTS];
    bool words;      /* backward: what a step reads may be copied in words of 4 bytes */
    bool wide_dy;    /* backward: dy is kept as sums */
    bool keeps;      /* forward: job.save and job.kept may be there */
    uint32_t inputs; /* forward: which accumulators have a W or are x; of others acc is not there */
    int8_t bias[ECO_MAX_ACCS]; /* forward: the vector that each adds; -1: none */
    uint32_t fields;           /* backward: which of what a step may read it reads */
    uint64_t seed;
    const int32_t *lengths;
    uint32_t *failed;      /* set when a block waited too long */
    uint64_t spin_timeout; /* ns */
    /* From row to row, in elements; those of a step are less than 2^32 (kept: as state). */
    uint32_t acc_row, state_row[ECO_MAX_STATES], save_row, y_row, carry_row[ECO_MAX_STATES],
        operand_row;
    uint32_t draw_step, draw_row; /* random numbers count steps and rows from these */
    struct eco_persistent_job job[ECO_PERSISTENT_JOBS];
    struct eco_persistent_resets resets; /* last: other kernels do not know of it */
};

#endif /* ECO_GPU_PERSISTENT_ARGS_H */
