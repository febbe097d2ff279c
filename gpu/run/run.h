/*
 * Runs: queues a tape, or launches the graph that was captured of it.
 */
#ifndef ECO_GPU_RUN_RUN_H
#define ECO_GPU_RUN_RUN_H

#include "gpu/view/run.h"

/* run/run.c: ECORNN_FAILED if blocks of an earlier run waited too long for each other. */
ecornn_status eco_gpu_check_waits(const struct eco_gpu *gpu);

/* run/run.c: enters the device, checks the pointers, queues the tape. */
ecornn_status eco_gpu_run_plan(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args,
                               const eco_gpu_ops *level_ops);
/* eco_algo.run of algorithm step: all ops one by one. */
ecornn_status eco_gpu_run_step(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args);

/* run/graph.c: queues a tape, or launches its graph. args and given are the run's, which reads
 * other addresses there while it is captured for comparison; afterwards they are as before. */
ecornn_status eco_gpu_run_tape(struct eco_gpu_run *run, const struct eco_tape *tape,
                               struct eco_args *args, struct eco_gpu_given *given);

/* Work that is queued on a stream and joins it in any case, or is launched as a graph. */
struct eco_gpu_queue {
    ecornn_status (*queue)(void *own, cudaStream_t stream);
    void *own;
    struct eco_args *args;       /* what it depends on; gives the stream */
    struct eco_gpu_given *given; /* args->params; or NULL */
    const struct eco_gpu *gpu;
    struct eco_graphs *graphs;
    cudaStream_t spare; /* to capture on */
    bool keeps;         /* keep a graph */
    bool patches;       /* which may get other addresses: the queue reads all from args and given */
};
/* run/graph.c: the same for a queue. */
ecornn_status eco_gpu_run_queue(const struct eco_gpu_queue *queue);
/* Does a graph of about `nodes` nodes take an acceptable part of the host's memory? */
bool eco_gpu_keeps_graph(const struct ecornn_plan *plan, double nodes);

/* run/concurrent.c: eco_backend.fork; runs fork from the caller's stream and join it.
 */
ecornn_status eco_gpu_fork(struct ecornn_device *device, const struct eco_jobs *jobs, void *stream);
/* Creates streams for `lanes` lanes, at plan creation. */
ecornn_status eco_gpu_make_lanes(const struct ecornn_device *device, int lanes);

/* run/executor.c: all ops of a tape, on the caller's stream and its forks. */
ecornn_status eco_gpu_queue(struct eco_gpu_run *run, const struct eco_tape *tape,
                            cudaStream_t stream);

/* run/graph.c */
ecornn_status eco_gpu_make_graphs(const struct ecornn_plan *plan, struct eco_graphs **graphs);
void eco_gpu_free_graphs(struct eco_graphs *graphs);

#endif /* ECO_GPU_RUN_RUN_H */
