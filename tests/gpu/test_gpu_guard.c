/*
 * Two things must not hang a kernel whose blocks wait for each other. The first is NaN and Inf in
 * its input, even the NaN that marks a word of the exchange that has not arrived. The second is a
 * lost word: then the results are NaN, the next run reports it, and the device remains usable.
 * Skipped, with the reason, where there is no device.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/plan.h"
#include "gpu/device/cuda_compat.h"
#include "tests/kit/calls.h"
#include "tests/kit/session.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

static ecornn_device *device;

/* ---- NaN and Inf ----------------------------------------------------------------------------- */

/* The last cells have means over a row, whose sums blocks exchange in the same way. */
static const char *const cell[] = {"lstm",     "gru",       "gru-reset-first", "rnn-tanh",
                                   "rnn-relu", "norm-lstm", "norm-lstm-torch"};
static const char *const type[] = {"bf16", "f16", "f32/fast", "f32"};
enum { CELLS = sizeof cell / sizeof *cell, TYPES = sizeof type / sizeof *type };

/* All bits set in row n of [rows,row_bytes]: a NaN in every type. */
static void poison(struct session *session, struct buffer *buffer, size_t row, size_t row_bytes)
{
    memset(buffer->image + GUARD + row * row_bytes, 0xFF, row_bytes);
    buffer_upload(&session->memory, buffer);
}

/* In the third step, x has Inf in one row of the batch and NaN in another. State 0 has NaN in a
 * third row. */
enum { STEP = 2, INF_ROW = 1, NAN_ROW = 2, STATE_ROW = 3 };

static void spoil(struct data *inputs)
{
    struct array *x = data_find(inputs, "x"), *h = data_find(inputs, "initial0");
    const size_t N = (size_t)x->extent[1], I = (size_t)x->extent[2], H = (size_t)h->extent[2];
    x->value[(STEP * N + INF_ROW) * I] = INFINITY;
    for (size_t i = 0; i < I; i++)
        x->value[(STEP * N + NAN_ROW) * I + i] = NAN;
    for (size_t i = 0; i < H; i++)
        h->value[STATE_ROW * H + i] = NAN;
}

/* Results are NaN or Inf exactly where those of the CPU in double are; all others are close to
 * them. */
static bool spoiled_alike(const struct test_case *test, const char *who, const struct data *exact,
                          const struct data *results)
{
    return results_agree_within(test, who, exact, results,
                                test->desc.type == ECORNN_BF16 ? 0.1 : 0.02);
}

static bool runs_spoiled(const struct test_case *test, const char *who, const struct data *inputs,
                         const struct data *exact)
{
    const struct machine machine = {device, test->desc.type, 1, NULL};
    struct session session = {
        .test = test, .machine = &machine, .inputs = inputs, .memory = {device, test->text, false}};
    struct data results = {0};
    bool ok = session_open(&session);
    if (ok) {
        const size_t x_row = session_array(&session, "x")->bytes / (size_t)(test->T * test->N);
        const size_t h_row = session_array(&session, "initial")[0].bytes / (size_t)test->N;
        poison(&session, session_array(&session, "x"), STEP * (size_t)test->N + NAN_ROW, x_row);
        poison(&session, session_array(&session, "initial"), STATE_ROW, h_row);
        ok = session_forward(&session, &results) && spoiled_alike(test, who, exact, &results);
    }
    session_close(&session);
    data_free(&results);
    return ok;
}

START_TEST(lets_nan_and_inf_through)
{
    char text[CASE_TEXT];
    struct test_case test;
    struct data inputs = {0}, exact = {0};
    struct machine cpu = {.type = ECORNN_F64, .backwards = 1};
    const char *name;
    snprintf(text, sizeof text, "%s/%s/infer/T9/N11/I5/H100/states", cell[_i / TYPES],
             type[_i % TYPES]);
    ck_assert(case_parse(&test, text));
    case_inputs(&test, &inputs);
    spoil(&inputs);
    check_ok(ecornn_device_open(&cpu.device, "cpu:1"));
    ck_assert(case_run(&test, &cpu, &inputs, &exact));
    for (int k = 0; k < algorithm_count(device->backend); k++)
        if (algorithm_take(device->backend, k, &name) && algorithm_runs(device, k, &test))
            ck_assert(runs_spoiled(&test, name, &inputs, &exact));
    unsetenv("ECORNN_ALGORITHM");
    ecornn_device_close(cpu.device);
    data_free(&exact);
    data_free(&inputs);
    case_free(&test);
}
END_TEST

