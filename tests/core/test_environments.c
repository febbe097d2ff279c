/*
 * Runs in unusual environments: floating-point modes that the caller changed, a small stack, a
 * forked process, and settings of OpenMP. Results must have the bits of a plain run, and the
 * caller's floating-point modes must be unchanged afterwards.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* feenableexcept */
#endif
#include <check.h>
#include <fenv.h>
#include <float.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fp.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

/* ---- floating-point environments ------------------------------------------------------------- */

static void flush(void)
{
    (void)eco_fp_enter(ECO_FP_FLUSH);
}

static void upward(void)
{
    fesetround(FE_UPWARD);
}

static void downward(void)
{
    fesetround(FE_DOWNWARD);
}

static void toward_zero(void)
{
    fesetround(FE_TOWARDZERO);
}

static void trap(void)
{
    feenableexcept(FE_ALL_EXCEPT);
}

static void raise_flags(void)
{
    feraiseexcept(FE_DIVBYZERO | FE_UNDERFLOW);
}

static void (*const environment[])(void) = {flush,       upward, downward,
                                            toward_zero, trap,   raise_flags};
enum { ENVIRONMENTS = sizeof environment / sizeof *environment };

static void results_equal(const struct net *net, const struct buffers *a, const struct buffers *b)
{
    ck_assert_mem_eq(a->y, b->y, sizeof a->y);
    ck_assert_mem_eq(a->final, b->final, sizeof a->final);
    ck_assert_mem_eq(a->dx, b->dx, sizeof a->dx);
    ck_assert_mem_eq(a->dinitial, b->dinitial, sizeof a->dinitial);
    ck_assert_mem_eq(a->dweights, b->dweights, net->sizes.dweight_bytes);
}

/* Small inputs, so that some numbers of the run are denormal. */
static struct buffers *small_buffers(const struct net *net)
{
    struct buffers *b = buffers_open(net);
    for (int i = 0; i < X; i += 2)
        b->x[i] *= FLT_MIN;
    for (int i = 0; i < Y; i += 3)
        b->dy[i] *= FLT_MIN;
    return b;
}

/* This holds for all threads, whether they were started before the modes were changed or later. */
START_TEST(bits_and_environment)
{
    const char *device = net_device[_i / ENVIRONMENTS];
    struct net net;
    net_open(&net, device, NET_PROBLEM);
    struct buffers *plain = small_buffers(&net), *odd = small_buffers(&net);
    net_train(&net, plain);
    const struct eco_fp usual = eco_fp_get();
    environment[_i % ENVIRONMENTS]();
    const struct eco_fp before = eco_fp_get();
    net_train(&net, odd);
    const struct eco_fp after = eco_fp_get();
    eco_fp_set(usual);
    fesetround(FE_TONEAREST);
    fedisableexcept(FE_ALL_EXCEPT);
    ck_assert_uint_eq(before.word, after.word);
    results_equal(&net, plain, odd);
    buffers_close(&net, plain);
    buffers_close(&net, odd);
    net_close(&net);
}
END_TEST

/* The same for a call that fails, and for calls that compute outside runs. */
START_TEST(environment_of_other_calls)
{
    static const char text[] = "cell c(h)\nh' = 0.1 / 0.3 * tanh(W x + R h + b)\n";
    struct net net, other;
    ecornn_cell *cell;
    ecornn_desc desc;
    ecornn_plan *plan;
    char plain[4000], odd[4000];
    net_open(&net, "cpu:2", NET_PROBLEM);
    ecornn_plan_print(net.plan, plain, sizeof plain);
    environment[_i]();
    const struct eco_fp before = eco_fp_get();
    const int rounding = fegetround();
    net_open(&other, "cpu:2", NET_PROBLEM);
    check_ok(ecornn_cell_parse(&cell, text));
    check_ok(parse_desc(&desc, "c/train/L2/T3/N2/I4/H5/dropout:0.1", cell));
    check_ok(ecornn_plan_create_desc(&plan, net.device, &desc));
    ecornn_plan_print(other.plan, odd, sizeof odd);
    (void)forward_all(plan, NULL);
    (void)ecornn_plan_create_desc(&plan, NULL, NULL);
    const int rounded = fegetround();
    const struct eco_fp after = eco_fp_get();
    fesetenv(FE_DFL_ENV);
    ck_assert_uint_eq(before.word, after.word);
    ck_assert_int_eq(rounding, rounded);
    ck_assert_str_eq(plain, odd);
    ck_assert_mem_eq(net.weights, other.weights, net.sizes.weight_bytes);
    ecornn_plan_free(plan);
    ecornn_cell_free(cell);
    net_close(&other);
    net_close(&net);
}
END_TEST

