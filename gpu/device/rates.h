/*
 * The rates and latencies from which times on a GPU are estimated, in one table for each device.
 * The table of an H200 is scaled to other devices, by their properties.  Each number was fitted to
 * measured times and decides between plans: without it some plan of bench/shapes.txt or of random
 * problems changes.
 */
#ifndef ECO_GPU_DEVICE_RATES_H
#define ECO_GPU_DEVICE_RATES_H

#include "common/backend.h"

/* Parts of a step of algorithm persistent, in clocks of 1570 MHz; see persistent/tiling.c.
 * Example: a step of LSTM H512 with one row in BF16, by the direct mainloop with 16 units a block:
 * exchange 886, gathering 0.75 KB 17, four k blocks in registers 246, partial sums 177; together
 * 1326 clocks or 0.84 us. */
struct eco_persistent_cost {
    double exchange;          /* all blocks exchange states, and what a step does once */
    double cluster_exchange;  /* the blocks of a cluster exchange partial sums */
    double gathered_kb;       /* a block gathers 1024 bytes of states */
    double tile;              /* a tile of 8 batch rows */
    double k_block_registers; /* a k block of R, kept in registers, times a tile */
    double k_block_shared;    /* the same, kept in shared memory */
    double partial_sum;       /* a thread adds a partial sum to an element */
    double round;             /* a round, in which each thread computes one element */
    double cluster_sums;      /* a cluster adds its sums, for a tile of rows and two of R */
};
/* By direction, mainloop and operand: one number, with or without scales, or a pair (TWO). */
enum eco_persistent_costs {
    ECO_COST_FORWARD,
    ECO_COST_FORWARD_TWO,
    ECO_COST_BACK,
    ECO_COST_BACK_SCALED,
    ECO_COST_BACK_TWO,
    ECO_COST_WGMMA,
    ECO_COST_WGMMA_TWO,
    ECO_COST_DIRECT,
    ECO_COST_DIRECT_TWO,
    ECO_COST_WIDE_TWO, /* and pairs with scales */
    ECO_COST_DIRECT_BACK,
    ECO_COSTS
};

/* All members are doubles.  Unless another unit is given, names that end in `bytes` are bytes per
 * second, `multiply_adds` is per second, and all others are seconds.  "Narrow" is 16 bits, "fast"
 * is F32 with ECORNN_FAST_MATH, "full" is F32 without it.  A part of a run usually takes its launch
 * plus the larger of its multiply-adds and its bytes: an input product of 1e12 narrow multiply-adds
 * takes 1.7e-6 + 1e12 / 410e12 = 2.4e-3 s. */
