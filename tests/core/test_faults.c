/*
 * Each of the library's requests to the system (memory, files, threads, modules) fails once. The
 * linker replaces each of these functions by one of ours, only for calls from the library
 * (tests.am). After a fault, the library's call either fails with a status or succeeds without the
 * resource. The same call must succeed afterwards, and a plan made before must give the same bits.
 * AddressSanitizer detects leaks.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

/* ---- faults ---------------------------------------------------------------------------------- */

static const char *fault; /* the function that fails */
static int countdown;     /* calls until it fails; 0: not armed, or it has failed */
static int seen;          /* its calls since the fault was armed */

static bool fails(const char *name)
{
    if (fault == NULL || strcmp(name, fault) != 0)
        return false;
    seen++;
    return countdown > 0 && --countdown == 0;
}

/* The linker calls the system's function __real_NAME. */
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
char *__real_fgets(char *text, int size, FILE *file);
char *__wrap_fgets(char *text, int size, FILE *file);
int __real_stat(const char *path, struct stat *status);
int __wrap_stat(const char *path, struct stat *status);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *own);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *own);
void *__real_dlopen(const char *path, int mode);
void *__wrap_dlopen(const char *path, int mode);
long __real_sysconf(int name);
long __wrap_sysconf(int name);
int __real_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice);

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails("aligned_alloc") ? NULL : __real_aligned_alloc(alignment, bytes);
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
    return fails("fopen") ? NULL : __real_fopen(path, mode);
}

char *__wrap_fgets(char *text, int size, FILE *file)
{
    return fails("fgets") ? NULL : __real_fgets(text, size, file);
}

int __wrap_stat(const char *path, struct stat *status)
{
    return fails("stat") ? -1 : __real_stat(path, status);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *own)
{
    return fails("pthread_create") ? EAGAIN : __real_pthread_create(thread, attributes, start, own);
}

void *__wrap_dlopen(const char *path, int mode)
{
    return fails("dlopen") ? NULL : __real_dlopen(path, mode);
}

long __wrap_sysconf(int name)
{
    return fails("sysconf") ? -1 : __real_sysconf(name);
}

int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    return fails("madvise") ? -1 : __real_madvise(memory, bytes, advice);
}

static const char *const functions[] = {"aligned_alloc",  "fopen",  "fgets",   "stat",
                                        "pthread_create", "dlopen", "sysconf", "madvise"};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- calls ----------------------------------------------------------------------------------- */

static struct net net;            /* made before anything fails */
static struct buffers *good, *io; /* its results */

static ecornn_status open_device(const char *name)
{
    ecornn_device *device = NULL;
    const ecornn_status status = ecornn_device_open(&device, name);
    ck_assert_int_eq(device == NULL, status != ECORNN_OK);
    ecornn_device_close(device);
    return status;
}

static ecornn_status open_cpu(void)
{
    return open_device("cpu");
}

static ecornn_status open_reference(void)
{
    return open_device("reference");
}

/* Succeeds too if the machine has no GPU. */
static ecornn_status open_cuda(void)
{
    const ecornn_status status = open_device("cuda");
    return status == ECORNN_NO_DEVICE ? ECORNN_OK : status;
}

static ecornn_status ask_version(void)
{
    ck_assert_ptr_nonnull(strstr(ecornn_version(), "."));
    return ECORNN_OK;
}

static ecornn_status parse_cell(void)
{
    ecornn_cell *cell = NULL;
    const ecornn_status status = ecornn_cell_parse(&cell, "cell c(h)\nh' = tanh(W x + R h + b)\n");
    ck_assert_int_eq(cell == NULL, status != ECORNN_OK);
    ecornn_cell_free(cell);
    return status;
}

static ecornn_status make_plan_of(const char *problem)
{
    ecornn_desc desc;
    ecornn_plan *plan = NULL;
    ecornn_status status = parse_desc(&desc, problem, NULL);
    if (status == ECORNN_OK)
        status = ecornn_plan_create_desc(&plan, net.device, &desc);
    ck_assert_int_eq(plan == NULL, status != ECORNN_OK);
    ecornn_plan_free(plan);
    return status;
}

