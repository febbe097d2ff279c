/*
 * The operations of the tape, each queued by a function.
 */
#ifndef ECO_GPU_OPS_OPS_H
#define ECO_GPU_OPS_OPS_H

#include "common/compose/call.h"
#include "gpu/copy/param_moves.h"
#include "gpu/view/run.h"

ecornn_status eco_gpu_pack(const struct ecornn_plan *plan, const void *const *params,
                           const void *const *added, void *weights, void *stream);
/* Parameters that are given to a run: matrices that it reads where they are, and moves of all
 * others into packed weights, which it queues first. */
enum { ECO_GIVEN_PLACES = 8, ECO_GIVEN_MOVES = 8 };
struct eco_gpu_given {
    const void *matrix[ECO_GIVEN_PLACES * ECO_WEIGHT_IDS]; /* eco_args.matrices */
    struct eco_param_move move[ECO_GIVEN_MOVES];
    int count; /* of moves */
};

/* What a run does with args->params; false: they must be packed as a whole. */
bool eco_gpu_take_params(struct eco_gpu_given *given, const struct ecornn_plan *plan,
                         const struct eco_args *args);
/* Can the device reach the addresses? Then the moves may be queued. */
ecornn_status eco_gpu_check_params(const struct eco_gpu *gpu, const struct eco_gpu_given *given);
ecornn_status eco_gpu_queue_params(const struct ecornn_plan *plan,
                                   const struct eco_gpu_given *given, cudaStream_t stream);
ecornn_status eco_gpu_unpack(const struct ecornn_plan *plan, const void *dweights,
                             void *const *params, bool add, void *stream);

/* ops/calls.c: eco_backend.queue. */
ecornn_status eco_gpu_queue_calls(struct ecornn_device *device, const struct eco_call *calls,
                                  int count, void *stream);

/* An op that is no claim, as verbs; the second without moves of some states. ops/verbs.c */
void eco_gpu_expand(struct eco_gpu_run *run, const struct eco_bound *bound);
void eco_gpu_expand_without(struct eco_gpu_run *run, const struct eco_bound *bound,
                            uint16_t without);
extern const struct eco_verbs eco_gpu_verbs;
void eco_gpu_gradients(struct eco_gpu_run *run,
                       const struct eco_gradients *gradients); /* weight_gradients.c */
/* Moves the run to the second stream until the next op, if its dx and weight gradients may be
 * concurrent; weight_gradients.c. */
void eco_gpu_fork_dx(struct eco_gpu_run *run, const struct eco_op *op);
/* Makes the run's stream wait for the second one, if that has work. */
void eco_gpu_join(struct eco_gpu_run *run);
/* Orders later work of the stream after that of `ahead`, by an event of the set. */
void eco_gpu_follow(struct eco_gpu_run *run, cudaStream_t stream, cudaStream_t ahead, int event);
void eco_gpu_replay(struct eco_gpu_run *run, const struct eco_bound *bound); /* ops/replay.c */
void eco_gpu_step(struct eco_gpu_run *run, const struct eco_bound *bound);   /* ops/step.c */
void eco_gpu_d_step(struct eco_gpu_run *run,
                    const struct eco_bound *bound); /* ops/step_backward.c */

/* ---- what fills up rows, ops/verbs.c -------------------------------------------------- */

#endif /* ECO_GPU_OPS_OPS_H */