struct eco_gpu_rates {
    /* ---- algo/cost.c ---- */
    /* Extra time of products whose rows are not multiples of 16 bytes, as multiply-adds in units of
     * the device's plain F32 rate: of inputs, and of steps.  A small product loses a time for each
     * of its terms instead. */
    double unaligned_narrow, unaligned_fast, unaligned_narrow_step, unaligned_fast_step;
    double unaligned_narrow_term, unaligned_fast_term;
    /* Copies that pad such rows: a launch, and bytes read and written. */
    double copy_launch, copy_bytes;
    /* Steps, by form: narrow, fast, full.  Launches forward and backward; how much of them other
     * work overlaps; bytes that the kernels of the cell read and write. */
    struct {
        double launch[2], overlapped_launch[2], cell_bytes;
    } step[3];
    double step_projection[3]; /* seconds of a launch of a projection's product, by form */
    /* The product of a narrow step: multiply-adds, bytes of R from the L2, a term of a sum. */
    double step_multiply_adds, l2_bytes, step_term;
    /* A narrow step back by eco_wide_step_back(): seconds of its launches, of them hidden by other
     * work, and the rate of bytes. */
    double wide_back_launch, wide_back_overlapped, wide_back_bytes;
    /* ---- algo/products.c: products over all rows ---- */
    struct {
        double launch, multiply_adds;
    } product[2];               /* narrow, fast */
    double fast_weights_launch; /* the launch of a fast gradient of weights */
    double product_term;        /* a term of a sum, if there are few sums */
    double product_sums_bytes;  /* sums that are written in F32 */
    double launch;              /* a small kernel */
    /* ---- persistent/algo.c ---- */
    double persistent_launch;
    double load_element; /* the first load of an element of R in F32; narrow loads are hidden */
    double accumulator_bytes; /* accumulators and saved values that the steps read and write */
    /* ---- scan/algo.c ---- */
    double scan_launch, scan_bytes; /* a chunk: its launch with a memset, and its bytes */
    /* ---- fused_step/tiling.c ---- */
    double fused_launch, fused_block; /* a step, and each further block of a multiprocessor */
    double fused_bytes;               /* that a multiprocessor loads, narrow or fast, */
    double fused_full_bytes;          /* and in full F32 */
    double fused_full_multiply_add;   /* one of a multiprocessor in full F32; others are hidden */
    /* ---- wide_step/tiling.c ---- */
    /* Microseconds, by shape: a step; a wave of blocks outside its products; a stage of k, and how
     * much longer it takes if all multiprocessors read the L2. */
    struct {
        double launch, wave, stage, crowded_stage;
    } wide[6];
    double wide_exposed; /* microseconds of a step's latency that no other block hides */
    double wide_bytes;   /* matrices that do not stay in the L2 */
    double wide_saved;   /* a number that a unit saves in training */
    /* ---- gemm/emulated_f32 ---- */
    double full_launch, full_multiply_adds; /* cuBLAS in full F32, which is the alternative */
    double split_bytes;                     /* splitting an operand into pairs of BF16 */
    /* A large product of split operands: a piece of k with its launches, a stage of k, the end of a
     * tile, and the exchange of partial sums if clusters share tiles. */
    double split_piece, split_stage, split_tile_end, split_partial_sums;
    /* A product of a step: each slice of k, each further wave of clusters, bytes of R; by kind its
     * launches and a stage of k, by height and width of tiles. */
    double split_step_slice, split_step_wave, split_step_bytes;
    struct {
        double launch, stage[2][2];
    } split_step[3];
    /* The same product with cuBLAS, full and fast: launches forward and backward; an element of R
     * for few rows and for many; an element of R for each row. */
    struct {
        double launches[2], few_rows, many_rows, row;
    } cublas_step[2];
    /* ---- gemm/scaled_f16: fast products, by kind, in TF32 and in F16 ---- */
    struct {
        double launch, multiply_adds;
    } tf32[3], f16[3];
    double convert_launch, convert_bytes; /* matrices to F16 */
    double pass_launch, pass_bytes;       /* other passes over memory */
    /* ---- persistent/tiling.c, clocks ---- */
    double wgmma_four_tiles, wgmma_two_tiles; /* a warpgroup multiplies a k block by that many */
    double scale_block;                       /* a direct mainloop scales a tile */
    struct eco_persistent_cost persistent[ECO_COSTS];
};

/* The table of an H200 and H100. */
extern const struct eco_gpu_rates eco_gpu_rates_h200;
/* The table of a device. */
const struct eco_gpu_rates *eco_gpu_rates_of(const struct eco_caps *caps);

/* Speeds relative to an H200.  Launches take as long on all devices. */
enum eco_gpu_speed {
    ECO_SPEED_CLOCK, /* of a multiprocessor, and of exchanges between blocks */
    ECO_SPEED_L2,
    ECO_SPEED_MEMORY,
    ECO_SPEED_MATRIX,       /* all matrix units */
    ECO_SPEED_FLOAT,        /* all float arithmetic */
    ECO_SPEED_MATRIX_RATIO, /* matrix units over float arithmetic */
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
/* Estimates speeds from properties; an H100 or H200 has 1.  Returns the speed of the F32 arithmetic
 * of a multiprocessor. */
double eco_gpu_speeds_of(double speed[ECO_SPEEDS], const struct eco_gpu_properties *properties);
/* Example: with ECO_SPEED_CLOCK 0.5 every time that depends on the clock doubles. */
void eco_gpu_rates_scale(struct eco_gpu_rates *rates, const double speed[ECO_SPEEDS]);

#endif /* ECO_GPU_DEVICE_RATES_H */
