/*
 * The argument of a persistent kernel. One launch runs all steps of up to four (layer, direction)s
 * and keeps R on the chip. Kernels that are compiled at run time include this file, too.
 */
#ifndef ECO_GPU_PERSISTENT_ARGS_H
#define ECO_GPU_PERSISTENT_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cell/limits.h"

/* needed compute capability, times ten */
#define ECO_PERSISTENT_VERSION 80

/* A function that in kernels is constant where its arguments are. */
#if defined(__cplusplus)
#define ECO_PERSISTENT_CONSTANT static __host__ __device__ __forceinline__ constexpr
#else
#define ECO_PERSISTENT_CONSTANT static inline
#endif

enum {
    ECO_PERSISTENT_SHIFT = 3,  /* log2 of the fewest units of a block */
    ECO_PERSISTENT_SHIFTS = 4, /* blocks of 8, 16, 32 or 64 units */
    ECO_PERSISTENT_THREADS = 256,
    ECO_PERSISTENT_WARPS = 8,
    ECO_PERSISTENT_WARPGROUP = 4, /* warps that issue a wgmma instruction together */
    ECO_PERSISTENT_JOBS = 4,      /* most (layer, direction)s of a launch */
    ECO_PERSISTENT_PRODUCTS = 2,  /* most products of a step, one after the other */
    ECO_PERSISTENT_BYTES = 64,    /* bytes of a row in a k block: two or more matrix instructions */
    ECO_PERSISTENT_CLUSTERS = 3,  /* clusters of 1, 2 and 4 blocks */
    ECO_PERSISTENT_MAINLOOPS = 5,
    ECO_PERSISTENT_SHAPES =
        ECO_PERSISTENT_MAINLOOPS * ECO_PERSISTENT_CLUSTERS * ECO_PERSISTENT_SHIFTS,
    ECO_PERSISTENT_M = 16, /* rows of R of a matrix instruction */
    ECO_PERSISTENT_N = 8,  /* batch rows of a matrix instruction */
    ECO_PERSISTENT_READ_BYTES =
        65536,             /* least bytes of R loaded at a time; half when R fills shared memory */
    ECO_PERSISTENT_RUN = 5 /* log2 of the most units of a scale block */
};

/*
 * Scaled numbers are exchanged in scale blocks, each with one scale. A scale block has the numbers
 * of up to 32 neighbouring units for one batch row, ordered by accumulator, padded to whole k
 * blocks.
 */
ECO_PERSISTENT_CONSTANT int eco_persistent_run_of(int shift)
{
    return shift < (int)ECO_PERSISTENT_RUN ? shift : (int)ECO_PERSISTENT_RUN;
}
/* Forward, a k block may hold two scale blocks, one for each matrix instruction. */
ECO_PERSISTENT_CONSTANT bool eco_persistent_halves(int runs, int shift, int k_block, bool backward)
{
    return !backward && k_block == 32 && runs << eco_persistent_run_of(shift) <= 16;
}
/* Numbers in a scale block. */
ECO_PERSISTENT_CONSTANT int eco_persistent_scale_block(int runs, int shift, int k_block,
                                                       bool backward)
{
    return eco_persistent_halves(runs, shift, k_block, backward)
               ? k_block / 2
               : ((runs << eco_persistent_run_of(shift)) + k_block - 1) / k_block * k_block;
}
/* Scale blocks of a row. */
ECO_PERSISTENT_CONSTANT int eco_persistent_scale_blocks(int hidden, int shift)
{
    return (hidden + (1 << eco_persistent_run_of(shift)) - 1) >> eco_persistent_run_of(shift);
}

/* Matrix instructions for a k block whose operands are one number, or a pair (block_scales.cuh). */
enum { ECO_PERSISTENT_PLAIN = 2, ECO_PERSISTENT_PAIR = 3 };

/*
 * How a kernel multiplies (its mainloop):
 *
 * MMA, MMA_MANY: the block gathers its operands into shared memory, then each warp multiplies its
 * share with 8, or 10 to 11, k blocks of R in registers.
 *
 * DIRECT, DIRECT_WIDE: each warp gathers its own operands into registers and multiplies them, for
 * at most 8 batch rows (mainloop_direct.cuh). DIRECT_WIDE holds twice the rows of R in a warp, so
 * fewer warps read the same operands, and takes up to 16 batch rows of pairs.
 *
 * WGMMA: four warps multiply 64 rows of R together, by 16 or 32 batch rows (mainloop_wgmma.cuh). 32
 * batch rows take as long as 20 do with MMA.
 */
