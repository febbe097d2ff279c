/*
 * Each call of CUDA and cuBLAS fails once. Opening, planning, packing and running must report it,
 * and the next attempt must succeed, with the bits of a run without failures.  Skipped, with the
 * reason, where there is no device.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/kit/calls.h"
#include "tests/kit/session.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

static ecornn_device *device, *queued; /* queued: a device without graphs */

/* They cover each algorithm and kind of product, lanes, chunks, and a cell from text. */
static const struct {
    const char *force, *text;
} cases[] = {{"algorithm=step", "lstm/f32/train/L2/bi/T5/N3/I5/H13/states/lengths:random"},
             {"algorithm=step,emulated-f32=1,chunk=2", "gru/f32/train/T3/N5/I66/H131/states"},
             {"algorithm=step,emulated-f32=1", "lstm/f32/fast/train/T4/N5/I70/H72/states"},
             {"algorithm=step,rows=padded", "lstm/bf16/train/L2/T9/N3/I5/H13/P6/batch-major"},
             {"algorithm=step,grouped=0", "gru-reset-first/f16/train/T3/N3/I5/H13/accumulate"},
             {"algorithm=fused", "lstm/f32/train/L2/T3/N5/I5/H16/P6/states"},
             {"algorithm=persistent", "lstm/f32/train/L2/bi/T5/N5/I5/H40/states/dropout:0.3"},
             {"algorithm=persistent,chunk=2", "own-mgu/bf16/train/T5/N5/I5/H40/states"},
             {"algorithm=step", "lstm/f64/train/T3/N3/I5/H13"}};
enum { CASES = sizeof cases / sizeof *cases, MOST_CALLS = 4000 };

/* Runs forward and backward while call k fails. False: there are fewer calls, and all succeeded. */
static bool run_fails(const struct session *session, int k)
{
    ecornn_device *const on = session->machine->device;
    const ecornn_io io = session_io(session);
    ecornn_io back = io;
    const ecornn_gradient gradient = session_gradient(session);
    for (int s = 0; s < session->test->states; s++)
        back.final[s] = NULL;
    eco_call_fail_at(k);
    ecornn_status status = forward_all(session->plan, &io);
    if (status == ECORNN_OK)
        status = backward_all(session->plan, &back, &gradient);
    const bool failed = !eco_call_fail_at(0);
    ck_assert_int_eq(status == ECORNN_OK, !failed);
    if (failed)
        ck_assert_msg(strstr(ecornn_error_detail(), "unknown error") ||
                          strstr(ecornn_error_detail(), "internal operation failed"),
                      "%s", ecornn_error_detail());
    check_ok(ecornn_wait(on, NULL));
    return failed;
}

static void check_runs(struct session *session, const struct data *expected)
{
    struct data results = {0};
    ck_assert(session_forward(session, &results));
    ck_assert(session_backward(session, &results));
    ck_assert(results_same(session->test, "after a failure", expected, &results));
    data_free(&results);
}

static struct test_case test;
static struct data inputs;

static void open_case(struct session *session, struct machine *machine, int i)
{
    ck_assert(case_parse(&test, cases[i].text));
    machine->type = test.desc.type;
    inputs = (struct data){0};
    case_inputs(&test, &inputs);
    setenv("ECORNN_FORCE", cases[i].force, 1);
    *session = (struct session){.test = &test,
                                .machine = machine,
                                .inputs = &inputs,
                                .memory = {machine->device, test.text, false}};
    ck_assert(session_open(session));
}

static void close_case(struct session *session)
{
    session_close(session);
    unsetenv("ECORNN_FORCE");
    data_free(&inputs);
    case_free(&test);
}

/* Tries each of the first calls, then some of the rest, because there are many calls of each kind.
 */
static int next_call(int k)
{
    return k < 60 ? k + 1 : k + 7;
}

START_TEST(runs_say_so_and_go_on)
{
    struct machine machine = {queued, ECORNN_F32, 1, NULL};
    struct session session;
    struct data expected = {0};
    open_case(&session, &machine, _i);
    ck_assert(session_forward(&session, &expected));
    ck_assert(session_backward(&session, &expected));
    int k = 1;
    for (; k < MOST_CALLS && run_fails(&session, k); k = next_call(k))
        if (k % 8 == 1)
            check_runs(&session, &expected);
    ck_assert_int_gt(k, 30);
    ck_assert_int_lt(k, MOST_CALLS);
    check_runs(&session, &expected);
    data_free(&expected);
    close_case(&session);
}
END_TEST

/* The second run of a plan is captured. If that fails, it and all later runs are queued without a
 * graph. */
