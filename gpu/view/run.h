/*
 * One run: its data, and the calls of stages for a bound op. Knows the tape's operations, no cell.
 */
#ifndef ECO_GPU_VIEW_RUN_H
#define ECO_GPU_VIEW_RUN_H

#include "common/program/verbs.h"
#include "gpu/device/device.h"
#include "gpu/device/launch_state.h"
#include "gpu/view/back.h"
#include "gpu/view/plan.h"

/* ---- a run ----------------------------------------------------------------------------------- */

enum { ECO_ARGUMENT_BYTES = 8192 /* most bytes of a kernel's parameters, for patch.c */ };
struct eco_gpu_run;
struct eco_gpu_given; /* ops/ops.h */
/* Queues one op of the tape on run->stream, or all `n` ops of a level. */
typedef void (*eco_gpu_op)(struct eco_gpu_run *run, const struct eco_bound *bound);
typedef void (*eco_gpu_ops)(struct eco_gpu_run *run, const struct eco_bound *bounds, int n);

/* One thread queues a run. After the first failure nothing more is queued. */
struct eco_gpu_run {
    const struct ecornn_plan *plan;
    const struct eco_problem *problem;
    const struct eco_lowered *lowered;
    const struct eco_layout *layout;
    const struct eco_args *args;
    const struct eco_gpu_given *given; /* NULL: packed weights */
    const struct eco_stage_kernels *stages;
    const eco_gpu_ops
        *level_ops; /* by kind: queues all ops of a level together; NULL: one by one */
    struct eco_gpu_set *set;
    cudaStream_t stream;            /* of the current op */
    struct eco_launch_state launch; /* the order of its kernels */
    struct eco_blas_state {
        void *room;        /* for the products of the current op */
        size_t room_bytes; /* as last set in cuBLAS */
        size_t lent;       /* bytes of the plan's room that another stream uses */
        int share;         /* of multiprocessors, as last set in cuBLAS; 0: all; -1: unknown */
    } blas;
    struct eco_grouped_call grouped; /* gemm/grouped/grouped.c: products to be launched together */
    bool collects;                   /* the current op adds to `grouped` */
    struct eco_wide_back back;       /* of the step back */
    bool forked;      /* stream has not waited for the set's second one; ops/weight_gradients.c */
    int wide_before;  /* forward: kernels of the last level, all wide steps; else 0 */
    bool cuts_before; /* backward, with resets: carried gradients are cut before stages read them */
    ecornn_status status;
};

/* Are all steps of an op queued together, with those of its level? */
static inline bool eco_gpu_is_batched(const struct eco_gpu_run *run, enum eco_op_kind kind)
{
    return run->level_ops != NULL && run->level_ops[kind] != NULL;
}
/* Do the op's kernels read the caller's states themselves? A scan reads state planes. */
static inline bool eco_gpu_begins_itself(const struct eco_gpu_run *run, enum eco_op_kind kind)
{
    const struct eco_gpu_plan *own = run->plan->context;
    return eco_gpu_is_batched(run, kind) && !own->scan.used;
}

/* Keeps the run's first failure; nothing more is queued after it. */
void eco_gpu_note_cuda(struct eco_gpu_run *run, cudaError_t error, const char *doing);

/* ---- addresses, view/run.c ---------------------------------------------------------------- */

