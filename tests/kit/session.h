/*
 * A case's plan and its arrays in guarded memory, which run_case.c runs.
 */
#ifndef ECO_TESTS_SESSION_H
#define ECO_TESTS_SESSION_H

#include "tests/kit/guarded.h"
#include "tests/kit/testing.h"

struct session {
    const struct test_case *test;
    const struct machine *machine;
    const struct data *inputs;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    int params;
    struct buffer x, y, initial[ECORNN_MAX_STATES], final[ECORNN_MAX_STATES];
    struct buffer dy, dfinal[ECORNN_MAX_STATES], dx, dinitial[ECORNN_MAX_STATES];
    struct buffer start[ECORNN_MAX_STATES], dstart[ECORNN_MAX_STATES], resets, mask;
    struct buffer states[ECORNN_MAX_STATES], dstates[ECORNN_MAX_STATES];
    struct buffer weights, dweights, workspace, reserve;
    struct buffer *param, *dparam; /* [params] */
    struct buffer lengths;
    bool reads_y; /* does the device's backward read y? */
    struct memory memory;
};

/* Makes the plan, buffers with the inputs, and packed weights. The caller has set test, machine,
 * inputs and memory. */
bool session_open(struct session *session);
void session_close(struct session *session);
/* From here on the buffer must not change. */
void session_keep(struct session *session, struct buffer *buffer);
/* Adds the buffer's contents, if there is a buffer, to the results; padding must be 0. */
void session_result(struct session *session, const struct buffer *buffer, struct data *results,
                    const struct array *shape);
struct array session_y_shape(const struct test_case *test);
/* states S of every step, layer and direction: [L*D*T,N,width] */
struct array session_shown_shape(const struct test_case *test, int s);
/* kind: "final", "dinitial" or "dstart". */
struct array session_state_shape(const struct test_case *test, const char *kind, int s);

/* run_case.c: the arguments of a run on the default stream; dweights is overwritten. */
ecornn_io session_io(const struct session *session);
ecornn_gradient session_gradient(const struct session *session);
bool session_trains(const struct session *session);
/* Run, wait, check what every run must leave unchanged, and add the results. Backward must follow
 * forward. */
bool session_forward(struct session *session, struct data *results);
bool session_backward(struct session *session, struct data *results);

#endif /* ECO_TESTS_SESSION_H */
