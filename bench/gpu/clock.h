/*
 * The clock of a GPU: time between two events on a stream.
 */
#ifndef BENCH_GPU_CLOCK_H
#define BENCH_GPU_CLOCK_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

/* Calls `queue`, which puts a run on a stream of the device, `repeats` times without waiting in
 * between. Returns the mean seconds of a run; on failure it prints why and returns a negative
 * number. */
double gpu_time_queued(const char *device, bool (*queue)(void *self, void *stream), void *self,
                       int repeats);
/* Does the same with a CUDA graph that gpu_capture made. */
double gpu_time_graph(const char *device, cudaGraphExec_t graph, int repeats);
/* Calls `queue` once to warm up, then captures a second call. NULL: it cannot be captured. */
cudaGraphExec_t gpu_capture(const char *device, bool (*queue)(void *self, void *stream),
                            void *self);

/* Prints CUDA's error, if there is one, and returns false then. */
bool gpu_check(cudaError_t error, const char *doing);
/* Makes the device the current one and returns its stream, which lives as long as the process.
 * NULL: failed. */
cudaStream_t gpu_stream(const char *device);

#endif /* BENCH_GPU_CLOCK_H */
