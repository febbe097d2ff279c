/*
 * What the sides of a measurement on a GPU share: random data, and time by events; and the sides.
 */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

/* ---- data and time, kit.c -------------------------------------------------------------------- */

/* Stops with a word where CUDA reports an error. */
void gpu_check(cudaError_t error, const char *doing);
/* The same of the library. */
void gpu_check_ours(ecornn_status status, const char *problem);

/* Elements of the type on the device, uniform in (-bound, bound), the same every time, in F64 those
 * of F32; never zeros: those are faster. */
void *gpu_random(ecornn_type type, size_t elements, double bound);
enum { GPU_X = 1, GPU_DY, GPU_PARAMS }; /* seeds: gpu_random has 1 */
void *gpu_draw(ecornn_type type, size_t elements, double bound, unsigned seed);
size_t gpu_element(ecornn_type type);
double gpu_now(void); /* seconds */
/* From now on few and short samples. */
void gpu_be_quick(void);

/* Something that queues work on a stream. */
struct gpu_work {
    bool (*queue)(void *self, cudaStream_t stream);
    void *self;
};
/* Seconds of one run: the median of some samples, and half the distance between their quartiles. */
struct gpu_seconds {
    double median, spread;
};
/* Queued many times without waiting; a negative median: it failed. */
struct gpu_seconds gpu_time(const struct gpu_work *work, cudaStream_t stream);
/* The same of a graph captured from it; negative: it cannot be captured. */
struct gpu_seconds gpu_time_graph(const struct gpu_work *work, cudaStream_t stream);

/* ---- ours, ours.c ---------------------------------------------------------------------------- */

struct gpu_ours {
    ecornn_device *device; /* not its own */
    ecornn_plan *plan;
    ecornn_sizes sizes;
    ecornn_io io;
    ecornn_gradient gradient;
    ecornn_type param_type;
    void *block, *dblock; /* parameters and their gradients, elements of param_type */
    const void **params;  /* into them */
    void **dparams;
    bool training, packs; /* packs: pack and unpack belong to a training run */
    double plan_seconds;  /* that creating the plan took */
};
/* device and packs are set by the caller. */
void gpu_ours_make(struct gpu_ours *ours, const char *problem, const ecornn_desc *desc);
bool gpu_ours_queue(void *self, cudaStream_t stream); /* of a gpu_work; self: struct gpu_ours */
void gpu_ours_free(struct gpu_ours *ours);

/* Where the percent of a problem's "/resets:3" is; NULL: it has none. */
char *gpu_resets(const char *problem);

/* Elements of x and y, of all models. */
size_t gpu_x_elements(const ecornn_desc *desc);
size_t gpu_y_elements(const ecornn_desc *desc);

/* ---- cuDNN, cudnn.c -------------------------------------------------------------------------- */

/* At its best; medians are negative where it cannot. */
struct cudnn_best {
    struct gpu_seconds eager, graph;
    const char *eager_how, *graph_how; /* algorithm */
    size_t workspace, reserve;
};
struct cudnn_best cudnn_measure(const ecornn_desc *desc, const char *cell, cudaStream_t stream);

/* ---- problems, cases.c ----------------------------------------------------------------------- */

/* One problem and what was measured of it; seconds, 0: not measured. */
struct gpu_case {
    char problem[160], cell[32]; /* with "/resets:3", in percent, runs have resets */
    ecornn_desc desc;
    struct gpu_seconds eager, graph, packed; /* packed: of a graph, with pack and unpack */
    double plan[2];                          /* of making the plan, first and again */
    ecornn_sizes sizes;
    struct cudnn_best theirs;
};
/* Problems, and lists of the file as @NAME or @NAME/PARTS, which go behind the cell's name; in
 * memory that later processes share.  Stops with a word where one cannot be. */
struct gpu_case *gpu_cases(int *n, const char *shapes, char **arguments, int count,
                           const ecornn_cell *own);
/* A line: microseconds of a step of a layer, and the rest. */
void gpu_print_case(const struct gpu_case *one);
/* The same as a row of a table, and the table's head: spreads are half the distance of quartiles.
 */
void gpu_print_row(const struct gpu_case *one);
void gpu_print_row_head(void);
/* Geometric means of theirs over ours, by type and mode, problems of one layer and direction apart;
 * and what is worst. */
void gpu_print_means(const struct gpu_case *cases, int n);

#endif /* BENCH_GPU_H */
