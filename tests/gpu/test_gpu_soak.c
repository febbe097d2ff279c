/*
 * Random plans run repeatedly in several threads, each on its own stream, while other plans keep
 * the CUDA device busy. The first run of each plan must agree with the CPU in double, and every
 * later run must have the first one's bits. Half of the plans are queued kernel by kernel, half run
 * from graphs. Skipped, with the reason, where there is no device.
 *
 *     test_gpu_soak [RUNS [PLANS]]
 *     ECORNN_SEED=K seed of the plans; every failure prints its case
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/plan.h"
#include "tests/kit/calls.h"
#include "tests/kit/session.h"
#include "tests/kit/suite.h"

enum { THREADS = 3, BURST = 3, LOADS = 2, OUTPUTS = 3 + 2 * ECORNN_MAX_STATES };

static int runs = 300, plans = 18;
static ecornn_device *device[2]; /* without graphs, with graphs */

/* ---- plans ----------------------------------------------------------------------------------- */

struct dice {
    uint64_t state;
};

static int roll(struct dice *dice, int sides)
{
    return (int)(uniform(&dice->state) * sides);
}

/* 1 ... most, small ones as likely as large ones. */
static int roll_size(struct dice *dice, int most)
{
    return (int)pow(most + 1, uniform(&dice->state));
}

/* One of a list that ends with NULL. */
static const char *pick(struct dice *dice, const char *const *word)
{
    int n = 0;
    while (word[n])
        n++;
    return word[roll(dice, n)];
}

static void random_case(int number, char text[CASE_TEXT])
{
    static const char *const type[] = {
        "f32", "f32/fast",         "f32/fast",         "f64", "bf16", "bf16", "f16",
        "f16", "bf16/bf16-params", "f32/bf16-weights", NULL};
    static const char *const use[] = {"infer", "train", "train", NULL};
    static const char *const layers[] = {"", "", "", "/L2", "/L4", NULL};
    static const char *const direction[] = {"", "", "/rev", "/bi", "/bi", NULL};
    static const char *const option[][3] = {
        {"", "/states", NULL}, {"", "/batch-major", NULL}, {"", "/lengths:random", NULL}};
    static const double most_work = 3e7; /* multiply-adds of a gate: the CPU must do them once */
    const char *seed = getenv("ECORNN_SEED");
    struct dice dice = {(seed ? strtoull(seed, NULL, 0) : 5) * 1000003 + (uint64_t)number};
    const int cells = builtin_count() + 1, cell = roll(&dice, cells);
    const int H = roll(&dice, 3) == 0 ? 64 * (1 + roll(&dice, 12)) : roll_size(&dice, 700);
    const int N = roll_size(&dice, 96), I = roll_size(&dice, 200);
    const char *many = pick(&dice, layers);
    const double step = (double)N * H * (H + I) * (many[0] ? many[2] - '0' : 1);
    const int steps = (int)fmin(60, 1 + most_work / step);
    /* One roll a declaration, because C does not define the order in which arguments are evaluated.
     */
    const int T = 1 + roll(&dice, steps);
    const char *way = pick(&dice, direction), *used = pick(&dice, use);
    const char *numbers = pick(&dice, type);
    int at = snprintf(text, CASE_TEXT, "%s/%s/%s%s%s/T%d/N%d/I%d/H%d",
                      cell < cells - 1 ? cell_name(cell) : "own-lstm", numbers, used, many, way, T,
                      N, I, H);
    if (strncmp(text, "lstm", 4) == 0 && roll(&dice, 6) == 0)
        at += snprintf(text + at, (size_t)(CASE_TEXT - at), "/P%d", 1 + roll(&dice, H));
    for (size_t k = 0; k < sizeof option / sizeof *option; k++)
        at += snprintf(text + at, (size_t)(CASE_TEXT - at), "%s", pick(&dice, option[k]));
    snprintf(text + at, (size_t)(CASE_TEXT - at), "%s/seed:%d",
             many[0] && roll(&dice, 2) ? "/dropout:0.3" : "", number + 1);
}

/* ---- one plan -------------------------------------------------------------------------------- */

struct trial {
    struct test_case test;
    struct machine machine;
    struct data inputs;
    struct session session;
    const struct buffer *output[OUTPUTS];
    unsigned char *first[OUTPUTS]; /* results of the first run, with guards */
    int outputs;
};

/* The largest error allowed, relative to the array's norm. test_gpu checks rounding closely; this
 * bound only tells right from wrong. It is wider for gradients, which are differences, and for
 * max(x, 0), whose gradient jumps. */
