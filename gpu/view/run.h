/*
 * One run: what it has at hand, and how stages are pointed at what a bound op says.  Knows the
 * tape's operations, no cell.
 */
#ifndef ECO_GPU_VIEW_RUN_H
#define ECO_GPU_VIEW_RUN_H

#include "common/bound.h"
#include "gpu/device/device.h"
#include "gpu/device/launch_state.h"
#include "gpu/view/plan.h"

/* ---- a run ----------------------------------------------------------------------------------- */

struct eco_gpu_run;
/* Queues one op of the tape on run->stream; or all `n` of a level. */
typedef void (*eco_gpu_op)(struct eco_gpu_run *run, const struct eco_bound *bound);
typedef void (*eco_gpu_ops)(struct eco_gpu_run *run, const struct eco_bound *bounds, int n);

/* One thread queues a run; after the first failure nothing more is queued. */
struct eco_gpu_run {
    const struct ecornn_plan *plan;
    const struct eco_problem *problem;
    const struct eco_lowered *lowered;
    const struct eco_layout *layout;
    const struct eco_args *args;
    const struct eco_stage_kernels *stages;
    const eco_gpu_ops *together; /* by kind: what queues all ops of a level at once; NULL: one by
                                  * one */
    struct eco_gpu_set *set;
    cudaStream_t stream;            /* of the op at hand */
    struct eco_launch_state launch; /* how its next kernel follows those ahead */
    struct eco_blas_state {
        void *room;        /* for the products of the op at hand */
        size_t room_bytes; /* as cuBLAS was told last */
        int share;         /* of multiprocessors, as cuBLAS was told last; 0: all; -1: unknown */
    } blas;
    struct eco_grouped_call grouped; /* gemm/grouped/grouped.c: what is still to be launched */
    bool collects;                   /* and the op at hand adds to it */
    bool cuts_before; /* back, with resets: what is carried is cut before stages see it */
    ecornn_status status;
};

/* Are all steps of an op queued at once, with those of its level? */
static inline bool eco_gpu_at_once(const struct eco_gpu_run *run, enum eco_op_kind kind)
{
    return run->together != NULL && run->together[kind] != NULL;
}
/* Do its kernels read the caller's states themselves?  Those of a scan find them in planes. */
static inline bool eco_gpu_begins_itself(const struct eco_gpu_run *run, enum eco_op_kind kind)
{
    const struct eco_gpu_plan *own = run->plan->own;
    return eco_gpu_at_once(run, kind) && !own->scan.used;
}

/* run.c: what failed; nothing more is queued. */
void eco_gpu_note_cuda(struct eco_gpu_run *run, cudaError_t error, const char *doing);

/* ---- addresses, view/arrays.c ---------------------------------------------------------------- */

void *eco_gpu_after(const void *p, size_t elements, ecornn_type type);
/* A view's rows from step t on, as kernels see them. */
struct eco_plane eco_gpu_plane(const struct eco_view *view, int32_t t);
/* A part of the packed weights as products read it: in the type of rows. */
const void *eco_gpu_weights(const struct eco_gpu_run *run, const struct eco_op *op, int part);
/* Elements from one accumulator of a row to the next. */
int32_t eco_gpu_column(const struct eco_gpu_run *run);
/* Every plan's wish. */
enum { ECO_GPU_ALIGNED = true };
/* The vector that accumulator a adds; -1: none. */
int eco_gpu_bias(const struct eco_gpu_run *run, int a);
/* Do rows of a state's planes end with zeros, as products of whole groups want it? */
bool eco_gpu_fills_state(const struct eco_gpu_run *run, const struct eco_view *planes);

/* ---- stages, view/states.c and ops/step.c ---------------------------------------------------- */

/* The fields of a stage's call that are the same for every step of an op. */
struct eco_stage_call eco_gpu_call(const struct eco_gpu_run *run, const struct eco_bound *bound);
void eco_gpu_stage(struct eco_gpu_run *run, bool backward, int stage,
                   const struct eco_stage_call *call);
/* Forward, those of step t: states, what is saved, y; where there is a projection instead of next
 * states and y what it is of. */
void eco_gpu_point_at_step(const struct eco_gpu_run *run, const struct eco_bound *bound, int32_t t,
                           struct eco_stage_call *call);
void eco_gpu_point_at_output(const struct eco_bound *bound, int32_t t, struct eco_stage_call *call);
/* Previous and next states of step t. */
void eco_gpu_point_at_states(const struct eco_gpu_run *run, const struct eco_bound *bound,
                             int32_t t, struct eco_stage_call *call);
/* Forward, bit s: the first step starts from zeros, and its kernels know: no plane has them. */
uint16_t eco_gpu_zero_states(const struct eco_gpu_run *run);
/* Where y is not what the op's steps back read: makes what is. */
void eco_gpu_copy_history(struct eco_gpu_run *run, const struct eco_bound *bound);

/* ---- resets, view/resets.c ------------------------------------------------------------------- */

/* The bytes of a step; NULL: there are none, or no such step.  A lane's starts, NULL: zeros. */
const uint8_t *eco_gpu_resets(const struct eco_gpu_run *run, int32_t t);
/* Those that tell of step t of an op's direction; NULL: it begins nothing anew. */
const uint8_t *eco_gpu_resets_of(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t);
struct eco_plane eco_gpu_starts(const struct eco_gpu_run *run, const struct eco_bound *bound,
                                int s);
/* Are states before the first step in planes, since rows may begin from the caller's or from their
 * starts?  Not where all of both are zeros. */
bool eco_gpu_begins_in_planes(const struct eco_gpu_run *run);
/* A state's rows from one place to another, with starts where step t resets them. */
void eco_gpu_patch(struct eco_gpu_run *run, const struct eco_bound *bound, int s,
                   struct eco_plane to, struct eco_plane from, int32_t t);
/* With resets: what products of gradients of weights, and of a replay, read of states before steps
 * [t0,t1). */
void eco_gpu_patch_states(struct eco_gpu_run *run, const struct eco_bound *bound, int32_t t0,
                          int32_t t1);

#endif /* ECO_GPU_VIEW_RUN_H */
