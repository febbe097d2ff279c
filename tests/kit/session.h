/*
 * A case's plan and its arrays in guarded memory, which run_case.c runs.
 */
#ifndef ECO_TESTS_SESSION_H
#define ECO_TESTS_SESSION_H

#include "common/run_arrays.h"
#include "tests/kit/guarded.h"
#include "tests/kit/testing.h"

struct session {
    const struct test_case *test;
    const struct machine *machine;
    const struct data *inputs;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    int params;
    struct buffer array[ECO_RUN_ARRAYS][ECORNN_MAX_STATES]; /* as rows of run_arrays.h */
    struct buffer *param, *dparam;                          /* [params] */
    bool reads_y;                                           /* does the device's backward read y? */
    struct memory memory;
};

/* Makes the plan, buffers with the inputs, and packed weights. The caller has set test, machine,
 * inputs and memory. */
bool session_open(struct session *session);
void session_close(struct session *session);
/* From here on the buffer must not change. */
void session_keep(struct session *session, struct buffer *buffer);
/* The array of a case's name without the number of the state: "x", "start"; or of "weights" and so
 * on. */
struct buffer *session_array(struct session *session, const char *name);
/* Adds what a run has written to the results; padding must be 0. */
void session_results(struct session *session, bool backward, struct data *results);
/* Adds one parameter's gradient. */
void session_result(struct session *session, const struct buffer *buffer, struct data *results,
                    const struct array *shape);

/* run_case.c: the arguments of a run on the default stream; dweights is overwritten. */
ecornn_io session_io(const struct session *session);
ecornn_gradient session_gradient(const struct session *session);
bool session_trains(const struct session *session);
/* Run, wait, check what every run must leave unchanged, and add the results. Backward must follow
 * forward. */
bool session_forward(struct session *session, struct data *results);
bool session_backward(struct session *session, struct data *results);

#endif /* ECO_TESTS_SESSION_H */
