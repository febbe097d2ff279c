/*
 * What the files of a scan share: blocks of time, the positions of their values, and a kernel over
 * their steps. It does not know how values pass from block to block.
 */
#ifndef ECO_SCAN_BLOCKS_H
#define ECO_SCAN_BLOCKS_H

#include "cpu/cpu.h"

/* Blocks in the order of time, even if steps go backward in time, because a kernel numbers rows so.
 */
struct eco_scan_blocks {
    const struct eco_cpu_run *run;
    const struct eco_bound *bound;
    struct eco_pointwise call;
    bool back;
    bool falls;           /* steps go back in time: the op's first block is the last one here */
    int32_t steps, block; /* steps of the op, and of a block */
    int32_t blocks, odd;  /* odd: steps of the one block that may be shorter */
    struct eco_range own; /* the thread's blocks, in the order of steps */
    /* Values of each state, or of its carried gradient: [N,H] before the op, and then for each
     * block in the order of time, together [1 + blocks,N,H]. */
    char *value[ECO_MAX_STATES];
    ecornn_type type[ECO_MAX_STATES];
    char *factor, *term; /* sums: [blocks,N,n_factors,H], [blocks,N,n_states,H] */
};

/* Makes the blocks of an op, and the thread's part of them. */
struct eco_scan_blocks eco_cpu_scan_begin(const struct eco_cpu_run *run,
                                          const struct eco_bound *bound, bool back);

/* A state's views in the run, before and after the op. */
const struct eco_view *eco_cpu_scan_carried(const struct eco_scan_blocks *scan, int s, bool after);
/* Does every step have its own rows in the view? */
bool eco_cpu_scan_is_apart(const struct eco_view *view);
/* Row n of step t. */
void *eco_cpu_scan_row(const struct eco_view *view, int32_t t, int32_t n);

/* The index in the order of time of a block in the order of steps. */
int32_t eco_cpu_scan_place(const struct eco_scan_blocks *scan, int32_t block);
/* The time of step k, in the order of steps, of the block with this index. */
int32_t eco_cpu_scan_time(const struct eco_scan_blocks *scan, int32_t place, int32_t k);
/* A row of the values of a block, or with index -1 of those before the op. */
char *eco_cpu_scan_value(const struct eco_scan_blocks *scan, int s, int32_t place, int32_t n);
/* A row's factors and terms of a block. */
char *eco_cpu_scan_factors(const struct eco_scan_blocks *scan, int32_t place, int32_t n);
char *eco_cpu_scan_terms(const struct eco_scan_blocks *scan, int32_t place, int32_t n);

/* Runs a kernel over all steps of some blocks, and calls `after`, if it is not NULL, after their
 * first steps. */
void eco_cpu_scan_run(struct eco_scan_blocks *scan, struct eco_range blocks,
                      eco_pointwise_kernel kernel, const struct eco_program *program,
                      void (*after)(const struct eco_scan_blocks *));

#endif /* ECO_SCAN_BLOCKS_H */
