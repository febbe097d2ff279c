/*
 * Runs: a tape is queued, or the graph that was kept of it is launched.
 */
#ifndef ECO_GPU_RUN_RUN_H
#define ECO_GPU_RUN_RUN_H

#include "gpu/view/run.h"

/* run/run.c: enters the device, checks the pointers, queues the tape. */
ecornn_status eco_gpu_run_plan(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args,
                               const eco_gpu_ops *together);

/* run/graph.c: queues a tape, or launches the graph that was kept of it. */
ecornn_status eco_gpu_run_tape(struct eco_gpu_run *run, const struct eco_tape *tape);

/* run/executor.c: all ops of a tape, on the caller's stream and those that fork from it and join
 * it. */
ecornn_status eco_gpu_queue(struct eco_gpu_run *run, const struct eco_tape *tape,
                            cudaStream_t stream);

/* run/graph.c */
ecornn_status eco_gpu_make_graphs(const struct ecornn_plan *plan, struct eco_graphs **graphs);
void eco_gpu_free_graphs(struct eco_graphs *graphs);

#endif /* ECO_GPU_RUN_RUN_H */
