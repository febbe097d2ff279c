/*
 * A plan of any kind (layers, models, streams, nets) with all arrays of its runs, each on the host
 * and on the device, and parts of them, for tests that one run has the bits of others. A test fills
 * the inputs on the host, runs, and reads the results on the host:
 *
 *     trial_open_on(&trial, "cpu:1", "lstm/train/T5/N3/I4/H5");
 *     trial_fill(&trial, 1);
 *     trial_run(&trial);
 *     part_check((struct part){.of = &trial, .row = 2, .rows = 1}, (struct part){.of = &alone}, Y,
 * DPARAMS, "");
 */
#ifndef ECO_TESTS_TRIAL_H
#define ECO_TESTS_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/kit/status.h"

/* The arrays of a run. Inputs are before Y; results are from Y on, those of backward from DX on. */
enum role {
    X,
    DY,
    INITIAL,
    DFINAL,
    START,
    DSTATES, /* gradients of the states of every step */
    PARAMS,
    LENGTHS,
    RESETS,
    MASK,
    Y,
    FINAL,
    STATES,
    DX,
    DINITIAL,
    DSTART,
    DPARAMS,
    ROLES
};
enum { TRIAL_LAYERS = 8, TRIAL_STATES = 4 };

/* [models,lanes,steps,rows] of `row` bytes, or [models,lanes,rows,steps] in batch-major order. */
struct trial_array {
    ecornn_type type;                 /* 0: lengths, resets or a mask */
    size_t element, row, bytes, room; /* room: of the planned run */
    int32_t models, lanes, steps, rows;
    int32_t joined; /* steps of x to one step; 0: the array has no steps */
    bool batch_major;
    char *host, *there; /* NULL: the plan has no such array */
};

struct trial {
    ecornn_device *device;
    ecornn_plan *plan;
    bool owns_device, owns_plan;
    ecornn_sizes sizes;
    const struct eco_problem *of[TRIAL_LAYERS]; /* of each layer of a net; else of the plan */
    int layers;
    int32_t T, N, streams; /* of the run; streams 0: none */
    bool trains;
    bool ragged;      /* lengths are given */
    unsigned without; /* bits of roles that are not given: NULL, and in no part */
    bool alias;       /* final states are in the memory of the initial ones */
    struct trial_array array[TRIAL_LAYERS][ROLES][TRIAL_STATES];
    void *weights, *dweights, *workspace, *reserve;
    const void **params; /* and dparams [param_count], in memory of the device */
    void **dparams;
    ecornn_io io, layer[TRIAL_LAYERS]; /* complete; a test may change seed, stream and so on */
    ecornn_gradient gradient, dlayer[TRIAL_LAYERS];
    const ecornn_io *list[TRIAL_LAYERS];
    const ecornn_gradient *dlist[TRIAL_LAYERS];
};

/* Makes the arrays for a plan that the caller keeps; ... */
void trial_open_plan(struct trial *trial, ecornn_device *device, ecornn_plan *plan);
/* ... makes the plan, too; cell: NULL, or of a name that is not built in; ... */
void trial_open(struct trial *trial, ecornn_device *device, const char *problem,
                const ecornn_cell *cell);
/* ... opens the device, too; ... */
void trial_open_on(struct trial *trial, const char *device, const char *problem);
/* ... or takes the plan, inputs, seed and place of another trial, which must be closed later. */
void trial_open_beside(struct trial *trial, const struct trial *other);
void trial_close(struct trial *trial);
const char *trial_role(int role); /* its name */
/* Sets the steps and rows of the runs that follow, and the number of streams. */
void trial_size(struct trial *trial, int32_t T, int32_t N, int32_t streams);
/* Sets the pointers of io and gradient again, after `there` or a flag has changed. */
void trial_point(struct trial *trial);

/* Fills all inputs with random numbers in (-0.5, 0.5) that their types can hold, smaller ones in
 * parameters, and random lengths, resets and masks. */
void trial_fill(struct trial *trial, uint64_t seed);
/* Fills the results on the host with bytes 0xFF. */
void trial_forget(struct trial *trial);

/* Copies inputs and forgotten results to the device and packs the parameters. */
void trial_send(struct trial *trial);
/* Queues forward and, in training, backward. */
ecornn_status trial_queue(const struct trial *trial);
/* Waits for the stream and copies the results to the host; ... */
void trial_download(struct trial *trial);
/* ... unpacks the gradients of parameters before. */
void trial_fetch(struct trial *trial);
/* All three. */
void trial_run(struct trial *trial);

/* ---- parts ----------------------------------------------------------------------------------- */

/* A part of a trial's arrays begins at this model, step of x, and row, and has this many steps of x
 * and rows; 0: as many as there are. Arrays without models, steps or rows belong to each part. */
struct part {
    struct trial *of;
    int32_t model, step, row, steps, rows;
};

/* Visits each row of [width] numbers that both parts have of an array, until `visit` returns false;
 * returns whether it never did. */
struct part_row {
    const struct trial_array *array;
    char *at;
};
typedef bool part_visit(struct part_row a, struct part_row b, void *context);
bool part_each(struct part a, int a_role, struct part b, int b_role, part_visit *visit,
               void *context);
/* Its first row of [width] numbers of x, y or their gradients. */
char *part_at(struct part part, int role);
/* Copies an array, or all inputs, to the type that they have there. */
void part_copy(struct part to, int to_role, struct part from, int from_role);
void part_copy_inputs(struct part to, struct part from);
/* to += scale * from, and the sum of products of all elements. */
void part_add(struct part to, double scale, struct part from, int role);
double part_product(struct part a, int a_role, struct part b, int b_role);
/* Are the bits the same, but for those of NaN? */
bool part_same(struct part a, int a_role, struct part b, int b_role);
/* The first array from `first` to `last` that differs; or NULL. */
const char *part_differs(struct part a, struct part b, int first, int last);
/* Fails the test if one of these arrays differs. */
void part_check(struct part a, struct part b, int first, int last, const char *what);

#endif /* ECO_TESTS_TRIAL_H */
