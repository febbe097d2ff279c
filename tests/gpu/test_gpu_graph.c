/*
 * A run gives the same bits however it is queued: on the default stream or another, repeatedly
 * (from the graph that the plan keeps), inside the caller's own capture, or in many threads at
 * once. Skipped, with the reason, where there is no device.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/type.h"
#include "common/util.h"
#include "tests/kit/models.h"
#include "tests/kit/streams.h"
#include "tests/kit/suite.h"

static ecornn_device *device;

/* Directions, layers and models, so that streams fork. */
static const char *const problem[] = {
    "lstm/f32/train/L2/bi/T23/N5/I7/H33", "gru/bf16/train/L3/T40/N4/I9/H40",
    "gru-reset-first/f32/train/bi/T9/N3/I5/H17", "lstm/bf16/train/T9/N33/I8/H64/models:5",
    "own/f32/train/L2/T11/N3/I5/H17"};
static const char own_text[] = "cell own(h)\nu = sigmoid(W x + R h + b)\n"
                               "n = tanh(W x + R h + b)\nh' = u * h + (1 - u) * n";
enum { PROBLEMS = sizeof problem / sizeof *problem };

#define CHECK_CUDA(call)                                                                           \
    do {                                                                                           \
        const cudaError_t error = (call);                                                          \
        ck_assert_msg(error == cudaSuccess, "%s: %s", #call, cudaGetErrorString(error));           \
    } while (0)

/* The first run of a plan, and later runs, on a stream of their own. */
struct repeat {
    struct trial first, run;
    ecornn_cell *own; /* NULL: built in */
    cudaStream_t stream;
};

static bool is_written(struct part_row a, struct part_row b, void *context)
{
    bool written = true;
    (void)b, (void)context;
    for (size_t i = 0; i < a.array->row / a.array->element; i++)
        written &= !isnan(eco_type_get(a.at, i, a.array->type));
    return written;
}

static void repeat_open(struct repeat *repeat, const char *text)
{
    const struct part first = {.of = &repeat->first};
    repeat->own = NULL;
    if (strncmp(text, "own", 3) == 0)
        check_ok(ecornn_cell_parse(&repeat->own, own_text));
    trial_open(&repeat->first, device, text, repeat->own);
    trial_fill(&repeat->first, 1);
    trial_run(&repeat->first);
    for (int role = Y; role < ROLES; role++)
        ck_assert_msg(part_each(first, role, first, role, is_written, NULL), "%s was not written",
                      trial_role(role));
    trial_open_beside(&repeat->run, &repeat->first);
    CHECK_CUDA(cudaStreamCreateWithFlags(&repeat->stream, cudaStreamNonBlocking));
    repeat->run.io.stream = repeat->stream;
}

static void repeat_close(struct repeat *repeat)
{
    CHECK_CUDA(cudaStreamDestroy(repeat->stream));
    trial_close(&repeat->run), trial_close(&repeat->first);
    ecornn_cell_free(repeat->own);
}

static void check_same(struct trial *run, struct trial *first, const char *how)
{
    part_check((struct part){.of = run}, (struct part){.of = first}, Y, DPARAMS, how);
}

START_TEST(gives_the_same_bits_on_streams_and_from_graphs)
{
    static struct repeat repeat;
    repeat_open(&repeat, problem[_i]);
    for (int k = 0; k < 4; k++) {
        trial_run(&repeat.run);
        check_same(&repeat.run, &repeat.first, "on a stream");
    }
    repeat_close(&repeat);
}
END_TEST

/* Runs with more sets of arrays than a plan keeps graphs, so graphs get other pointers. */
START_TEST(takes_other_arrays)
{
    enum { SETS = 6, TIMES = 3 };
    static struct repeat repeat;
    static struct trial sets[SETS];
    repeat_open(&repeat, problem[_i]);
    for (int k = 0; k < SETS; k++) {
        trial_open_beside(&sets[k], &repeat.first);
        sets[k].io.stream = repeat.stream;
    }
    for (int k = 0; k < 2 * SETS * TIMES; k++) {
        trial_run(&sets[k / TIMES % SETS]);
        check_same(&sets[k / TIMES % SETS], &repeat.first, "with other arrays");
    }
    for (int k = 0; k < SETS; k++)
        trial_close(&sets[k]);
    repeat_close(&repeat);
}
END_TEST

/* Runs of more sizes than a plan keeps graphs; their products have different kernels. Each size is
 * queued, captured and run from the graph. */
START_TEST(takes_runs_of_other_sizes)
{
    static const char *const of[] = {
        "lstm/f32/fast/train/T6/N37/I24/H72", "lstm/f32/train/T6/N37/I24/H72",
        "gru/bf16/train/T6/N100/I64/H256", "gru/f32/fast/train/T6/N100/I64/H256"};
    static const int32_t rows[] = {1, 2, 5, 9, 16, 24, 33, 37};
    enum { SIZES = 14, TIMES = 3 };
    static struct repeat repeat;
    repeat_open(&repeat, of[_i]);
    for (int k = 0; k < 2 * SIZES; k++) {
        const int i = k % SIZES;
        const int32_t steps = i < 6 ? i + 1 : 6, n = i < 6 ? 37 : rows[i - 6];
        trial_size(&repeat.run, steps, n, 0), trial_size(&repeat.first, steps, n, 0);
        for (int time = 0; time < TIMES; time++) {
            trial_run(&repeat.run);
            for (int role = Y; time == 0 && role < ROLES; role++)
                part_copy((struct part){.of = &repeat.first}, role,
                          (struct part){.of = &repeat.run}, role);
            check_same(&repeat.run, &repeat.first, "of other sizes");
        }
    }
    repeat_close(&repeat);
}
END_TEST

/* The caller's own graph of what it queued on a stream since begin_capture. */
struct captured {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
};

static void begin_capture(cudaStream_t stream)
{
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

static struct captured end_capture(cudaStream_t stream)
{
    struct captured captured;
    CHECK_CUDA(cudaStreamEndCapture(stream, &captured.graph));
    CHECK_CUDA(cudaGraphInstantiate(&captured.exec, captured.graph, 0));
    return captured;
}

static void captured_free(struct captured *captured)
{
    cudaGraphExecDestroy(captured->exec);
    cudaGraphDestroy(captured->graph);
}

/* Sends the inputs, runs the graph and fetches the results. */
static void replay(const struct captured *captured, struct trial *run)
{
    trial_send(run);
    CHECK_CUDA(cudaGraphLaunch(captured->exec, run->io.stream));
    trial_fetch(run);
}

START_TEST(may_be_captured_by_the_caller)
{
    static struct repeat repeat;
    repeat_open(&repeat, problem[_i]);
    const ecornn_cell *const cells[] = {repeat.own, NULL};
    ecornn_plan *other;
    begin_capture(repeat.stream);
    check_ok(trial_queue(&repeat.run));
    check_ok(ecornn_plan_create(&other, device, problem[_i], cells)); /* this is not captured */
    ecornn_plan_free(other);
    struct captured captured = end_capture(repeat.stream);
    for (int k = 0; k < 3; k++) {
        replay(&captured, &repeat.run);
        check_same(&repeat.run, &repeat.first, "in a captured graph");
    }
    captured_free(&captured);
    repeat_close(&repeat);
}
END_TEST

/* A run of no steps copies states in the order of the stream; in a capture the copy is a node of
 * the caller's graph. */
START_TEST(an_empty_run_may_be_captured)
{
    static struct repeat repeat;
    const struct part run = {.of = &repeat.run};
    int here = 0;
    repeat_open(&repeat, problem[_i]);
    trial_size(&repeat.run, 0, repeat.run.N, 0);
    begin_capture(repeat.stream);
    check_ok(ecornn_forward(repeat.run.plan, 0, repeat.run.N, &repeat.run.io));
    struct captured captured = end_capture(repeat.stream);
    for (int k = 1; k < 4; k++) {
        trial_fill(&repeat.run, (uint64_t)k);
        replay(&captured, &repeat.run);
        ck_assert(part_same(run, FINAL, run, INITIAL));
    }
    ecornn_io io = repeat.run.io;
    io.final[0] = &here; /* memory of the host */
    REFUSES(ecornn_forward(repeat.run.plan, 0, repeat.run.N, &io), "io.final");
    captured_free(&captured);
    repeat_close(&repeat);
}
END_TEST

/* A tick of streams, captured: its list of rows is read when the graph runs. */
START_TEST(a_captured_tick_takes_other_streams)
{
    enum { STREAMS = 50, N = 6, TICKS = 4 };
    static const int32_t list[TICKS][N] = {{0, 1, 2, 7, 48, 49},
                                           {3, 7, 9, -1, -1, -1},
                                           {-1, STREAMS, -1, -1, -1, 0},
                                           {7, 8, 9, 10, 30, 49}};
    static struct streams s;
    cudaStream_t stream;
    streams_open(&s, device, "lstm/f32/infer/T1/N6/I32/H32/streams", STREAMS, true);
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    s.tick.io.stream = stream;
    begin_capture(stream);
    check_ok(ecornn_forward(s.tick.plan, 1, N, &s.tick.io));
    struct captured captured = end_capture(stream);
    for (int k = 0; k < TICKS; k++) {
        streams_fill(&s, list[k], N, (uint64_t)k);
        replay(&captured, &s.tick);
        streams_check(&s, list[k], N);
    }
    ecornn_io tick = s.tick.io;
    tick.rows = list[0]; /* memory of the host */
    REFUSES(ecornn_forward(s.tick.plan, 1, N, &tick), "io.rows");
    captured_free(&captured);
    streams_close(&s);
    cudaStreamDestroy(stream);
}
END_TEST

/* Each call of CUDA fails once while models are queued, captured or launched. The next run must
 * succeed, and no stream may be left in a capture. */
START_TEST(a_call_that_fails_spoils_no_other_run)
{
    enum { MOST = 4000 };
    static struct repeat repeat;
    bool failed = true;
    int k = 1;
    repeat_open(&repeat, "lstm/bf16/train/T3/N3/I5/H40/models:3/shared-x");
    trial_send(&repeat.run);
    for (; failed && k < MOST; k += k < 40 ? 1 : 11) {
        eco_call_fail_at(k);
        const ecornn_status status = trial_queue(&repeat.run);
        failed = !eco_call_fail_at(0);
        ck_assert(failed || status == ECORNN_OK);
        check_ok(ecornn_wait(device, repeat.stream));
        if (k % 3 != 0)
            continue;
        trial_run(&repeat.run);
        check_same(&repeat.run, &repeat.first, "after a failure");
    }
    ck_assert_int_gt(k, 3);
    ck_assert_int_lt(k, MOST);
    repeat_close(&repeat);
}
END_TEST

/* ---- addresses that change ------------------------------------------------------------------- */

/* Steps of a projection, of two directions, of many rows and at once; the sums of weight gradients
 * in several ways; and cells that are scanned, whose tickets are filled. */
static const char *const rotated[] = {
    "lstm/bf16/train/T6/N64/I64/H256/P80", "lstm/f32/train/bi/T5/N80/I50/H100",
    "gru/f32/fast/train/T7/N256/I64/H256", "lstm/bf16/train/L3/T9/N300/I64/H128",
    "lstm/f16/train/T1/N4096/I128/H128",   "lstm/bf16/train/L2/T40/N4/I9/H40/dropout:0.5"};
enum { ROTATED = sizeof rotated / sizeof *rotated, TURNS = 7, STEP = 512 };

/* A run whose arrays begin a little later in their blocks in each turn than in the turn before. */
struct rotation {
    struct trial run;
    char *array[ROLES][TRIAL_STATES], *dweights, *workspace, *reserve; /* blocks */
};

static void rotation_open(struct rotation *all, const struct trial *of)
{
    trial_open_beside(&all->run, of);
    for (int role = 0; role < ROLES; role++)
        for (int s = 0; s < TRIAL_STATES; s++) {
            const struct trial_array *const array = &all->run.array[0][role][s];
            all->array[role][s] =
                array->there ? ecornn_alloc(device, array->room + TURNS * STEP) : NULL;
            ecornn_free(device, array->there);
        }
    ecornn_free(device, all->run.dweights);
    ecornn_free(device, all->run.workspace), ecornn_free(device, all->run.reserve);
    all->dweights = ecornn_alloc(device, of->sizes.dweight_bytes + TURNS * STEP);
    all->workspace = ecornn_alloc(device, of->sizes.workspace_bytes + TURNS * STEP);
    all->reserve = ecornn_alloc(device, of->sizes.reserve_bytes + TURNS * STEP);
}

/* Places the arrays for a turn, ... */
static void rotation_place(struct rotation *all, int turn)
{
    struct trial *const run = &all->run;
    for (int role = 0; role < ROLES; role++)
        for (int s = 0; s < TRIAL_STATES; s++)
            if (all->array[role][s] != NULL)
                run->array[0][role][s].there =
                    all->array[role][s] + turn * (role % 5 + 1) % TURNS * STEP;
    run->dweights = run->gradient.dweights = all->dweights + turn % TURNS * STEP;
    run->workspace = run->io.workspace = all->workspace + 4 * turn % TURNS * STEP;
    run->reserve = run->io.reserve = all->reserve + 5 * turn % TURNS * STEP;
    trial_point(run);
}

/* ... and sends the inputs there. */
static void rotation_turn(struct rotation *all, int turn)
{
    rotation_place(all, turn);
    trial_send(&all->run);
}

static void rotation_close(struct rotation *all)
{
    rotation_place(all, 0); /* closing the trial frees the blocks */
    trial_close(&all->run);
}

/* Each call has other addresses; with dropout also another seed. */
START_TEST(takes_addresses_that_change_from_call_to_call)
{
    static struct repeat repeat;
    static struct rotation all;
    static struct trial queued;
    repeat_open(&repeat, rotated[_i]);
    rotation_open(&all, &repeat.first);
    all.run.io.stream = repeat.stream;
    for (int k = 0; k < 2 * TURNS; k++) {
        const bool draws = strstr(rotated[_i], "dropout") != NULL;
        all.run.io.seed = draws ? (uint64_t)k << 30 | 5 : 0;
        rotation_turn(&all, k);
        check_ok(trial_queue(&all.run));
        trial_fetch(&all.run);
        if (draws) { /* a plan's first run is queued */
            trial_open(&queued, device, rotated[_i], NULL);
            part_copy_inputs((struct part){.of = &queued}, (struct part){.of = &repeat.first});
            queued.io.stream = repeat.stream, queued.io.seed = all.run.io.seed;
            trial_run(&queued);
            check_same(&all.run, &queued, "with another seed");
            trial_close(&queued);
        } else {
            check_same(&all.run, &repeat.first, "with other addresses");
        }
    }
    rotation_close(&all);
    repeat_close(&repeat);
}
END_TEST

/* Two streams whose runs overlap, each with arrays of its own that change from call to call. */
START_TEST(two_runs_at_a_time_have_other_addresses)
{
    enum { STREAMS = 2 };
    static struct repeat repeat;
    static struct rotation all[STREAMS];
    cudaStream_t stream[STREAMS];
    repeat_open(&repeat, rotated[_i]);
    for (int s = 0; s < STREAMS; s++) {
        rotation_open(&all[s], &repeat.first);
        CHECK_CUDA(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
        all[s].run.io.stream = stream[s];
    }
    for (int k = 0; k < 2 * TURNS; k++) {
        for (int s = 0; s < STREAMS; s++)
            rotation_turn(&all[s], k + s);
        for (int time = 0; time < 2; time++)
            for (int s = 0; s < STREAMS; s++)
                check_ok(trial_queue(&all[s].run));
        for (int s = 0; s < STREAMS; s++) {
            trial_fetch(&all[s].run);
            check_same(&all[s].run, &repeat.first, "beside another run");
        }
    }
    for (int s = 0; s < STREAMS; s++) {
        rotation_close(&all[s]);
        cudaStreamDestroy(stream[s]);
    }
    repeat_close(&repeat);
}
END_TEST

/* Each call of CUDA fails once while a graph is made, compared or given other addresses. */
START_TEST(a_call_that_fails_spoils_no_other_addresses)
{
    enum { MOST = 4000, RUNS_OF_GRAPH = 4 };
    static const char text[] = "lstm/f32/train/bi/T3/N80/I5/H40";
    static struct repeat repeat;
    static struct trial fresh;
    static struct rotation all;
    bool failed = true;
    int k = 1;
    repeat_open(&repeat, text);
    for (; failed && k < MOST; k += k < 40 ? 1 : 7) {
        trial_open(&fresh, device, text, NULL);
        part_copy_inputs((struct part){.of = &fresh}, (struct part){.of = &repeat.first});
        rotation_open(&all, &fresh);
        all.run.io.stream = repeat.stream;
        rotation_turn(&all, 0);
        check_ok(ecornn_wait(device, repeat.stream));
        eco_call_fail_at(k);
        for (int run = 0; run < RUNS_OF_GRAPH; run++) {
            rotation_place(&all, run);
            (void)trial_queue(&all.run);
        }
        failed = !eco_call_fail_at(0);
        check_ok(ecornn_wait(device, repeat.stream));
        for (int run = 0; run < RUNS_OF_GRAPH; run++) {
            rotation_turn(&all, run);
            check_ok(trial_queue(&all.run));
            trial_fetch(&all.run);
            check_same(&all.run, &repeat.first, "after a failure");
        }
        rotation_close(&all);
        trial_close(&fresh);
    }
    ck_assert_int_gt(k, 3);
    ck_assert_int_lt(k, MOST);
    repeat_close(&repeat);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

START_TEST(one_plan_runs_in_many_threads)
{
    enum { THREADS = 6 };
    static struct repeat repeat;
    static struct trial run[1 + THREADS]; /* the first one runs alone */
    cudaStream_t stream[1 + THREADS];
    repeat_open(&repeat, problem[_i]);
    for (int k = 0; k <= THREADS; k++) {
        trial_open_beside(&run[k], &repeat.first);
        CHECK_CUDA(cudaStreamCreateWithFlags(&stream[k], cudaStreamNonBlocking));
        run[k].io.stream = stream[k];
    }
    models_check_threads(run, 1 + THREADS);
    for (int k = 0; k <= THREADS; k++) {
        trial_close(&run[k]);
        cudaStreamDestroy(stream[k]);
    }
    repeat_close(&repeat);
}
END_TEST

/* ---- other streams --------------------------------------------------------------------------- */

/* What a stream that does not wait for the legacy one writes after an upload is not overwritten. */
START_TEST(an_upload_has_ended_when_it_returns)
{
    enum { BYTES = 60 << 10, REPEATS = 3000 };
    static const unsigned char zeros[BYTES];
    static unsigned char ones[BYTES], now[BYTES];
    void *const array = ecornn_alloc(device, BYTES);
    cudaStream_t stream;
    memset(ones, 1, BYTES);
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int turn = 0; turn < REPEATS; turn++) {
        check_ok(ecornn_upload(device, array, ones, BYTES));
        CHECK_CUDA(cudaMemsetAsync(array, 0, BYTES, stream));
        check_ok(ecornn_wait(device, stream));
        check_ok(ecornn_download(device, now, array, BYTES));
        ck_assert_msg(memcmp(now, zeros, BYTES) == 0, "turn %d", turn);
    }
    cudaStreamDestroy(stream);
    ecornn_free(device, array);
}
END_TEST

GPU_TEST_MAIN("gpu graphs", &device, {gives_the_same_bits_on_streams_and_from_graphs, PROBLEMS},
              {takes_other_arrays, PROBLEMS}, {takes_runs_of_other_sizes, 4},
              {may_be_captured_by_the_caller, PROBLEMS}, {an_empty_run_may_be_captured, PROBLEMS},
              {a_captured_tick_takes_other_streams, 1}, {a_call_that_fails_spoils_no_other_run, 1},
              {takes_addresses_that_change_from_call_to_call, ROTATED},
              {two_runs_at_a_time_have_other_addresses, ROTATED - 1},
              {a_call_that_fails_spoils_no_other_addresses, 1},
              {one_plan_runs_in_many_threads, PROBLEMS}, {an_upload_has_ended_when_it_returns, 1})