static ecornn_status make_plan(void)
{
    return make_plan_of(NET_PROBLEM);
}

static ecornn_status make_plan_of_models(void)
{
    return make_plan_of(NET_PROBLEM "/models:2");
}

static ecornn_status make_tangent_plan(void)
{
    ecornn_plan *plan = NULL;
    const ecornn_status status =
        ecornn_plan_create(&plan, net.device, NET_PROBLEM "/tangent", NULL);
    ck_assert_int_eq(plan == NULL, status != ECORNN_OK);
    ecornn_plan_free(plan);
    return status;
}

static ecornn_status allocate(void)
{
    enum { LARGE = 5 << 20 }; /* so large that huge pages are requested */
    void *memory = ecornn_alloc(net.device, LARGE);
    ecornn_free(net.device, memory);
    return memory == NULL ? ECORNN_NO_MEMORY : ECORNN_OK;
}

/* Runs forward and backward and checks the bits. A thread's first run starts the threads that it
 * uses. */
static ecornn_status train(void)
{
    memset(io->dweights, 0, net.sizes.dweight_bytes);
    ecornn_status status = forward_all(net.plan, &io->io);
    if (status == ECORNN_OK)
        status = backward_all(net.plan, &io->io, &io->gradient);
    if (status == ECORNN_OK) {
        ck_assert_mem_eq(io->y, good->y, sizeof io->y);
        ck_assert_mem_eq(io->dx, good->dx, sizeof io->dx);
        ck_assert_mem_eq(io->dweights, good->dweights, net.sizes.dweight_bytes);
    }
    return status;
}

static void *train_in_thread(void *status)
{
    *(ecornn_status *)status = train();
    return NULL;
}

static ecornn_status train_first(void)
{
    ecornn_status status;
    pthread_t thread;
    ck_assert_int_eq(__real_pthread_create(&thread, NULL, train_in_thread, &status), 0);
    pthread_join(thread, NULL);
    return status;
}

static ecornn_status (*const calls[])(void) = {
    open_cpu,   open_reference, open_cuda,           ask_version,
    parse_cell, make_plan,      make_plan_of_models, make_tangent_plan,
    allocate,   train,          train_first};
enum { CALLS = sizeof calls / sizeof *calls };

/* ---- each fails once ------------------------------------------------------------------------- */

enum { MOST = 200 }; /* the most faults of a call */

START_TEST(each_call_survives_each_fault)
{
    ecornn_status (*call)(void) = calls[_i / FUNCTIONS];
    const char *function = functions[_i % FUNCTIONS];
    net_open(&net, "cpu:2", NET_PROBLEM);
    good = buffers_open(&net);
    io = buffers_open(&net);
    net_train(&net, good);
    int k = 1;
    for (; k < MOST; k++) {
        fault = function, countdown = k, seen = 0;
        const ecornn_status status = call();
        const bool reached = seen >= k;
        fault = NULL;
        if (!reached)
            break;
        if (status != ECORNN_OK)
            ck_assert_msg(ecornn_error_detail()[0] != 0, "%s %d: no detail", function, k);
        if (strcmp(function, "aligned_alloc") == 0)
            ck_assert_msg(status == ECORNN_OK || status == ECORNN_NO_MEMORY, "%s %d: %s: %s",
                          function, k, ecornn_status_name(status), ecornn_error_detail());
        else
            ck_assert_msg(status == ECORNN_OK, "%s %d: %s: %s", function, k,
                          ecornn_status_name(status), ecornn_error_detail());
        check_ok(call());
        check_ok(train());
    }
    ck_assert_int_lt(k, MOST);
    if (k > 1)
        printf("# call %d: %d faults of %s\n", _i / FUNCTIONS, k - 1, function);
    buffers_close(&net, io);
    buffers_close(&net, good);
    net_close(&net);
}
END_TEST

TEST_MAIN("faults", {each_call_survives_each_fault, CALLS *FUNCTIONS})
