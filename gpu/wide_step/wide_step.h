/*
 * Wide steps on the host's side: which kernels, what a step takes by prediction, its launch.
 * Algorithm fused takes them where a batch has many rows.
 */
#ifndef ECO_GPU_WIDE_STEP_WIDE_STEP_H
#define ECO_GPU_WIDE_STEP_WIDE_STEP_H

#include "gpu/view/run.h"

/* ---- tiling.c -------------------------------------------------------------------------------- */

struct eco_wide_shape {
    int8_t down, across, tiles, units, stages, blocks; /* see args.h */
};
extern const struct eco_wide_shape eco_wide_shapes[ECO_WIDE_SHAPES];

/* Of a block, with so many accumulators: rows, units, bytes of shared memory. */
int32_t eco_wide_rows(int shape);
int32_t eco_wide_units(int shape, int32_t accs);
size_t eco_wide_shared(int shape, int32_t accs);

struct eco_wide_size {
    int32_t accs, units, rows, k[ECO_WIDE_SOURCES];
    int32_t saved;   /* numbers of a unit that are saved */
    bool apart;      /* see mainloop.cuh */
    bool first;      /* a single step, from states of zeros: the second product is none */
    unsigned shapes; /* to choose from: a bit for each */
};
/* The fastest shape, and seconds of a step; shape -1: none. */
struct eco_wide_choice {
    int shape;
    double time;
};
struct eco_wide_choice eco_wide_choose(const struct eco_wide_size *size,
                                       const struct eco_caps *caps);
/* Of a layer's steps; without shapes where there is no kernel for them. */
struct eco_wide_size eco_wide_size(const struct eco_problem *problem, const struct eco_caps *caps,
                                   unsigned forced, int32_t layer, int32_t rows);

/* ---- launch.c -------------------------------------------------------------------------------- */

/* Once for a device that has code of 9.0a.  usable: and a driver that makes tensor maps. */
ecornn_status eco_wide_load(struct eco_gpu *gpu, bool *usable);
/* The kernels of a problem's cell, [ECO_WIDE_SHAPES]; NULL: there are none. */
const void *const *eco_wide_kernels(const struct eco_problem *problem);
/* Rows of the batch that a step multiplies. */
struct eco_wide_rows {
    const void *data; /* [rows,k]; NULL: zeros */
    size_t row;       /* elements from one to the next */
    int32_t rows;
    bool early; /* they were there before the kernel ahead was put in place */
};
/* A step of that shape, of its input and its state; false: nothing is queued, because its arrays do
 * not lie as copies want.  alone: of one op, not of all that are queued at once. */
bool eco_wide_step(struct eco_gpu_run *run, const struct eco_op *op,
                   const struct eco_stage_call *stage,
                   const struct eco_wide_rows rows[ECO_WIDE_SOURCES], int shape, bool alone);

#endif /* ECO_GPU_WIDE_STEP_WIDE_STEP_H */
