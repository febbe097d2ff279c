/*
 * The clock of a GPU: time between two events on a stream.
 */
#ifndef BENCH_GPU_CLOCK_H
#define BENCH_GPU_CLOCK_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

/* Seconds of one of `repeats` runs that `queue` puts on a stream of the device, without waiting
 * between them; negative on failure, with a line on standard error. */
double gpu_time_queued(const char *device, bool (*queue)(void *self, void *stream), void *self,
                       int repeats);
/* The same of a CUDA graph that gpu_capture made. */
double gpu_time_graph(const char *device, cudaGraphExec_t graph, int repeats);
/* Captures one call of `queue`, which runs once before.  NULL: it cannot be captured. */
cudaGraphExec_t gpu_capture(const char *device, bool (*queue)(void *self, void *stream),
                            void *self);

/* Prints what CUDA reports.  False: it was an error. */
bool gpu_check(cudaError_t error, const char *doing);
/* Makes the device the current one; its stream, which lives as long as the process.  NULL: failed.
 */
cudaStream_t gpu_stream(const char *device);

#endif /* BENCH_GPU_CLOCK_H */
