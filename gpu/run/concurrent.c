/*
 * Concurrent runs, of models or of layers. Lanes fork from the caller's stream and join it again;
 * each takes one run after the other. Knows streams and graphs, no operation.
 */
#include "gpu/run/run.h"

/* Lane 0 is the caller's stream; the stream that it would have is used for captures. */
struct concurrent_run {
    const struct eco_jobs *jobs;
    struct eco_gpu_lanes *lanes;
};

ecornn_status eco_gpu_make_lanes(const struct ecornn_device *device, int count)
{
    struct eco_gpu_scope scope;
    struct eco_gpu_lanes *lanes;
    ecornn_status status = eco_gpu_enter(&scope, device);
    if (status != ECORNN_OK)
        return status;
    status = eco_gpu_take_lanes(device->context, count, &lanes);
    if (status == ECORNN_OK)
        eco_gpu_return_lanes(lanes);
    eco_gpu_leave(&scope);
    return status;
}

static cudaStream_t stream_of(const struct concurrent_run *run, int lane, cudaStream_t caller)
{
    return lane == 0 ? caller : run->lanes->stream[lane];
}

/* Orders later work of stream `behind` after all work of `ahead`. */
static ecornn_status follow(cudaStream_t behind, cudaStream_t ahead, cudaEvent_t event)
{
    const ecornn_status status = ECO_CUDA(cudaEventRecord(event, ahead));
    return status == ECORNN_OK ? ECO_CUDA(cudaStreamWaitEvent(behind, event, 0)) : status;
}

static ecornn_status queue(void *own, cudaStream_t caller)
{
    const struct concurrent_run *all = own;
    const struct eco_jobs *jobs = all->jobs;
    const int n = jobs->lanes;
    ecornn_status status = ECORNN_OK;
    int forked = 1;
    for (; status == ECORNN_OK && forked < n; forked++)
        status = follow(stream_of(all, forked, caller), caller, all->lanes->event[0]);
    for (int run = 0; status == ECORNN_OK && run < jobs->jobs; run++)
        status = jobs->one(jobs->user_data, run, run % n, stream_of(all, run % n, caller));
    /* join even after a failure: an open fork would spoil a capture, or go on writing while the
     * caller's stream runs */
    for (int lane = 1; lane < forked; lane++) {
        const cudaStream_t stream = stream_of(all, lane, caller);
        const ecornn_status joined = follow(caller, stream, all->lanes->event[lane]);
        if (joined != ECORNN_OK && cudaStreamSynchronize(stream) != cudaSuccess)
            (void)cudaGetLastError();
        status = status != ECORNN_OK ? status : joined;
    }
    return status == ECORNN_OK ? jobs->last(jobs->user_data, caller) : status;
}

/* Approximate number of graph nodes: the steps of a layer, or a few if they are one kernel. */
static double nodes_of(const struct ecornn_plan *plan, const struct eco_args *args)
{
    enum { AROUND = 8 };
    const struct eco_problem *problem = &plan->problem;
    const struct eco_gpu_plan *one = plan->one->context;
    const bool at_once = one->persistent[args->backward].used || one->scan.used;
    return (at_once ? AROUND : (double)args->T) * problem->L * problem->D * problem->models;
}

/* Has it kernels whose blocks wait for each other? A graph does not check for a timeout. */
static bool waits(const struct ecornn_plan *plan)
{
    const struct eco_gpu_plan *one = plan->one->context;
    return one->persistent[0].used || one->persistent[1].used;
}

static ecornn_status queue_or_launch(struct concurrent_run *run, cudaStream_t stream)
{
    const struct ecornn_plan *plan = run->jobs->plan;
    if (plan == NULL)
        return queue(run, stream);
    struct eco_args args = *run->jobs->args;
    const struct eco_gpu_queue all = {.queue = queue,
                                      .own = run,
                                      .args = &args,
                                      .graphs =
                                          ((const struct eco_gpu_plan *)plan->context)->graphs,
                                      .spare = run->lanes->stream[0],
                                      .keeps = eco_gpu_keeps_graph(plan, nodes_of(plan, &args))};
    return eco_gpu_run_queue(&all);
}

ecornn_status eco_gpu_fork(struct ecornn_device *device, const struct eco_jobs *jobs, void *stream)
{
    struct eco_gpu *gpu = device->context;
    struct eco_gpu_scope scope;
    struct concurrent_run run = {.jobs = jobs};
    ecornn_status status =
        jobs->plan != NULL && waits(jobs->plan) ? eco_gpu_check_waits(gpu) : ECORNN_OK;
    if (status == ECORNN_OK)
        status = eco_gpu_enter(&scope, device);
    if (status != ECORNN_OK)
        return status;
    status = eco_gpu_take_lanes(gpu, jobs->lanes, &run.lanes);
    if (status == ECORNN_OK) {
        status = queue_or_launch(&run, stream);
        eco_gpu_return_lanes(run.lanes);
    }
    eco_gpu_leave(&scope);
    return status;
}