/* Runs treat denormals as zeros if the CPU supports that. */
START_TEST(denormals_are_zeros)
{
#if ECO_FP_SSE || ECO_FP_ARM
    static const char *const isa[] = {"plain", "sse2", "avx2", "avx512", "amx"};
    struct net net;
    setenv("ECORNN_ISA", isa[_i / 2], 1);
    net_open(&net, net_device[_i % 2], NET_PROBLEM);
    struct buffers *zero = buffers_open(&net), *denormal = buffers_open(&net);
    memset(zero->x, 0, sizeof zero->x);
    for (int i = 0; i < X; i++)
        denormal->x[i] = FLT_MIN / 2;
    net_train(&net, zero);
    net_train(&net, denormal);
    results_equal(&net, zero, denormal);
    buffers_close(&net, zero);
    buffers_close(&net, denormal);
    net_close(&net);
#endif
}
END_TEST

/* ---- small stacks ---------------------------------------------------------------------------- */

/* STACK: the stack that a call needs by ecornn.h. GUARD: so large that no function's frame can skip
 * it. */
enum { STACK = 256 << 10, GUARD = 1 << 20 };

static void *train_from_text(void *own)
{
    bool *done = own;
    struct net net;
    ecornn_desc desc;
    ecornn_cell *cell;
    static const char text[] = "cell lstm(h, c)\n"
                               "i = sigmoid(W x + R h + b)\nf = sigmoid(W x + R h + b)\n"
                               "g = tanh(W x + R h + b)\no = sigmoid(W x + R h + b)\n"
                               "c' = f * c + i * g\nh' = o * tanh(c')\n";
    net_open(&net, "cpu:2", NET_PROBLEM);
    struct buffers *b = buffers_open(&net);
    net_train(&net, b);
    /* A cell of the same parameters, whose stages are interpreted. */
    check_ok(ecornn_cell_parse(&cell, text));
    check_ok(parse_desc(&desc, NET_PROBLEM, cell));
    ecornn_plan_free(net.plan);
    check_ok(ecornn_plan_create_desc(&net.plan, net.device, &desc));
    struct buffers *interpreted = buffers_open(&net);
    net_train(&net, interpreted);
    results_equal(&net, b, interpreted);
    buffers_close(&net, interpreted);
    buffers_close(&net, b);
    net_close(&net);
    ecornn_cell_free(cell);
    *done = true;
    return NULL;
}

START_TEST(stack_as_promised)
{
    bool done = false;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setguardsize(&attributes, GUARD);
    ck_assert_int_eq(pthread_create(&thread, &attributes, train_from_text, &done), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(done);
}
END_TEST

/* ---- forks, and what OpenMP was told --------------------------------------------------------- */

static int threads_of(const ecornn_device *device)
{
    ecornn_device_info info;
    check_ok(query_device(device, &info));
    return info.threads;
}

/* In a child process, a run must have the bits of the parent's run, and the device must report this
 * number of threads. */
static void check_child(const ecornn_device *device, const struct buffers *expected, int threads)
{
    int status;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct net mine;
        net_open(&mine, "cpu:2", NET_PROBLEM);
        struct buffers *b = buffers_open(&mine);
        net_train(&mine, b);
        results_equal(&mine, expected, b);
        const bool told = threads_of(mine.device) == threads && threads_of(device) == threads;
        _exit(told ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
}

/* If the parent has only opened a device, its child has all threads. If the parent has run a
 * parallel region, the library's or its own, the child has one. */
START_TEST(forks)
{
    struct net net;
    int threads = 0;
    net_open(&net, "cpu:1", NET_PROBLEM);
    struct buffers *expected = buffers_open(&net);
    net_train(&net, expected);
    ecornn_device *const device = device_on("cpu:2");
    check_child(device, expected, 2);
#pragma omp parallel num_threads(2) reduction(+ : threads)
    threads++;
    check_child(device, expected, threads == 2 ? 1 : 2);
    ck_assert_int_eq(threads_of(device), 2);
    ecornn_device_close(device);
    buffers_close(&net, expected);
    net_close(&net);
}
END_TEST

START_TEST(threads_that_openmp_was_told)
{
    omp_set_num_threads(1);
    ecornn_device *device = device_on("cpu");
    ck_assert_int_eq(threads_of(device), 1);
    ecornn_device_close(device);
    check_ok(ecornn_device_open(&device, "cpu:2"));
    ck_assert_int_eq(threads_of(device), 2);
    ecornn_device_close(device);
}
END_TEST

TEST_MAIN("places", {bits_and_environment, NET_DEVICES *ENVIRONMENTS},
          {environment_of_other_calls, ENVIRONMENTS}, {denormals_are_zeros, 10},
          {stack_as_promised, 1}, {forks, 1}, {threads_that_openmp_was_told, 1})