/* The same for gradients: dy is NaN in one row, in all bits. */
START_TEST(lets_nan_through_backward)
{
    char text[CASE_TEXT];
    struct test_case test;
    struct data inputs = {0}, results = {0};
    snprintf(text, sizeof text, "%s/%s/train/T9/N11/I5/H100", cell[_i / TYPES], type[_i % TYPES]);
    ck_assert(case_parse(&test, text));
    case_inputs(&test, &inputs);
    const struct machine machine = {device, test.desc.type, 1, NULL};
    struct session session = {.test = &test,
                              .machine = &machine,
                              .inputs = &inputs,
                              .memory = {device, test.text, false}};
    ck_assert(session_open(&session));
    poison(&session, session_array(&session, "dy"), STEP * (size_t)test.N + NAN_ROW,
           session_array(&session, "dy")->bytes / (size_t)(test.T * test.N));
    ck_assert(session_forward(&session, &results) && session_backward(&session, &results));
    const struct array *dx = data_find(&results, "dx");
    const size_t N = (size_t)dx->extent[1], I = (size_t)dx->extent[2];
    for (size_t i = 0; i < dx->count; i++) { /* the gradients of earlier steps depend on it */
        const bool spoiled = i / I % N == NAN_ROW && i / I / N <= STEP;
        ck_assert_msg(isnan(dx->value[i]) ? spoiled : !spoiled, "%s: dx %zu is %g", text, i,
                      dx->value[i]);
    }
    session_close(&session);
    data_free(&inputs);
    data_free(&results);
    case_free(&test);
}
END_TEST

/* ---- lost words ------------------------------------------------------------------------------ */

static const char lossy[] = "lstm/bf16/infer/T400/N1/I64/H512";

/* A plan by one algorithm, and y of its first run, with guards. */
struct net {
    struct machine machine;
    struct session session;
    unsigned char *y;
};

static bool net_run(struct net *net)
{
    struct data results = {0};
    buffer_refill(&net->session.memory, session_array(&net->session, "y"));
    const bool ok = session_forward(&net->session, &results);
    data_free(&results);
    return ok;
}

/* False: the device has no such algorithm. */
static bool net_open(struct net *net, const struct test_case *test, const struct data *inputs,
                     ecornn_device *on, const char *algorithm)
{
    net->machine = (struct machine){on, test->desc.type, 1, NULL};
    net->session = (struct session){
        .test = test, .machine = &net->machine, .inputs = inputs, .memory = {on, algorithm, false}};
    net->y = NULL;
    setenv("ECORNN_ALGORITHM", algorithm, 1);
    const bool ok = session_open(&net->session);
    unsetenv("ECORNN_ALGORITHM");
    if (!ok)
        return false;
    ck_assert(net_run(net));
    net->y = buffer_fetch(&net->session.memory, session_array(&net->session, "y"), false);
    return true;
}

static void net_close(struct net *net)
{
    session_close(&net->session);
    free(net->y);
}

/* Erases 16 KB again and again until *stop is not 0: more words than a step of `lossy` exchanges.
 */
