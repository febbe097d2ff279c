/*
 * What the files of a scan share: blocks of time, where their values lie, and a kernel over their
 * steps.  Knows nothing of how values come from block to block.
 */
#ifndef ECO_SCAN_BLOCKS_H
#define ECO_SCAN_BLOCKS_H

#include "cpu/cpu.h"

/* Blocks in the order of time, whichever way steps go: as a kernel counts rows. */
struct eco_scan_blocks {
    const struct eco_cpu_run *run;
    const struct eco_bound *bound;
    struct eco_pointwise call;
    bool back;
    bool falls;           /* steps go back in time: the op's first block is the last one here */
    int32_t steps, block; /* of the op, of a block */
    int32_t blocks, odd;  /* odd: steps of the block that is over first */
    struct eco_range own; /* the thread's blocks, in the order of steps */
    /* Of each state, [N,H] before the op and then of each block, in the order of time:
     * [1 + blocks,N,H] of the state's type, or of what is carried. */
    char *value[ECO_MAX_STATES];
    ecornn_type type[ECO_MAX_STATES];
    char *factor, *term; /* [blocks,N,n_states,H] sums */
};

/* Of an op; the thread's part of its blocks. */
struct eco_scan_blocks eco_cpu_scan_begin(const struct eco_cpu_run *run,
                                          const struct eco_bound *bound, bool back);

/* A state's views in the run, before and after the op. */
const struct eco_view *eco_cpu_scan_carried(const struct eco_scan_blocks *scan, int s, bool after);
/* Do all steps have rows of their own in it? */
bool eco_cpu_scan_is_apart(const struct eco_view *view);
/* Row n of step t. */
void *eco_cpu_scan_row(const struct eco_view *view, int32_t t, int32_t n);

/* Where a block, in the order of steps, lies in the order of time. */
int32_t eco_cpu_scan_place(const struct eco_scan_blocks *scan, int32_t block);
/* Step k, in the order of steps, of the block at a place. */
int32_t eco_cpu_scan_time(const struct eco_scan_blocks *scan, int32_t place, int32_t k);
/* A row of the values before the op, place -1, or of a block. */
char *eco_cpu_scan_value(const struct eco_scan_blocks *scan, int s, int32_t place, int32_t n);
/* A row of a block in `factor` or `term`, which is `first`. */
char *eco_cpu_scan_linear(const struct eco_scan_blocks *scan, char *first, int32_t place,
                          int32_t n);

/* A kernel over all steps of some blocks; after their first steps, `after`, if there is one. */
void eco_cpu_scan_run(struct eco_scan_blocks *scan, struct eco_range blocks,
                      eco_pointwise_kernel kernel, const struct eco_program *program,
                      void (*after)(const struct eco_scan_blocks *));

#endif /* ECO_SCAN_BLOCKS_H */
