/*
 * Runs of several models, and of one: all arrays of a problem, what they hold, and whether a model
 * of all has the bits of one by itself.
 */
#ifndef ECO_TESTS_MODELS_H
#define ECO_TESTS_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/kit/status.h"

/* Models, and whether io.lengths or io.resets are given. */
struct models_case {
    const char *problem;
    int models;
    bool shared, lengths, resets;
};

/* Of arrays that the host and the device reach; NULL: the host's. */
struct models_memory {
    void *(*alloc)(size_t bytes);
    void (*release)(void *memory);
};

/* Arrays of one model, of all, or one shared: bytes of a model, and how many models it has. */
enum {
    X,
    DY,
    INITIAL,
    DFINAL,
    START,
    DSTATES, /* of every step */
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
    size_t bytes[MODELS_ARRAYS], state[2]; /* of a model; of a state of one */
    char *array[MODELS_ARRAYS];
    void *weights, *workspace, *reserve, *dweights;
    const struct models_memory *memory;
    void *stream; /* of the device; NULL: the default one */
    bool borrows; /* device and plan are another's */
};

/* run->memory is set, the rest is zeros. */
void models_open(struct models_run *run, const char *device, const char *problem);
/* Likewise, of the plan of another, which is closed after it. */
void models_open_beside(struct models_run *run, const struct models_run *other);
void models_close(struct models_run *run);
/* Inputs of all models, and what results are before a run: all bits set. */
void models_fill(const struct models_run *run, uint64_t *seed);
void models_forget(const struct models_run *run);
/* Weights, a run and, in training, gradients, on the run's stream: nothing is waited for. */
void models_queue(const struct models_run *run, const int32_t *lengths, const uint8_t *resets,
                  uint64_t seed);
/* Likewise.  Asserts nothing: threads call it. */
ecornn_status models_try(const struct models_run *run, const int32_t *lengths,
                         const uint8_t *resets, uint64_t seed);
/* A thread for each of the runs, all at once, a few times: the test fails where one does, or where
 * bits are others than those of a run before. */
void models_check_threads(const struct models_run run[], int count);
/* Runs all, with given memory again and again, as a graph, too; and each model by itself, with
 * given memory by the choices that all printed.  The test fails where bits are others. */
void models_check(const struct models_case *test, const char *device,
                  const struct models_memory *memory);

#endif /* ECO_TESTS_MODELS_H */