static const char erasing[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry erase(.param .u64 words, .param .u64 stop)\n"
    "{\n"
    ".reg .b64 %words, %stop, %offset;\n"
    ".reg .b32 %i, %mark;\n"
    ".reg .pred %more;\n"
    "ld.param.u64 %words, [words];\n"
    "ld.param.u64 %stop, [stop];\n"
    "mov.u32 %mark, -1;\n"
    "mov.u32 %i, %tid.x;\n"
    "mul.wide.u32 %offset, %i, 16;\n"
    "add.u64 %words, %words, %offset;\n"
    "outer: mov.u32 %i, 256;\n"
    "inner: st.volatile.global.v4.u32 [%words], {%mark, %mark, %mark, %mark};\n"
    "sub.u32 %i, %i, 1;\n"
    "setp.ne.u32 %more, %i, 0;\n"
    "@%more bra inner;\n"
    "ld.volatile.global.u32 %i, [%stop];\n"
    "setp.eq.u32 %more, %i, 0;\n"
    "@%more bra outer;\n"
    "ret;\n"
    "}\n";
enum { ERASED_BYTES = 16 << 10 };

/* Runs while another kernel erases words in the middle of the exchange faster than the network's
 * blocks can read them. */
static ecornn_status run_and_erase(struct net *net)
{
    const struct ecornn_plan *plan = net->session.plan;
    const struct eco_array exchange =
        eco_layout_array(&plan->layout[0], ECO_INNER_EXCHANGE, false, 0, 0, 0);
    const size_t half = plan->layout[0].series[ECO_SERIES_EXCHANGE].bytes / 2 & ~(size_t)15;
    char *words =
        (char *)buffer_inside(session_array(&net->session, "workspace")) + exchange.offset + half;
    void *stop, *args[] = {&words, &stop};
    const void *erase;
    cudaStream_t stream[2];
    cudaLibrary_t code;
    ck_assert_uint_ge(half, ERASED_BYTES);
    ck_assert_int_eq(eco_library_load(&code, erasing), cudaSuccess);
    ck_assert_int_eq(eco_library_kernel(code, "erase", &erase), cudaSuccess);
    ck_assert_int_eq(cudaMalloc(&stop, sizeof(int)), cudaSuccess);
    ck_assert_int_eq(cudaMemset(stop, 0, sizeof(int)), cudaSuccess);
    for (int k = 0; k < 2; k++)
        ck_assert_int_eq(cudaStreamCreateWithFlags(&stream[k], cudaStreamNonBlocking), cudaSuccess);
    ck_assert_int_eq(cudaLaunchKernel(erase, (dim3){1, 1, 1}, (dim3){ERASED_BYTES / 16, 1, 1}, args,
                                      0, stream[1]),
                     cudaSuccess);
    ecornn_io io = session_io(&net->session);
    io.stream = stream[0];
    const ecornn_status status = forward_all(plan, &io);
    ck_assert_int_eq(cudaStreamSynchronize(stream[0]), cudaSuccess);
    ck_assert_int_eq(cudaMemsetAsync(stop, 1, sizeof(int), stream[0]), cudaSuccess);
    ck_assert_int_eq(cudaDeviceSynchronize(), cudaSuccess);
    for (int k = 0; k < 2; k++)
        cudaStreamDestroy(stream[k]);
    cudaFree(stop);
    eco_library_unload(code);
    return status;
}

/* Results are right up to the step in which words were lost, then NaN, and never anything else. */
static void check_lost(struct net *net)
{
    struct session *session = &net->session;
    const size_t count = session_array(session, "y")->bytes / sizeof(uint16_t),
                 row = (size_t)session->test->desc.hidden;
    unsigned char *now = buffer_fetch(&session->memory, session_array(session, "y"), false);
    size_t nans = 0;
    for (size_t i = 0; i < count; i++) {
        uint16_t is, should;
        memcpy(&is, now + GUARD + 2 * i, sizeof is);
        memcpy(&should, net->y + GUARD + 2 * i, sizeof should);
        const bool nan = (is & 0x7FFF) > 0x7F80;
        nans += nan;
        ck_assert_msg(nan || is == should, "y %zu is %#x, neither NaN nor %#x", i, is, should);
        ck_assert_msg(nan || i < count - row, "y %zu, of the last step, is no NaN", i);
    }
    printf("# lost words: %zu of %zu steps are NaN\n", nans / row, count / row);
    free(now);
}

START_TEST(gives_up_when_words_are_lost)
{
    struct test_case test;
    struct data inputs = {0};
    struct net net, step, again;
    ck_assert(case_parse(&test, lossy));
    case_inputs(&test, &inputs);
    ecornn_device *const other = device_on("cuda");
    if (net_open(&net, &test, &inputs, other, "persistent")) {
        ck_assert(net_open(&step, &test, &inputs, other, "step"));
        check_ok(run_and_erase(&net)); /* is queued */
        check_lost(&net);
        for (int k = 0; k < 2; k++) { /* each later run reports it */
            ck_assert(!net_run(&net));
            ck_assert_msg(strstr(ecornn_error_detail(), "waited too long"), "%s",
                          ecornn_error_detail());
        }
        ck_assert(net_run(&step)); /* the device remains usable */
        buffer_same(&step.session.memory, session_array(&step.session, "y"), step.y);
        ck_assert(net_open(&again, &test, &inputs, device, "persistent"));
        buffer_same(&again.session.memory, session_array(&again.session, "y"), net.y);
        ck_assert(!step.session.memory.failed && !again.session.memory.failed);
        net_close(&step);
        net_close(&again);
    } else {
        printf("# lost words: no algorithm whose blocks wait for each other\n");
    }
    net_close(&net);
    ecornn_device_close(other);
    data_free(&inputs);
    case_free(&test);
}
END_TEST

GPU_TEST_MAIN("gpu guard", &device, {lets_nan_and_inf_through, CELLS *TYPES},
              {lets_nan_through_backward, CELLS *TYPES}, {gives_up_when_words_are_lost, 1})
