/*
 * Runs of several models and of one model: all arrays of a problem and their contents, and the
 * check that a model has the same bits in a run of several as alone.
 */
#ifndef ECO_TESTS_MODELS_H
#define ECO_TESTS_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/kit/status.h"

/* A problem with models; are io.lengths and io.resets given? */
struct models_case {
    const char *problem;
    int models;
    bool shared, lengths, resets;
};

/* Functions for memory that host and device can access; NULL: host memory. */
struct models_memory {
    void *(*alloc)(size_t bytes);
    void (*release)(void *memory);
};

/* The arrays of a run. */
enum {
    X,
    DY,
    INITIAL,
    DFINAL,
    START,
    DSTATES, /* gradients of the states of every step */
    PARAMS,
    Y,
    FINAL,
    STATES,
    DX,
    DINITIAL,
    DSTART,
    DPARAMS,
    MODELS_ARRAYS
};

struct models_run {
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    ecornn_desc desc;
    int models, states;
    size_t bytes[MODELS_ARRAYS],
        state[2]; /* bytes of an array of one model, and of one of its states */
    char *array[MODELS_ARRAYS];
    void *weights, *workspace, *reserve, *dweights;
    const struct models_memory *memory;
    void *stream; /* stream of the device; NULL: the default one */
    bool borrows; /* device and plan belong to another run */
};

/* The caller has set run->memory; all else must be zero. */
void models_open(struct models_run *run, const char *device, const char *problem);
/* The same with the plan of another run, which must be closed later. */
void models_open_beside(struct models_run *run, const struct models_run *other);
void models_close(struct models_run *run);
/* Fills the inputs of all models, and the results with bytes 0xFF. */
void models_fill(const struct models_run *run, uint64_t *seed);
void models_forget(const struct models_run *run);
/* Queues packing, a run and, in training, unpacking of gradients on the run's stream, without
 * waiting. */
void models_queue(const struct models_run *run, const int32_t *lengths, const uint8_t *resets,
                  uint64_t seed);
/* The same without asserts, for use in threads. */
ecornn_status models_try(const struct models_run *run, const int32_t *lengths,
                         const uint8_t *resets, uint64_t seed);
/* Runs each in its own thread, all at the same time, several times. The test fails if a run fails
 * or its bits differ from those of an earlier run. */
void models_check_threads(const struct models_run run[], int count);
/* Runs all models, and each model alone. With `memory` it repeats the run, also from a graph, and
 * forces the printed choices on the single runs. The test fails if bits differ. */
void models_check(const struct models_case *test, const char *device,
                  const struct models_memory *memory);

#endif /* ECO_TESTS_MODELS_H */