void *eco_gpu_after(const void *p, size_t elements, ecornn_type type);
/* Rows of a view from step t on, as kernels address them. */
struct eco_plane eco_gpu_plane(const struct eco_view *view, int32_t t);
/* The verbs MOVE and CUT, view/run.c. */
void eco_gpu_move(void *run, const struct eco_move *move);
void eco_gpu_cut(void *run, const struct eco_cut *cut);
/* A part of the packed weights for products, in the type of rows. */
const void *eco_gpu_weights(const struct eco_gpu_run *run, const struct eco_op *op, int weight_id);
/* Do products read matrices of S8 as they are packed?  The scales of such a matrix's rows. */
bool eco_gpu_reads_bytes(const struct eco_gpu_run *run);
const float *eco_gpu_scales(const struct eco_gpu_run *run, const struct eco_op *op, int weight_id);
/* Elements from one accumulator of a row to the next. */
int32_t eco_gpu_column(const struct eco_gpu_run *run);
/* Every plan requests it. */
enum { ECO_GPU_ALIGNED = true };
/* The bias vector of accumulator a; -1: none. */
int eco_gpu_bias(const struct eco_gpu_run *run, int a);
/* Do rows of a state's planes end with zeros, as products of whole groups require? */
bool eco_gpu_fills_state(const struct eco_gpu_run *run, const struct eco_view *planes);

/* ---- stages, view/run.c and ops/step.c ---------------------------------------------------- */

/* The fields of a stage's call that are the same for every step of an op. */
struct eco_stage_call eco_gpu_call(const struct eco_gpu_run *run, const struct eco_bound *bound);
void eco_gpu_stage(struct eco_gpu_run *run, bool backward, int stage,
                   const struct eco_stage_call *call);
/* Forward, the fields of step t: states, saved values, y; or the projection's input instead. */
void eco_gpu_point_at_step(const struct eco_gpu_run *run, const struct eco_bound *bound, int32_t t,
                           struct eco_stage_call *call);
void eco_gpu_point_at_output(const struct eco_bound *bound, int32_t t, struct eco_stage_call *call);
/* Previous and next states of step t. */
void eco_gpu_point_at_states(const struct eco_gpu_run *run, const struct eco_bound *bound,
                             int32_t t, struct eco_stage_call *call);
/* Forward: the first step reads the caller's initial states whose bits are set, and
 * the last writes the final ones, instead of planes that are not read, or instead of y, which
 * layers below the last do not write then. */
void eco_gpu_point_at_initial(const struct eco_gpu_run *run, const struct eco_op *op,
                              uint16_t which, struct eco_stage_call *call);
void eco_gpu_point_at_final(const struct eco_gpu_run *run, const struct eco_bound *bound,
                            uint16_t which, struct eco_stage_call *call);
/* The states with which steps of algorithm step can do so. */
uint16_t eco_gpu_begins_at_caller(const struct eco_gpu_run *run, const struct eco_bound *bound);
uint16_t eco_gpu_ends_at_caller(const struct eco_gpu_run *run, const struct eco_bound *bound);
/* Forward, bit s: state s before the first step is zero and in no plane; kernels know it. */
uint16_t eco_gpu_zero_states(const struct eco_gpu_run *run);
/* Bit s: no gradient is carried into the last step's state s, and that step's first kernel takes it
 * as zero. */
uint16_t eco_gpu_zero_carry(const struct eco_gpu_run *run);
/* Copies y for backward steps, if they cannot read y itself. */
void eco_gpu_copy_history(struct eco_gpu_run *run, const struct eco_bound *bound);

/* ---- resets, view/run.c --------------------------------------------------------------------- */

/* The bytes of step t, or NULL. The starts of a lane; NULL: zeros. */
const uint8_t *eco_gpu_resets(const struct eco_gpu_run *run, int32_t t);
/* The bytes that tell whether step t of an op's direction restarts rows; NULL: no row restarts. */
const uint8_t *eco_gpu_resets_of(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t);
struct eco_plane eco_gpu_starts(const struct eco_gpu_run *run, const struct eco_bound *bound,
                                int s);
/* Are states before the first step in planes, because rows begin from the caller's states or from
 * starts? Not if both are all zeros. */
bool eco_gpu_begins_in_planes(const struct eco_gpu_run *run);
/* With resets: the states before steps [t0,t1) for products of weight gradients and a replay. */
void eco_gpu_patch_states(struct eco_gpu_run *run, const struct eco_bound *bound, int32_t t0,
                          int32_t t1);

#endif /* ECO_GPU_VIEW_RUN_H */
