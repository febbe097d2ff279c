/*
 * What the two sides of a measurement on a GPU share: random data, and time by events.
 */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

/* Stops with a word where CUDA reports an error. */
void gpu_check(cudaError_t error, const char *doing);

/* Elements of the type on the device, uniform in (-bound, bound), the same every time; never
 * zeros: those are faster. */
void *gpu_random(ecornn_type type, size_t elements, double bound);
size_t gpu_element(ecornn_type type);

double gpu_now(void); /* seconds */
/* From now on few and short samples. */
void gpu_be_quick(void);

/* Something that queues work on a stream. */
struct gpu_work {
    bool (*queue)(void *self, cudaStream_t stream);
    void *self;
};
/* Median seconds of one, queued many times without waiting; negative: it failed. */
double gpu_time(const struct gpu_work *work, cudaStream_t stream);
/* The same of a graph captured from it; negative: it cannot be captured. */
double gpu_time_graph(const struct gpu_work *work, cudaStream_t stream);

/* cuDNN at its best, bench_cudnn.c; seconds are negative where it cannot. */
struct cudnn_best {
    double eager, graph;
    const char *eager_how, *graph_how; /* algorithm */
    size_t workspace, reserve;
};
struct cudnn_best cudnn_measure(const ecornn_desc *desc, const char *cell, cudaStream_t stream);

/* An LSTM of one layer in inference as a loop of cuBLAS products and kernels of one operation each,
 * bench_unfused.cu: two products a step, or naively eight.  Seconds; false: not this type. */
bool unfused_measure(const ecornn_desc *desc, bool naive, cudaStream_t stream, double *eager,
                     double *graph);

/* The recurrent step of one direction of an LSTM or a GRU in four layouts, bench_layouts.cu: rows,
 * rows with R transposed, batch-minor, batch-minor with R transposed.  Seconds of a step from a
 * graph, with cuBLAS's choice and the best of cuBLASLt's first eight; negative: none.  False: not
 * this cell or type. */
enum { LAYOUTS = 4 };
typedef struct layout_time {
    double own, best;
} layout_time;
bool layouts_measure(const ecornn_desc *desc, const char *cell, cudaStream_t stream,
                     layout_time time[LAYOUTS]);

#endif /* BENCH_GPU_H */
