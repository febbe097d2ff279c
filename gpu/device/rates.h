/*
 * The rates and latencies from which times on a GPU are estimated, in one table for each device.
 * The table of an H200 is scaled to other devices, by their properties.
 * Example: on a device whose launches take 1.5 times as long, ECO_SPEED_LAUNCH is 0.67 and every
 * launch time of the table is divided by it.
 */
#ifndef ECO_GPU_DEVICE_RATES_H
#define ECO_GPU_DEVICE_RATES_H

#include "common/backend.h"

/* Parts of a persistent step, in clocks of 1570 MHz; see persistent/tiling.c. */
struct eco_persistent_cost {
    double step, cluster; /* an exchange of all blocks, and work done once; a cluster's exchange */
    double kbyte;         /* a KB that a block gathers */
    double tile;          /* a tile of 8 batch rows */
    double k_block, kept; /* a k block of R for a tile, in registers and in shared memory */
    double sum;           /* a partial sum that a thread adds, in each round */
    double round;         /* a round: one element for each thread */
    double shared; /* sums that a cluster shares, for a tile of batch rows and two tiles of R */
    double scale;  /* a scale block of a tile, unless k_block includes it */
};
/* By direction, mainloop and operand: one number or a pair (TWO), with or without scales. */
enum eco_persistent_costs {
    ECO_COST_FORWARD,
    ECO_COST_FORWARD_TWO,
    ECO_COST_BACK,
    ECO_COST_BACK_SCALED,
    ECO_COST_BACK_TWO,
    ECO_COST_WGMMA,
    ECO_COST_WGMMA_TWO,
    ECO_COST_DIRECT,
    ECO_COST_DIRECT_SCALED,
    ECO_COST_DIRECT_TWO,
    ECO_COST_DIRECT_TWO_SCALED,
    ECO_COST_WIDE_TWO,
    ECO_COST_DIRECT_BACK,
    ECO_COSTS
};

/* All members are doubles. Units: s is seconds, /s is per second. "times plain": multiply-adds in
 * units of the device's plain F32 rate. */
struct eco_gpu_rates {
    /* algo/cost.c, times plain: */
    double lost_narrow, lost_fast; /* input products with rows that are no multiple of 16 bytes */
    double lost_narrow_step, lost_fast_step;   /* the same for products of steps */
    double lost_narrow_chain, lost_fast_chain; /* s: a number of k, in small products */
    double copy_launch, copy_bytes;            /* s, /s: copies of rows */
    /* steps in 16 bits, fast F32 and full F32: launches forward and backward, and what of them
     * overlaps; multiply-adds, elements of R from the L2, a number of k; bytes of the cell's
     * kernels */
    struct {
        double launch[2], hidden[2];          /* s */
        double multiply, from_l2, cell_bytes; /* /s */
        double chain;                         /* s */
    } step[3];
    /* algo/products.c: products in 16 bits and fast F32, by kind; a number of k; bytes of sums */
    struct {
        double launch, rate; /* s, /s */
    } large[2][3];
    double chain, sums_bytes;     /* s, /s */
    double launch, written_bytes; /* s, /s */
    /* algo/persistent.c */
    double persistent_launch;       /* s */
    double reading_narrow, reading; /* s: an element of R */
    double accumulator_bytes;       /* /s */
    /* algo/scan.c: a chunk, with a memset */
    double scan_launch, scan_bytes; /* s, /s */
    /* fused_step/tiling.c: a multiprocessor's */
    double fused_launch, fused_block;              /* s: each further block */
    double fused_bytes, fused_parts_bytes;         /* /s */
    double fused_parts, fused_float, fused_narrow; /* s: a multiply-add */
    /* wide_step/tiling.c, us: a launch; for each wave of blocks the time outside products, and a
     * stage of k, which takes longer if all multiprocessors read the L2 */
    struct {
        double launch, wave, stage, busy;
    } wide[5];         /* by shape */
    double wide_bytes; /* /s: matrices that are not in the L2 */
    double wide_saved; /* s: a number that a unit saves in training */
    /* gemm/emulated_f32: large products */
    double fma_launch, fma;                           /* s, /s: cuBLAS in full F32 */
    double prepare_bytes;                             /* /s */
    double piece, piece_step, piece_end, piece_parts; /* s */
    double slice, wave, step_bytes;                   /* s, s, /s: steps */
    struct {
        double fixed, stage[2][2]; /* s, by height and width */
    } emulated[3];                 /* by kind */
    struct {
        double launches[2]; /* s, forward and backward: cuBLAS in a step */
        double from_l2, from_memory,
            more;        /* s: an element of R, from the L2 or memory; more rows */
        double multiply; /* s: an element of R for each row */
    } cublas_step[2];    /* by form */
    /* gemm/scaled_f16: products by kind, in TF32 and in F16 */
    struct {
        double launch, rate; /* s, /s */
    } tf32[3], f16[3];
    double bring_launch, bring_bytes, pass_launch, pass_bytes; /* s, /s */
    double wgmma_four, wgmma_two; /* clocks: a k block of a warpgroup, for 4 or 2 tiles */
    struct eco_persistent_cost persistent[ECO_COSTS];
};

/* The table of an H200 and H100. */
extern const struct eco_gpu_rates eco_gpu_rates_h200;
/* The table of a device. */
const struct eco_gpu_rates *eco_gpu_rates_of(const struct eco_caps *caps);

/* Speeds relative to an H200. */
enum eco_gpu_speed {
    ECO_SPEED_LAUNCH,    /* one kernel after the other */
    ECO_SPEED_HAND_OVER, /* an exchange between blocks */
    ECO_SPEED_CHIP,      /* a multiprocessor by itself */
    ECO_SPEED_PLAIN,     /* F32 arithmetic of a multiprocessor */
    ECO_SPEED_SHARE,     /* number of multiprocessors */
    ECO_SPEED_L2,        /* the L2 */
    ECO_SPEED_MEMORY,
    ECO_SPEED_MATRIX,       /* all matrix units */
    ECO_SPEED_FLOAT,        /* all float arithmetic; the next two follow from others: */
    ECO_SPEED_MATRIX_RATIO, /* matrix units over float arithmetic */
    ECO_SPEED_L2_RATIO,     /* the L2 over float arithmetic */
    ECO_SPEEDS
};
/* Properties that a device reports. */
struct eco_gpu_properties {
    const char *name;
    int capability; /* times ten */
    int multiprocessors;
    double clock;        /* Hz */
    double memory_bytes; /* bytes/s, by clock and width */
};
/* Estimates speeds from properties; an H100 or H200 has 1. */
void eco_gpu_speeds_say(double speed[ECO_SPEEDS], const struct eco_gpu_properties *properties);
void eco_gpu_rates_scale(struct eco_gpu_rates *rates, const double speed[ECO_SPEEDS]);

#endif /* ECO_GPU_DEVICE_RATES_H */
