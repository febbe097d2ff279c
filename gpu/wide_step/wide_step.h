/*
 * Host side of wide steps: kernels, predicted times, the launch. Algorithm fused uses them if a
 * batch has many rows.
 */
#ifndef ECO_GPU_WIDE_STEP_WIDE_STEP_H
#define ECO_GPU_WIDE_STEP_WIDE_STEP_H

#include "gpu/view/run.h"

/* ---- shapes.c -------------------------------------------------------------------------------- */

struct eco_wide_shape {
    int8_t down, across, tiles, units, stages, blocks, cluster; /* see args.h */
};
extern const struct eco_wide_shape eco_wide_shapes[ECO_WIDE_SHAPES];

/* For a block with `accs` accumulators: rows, units, bytes of shared memory. */
int32_t eco_wide_rows(int shape);
int32_t eco_wide_units(int shape, int32_t accs);
size_t eco_wide_shared(int shape, int32_t accs, int stages);

/* ---- tiling.c -------------------------------------------------------------------------------- */

struct eco_wide_size {
    int32_t accs, units, rows, k[ECO_WIDE_SOURCES];
    int32_t ops;     /* of a launch */
    int32_t element; /* bytes of a number */
    int32_t saved;   /* numbers saved for each unit */
    bool apart;      /* see mainloop.cuh */
    bool first;      /* a single step from zero states, without the second product */
    bool far;        /* a run's rows come from memory, not from the L2 */
    bool between;    /* another kernel runs between steps */
    unsigned shapes; /* available shapes: a bit for each */
};
/* The fastest shape, and its seconds for a step of an op; shape -1: none. */
struct eco_wide_choice {
    int shape;
    double time;
};
struct eco_wide_choice eco_wide_choose(const struct eco_wide_size *size,
                                       const struct eco_caps *caps);
/* For a layer's steps; without shapes if they have no kernel. */
struct eco_wide_size eco_wide_size(const struct eco_problem *problem, const struct eco_caps *caps,
                                   unsigned forced, int32_t layer, int32_t rows);

/* Units, rounded up to groups of ECO_WIDE_UNITS. */
static inline int32_t eco_wide_whole(int32_t units)
{
    return (units + ECO_WIDE_UNITS - 1) / ECO_WIDE_UNITS * ECO_WIDE_UNITS;
}
/* Are there sizes that are no whole groups, and could rows of inference with a projection be
 * padded, whose u and states are planes? Steps with the caller's states are not wide if H is such a
 * size. */
bool eco_wide_pads(const struct eco_problem *problem);

/* Ops that a launch may take a step of: both directions, or layers one after the other, where each
 * is some steps behind the layer below. */
int32_t eco_wide_ops(const struct eco_problem *problem);
enum { ECO_WIDE_LAG = 2 }; /* these steps: x is complete before the preceding kernel begins */

/* Does the cell leave 0 as the gradient of the state before? */
bool eco_wide_leaves_zero(const struct eco_lowered *lowered, int state);
/* Planes of state 0's gradient between such steps back: one for each slice along k of the product
 * with R, and one for what the cell leaves; 0: products are not cut. */
enum { ECO_WIDE_CUT_STEPS = 3 /* of a run, at least */ };
int32_t eco_wide_carry_planes(const struct eco_problem *problem, const struct eco_caps *caps);

/* For algorithm step's steps, which add their product with the state to sums in memory. */
struct eco_wide_choice eco_wide_choose_adding(const struct eco_problem *problem,
                                              const struct eco_caps *caps);
/* At plan creation: the shapes of replays that take many steps as one. */
void eco_wide_choose_replays(const struct ecornn_plan *plan, struct eco_gpu_plan *own);

/* ---- launch.c -------------------------------------------------------------------------------- */

/* Once for a device with code for 9.0a. usable: its driver makes tensor maps, too. */
ecornn_status eco_wide_load(struct eco_gpu *gpu, bool *usable);
/* The kernels of a problem's cell; or NULL. */
const struct eco_wide_kernel *eco_wide_kernels(const struct eco_problem *problem);
/* Batch rows that a step multiplies. */
struct eco_wide_rows {
    const void *data; /* [rows,k]; NULL: zeros */
    size_t row;       /* elements from row to row */
    int32_t rows;
    bool early; /* complete before the preceding kernel became resident */
};
/* A step of an op. */
struct eco_wide_job {
    const struct eco_op *op;
    const struct eco_stage_call *stage;
    struct eco_wide_rows rows[ECO_WIDE_SOURCES];
    bool early; /* and stage->acc, to which the products add if it is not NULL */
};
/* Queues steps of at most ECO_WIDE_OPS ops with that shape, independent of each other; false if
 * their arrays are not aligned for copies, and nothing is queued. alone: for one op, not for all
 * that are queued together. */
bool eco_wide_step(struct eco_gpu_run *run, const struct eco_wide_job *jobs, int n, int shape,
                   bool alone);

/* Does a step back have that kernel, with arrays aligned as these? */
bool eco_wide_takes_back(const struct eco_gpu_run *run, const struct eco_stage_call *stage);
/* Queues the only stage of a step back; false, and nothing is queued, if there is no such kernel,
 * another is faster, or arrays are not aligned. overlap: as of eco_launch(). */
bool eco_wide_step_back(struct eco_gpu_run *run, const struct eco_stage_call *stage, bool overlap);

#endif /* ECO_GPU_WIDE_STEP_WIDE_STEP_H */