enum {
    ECO_PERSISTENT_MMA,
    ECO_PERSISTENT_MMA_MANY,
    ECO_PERSISTENT_DIRECT,
    ECO_PERSISTENT_DIRECT_WIDE,
    ECO_PERSISTENT_WGMMA
};
ECO_PERSISTENT_CONSTANT bool eco_persistent_is_direct(int mainloop)
{
    return mainloop == ECO_PERSISTENT_DIRECT || mainloop == ECO_PERSISTENT_DIRECT_WIDE;
}

/* M tiles (16 rows of R) per warp. N tiles (8 batch rows) per warp in the direct mainloops. */
ECO_PERSISTENT_CONSTANT int eco_persistent_tiles(int mainloop)
{
    return mainloop == ECO_PERSISTENT_DIRECT_WIDE ? 4 : 2;
}
ECO_PERSISTENT_CONSTANT int eco_persistent_direct_tiles(int mainloop, int instructions)
{
    return mainloop == ECO_PERSISTENT_DIRECT_WIDE && instructions == ECO_PERSISTENT_PAIR ? 2 : 1;
}

/* K blocks of R that a warp keeps in registers. With WGMMA and a single tile of 64 rows, each has
 * 16 rows instead of 32 and twice the k. Keeping more leaves the compiler fewer registers, so the
 * kernels that keep many are only used for shapes that need them. With scales, two k blocks are
 * multiplied before a sum is scaled; direct warps keep six where scale blocks have three or six k
 * blocks, which are whole chains. */
ECO_PERSISTENT_CONSTANT int eco_persistent_k_blocks(int mainloop, bool scaled, int k_blocks)
{
    return mainloop == ECO_PERSISTENT_MMA_MANY                                ? (scaled ? 10 : 11)
           : mainloop == ECO_PERSISTENT_DIRECT_WIDE                           ? 4
           : mainloop == ECO_PERSISTENT_DIRECT && scaled && k_blocks % 3 == 0 ? 6
                                                                              : 8;
}
/* K blocks per warp for which the direct mainloops have code: one, two, half of those that fit in
 * registers, and all of those. */
ECO_PERSISTENT_CONSTANT int eco_persistent_direct_k_blocks(int n, int most)
{
    return n <= 2 ? n : n <= most / 2 ? most / 2 : n <= most ? most : n;
}

/* Index of a kernel by its shape, and the shape by its index. */
#define ECO_PERSISTENT_INDEX(shift, cluster_log2, mainloop)                                        \
    (((mainloop)*ECO_PERSISTENT_CLUSTERS + (cluster_log2)) * ECO_PERSISTENT_SHIFTS +               \
     (shift)-ECO_PERSISTENT_SHIFT)
ECO_PERSISTENT_CONSTANT int eco_persistent_shift_of(int place)
{
    return ECO_PERSISTENT_SHIFT + place % ECO_PERSISTENT_SHIFTS;
}
ECO_PERSISTENT_CONSTANT int eco_persistent_cluster_log2_of(int place)
{
    return place / ECO_PERSISTENT_SHIFTS % ECO_PERSISTENT_CLUSTERS;
}
ECO_PERSISTENT_CONSTANT int eco_persistent_mainloop_of(int place)
{
    return place / ECO_PERSISTENT_SHIFTS / ECO_PERSISTENT_CLUSTERS;
}

/*
 * The kernels that exist: a set of bits eco_persistent_index(). The hexadecimal digits are, from
 * the right, cluster sizes 1, 2, 4 of the first mainloop, then those of the next mainloop; a digit
 * has a bit for each shift. For example 0x22466866C (backward, plain operands) has, with MMA and no
 * clusters (digit C), blocks of 32 and 64 units.
 *
 * Clusters pay where a block would gather much: backward and in large layers, and earlier for
 * longer operands. Kernels with pairs have no registers for MMA_MANY. WGMMA has no scales. Shapes
 * that are never predicted to be fastest, for any size on any device, are left out
 * (tests/gpu/test_persistent.c checks this); cells with one accumulator need fewer.
 */
ECO_PERSISTENT_CONSTANT uint64_t eco_persistent_made_for_one(bool backward, int instructions,
                                                             bool scaled)
{
    return instructions == ECO_PERSISTENT_PLAIN
               ? (backward ? (scaled ? 0x00444844Cull : 0x02444844Cull)
                  : scaled ? 0x400C02Eull
                           : 0x02600400300C02Eull)
               : (backward ? 0x22400066Cull
                  : scaled ? 0x400002Eull
                           : 0x00200200300013Eull);
}
ECO_PERSISTENT_CONSTANT uint64_t eco_persistent_made(int products, int recurrent, bool backward,
                                                     int instructions, bool scaled)
{
    if (products == 2)
        return 0x00000Full;
    if (recurrent == 1)
        return eco_persistent_made_for_one(backward, instructions, scaled);
    return instructions == ECO_PERSISTENT_PLAIN ? (backward ? 0x22466866Cull
                                                   : scaled ? 0x602C02Eull
                                                            : 0x02600400302C02Eull)
                                                : (backward ? 0x22400076Cull
                                                   : scaled ? 0x600013Eull
                                                            : 0x01200200300013Eull);
}

