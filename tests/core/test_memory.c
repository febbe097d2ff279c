/*
 * Memory and threads: each allocation of the library failed once, no allocation while running, one
 * plan in several threads.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/util.h"
#include "ecornn.h"
#include "tests/kit/attention_calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

/* ---- allocations counted --------------------------------------------------------------------- */

static atomic_int counting, counted;
/* The address of the CBLAS, whose allocations do not count: OpenBLAS allocates for some small
 * products. */
static const void *blas;

/* The base address of the library that contains an address; NULL if the address is NULL. */
static const void *library_of(const void *address)
{
    Dl_info info = {0};
    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

#if !SANITIZED
/* This program's definitions, which call those of the C library; every library that it loads finds
 * these first. */
void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *realloc(void *memory, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes);
int posix_memalign(void **memory, size_t alignment, size_t bytes);
void free(void *memory);

/* dlsym calls calloc while it looks for calloc. Such memory comes from here and is never freed. */
static _Alignas(64) char early[4096];
static size_t early_used;

typedef _Atomic(void *) found; /* looked up only once, because dlsym itself may allocate and free */

static void *look_up(found *function, const char *name, const void *caller)
{
    if (atomic_load(&counting) && (!blas || library_of(caller) != blas))
        atomic_fetch_add(&counted, 1);
    if (!atomic_load(function))
        atomic_store(function, dlsym(RTLD_NEXT, name));
    return atomic_load(function);
}
#define NEXT(name) look_up(&function, name, __builtin_return_address(0))

void *malloc(size_t bytes)
{
    static found function;
    void *(*next)(size_t);
    *(void **)&next = NEXT("malloc");
    return next(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    static _Thread_local bool inside;
    if (inside) {
        void *memory = early + early_used;
        early_used += (n * bytes + 63) / 64 * 64;
        return early_used <= sizeof early ? memory : NULL;
    }
    static found function;
    void *(*next)(size_t, size_t);
    inside = true;
    *(void **)&next = NEXT("calloc");
    inside = false;
    return next(n, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    static found function;
    void *(*next)(void *, size_t);
    *(void **)&next = NEXT("realloc");
    return next(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    static found function;
    void *(*next)(size_t, size_t);
    *(void **)&next = NEXT("aligned_alloc");
    return next(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    static found function;
    void *(*next)(size_t, size_t);
    *(void **)&next = NEXT("memalign");
    return next(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    static found function;
    int (*next)(void **, size_t, size_t);
    *(void **)&next = NEXT("posix_memalign");
    return next(memory, alignment, bytes);
}

void free(void *memory)
{
    static found function;
    void (*next)(void *);
    if (!memory || (uintptr_t)memory - (uintptr_t)early < sizeof early)
        return;
    *(void **)&next = NEXT("free");
    next(memory);
}
#endif

/* ---- memory and threads ---------------------------------------------------------------------- */

static ecornn_device *tested_device;
static const char tested_cell[] = "cell mine(h)\nh' = tanh(W x + R h + b)\n";

static ecornn_status make_cpu(void **made)
{
    return ecornn_device_open((ecornn_device **)made, "cpu:2");
}

static ecornn_status make_reference(void **made)
{
    return ecornn_device_open((ecornn_device **)made, "reference");
}

/* Fails if there is no memory for the fastest device, instead of opening the next fastest. */
static ecornn_status make_fastest(void **made)
{
    return ecornn_device_open((ecornn_device **)made, NULL);
}

static ecornn_status make_cell(void **made)
{
    return ecornn_cell_parse((ecornn_cell **)made, tested_cell);
}

static ecornn_status make_plan(void **made)
{
    ecornn_desc desc;
    const ecornn_status status = parse_desc(&desc, NET_PROBLEM, NULL);
    return status != ECORNN_OK
               ? status
               : ecornn_plan_create_desc((ecornn_plan **)made, tested_device, &desc);
}

static ecornn_status make_attention(void **made)
{
    struct eco_attention_desc desc;
    const ecornn_status status =
        eco_attention_parse(&desc, "attention/additive/f32/train/T40/S41/N4/H256");
    return status != ECORNN_OK ? status
                               : attention_create((ecornn_plan **)made, tested_device, &desc);
}

static ecornn_status make_memory(void **made)
{
    void *memory = ecornn_alloc(tested_device, 8);
    if (memory)
        *made = memory;
    return memory ? ECORNN_OK : ECORNN_NO_MEMORY;
}

static void free_device(void *made)
{
    ecornn_device_close(made);
}

static void free_cell(void *made)
{
    ecornn_cell_free(made);
}

static void free_plan(void *made)
{
    ecornn_plan_free(made);
}

static void free_attention(void *made)
{
    ecornn_plan_free(made);
}

static void free_memory(void *made)
{
    ecornn_free(tested_device, made);
}

static const struct {
    ecornn_status (*make)(void **made);
    void (*unmake)(void *made);
} makers[] = {{make_cpu, free_device},         {make_reference, free_device},
              {make_fastest, free_device},     {make_cell, free_cell},
              {make_plan, free_plan},          {make_memory, free_memory},
              {make_attention, free_attention}};

START_TEST(allocations_fail)
{
    check_ok(ecornn_device_open(&tested_device, "cpu:2"));
    builtin_cell("lstm"); /* makes what is made only once per process */
    int k = 1;
    for (;; k++) {
        void *made = &tested_device;
        eco_alloc_fail_at(k);
        const ecornn_status status = makers[_i].make(&made);
        eco_alloc_fail_at(0);
        if (status == ECORNN_OK) {
            makers[_i].unmake(made);
            break;
        }
        check_refused(status, ECORNN_NO_MEMORY, "memory");
        ck_assert_ptr_eq(made, &tested_device);
        ck_assert_int_lt(k, 100);
    }
    ck_assert_int_gt(k, 1);
    ecornn_device_close(tested_device);
}
END_TEST

/* The first run may start the threads; later runs allocate nothing. The reference is not tested,
 * because it is not made for speed and allocates. */
START_TEST(runs_allocate_nothing)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM);
    struct buffers *b = buffers_open(&net);
    net_train(&net, b);
    const int32_t lengths[N] = {5, 0, 2};
    blas = library_of(dlsym(RTLD_DEFAULT, "cblas_sgemm"));
    for (int ragged = 0; ragged < 2; ragged++) {
        b->io.lengths = ragged ? lengths : NULL;
        atomic_store(&counted, 0);
        atomic_store(&counting, 1);
        const ecornn_status forward = forward_all(net.plan, &b->io);
        const ecornn_status backward = backward_all(net.plan, &b->io, &b->gradient);
        atomic_store(&counting, 0);
        check_ok(forward);
        check_ok(backward);
        const int seen = atomic_load(&counted);
        ck_assert_int_eq(seen, 0);
    }
    buffers_close(&net, b);
    net_close(&net);
}
END_TEST

/* Ticks of streams, of which others are active each time. */
START_TEST(ticks_allocate_nothing)
{
    enum { STREAMS = 64, INPUT = 8, HIDDEN = 16 };
    static const char *const problem[] = {"lstm/infer/T1/N64/I8/H16/streams",
                                          "lstm/bf16/infer/T1/N64/I8/H16/streams",
                                          "lstm/int8/infer/T1/N64/I8/H16/streams"};
    static float params[4 * HIDDEN * (INPUT + HIDDEN + 1)], x[STREAMS * INPUT], y[STREAMS * HIDDEN],
        state[2][STREAMS * HIDDEN];
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++) {
        ecornn_sizes sizes;
        int32_t rows[STREAMS];
        const void *from[12];
        check_ok(ecornn_device_open(&tested_device, net_device[_i]));
        ecornn_plan *const plan = plan_on(tested_device, problem[i]);
        check_ok(get_sizes(plan, &sizes));
        for (int k = 0; k < 12; k++)
            from[k] = params;
        ecornn_io io = {.size = sizeof io,
                        .x = x,
                        .y = y,
                        .weights = ecornn_alloc(tested_device, sizes.weight_bytes),
                        .workspace = ecornn_alloc(tested_device, sizes.workspace_bytes),
                        .rows = rows,
                        .streams = STREAMS};
        for (int s = 0; s < 2; s++)
            io.initial[s] = io.final[s] = state[s];
        check_ok(ecornn_pack(plan, from, NULL, (void *)(size_t)io.weights, NULL));
        for (int tick = 0; tick < 6; tick++) { /* the first ones may start the threads */
            int32_t active = 0;
            for (int32_t n = 0; n < STREAMS; n += tick % 2 == 0 ? 1 : tick)
                rows[active++] = n;
            atomic_store(&counted, 0);
            atomic_store(&counting, tick > 1);
            const ecornn_status status = ecornn_forward(plan, 1, active, &io);
            atomic_store(&counting, 0);
            check_ok(status);
            const int seen = atomic_load(&counted);
            ck_assert_int_eq(seen, 0);
        }
        ecornn_free(tested_device, (void *)(size_t)io.weights);
        ecornn_free(tested_device, io.workspace);
        ecornn_plan_free(plan);
        ecornn_device_close(tested_device);
    }
}
END_TEST

/* The same for attention that is large enough for two threads. */
START_TEST(attention_allocates_nothing)
{
    enum { ROWS = 41 * 4 * 256, INPUTS = 5, RESULTS = 5 };
    ecornn_sizes sizes;
    void *plan;
    check_ok(ecornn_device_open(&tested_device, net_device[_i]));
    check_ok(make_attention(&plan));
    get_sizes(plan, &sizes);
    float *in = calloc(INPUTS * ROWS, sizeof *in), *out = calloc(RESULTS * ROWS, sizeof *out);
    const ecornn_attention_io io = {.size = sizeof io,
                                    .query = in,
                                    .keys = in + ROWS,
                                    .values = in + 2 * ROWS,
                                    .vector = in + 3 * ROWS,
                                    .context = out,
                                    .workspace = ecornn_alloc(tested_device, sizes.workspace_bytes),
                                    .reserve = ecornn_alloc(tested_device, sizes.reserve_bytes)};
    const ecornn_attention_gradient gradient = {.size = sizeof gradient,
                                                .dcontext = in + 4 * ROWS,
                                                .dquery = out + ROWS,
                                                .dkeys = out + 2 * ROWS,
                                                .dvalues = out + 3 * ROWS,
                                                .dvector = out + 4 * ROWS};
    for (int count = 0; count < 2; count++) { /* the first run may start the threads */
        atomic_store(&counted, 0);
        atomic_store(&counting, count);
        const ecornn_status forward = attention_forward_all(plan, &io);
        const ecornn_status backward = attention_backward_all(plan, &io, &gradient);
        atomic_store(&counting, 0);
        check_ok(forward);
        check_ok(backward);
        const int seen = atomic_load(&counted);
        ck_assert_int_eq(seen, 0);
    }
    ecornn_free(tested_device, io.workspace);
    ecornn_free(tested_device, io.reserve);
    free(in);
    free(out);
    free_attention(plan);
    ecornn_device_close(tested_device);
}
END_TEST

enum { THREADS = 4, ROUNDS = 3 };
struct worker {
    const struct net *net;
    struct buffers *buffers;
    pthread_t thread;
};

static void *work(void *argument)
{
    const struct worker *worker = argument;
    for (int k = 0; k < ROUNDS; k++)
        net_train(worker->net, worker->buffers);
    return NULL;
}

START_TEST(threads_share_a_plan)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM);
    struct buffers *alone = buffers_open(&net);
    net_train(&net, alone);
    struct worker worker[THREADS];
    for (int k = 0; k < THREADS; k++) {
        worker[k] = (struct worker){.net = &net, .buffers = buffers_open(&net)};
        ck_assert_int_eq(pthread_create(&worker[k].thread, NULL, work, &worker[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        const struct buffers *b = worker[k].buffers;
        ck_assert_int_eq(pthread_join(worker[k].thread, NULL), 0);
        ck_assert_mem_eq(b->y, alone->y, sizeof b->y);
        ck_assert_mem_eq(b->final, alone->final, sizeof b->final);
        ck_assert_mem_eq(b->dx, alone->dx, sizeof b->dx);
        ck_assert_mem_eq(b->dinitial, alone->dinitial, sizeof b->dinitial);
        ck_assert_mem_eq(b->dweights, alone->dweights, net.sizes.dweight_bytes);
        buffers_close(&net, worker[k].buffers);
    }
    buffers_close(&net, alone);
    net_close(&net);
}
END_TEST

TEST_MAIN("memory", {allocations_fail, sizeof makers / sizeof *makers},
          {runs_allocate_nothing, SANITIZED ? 0 : 2} /* cpu:1, cpu:2 */,
          {ticks_allocate_nothing, SANITIZED ? 0 : 2},
          {attention_allocates_nothing, SANITIZED ? 0 : 2}, {threads_share_a_plan, NET_DEVICES})