START_TEST(runs_go_on_without_graphs)
{
    struct machine machine = {device, ECORNN_F32, 1, NULL};
    bool failed = true;
    int without = 0;
    for (int k = 1; failed; k = next_call(k)) {
        struct session session;
        struct data expected = {0}, results = {0};
        open_case(&session, &machine, 3 * _i);
        ck_assert(session_forward(&session, &expected));
        const ecornn_io io = session_io(&session);
        eco_call_fail_at(k);
        const ecornn_status status = forward_all(session.plan, &io);
        failed = !eco_call_fail_at(0);
        without += failed && status == ECORNN_OK;
        ck_assert(failed || status == ECORNN_OK);
        check_ok(ecornn_wait(device, NULL));
        for (int time = 0; time < 2; time++) {
            ck_assert(session_forward(&session, &results));
            ck_assert(results_same(session.test, "without a graph", &expected, &results));
            data_free(&results);
        }
        data_free(&expected);
        close_case(&session);
    }
    ck_assert_int_gt(without, 5);
}
END_TEST

/* If compiling the cell fails, the plan succeeds nevertheless and interprets the cell. */
START_TEST(plans_and_weights_say_so)
{
    struct session session;
    struct machine machine = {device, ECORNN_F32, 1, NULL};
    open_case(&session, &machine, _i);
    const void **from = calloc((size_t)session.params, sizeof *from);
    void **to = calloc((size_t)session.params, sizeof *to);
    ck_assert(from != NULL && to != NULL);
    for (int i = 0; i < session.params; i++) {
        from[i] = buffer_inside(&session.param[i]);
        to[i] = buffer_inside(&session.param[i]);
    }
    bool failed = true;
    for (int k = 1; failed && k < MOST_CALLS; k++) {
        ecornn_plan *plan;
        eco_call_fail_at(k);
        const ecornn_status status = ecornn_plan_create_desc(&plan, device, &test.desc);
        failed = !eco_call_fail_at(0);
        if (status == ECORNN_OK)
            ecornn_plan_free(plan);
    }
    ck_assert(!failed);
    for (int k = 1, fails = 1; fails > 0 && k < MOST_CALLS; k++) {
        eco_call_fail_at(k);
        ecornn_status status = ecornn_pack(session.plan, from, NULL,
                                           buffer_inside(session_array(&session, "weights")), NULL);
        fails = !eco_call_fail_at(0);
        ck_assert_int_eq(status == ECORNN_OK, !fails);
    }
    for (int k = 1, fails = 1; fails > 0 && k < MOST_CALLS; k++) {
        eco_call_fail_at(k);
        ecornn_status status = ecornn_unpack(
            session.plan, buffer_inside(session_array(&session, "dweights")), to, 0, NULL);
        fails = !eco_call_fail_at(0);
        ck_assert_int_eq(status == ECORNN_OK, !fails);
    }
    check_ok(ecornn_wait(device, NULL));
    free(from);
    free(to);
    close_case(&session);
}
END_TEST

START_TEST(opening_says_so)
{
    bool failed = true;
    int k = 1;
    for (; failed && k < MOST_CALLS; k += 1 + k / 2) { /* not each k, because a plan takes long */
        ecornn_device *opened = NULL;
        eco_call_fail_at(k);
        const ecornn_status status = ecornn_device_open(&opened, "cuda");
        failed = !eco_call_fail_at(0);
        ck_assert_int_eq(status == ECORNN_OK, !failed);
        ecornn_device_close(opened);
    }
    ck_assert_int_gt(k, 50);
    ck_assert(!failed);
}
END_TEST

/* Failures of memory, copies and waits. */
START_TEST(the_rest_says_so)
{
    char byte = 0;
    void *memory = ecornn_alloc(device, 1);
    ck_assert_ptr_nonnull(memory);
    for (int k = 1; k < 3; k++) {
        eco_call_fail_at(k);
        ck_assert_int_eq(ecornn_upload(device, memory, &byte, 1), ECORNN_FAILED);
        eco_call_fail_at(k);
        ck_assert_int_eq(ecornn_wait(device, NULL), ECORNN_FAILED);
    }
    eco_call_fail_at(1);
    ck_assert_ptr_null(ecornn_alloc(device, 1));
    eco_call_fail_at(0);
    check_ok(ecornn_upload(device, memory, &byte, 1));
    ecornn_free(device, memory);
}
END_TEST

int main(void)
{
    static const struct suite_program program = {.name = "gpu failures", .one_process = true};
    if (!suite_open_gpu(&device))
        return EXIT_SUCCESS;
    setenv("ECORNN_FORCE", "graph=0", 1);
    if (ecornn_device_open(&queued, "cuda") != ECORNN_OK)
        return EXIT_FAILURE;
    unsetenv("ECORNN_FORCE");
    const int status =
        suite_run(&program, SUITE_TESTS({runs_say_so_and_go_on, CASES},
                                        {runs_go_on_without_graphs, CASES / 3},
                                        {plans_and_weights_say_so, CASES}, {opening_says_so, 1},
                                        {the_rest_says_so, 1}));
    ecornn_device_close(queued);
    ecornn_device_close(device);
    return status;
}
