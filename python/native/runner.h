/*
 * The functions of ecornn-run.so, for bindings that pass addresses: Python's by ctypes.
 *
 * All return a status of the library, and ecornn_run_error says more, except of a structure of
 * another size, which is a BAD_ARGUMENT.  Any thread may call them, also with one stack.
 */
#ifndef ECO_NATIVE_RUNNER_H
#define ECO_NATIVE_RUNNER_H

#include "python/native/stack.h"

enum { RUN_VERSION = 2 };

/* Called once, with the libecornn that the caller has opened.  0: all is there; else the caller or
 * libecornn has another version. */
SHOWN int ecornn_run_open(int version, void *library);

/* What failed, after that status in this thread, until its next failure. */
SHOWN const char *ecornn_run_error(int status);

/* stack.c.  desc: without device, T, N and types.  What concerns training (dropout, memory_limit,
 * saving) is for runs with ECORNN_TRAINING. */
SHOWN int ecornn_run_new(const ecornn_desc *desc, struct stack **stack);
SHOWN void ecornn_run_free(struct stack *stack); /* NULL is allowed */
/* The block of parameters from now on.  frozen: inference uses a copy of it as it is now. */
SHOWN int ecornn_run_take(struct stack *stack, const void *block, size_t bytes, int frozen);

/* A plan, held until ecornn_run_let_go, and what it was made for; unchanged if there is none. */
struct run_plan {
    struct plan *held;
    const ecornn_plan *plan;
    const ecornn_desc *desc;
};
SHOWN int ecornn_run_plan(struct stack *stack, const struct ask *ask, struct run_plan *found);
SHOWN void ecornn_run_let_go(struct plan *held);

/* The arrays and places of parameters (struct layout) of torch's layers with that cell, by its name
 * or text, with or without biases: of each array its kind and sizes, 0: it has no such dimension;
 * of each parameter the array and element that it is packed from, and those that are added; array
 * -1: none. arrays: [count[0],3], places: [count[1],4], as many as there is room for; count[0]
 * -1: no array can hold all R, which have several widths. */
SHOWN int ecornn_run_places(const ecornn_plan *plan, const ecornn_desc *desc, const char *cell,
                            int bias, int64_t *arrays, int64_t *places, int64_t *count);

/* A forward run that kept what its backward needs. */
struct run;

/* Runs forward: io has all but weights, workspace and reserve.  run: NULL without ECORNN_TRAINING.
 */
SHOWN int ecornn_run_forward(struct stack *stack, const struct ask *ask, const ecornn_io *io,
                             struct run **run);
/* Runs backward; gradient has all but dweights.  dparams: a block of host memory for the gradient
 * of the parameters, added to it if `add`; NULL: it is not wanted. */
SHOWN int ecornn_run_backward(struct run *run, const ecornn_io *io, const ecornn_gradient *gradient,
                              void *dparams, int add);
SHOWN void ecornn_run_end(struct run *run); /* NULL is allowed */

#endif /* ECO_NATIVE_RUNNER_H */