/* Tiles of 16 rows of R, rounded up to one, two or four wgmma tiles of 64 rows. */
ECO_PERSISTENT_CONSTANT int eco_persistent_wgmma_tiles(int tiles)
{
    return tiles <= ECO_PERSISTENT_WARPGROUP ? (int)ECO_PERSISTENT_WARPGROUP
           : tiles <= 2 * ECO_PERSISTENT_WARPGROUP
               ? 2 * ECO_PERSISTENT_WARPGROUP
               : (tiles + 4 * ECO_PERSISTENT_WARPGROUP - 1) / (4 * ECO_PERSISTENT_WARPGROUP) * 4 *
                     ECO_PERSISTENT_WARPGROUP;
}

/* One product of a step. */
struct eco_persistent_product {
    int32_t k;            /* numbers of an exchanged row, padded to whole k blocks */
    int32_t slice;        /* k blocks of it that each block of a cluster takes */
    int32_t tiles;        /* tiles of 16 rows of R in a block */
    int32_t down, across; /* the grid of warps: along the rows of R, along k */
    int32_t parts;        /* partial sums to add for each sum */
    int32_t k_blocks;     /* k blocks of a warp */
    int32_t in_shared;    /* k blocks of a warp kept in shared memory, not in registers */
};

/*
 * How the work is divided. `members` blocks form a group, which takes `group_rows` batch rows
 * through all steps. The blocks of a group hold R together, each the rows of its 1 << unit_shift
 * units. In a cluster, each block holds the rows of all units of the cluster, but only a slice of
 * k: it gathers only that slice, and the blocks exchange partial sums through shared memory. In a
 * block the warps form a grid, `down` along the rows of R (two tiles each) and `across` along k;
 * with WGMMA each warp has a tile of every 64 rows of its warpgroup.
 *
 * Example: LSTM, H=1024, N=64 on 132 multiprocessors, blocks of 32 units: a group has 32 blocks,
 * four groups fit, and each takes 16 batch rows. A block holds 4 * 32 rows of R (8 tiles): down =
 * 4, across = 2.
 */
struct eco_persistent_shape {
    int32_t unit_shift, members, groups, group_rows;
    int32_t cluster_log2; /* a cluster is 1 << cluster_log2 blocks of a group */
    int32_t mainloop;     /* ECO_PERSISTENT_MMA ... */
    int32_t chunk;        /* N tiles whose sums fit in shared memory at a time */
    bool aliased;         /* sums overwrite the operands, for lack of shared memory */
    size_t shared_bytes, exchange_bytes; /* of a block; of a job */
    struct eco_persistent_product
        product[ECO_PERSISTENT_PRODUCTS]; /* zeros if there is one product */
    /* In shared memory: k blocks of R of a warp, over all products; gathered k blocks of the
     * largest product; floats of sums for 8 batch rows of the largest product. */
    int32_t in_shared, room, sums;
};

/* Static shared memory of every kernel. */
ECO_PERSISTENT_CONSTANT int eco_persistent_static_bytes(bool backward)
{
    return backward ? 896 : 256;
}

/* Floats between partial sums (whole lines of 32 banks), between the sums of two batch rows, and
 * from the start to batch row n: 8 floats of padding follow every two rows. A warp writes 8 rows of
 * R and 4 even batch rows at once, without bank conflicts, and reads consecutive units and batch
 * rows. */
ECO_PERSISTENT_CONSTANT int eco_persistent_sum_part(int tiles)
{
    return (tiles * ECO_PERSISTENT_M + 31) / 32 * 32;
}
ECO_PERSISTENT_CONSTANT int eco_persistent_sum_row(int tiles, int parts)
{
    return parts * eco_persistent_sum_part(tiles) + 16;
}
#define ECO_PERSISTENT_SUM_AT(n, row) ((n) * (row) + (n) / 2 * 8)
/* Floats of a row of sums that blocks of a cluster exchange: an odd multiple of the units. */
ECO_PERSISTENT_CONSTANT int eco_persistent_part_row(int row_groups, int shift)
{
    return (row_groups | 1) << shift;
}

/* The arrays of one (layer, direction). Pointers are those of the first step; `_step` is the
 * distance to the next step in elements, and may be negative. */
