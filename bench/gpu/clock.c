/*
 * Timing by events.
 */
#include "clock.h"

#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"

bool gpu_check(cudaError_t error, const char *doing)
{
    return error == cudaSuccess || say("%s: %s", doing, cudaGetErrorString(error));
}

/* A process measures on one device. */
cudaStream_t gpu_stream(const char *device)
{
    static cudaStream_t stream;
    const char *colon = device ? strchr(device, ':') : NULL;
    if (!gpu_check(cudaSetDevice(colon ? atoi(colon + 1) : 0), "device"))
        return NULL;
    if (!stream && !gpu_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"))
        stream = NULL;
    return stream;
}

double gpu_time_queued(const char *device, bool (*queue)(void *self, void *stream), void *self,
                       int repeats)
{
    cudaStream_t stream = gpu_stream(device);
    cudaEvent_t from = NULL, to = NULL;
    float ms = 0;
    bool good = stream && gpu_check(cudaEventCreate(&from), "event") &&
                gpu_check(cudaEventCreate(&to), "event") &&
                gpu_check(cudaEventRecord(from, stream), "event");
    for (int k = 0; good && k < repeats; k++)
        good = queue(self, stream);
    good = good && gpu_check(cudaEventRecord(to, stream), "event") &&
           gpu_check(cudaStreamSynchronize(stream), "a run") &&
           gpu_check(cudaEventElapsedTime(&ms, from, to), "event");
    if (from)
        cudaEventDestroy(from);
    if (to)
        cudaEventDestroy(to);
    return good ? (double)ms * 1e-3 / repeats : -1;
}

static bool launch(void *self, void *stream)
{
    return cudaGraphLaunch(*(cudaGraphExec_t *)self, stream) == cudaSuccess;
}

double gpu_time_graph(const char *device, cudaGraphExec_t graph, int repeats)
{
    return gpu_time_queued(device, launch, &graph, repeats);
}

cudaGraphExec_t gpu_capture(const char *device, bool (*queue)(void *self, void *stream), void *self)
{
    cudaStream_t stream = gpu_stream(device);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    if (!stream || !queue(self, stream) || cudaStreamSynchronize(stream) != cudaSuccess ||
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess)
        return NULL;
    const bool queued = queue(self, stream);
    const bool ended = cudaStreamEndCapture(stream, &graph) == cudaSuccess;
    if (queued && ended && cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess)
        exec = NULL;
    if (graph)
        cudaGraphDestroy(graph);
    cudaGetLastError(); /* a failed capture leaves an error that later calls would report */
    return exec;
}
