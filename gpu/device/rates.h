/*
 * What parts of a run take on a GPU: every rate and latency that estimates are made of, in one
 * table a device.  Others are scaled from it, by what they say of themselves or what was measured.
 */
#ifndef ECO_GPU_DEVICE_RATES_H
#define ECO_GPU_DEVICE_RATES_H

#include "common/backend.h"

/* Of a persistent step, in clocks of 1570 MHz; persistent/tiling.c. */
struct eco_persistent_cost {
    double step, cluster; /* that blocks wait for each other, and do once */
    double kbyte;         /* that a block reads of the others */
    double tile;          /* of 8 batch rows */
    double k_block, kept; /* of R for a tile, in registers and in shared memory */
    double sum;           /* that a thread adds up for a unit of each of its rows */
    double round;         /* of units, one of a thread */
    double shared;        /* sums of a cluster's units, a tile of batch rows and two of R */
    double scale;         /* of a scale block for a tile, where k blocks do not count it */
};
/* By operands, of one number or two, and with scales of k blocks. */
enum eco_persistent_costs {
    ECO_COST_FORWARD,
    ECO_COST_FORWARD_TWO,
    ECO_COST_BACK,
    ECO_COST_BACK_SCALED,
    ECO_COST_BACK_TWO,
    ECO_COST_SQUARE,
    ECO_COST_SQUARE_TWO,
    ECO_COST_DIRECT,
    ECO_COST_DIRECT_SCALED,
    ECO_COST_DIRECT_TWO,
    ECO_COST_DIRECT_TWO_SCALED,
    ECO_COST_WIDE_TWO,
    ECO_COST_DIRECT_BACK,
    ECO_COSTS
};

/* All members are doubles; s: seconds, /s: a second.  "times plain": of the multiply-adds of plain
 * float arithmetic. */
struct eco_gpu_rates {
    /* algo/cost.c, times plain: */
    double lost_narrow, lost_fast;             /* of rows that are no whole groups, of inputs */
    double lost_narrow_step, lost_fast_step;   /* and of steps */
    double lost_narrow_chain, lost_fast_chain; /* s: of a number of k, where products are small */
    double copy_launch, copy_bytes;            /* s, /s: of copies of rows */
    /* steps of 16 bits, F32 fast and in full: kernels, forward and back, and what of a step others
     * hide; what multiplies, a term of k, R from the L2; what kernels of the cell read and write */
    struct {
        double launch[2], hidden[2];       /* s */
        double multiply, near, cell_bytes; /* /s */
        double chain;                      /* s */
    } step[3];
    /* algo/products.c: in 16 bits and F32 fast, by kind; a term of k; sums that are written */
    struct {
        double launch, rate; /* s, /s */
    } large[2][3];
    double chain, sums_bytes;     /* s, /s */
    double launch, written_bytes; /* s, /s */
    /* algo/persistent.c */
    double persistent_launch;       /* s */
    double reading_narrow, reading; /* s: of an element of R */
    double accumulator_bytes;       /* /s */
    /* algo/scan.c: of a chunk, with a memset */
    double scan_launch, scan_bytes; /* s, /s */
    /* fused_step/tiling.c: of a multiprocessor */
    double fused_launch, fused_block;              /* s: a block after another */
    double fused_bytes, fused_parts_bytes;         /* /s */
    double fused_parts, fused_float, fused_narrow; /* s: of a multiply-add */
    /* wide_step/tiling.c, us: a launch; for each wave of blocks what is around products, and
     * stages of k, which take longer where all multiprocessors read the L2 */
    struct {
        double launch, wave, stage, busy;
    } wide[5];         /* of each shape */
    double wide_bytes; /* /s: of matrices that are not in the L2 */
    double wide_saved; /* s: of a number that a unit saves in training */
    /* gemm/emulated_f32: large products */
    double fma_launch, fma;                           /* s, /s: cuBLAS's in full */
    double prepare_bytes;                             /* /s */
    double piece, piece_step, piece_end, piece_parts; /* s */
    double slice, wave, step_bytes;                   /* s, s, /s: of steps */
    struct {
        double fixed, stage[2][2]; /* s, by height and width */
    } emulated[3];                 /* of each kind */
    struct {
        double launches[2];     /* s, forward and back: cuBLAS's steps */
        double near, far, more; /* s: of an element of R, for few rows from the L2 or from beyond */
        double multiply;        /* s: it, of a row */
    } cublas_step[2];           /* by form */
    /* gemm/scaled_f16: products by kind, in TF32 and in F16 */
    struct {
        double launch, rate; /* s, /s */
    } tf32[3], f16[3];
    double bring_launch, bring_bytes, pass_launch, pass_bytes; /* s, /s */
    double square_four, square_two; /* clocks: of a k block that four warps multiply together, by so
                                       many tiles */
    struct eco_persistent_cost persistent[ECO_COSTS];
};

/* Of an H200, and of an H100. */
extern const struct eco_gpu_rates eco_gpu_rates_h200;
/* Those in force for a device. */
const struct eco_gpu_rates *eco_gpu_rates_of(const struct eco_caps *caps);

/* How many times as fast as an H200 a device is, or, of all multiprocessors, as an H200's share. */
enum eco_gpu_speed {
    ECO_SPEED_LAUNCH,    /* one kernel after the other */
    ECO_SPEED_HAND_OVER, /* from block to block */
    ECO_SPEED_CHIP,      /* what a multiprocessor does by itself */
    ECO_SPEED_PLAIN,     /* its float arithmetic */
    ECO_SPEED_SHARE,     /* how many there are */
    ECO_SPEED_NEAR,      /* the L2 */
    ECO_SPEED_MEMORY,
    ECO_SPEED_MATRIX,       /* all matrix units */
    ECO_SPEED_FLOAT,        /* all float arithmetic; these follow from others: */
    ECO_SPEED_MATRIX_RATIO, /* matrix units over that, */
    ECO_SPEED_NEAR_RATIO,   /* the L2 over that */
    ECO_SPEEDS
};
/* What a device says of itself. */
struct eco_gpu_properties {
    const char *name;
    int capability; /* ten times */
    int multiprocessors;
    double clock;        /* Hz */
    double memory_bytes; /* a second, by clock and width */
};
/* From that; an H100 or H200 has 1. */
void eco_gpu_speeds_say(double speed[ECO_SPEEDS], const struct eco_gpu_properties *properties);
/* What is measured of a GPU, by the places of backend.measures; 0: it was not. */
enum eco_gpu_measured {
    ECO_MEASURED_LAUNCH, /* s, from a small kernel to the next of a stream */
    ECO_MEASURED_COPY,   /* bytes a second, read and written */
    ECO_MEASURED_MATRIX, /* flops of a large product in BF16 */
    ECO_MEASURED_STEP    /* s, a persistent step of one row */
};
void eco_gpu_speeds_measured(double speed[ECO_SPEEDS], const double *value);
void eco_gpu_rates_scale(struct eco_gpu_rates *rates, const double speed[ECO_SPEEDS]);

#endif /* ECO_GPU_DEVICE_RATES_H */