static double bound_of(const struct test_case *test, const char *array)
{
    static const double of_type[] = {
        [ECORNN_F32] = 2e-6, [ECORNN_F64] = 1e-12, [ECORNN_BF16] = 0x1p-5, [ECORNN_F16] = 0x1p-8};
    const bool result = strcmp(array, "y") == 0 || strncmp(array, "final", 5) == 0;
    const ecornn_type type = test->desc.weight_type == ECORNN_BF16 ? ECORNN_BF16
                             : test->desc.flags & ECORNN_FAST_MATH ? ECORNN_F16
                                                                   : test->desc.type;
    const double bound = of_type[type] * (result ? 1 : 16);
    return !result && strncmp(test->text, "rnn-relu", 8) == 0 ? sqrt(bound) : bound;
}

static bool near(const struct test_case *test, const struct array *is, const struct array *should)
{
    const double least =
        test->desc.type == ECORNN_F16 ? 0x1p-24 : 0; /* the smallest number of F16 above zero */
    double error = 0, norm = 0;
    for (size_t i = 0; i < should->count; i++) {
        error += (is->value[i] - should->value[i]) * (is->value[i] - should->value[i]);
        norm += should->value[i] * should->value[i];
    }
    const double most =
        bound_of(test, should->name) * sqrt(norm) + least * sqrt((double)should->count);
    if (sqrt(error) <= most)
        return true;
    fprintf(stderr, "%s: %s: error %.3g, allowed %.3g, norm %.3g\n", test->text, should->name,
            sqrt(error), most, sqrt(norm));
    return false;
}

/* Compares with the same run on the CPU in double. */
static bool agrees(const struct trial *trial, const struct data *results)
{
    struct machine cpu = {.type = ECORNN_F64, .backwards = 1};
    struct data exact = {0};
    bool ok = ecornn_device_open(&cpu.device, "cpu:1") == ECORNN_OK &&
              case_run(&trial->test, &cpu, &trial->inputs, &exact);
    for (int i = 0; ok && i < exact.n; i++) {
        const struct array *is = data_find(results, exact.array[i].name);
        ok = is && is->count == exact.array[i].count && near(&trial->test, is, &exact.array[i]);
    }
    data_free(&exact);
    ecornn_device_close(cpu.device);
    return ok;
}

static void keep_output(struct trial *trial, const struct buffer *buffer)
{
    if (!buffer->device)
        return;
    trial->output[trial->outputs] = buffer;
    trial->first[trial->outputs++] = buffer_fetch(&trial->session.memory, buffer, false);
}

/* Makes the plan and its first run, and compares that with the CPU if asked to. */
static bool trial_open(struct trial *trial, const char *text, ecornn_device *on, bool check)
{
    struct data results = {0};
    if (!case_parse(&trial->test, text))
        return false;
    case_inputs(&trial->test, &trial->inputs);
    trial->machine = (struct machine){on, trial->test.desc.type, 1, NULL};
    struct session *session = &trial->session;
    *session = (struct session){.test = &trial->test,
                                .machine = &trial->machine,
                                .inputs = &trial->inputs,
                                .memory = {on, trial->test.text, false}};
    const bool ok = session_open(session) && session_forward(session, &results) &&
                    (!session_trains(session) || session_backward(session, &results)) &&
                    (!check || agrees(trial, &results));
    keep_output(trial, session_array(session, "y"));
    keep_output(trial, session_array(session, "dx"));
    keep_output(trial, session_array(session, "dweights"));
    for (int s = 0; s < trial->test.states; s++) {
        keep_output(trial, &session_array(session, "final")[s]);
        keep_output(trial, &session_array(session, "dinitial")[s]);
    }
    data_free(&results);
    return ok && !session->memory.failed;
}

static void trial_close(struct trial *trial)
{
    for (int i = 0; i < trial->outputs; i++)
        free(trial->first[i]);
    session_close(&trial->session);
    data_free(&trial->inputs);
    case_free(&trial->test);
}

static void forget(const struct buffer *buffer, cudaStream_t stream)
{
    if (buffer->device)
        cudaMemsetAsync(buffer_inside(buffer), 0xFF, buffer->bytes, stream);
}

/* Fills the results with NaN and queues another run. */
static bool trial_queue(struct trial *trial, cudaStream_t stream)
{
    struct session *session = &trial->session;
    ecornn_io io = session_io(session);
    ecornn_gradient gradient = session_gradient(session);
    for (int i = 0; i < trial->outputs; i++)
        forget(trial->output[i], stream);
    forget(session_array(session, "workspace"), stream);
    forget(session_array(session, "reserve"), stream);
    io.stream = stream;
    bool ok = memory_succeeded(&session->memory, forward_all(session->plan, &io), "forward");
    memset(io.final, 0, sizeof io.final);
    if (ok && session_trains(session))
        ok = memory_succeeded(&session->memory, backward_all(session->plan, &io, &gradient),
                              "backward");
    return ok;
}

static bool trial_same(struct trial *trial)
{
    struct memory *memory = &trial->session.memory;
    for (int i = 0; i < trial->outputs && !memory->failed; i++)
        buffer_same(memory, trial->output[i], trial->first[i]);
    return !memory->failed;
}