struct eco_persistent_job {
    /* of each product, zero-padded: forward R [accumulators * column, recurrent_row], backward R^T
     * [column, recurrent_row] */
    const void *recurrent[ECO_PERSISTENT_PRODUCTS];
    const void *vector;
    const void *acc; /* forward: [steps, N, accs, column] sums, W x; columns multiples of 8 */
    /* [steps, groups, rows, k] numbers, then for each group its scales [scale blocks, rows], if
     * any. All bits set: not yet written. 0: padding of rows and k. With two products [steps,
     * groups] has what the second reads, then what the first reads. */
    void *exchange;
    /* The run's first states, or backward its final gradients: the caller's [N,H] in the type of
     * rows, NULL for zeros. Used instead of `state` or `carry` if `starts`. */
    const void *caller_state[ECO_MAX_STATES];
    bool starts;
    const void *state[ECO_MAX_STATES]; /* before the first step */
    void *next[ECO_MAX_STATES]; /* after the first step; for states not kept after the last one */
    void *kept[ECO_MAX_STATES]; /* forward: after the first step, in the type of rows; or NULL */
    /* backward [N,H]: before the last step, for states with a bit in `begins`. A state with a bit
     * in `zeros` is 0, whatever is in memory. */
    const void *initial[ECO_MAX_STATES];
    uint32_t begins, zeros;
    uint32_t kept_states; /* bit s: state s is kept after every step, not the last only */
    void *save, *y;       /* backward: read only, and y is dy; laid out as forward */
    void *dacc, *carry[ECO_MAX_STATES]; /* backward: [steps, N, n_accs, H], [N, H] */
    void *operand;                      /* backward: [steps, N, H] of the second product */
    int64_t operand_step, acc_step, next_step[ECO_MAX_STATES], save_step, y_step;
    uint32_t layer, direction;
    int32_t steps;
    int32_t t, t_step; /* time of the first step; +1 or -1 */
};

/* What a kernel compiled for a plan may rely on, or expect. */
struct eco_persistent_usual {
    bool even;  /* H is even */
    int tiles;  /* expected: of 8 rows in a group; without means 2 for even, 3 for odd numbers */
    int rounds; /* expected: elements of a thread, 1, or 2 for more */
    int pieces; /* expected: most that a thread gathers: 2, 4, 8, or 16 for more; 0: unknown */
    int parts;  /* partial sums of a row's sum, if there are means */
    int k_blocks[ECO_PERSISTENT_PRODUCTS]; /* of a warp; 0: unknown */
};

/* For kernels with resets (ECO_RESETS): what rows of a job restart from. */
struct eco_persistent_starts {
    const void *start[ECO_MAX_STATES]; /* [N,width] in the type of rows; NULL: zeros */
    void *dstart[ECO_MAX_STATES];      /* backward: gradient sums, laid out as carry; or NULL */
    /* [(steps + 2) / 32, rounded up, N] behind the exchange; bit s + 1: the row restarts in step s
     * of the job. NULL: this run has no resets. */
    const uint32_t *words;
};
struct eco_persistent_resets {
    struct eco_persistent_starts of[ECO_PERSISTENT_JOBS];
};

struct eco_persistent_call {
    struct eco_persistent_shape shape;
    int32_t rows, hidden;
    int32_t column; /* distance of accumulators in rows of acc and dacc, and of R */
    /* numbers of an exchanged row without scales, for each product: forward H, backward the columns
     * of accumulators with R */
    int32_t width[ECO_PERSISTENT_PRODUCTS];
    int32_t n_accs, n_states;
    bool training;
    bool beyond_l2; /* forward: acc may have left the L2 by the time it is read */
    /* elements of a row of R or R^T: a multiple of 16 bytes */
    int32_t recurrent_row[ECO_PERSISTENT_PRODUCTS];
    bool words;   /* backward: what a step reads may be copied in words of 4 bytes */
    bool wide_dy; /* backward: dy has the type of sums */
    bool keeps;   /* forward: job.save and job.kept may be there */
    uint32_t
        inputs; /* forward: bits of accumulators with a W, x or a part of x; acc has no others */
    int8_t bias[ECO_MAX_ACCS]; /* forward: the bias vector of each accumulator, or -1 */
    uint32_t fields;           /* backward: bits of the arrays that the cell reads in a step */
    uint64_t seed;
    const int32_t *lengths;
    uint32_t *failed;      /* set when a block waited too long */
    uint64_t spin_timeout; /* ns */
    /* Elements from row to row. Offsets within a step are below 2^32. kept is laid out as state. */
    uint32_t acc_row, state_row[ECO_MAX_STATES], save_row, y_row, carry_row[ECO_MAX_STATES],
        operand_row;
    uint32_t draw_step, draw_row; /* random numbers count steps and rows from these */
    struct eco_persistent_job job[ECO_PERSISTENT_JOBS];
    struct eco_persistent_resets resets; /* last: kernels without resets end before it */
};

#endif /* ECO_GPU_PERSISTENT_ARGS_H */