/* ---- threads --------------------------------------------------------------------------------- */

static _Atomic bool stop, failed;
static _Atomic int done, loaded, persistent; /* runs, runs of the load, and persistent plans */

/* Queues some of a thread's plans one after the other, then checks all results. */
static bool burst(struct trial *trial, int trials, struct dice *dice, cudaStream_t stream)
{
    bool ok = true;
    const int first = roll(dice, trials), n = trials < BURST ? trials : BURST;
    for (int k = 0; ok && k < n; k++)
        ok = trial_queue(&trial[(first + k) % trials], stream);
    ok = ok && ecornn_wait(device[0], stream) == ECORNN_OK;
    for (int k = 0; ok && k < n; k++) {
        ok = trial_same(&trial[(first + k) % trials]);
        done++;
    }
    return ok;
}

static void *play(void *argument)
{
    const int number = (int)(intptr_t)argument, trials = (plans - number + THREADS - 1) / THREADS;
    struct trial *trial = calloc((size_t)trials, sizeof *trial);
    struct dice dice = {(uint64_t)number};
    cudaStream_t stream;
    bool ok = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess;
    int opened = 0;
    for (; ok && !failed && opened < trials; opened++) {
        char text[CASE_TEXT];
        random_case(number + THREADS * opened, text);
        ok = trial_open(&trial[opened], text, device[opened % 2], true);
        persistent += ok && strcmp(trial[opened].session.plan->algo->name, "persistent") == 0;
        done++;
    }
    while (ok && !failed && done < runs)
        ok = burst(trial, trials, &dice, stream);
    for (int k = 0; k < opened; k++) {
        struct session *const session = &trial[k].session;
        buffer_check(&session->memory, session_array(session, "x"), true);
        buffer_check(&session->memory, session_array(session, "weights"), true);
        ok = ok && !session->memory.failed;
        trial_close(&trial[k]);
    }
    cudaStreamDestroy(stream);
    free(trial);
    if (!ok)
        failed = true;
    return NULL;
}

/* The load: one plan that takes nearly all multiprocessors at once, and one of many small kernels.
 */
static void *load(void *argument)
{
    static const char *const text[LOADS] = {"lstm/bf16/infer/T100/N128/I64/H512",
                                            "lstm/f32/infer/T20/N128/I64/H768"};
    struct trial trial[LOADS] = {0};
    cudaStream_t stream;
    bool ok = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess;
    (void)argument;
    for (int k = 0; ok && k < LOADS; k++)
        ok = trial_open(&trial[k], text[k], device[1], false);
    while (ok && !stop) {
        for (int k = 0; ok && k < LOADS; k++)
            ok = trial_queue(&trial[k], stream);
        ok = ok && ecornn_wait(device[1], stream) == ECORNN_OK;
        loaded += LOADS;
    }
    for (int k = 0; k < LOADS; k++) {
        ok = ok && trial_same(&trial[k]);
        trial_close(&trial[k]);
    }
    cudaStreamDestroy(stream);
    if (!ok)
        failed = true;
    return NULL;
}

START_TEST(gives_the_same_bits_under_load)
{
    pthread_t loader, player[THREADS];
    ck_assert_int_eq(pthread_create(&loader, NULL, load, NULL), 0);
    for (int k = 0; k < THREADS; k++)
        ck_assert_int_eq(pthread_create(&player[k], NULL, play, (void *)(intptr_t)k), 0);
    for (int k = 0; k < THREADS; k++)
        pthread_join(player[k], NULL);
    stop = true;
    pthread_join(loader, NULL);
    printf("# soak: %d runs of %d plans (%d persistent) in %d threads beside %d runs of the load\n",
           done, plans, persistent, THREADS, loaded);
    ck_assert(!failed && done >= runs);
}
END_TEST

static ecornn_status open_devices(void)
{
    char graph[64];
    snprintf(graph, sizeof graph, "%s", getenv("ECORNN_GRAPH") ? getenv("ECORNN_GRAPH") : "1");
    setenv("ECORNN_GRAPH", "0", 1);
    ecornn_status status = ecornn_device_open(&device[0], "cuda");
    setenv("ECORNN_GRAPH", graph, 1);
    return status == ECORNN_OK ? ecornn_device_open(&device[1], "cuda") : status;
}

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "gpu soak", .one_process = true};
    runs = argc > 1 ? atoi(argv[1]) : runs;
    plans = argc > 2 ? atoi(argv[2]) : plans;
    if (plans < THREADS)
        plans = THREADS;
    if (open_devices() != ECORNN_OK) {
        printf("1..0 # SKIP %s\n", ecornn_error_detail());
        return EXIT_SUCCESS;
    }
    const int status = suite_run(&program, SUITE_TESTS({gives_the_same_bits_under_load, 1}));
    ecornn_device_close(device[0]);
    ecornn_device_close(device[1]);
    return status;
}
