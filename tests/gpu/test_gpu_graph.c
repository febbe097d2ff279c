/*
 * A run gives the same bits however it is queued: on the default stream or another, repeatedly
 * (from the graph that the plan keeps), inside the caller's own capture, or in many threads at
 * once. Skipped, with the reason, where there is no device.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "ecornn.h"
#include "tests/kit/calls.h"
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

#define CHECK_OK(call) ck_assert_msg((call) == ECORNN_OK, "%s: %s", #call, ecornn_error_detail())
#define CHECK_CUDA(call)                                                                           \
    do {                                                                                           \
        const cudaError_t error = (call);                                                          \
        ck_assert_msg(error == cudaSuccess, "%s: %s", #call, cudaGetErrorString(error));           \
    } while (0)

/* A plan with its weights and all else that runs only read. */
struct net {
    ecornn_desc desc;
    ecornn_cell *own; /* NULL: built in */
    ecornn_plan *plan;
    ecornn_sizes sizes;
    void *weights, *x, *dy;
    size_t x_bytes, y_bytes;
    uint64_t seed;
};

/* Arrays that a run writes; only one run at a time may use them. */
struct buffers {
    void *y, *dx, *dweights, *workspace, *reserve;
};

static void *random_block(size_t bytes, bool wide)
{
    unsigned state = 1;
    unsigned char *host = malloc(bytes);
    void *block = ecornn_alloc(device, bytes);
    const size_t each = wide ? 4 : 2;
    for (size_t i = 0; i + each <= bytes; i += each) {
        state = state * 1664525u + 1013904223u;
        const float value = (float)(state >> 8) * 0x1p-24f - 0.5f;
        memcpy(host + i, (const char *)&value + (wide ? 0 : 2), each);
    }
    CHECK_OK(ecornn_upload(device, block, host, bytes));
    free(host);
    return block;
}

static size_t models_of(const ecornn_desc *desc)
{
    return desc->models > 1 ? (size_t)desc->models : 1;
}

static void net_make(struct net *net, const char *text)
{
    net->own = NULL;
    net->seed = 0;
    if (strncmp(text, "own", 3) == 0)
        CHECK_OK(ecornn_cell_parse(&net->own, own_text));
    CHECK_OK(parse_desc(&net->desc, text, net->own));
    CHECK_OK(ecornn_plan_create_desc(&net->plan, device, &net->desc));
    get_sizes(net->plan, &net->sizes);
    const bool wide = net->desc.type == ECORNN_F32;
    const size_t rows =
        models_of(&net->desc) * (size_t)net->desc.steps * (size_t)net->desc.batch * (wide ? 4 : 2);
    net->x_bytes = rows * (size_t)net->desc.input;
    net->y_bytes = rows * (size_t)(net->desc.proj ? net->desc.proj : net->desc.hidden) *
                   ((net->desc.flags & ECORNN_BIDIRECTIONAL) ? 2 : 1);
    if (net->desc.flags & ECORNN_SHARED_INPUT)
        net->x_bytes /= models_of(&net->desc);
    net->x = random_block(net->x_bytes, wide);
    net->dy = random_block(net->y_bytes, wide);
    net->weights = ecornn_alloc(device, net->sizes.weight_bytes);
    char *block = random_block(net->sizes.param_elements * 4, true);
    const int count = count_params(net->plan);
    const void **params = calloc((size_t)count, sizeof *params);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        CHECK_OK(param_at(net->plan, k, &param));
        params[k] = block + 4 * param.offset;
    }
    CHECK_OK(ecornn_pack(net->plan, params, NULL, net->weights, NULL));
    CHECK_OK(ecornn_wait(device, NULL));
    ecornn_free(device, block);
    free(params);
}

static void net_free(struct net *net)
{
    ecornn_free(device, net->weights);
    ecornn_free(device, net->x);
    ecornn_free(device, net->dy);
    ecornn_plan_free(net->plan);
    ecornn_cell_free(net->own);
}

static struct buffers buffers_make(const struct net *net)
{
    return (struct buffers){ecornn_alloc(device, net->y_bytes), ecornn_alloc(device, net->x_bytes),
                            ecornn_alloc(device, net->sizes.dweight_bytes),
                            ecornn_alloc(device, net->sizes.workspace_bytes),
                            ecornn_alloc(device, net->sizes.reserve_bytes)};
}

static void buffers_free(struct buffers *b)
{
    void *const all[] = {b->y, b->dx, b->dweights, b->workspace, b->reserve};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ecornn_free(device, all[i]);
}

/* Fills the results with NaN, then queues forward and backward of this number of steps and rows. */
static ecornn_status train_some(const struct net *net, const struct buffers *b, int32_t steps,
                                int32_t rows, void *stream)
{
    const ecornn_io io = {.size = sizeof io,
                          .x = net->x,
                          .y = b->y,
                          .weights = net->weights,
                          .workspace = b->workspace,
                          .reserve = b->reserve,
                          .seed = net->seed,
                          .stream = stream};
    const ecornn_gradient gradient = {
        .size = sizeof gradient, .dy = net->dy, .dx = b->dx, .dweights = b->dweights};
    cudaMemsetAsync(b->y, 0xFF, net->y_bytes, stream);
    cudaMemsetAsync(b->dx, 0xFF, net->x_bytes, stream);
    cudaMemsetAsync(b->dweights, 0xFF, net->sizes.dweight_bytes, stream);
    const ecornn_status status = ecornn_forward(net->plan, steps, rows, &io);
    return status == ECORNN_OK ? ecornn_backward(net->plan, steps, rows, &io, &gradient) : status;
}

static ecornn_status train(const struct net *net, const struct buffers *b, void *stream)
{
    return train_some(net, b, net->sizes.steps, net->sizes.batch, stream);
}

/* Copies all results, one after the other, into memory that the caller frees. */
static unsigned char *fetch(const struct net *net, const struct buffers *b, size_t *bytes)
{
    *bytes = net->y_bytes + net->x_bytes + net->sizes.dweight_bytes;
    unsigned char *all = malloc(*bytes);
    CHECK_OK(ecornn_download(device, all, b->y, net->y_bytes));
    CHECK_OK(ecornn_download(device, all + net->y_bytes, b->dx, net->x_bytes));
    CHECK_OK(ecornn_download(device, all + net->y_bytes + net->x_bytes, b->dweights,
                             net->sizes.dweight_bytes));
    return all;
}

static void check_same(const struct net *net, const struct buffers *b, const unsigned char *first,
                       const char *how)
{
    size_t bytes;
    unsigned char *now = fetch(net, b, &bytes);
    size_t same = 0;
    while (same < bytes && first[same] == now[same])
        same++;
    ck_assert_msg(same == bytes, "other bits %s from byte %zu of y [%zu], dx [%zu] and dweights",
                  how, same, net->y_bytes, net->x_bytes);
    free(now);
}

/* A net, the results of its first run, and a stream for other runs. */
struct trial {
    struct net net;
    struct buffers b;
    unsigned char *first;
    cudaStream_t stream;
};

/* Checks that the run replaced all NaN that were there before it. */
static void check_written(const struct net *net, const unsigned char *results)
{
    const struct {
        const char *name;
        size_t at,
            bytes; /* of dweights only the first bytes, because there are gaps between its parts */
    } all[] = {{"y", 0, net->y_bytes},
               {"dx", net->y_bytes, net->x_bytes},
               {"dweights", net->y_bytes + net->x_bytes, 4}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (size_t i = 0; i + 3 < all[k].bytes; i += 4)
            ck_assert_msg(memcmp(results + all[k].at + i, "\xFF\xFF\xFF\xFF", 4) != 0,
                          "%s was not written, %zu bytes from its start", all[k].name, i);
}

static void trial_open(struct trial *trial, const char *text)
{
    size_t bytes;
    net_make(&trial->net, text);
    trial->b = buffers_make(&trial->net);
    CHECK_OK(train(&trial->net, &trial->b, NULL));
    CHECK_OK(ecornn_wait(device, NULL));
    trial->first = fetch(&trial->net, &trial->b, &bytes);
    check_written(&trial->net, trial->first);
    CHECK_CUDA(cudaStreamCreateWithFlags(&trial->stream, cudaStreamNonBlocking));
}

static void trial_close(struct trial *trial)
{
    CHECK_CUDA(cudaStreamDestroy(trial->stream));
    free(trial->first);
    buffers_free(&trial->b);
    net_free(&trial->net);
}

START_TEST(gives_the_same_bits_on_streams_and_from_graphs)
{
    struct trial trial;
    trial_open(&trial, problem[_i]);
    for (int k = 0; k < 4; k++) {
        CHECK_OK(train(&trial.net, &trial.b, trial.stream));
        CHECK_OK(ecornn_wait(device, trial.stream));
        check_same(&trial.net, &trial.b, trial.first, "on a stream");
    }
    trial_close(&trial);
}
END_TEST

/* Runs with more sets of arrays than a plan keeps graphs, so graphs get other pointers. */
START_TEST(takes_other_arrays)
{
    enum { SETS = 6, TIMES = 3 };
    struct trial trial;
    struct buffers sets[SETS];
    trial_open(&trial, problem[_i]);
    for (int k = 0; k < SETS; k++)
        sets[k] = buffers_make(&trial.net);
    for (int k = 0; k < 2 * SETS * TIMES; k++) {
        const struct buffers *b = &sets[k / TIMES % SETS];
        CHECK_OK(train(&trial.net, b, trial.stream));
        CHECK_OK(ecornn_wait(device, trial.stream));
        check_same(&trial.net, b, trial.first, "with other arrays");
    }
    for (int k = 0; k < SETS; k++)
        buffers_free(&sets[k]);
    trial_close(&trial);
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
    struct trial trial;
    trial_open(&trial, of[_i]);
    for (int k = 0; k < 2 * SIZES; k++) {
        const int i = k % SIZES;
        const int32_t steps = i < 6 ? i + 1 : 6, n = i < 6 ? 37 : rows[i - 6];
        unsigned char *first = NULL;
        size_t bytes;
        for (int time = 0; time < TIMES; time++) {
            CHECK_OK(train_some(&trial.net, &trial.b, steps, n, trial.stream));
            CHECK_OK(ecornn_wait(device, trial.stream));
            if (first == NULL)
                first = fetch(&trial.net, &trial.b, &bytes);
            else
                check_same(&trial.net, &trial.b, first, "of other sizes");
        }
        free(first);
    }
    trial_close(&trial);
}
END_TEST

START_TEST(may_be_captured_by_the_caller)
{
    struct trial trial;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    ecornn_plan *other;
    trial_open(&trial, problem[_i]);
    CHECK_CUDA(cudaStreamBeginCapture(trial.stream, cudaStreamCaptureModeThreadLocal));
    CHECK_OK(train(&trial.net, &trial.b, trial.stream));
    CHECK_OK(ecornn_plan_create_desc(&other, device,
                                     &trial.net.desc)); /* creating a plan is not captured */
    ecornn_plan_free(other);
    CHECK_CUDA(cudaStreamEndCapture(trial.stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int k = 0; k < 3; k++) {
        CHECK_CUDA(cudaGraphLaunch(exec, trial.stream));
        CHECK_OK(ecornn_wait(device, trial.stream));
        check_same(&trial.net, &trial.b, trial.first, "in a captured graph");
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    trial_close(&trial);
}
END_TEST

/* A run of no steps copies states in the order of the stream; in a capture the copy is a node of
 * the caller's graph. */
START_TEST(an_empty_run_may_be_captured)
{
    struct net net;
    net_make(&net, problem[_i]);
    const ecornn_desc *desc = &net.desc;
    const size_t bytes = (size_t)(desc->layers ? desc->layers : 1) * (size_t)desc->batch *
                         ((desc->flags & ECORNN_BIDIRECTIONAL) ? 2 : 1) *
                         (size_t)(desc->proj ? desc->proj : desc->hidden) * 2 * models_of(desc);
    unsigned char *from = ecornn_alloc(device, 2 * bytes), *to = ecornn_alloc(device, 2 * bytes);
    unsigned char *host = malloc(bytes);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    const ecornn_io io = {.size = sizeof io, .initial = {from}, .final = {to}, .stream = NULL};
    ecornn_io captured = io;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    captured.stream = stream;
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK_OK(ecornn_forward(net.plan, 0, net.sizes.batch, &captured));
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int k = 1; k < 4; k++) {
        CHECK_CUDA(cudaMemsetAsync(from, k, 2 * bytes, stream));
        CHECK_CUDA(cudaGraphLaunch(exec, stream));
        CHECK_OK(ecornn_wait(device, stream));
        CHECK_OK(ecornn_download(device, host, to, bytes));
        for (size_t i = 0; i < bytes; i++)
            ck_assert_int_eq(host[i], k);
    }
    int here = 0;
    captured = io;
    captured.final[0] = &here; /* memory of the host */
    ck_assert_int_eq(ecornn_forward(net.plan, 0, net.sizes.batch, &captured), ECORNN_BAD_ARGUMENT);
    ck_assert_msg(strstr(ecornn_error_detail(), "io.final") != NULL, "%s", ecornn_error_detail());
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    ecornn_free(device, from);
    ecornn_free(device, to);
    free(host);
    net_free(&net);
}
END_TEST

/* A tick of streams, captured: its list of rows is read when the graph runs. */
START_TEST(a_captured_tick_takes_other_streams)
{
    enum { STREAMS = 50, N = 6, H = 32, TICKS = 4 };
    static const int32_t list[TICKS][N] = {{0, 1, 2, 7, 48, 49},
                                           {3, 7, 9, -1, -1, -1},
                                           {-1, STREAMS, -1, -1, -1, 0},
                                           {7, 8, 9, 10, 30, 49}};
    const size_t bytes = STREAMS * H * sizeof(float);
    struct net net;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    net_make(&net, "lstm/f32/infer/T1/N6/I32/H32/streams");
    float *const state[2] = {random_block(bytes, true), random_block(bytes, true)},
                 *const dense = ecornn_alloc(device, 2 * N * H * sizeof(float));
    float *const y = ecornn_alloc(device, net.y_bytes), host[N * H], other[2][STREAMS * H];
    int32_t *const rows = ecornn_alloc(device, sizeof list[0]);
    const ecornn_io io = {.size = sizeof io,
                          .x = net.x,
                          .y = y,
                          .initial = {state[0], state[1]},
                          .final = {state[0], state[1]},
                          .weights = net.weights,
                          .workspace = ecornn_alloc(device, net.sizes.workspace_bytes)};
    ecornn_io tick = io, gathered = io;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    tick.rows = rows, tick.streams = STREAMS, tick.stream = stream;
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK_OK(ecornn_forward(net.plan, 1, N, &tick));
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int s = 0; s < 2; s++) {
        CHECK_OK(ecornn_download(device, other[s], state[s], bytes));
        gathered.initial[s] = gathered.final[s] = dense + s * N * H;
    }
    for (int k = 0; k < TICKS; k++) {
        float mine[2][N * H] = {{0}}, now[STREAMS * H];
        for (int n = 0; n < N; n++)
            for (int s = 0; s < 2 && list[k][n] >= 0 && list[k][n] < STREAMS; s++)
                memcpy(mine[s] + n * H, other[s] + list[k][n] * H, H * sizeof(float));
        CHECK_OK(ecornn_upload(device, dense, mine, sizeof mine));
        CHECK_OK(ecornn_forward(net.plan, 1, N, &gathered));
        CHECK_OK(ecornn_wait(device, NULL));
        CHECK_OK(ecornn_download(device, mine, dense, sizeof mine));
        CHECK_OK(ecornn_download(device, host, y, sizeof host));
        CHECK_OK(ecornn_upload(device, rows, list[k], sizeof list[k]));
        CHECK_CUDA(cudaGraphLaunch(exec, stream));
        CHECK_OK(ecornn_wait(device, stream));
        CHECK_OK(ecornn_download(device, now, y, sizeof host));
        ck_assert_mem_eq(now, host, sizeof host);
        for (int s = 0; s < 2; s++) {
            for (int n = 0; n < N; n++)
                if (list[k][n] >= 0 && list[k][n] < STREAMS)
                    memcpy(other[s] + list[k][n] * H, mine[s] + n * H, H * sizeof(float));
            CHECK_OK(ecornn_download(device, now, state[s], bytes));
            ck_assert_mem_eq(now, other[s], bytes);
        }
    }
    tick.rows = list[0]; /* memory of the host */
    ck_assert_int_eq(ecornn_forward(net.plan, 1, N, &tick), ECORNN_BAD_ARGUMENT);
    ck_assert_msg(strstr(ecornn_error_detail(), "io.rows") != NULL, "%s", ecornn_error_detail());
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    void *const all[] = {state[0], state[1], dense, y, rows, io.workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ecornn_free(device, all[i]);
    net_free(&net);
}
END_TEST

/* Each call of CUDA fails once while models are queued, captured or launched. The next run must
 * succeed, and no stream may be left in a capture. */
START_TEST(a_call_that_fails_spoils_no_other_run)
{
    enum { MOST = 4000 };
    struct trial trial;
    bool failed = true;
    int k = 1;
    trial_open(&trial, "lstm/bf16/train/T3/N3/I5/H40/models:3/shared-x");
    for (; failed && k < MOST; k += k < 40 ? 1 : 11) {
        eco_call_fail_at(k);
        const ecornn_status status = train(&trial.net, &trial.b, trial.stream);
        failed = !eco_call_fail_at(0);
        ck_assert(failed || status == ECORNN_OK);
        CHECK_OK(ecornn_wait(device, trial.stream));
        if (k % 3 != 0)
            continue;
        CHECK_OK(train(&trial.net, &trial.b, trial.stream));
        CHECK_OK(ecornn_wait(device, trial.stream));
        check_same(&trial.net, &trial.b, trial.first, "after a failure");
    }
    ck_assert_int_gt(k, 3);
    ck_assert_int_lt(k, MOST);
    trial_close(&trial);
}
END_TEST

/* ---- addresses that change ------------------------------------------------------------------- */

/* Steps of a projection, of two directions, of many rows and at once; the sums of weight gradients
 * in several ways; and cells that are scanned, whose tickets are filled. */
static const char *const rotated[] = {
    "lstm/bf16/train/T6/N64/I64/H256/P80", "lstm/f32/train/bi/T5/N80/I50/H100",
    "gru/f32/fast/train/T7/N256/I64/H256", "lstm/bf16/train/L3/T9/N300/I64/H128",
    "lstm/f16/train/T1/N4096/I128/H128",   "lstm/bf16/train/L2/T40/N4/I9/H40/dropout:0.5"};
enum { ROTATED = sizeof rotated / sizeof *rotated, TURNS = 7 };

/* The arrays of one turn: each begins a little later in its block than in the turn before. */
struct rotation {
    struct net net; /* with x and dy of this turn */
    struct buffers b;
};

static void *later(void *block, int turn, size_t each)
{
    return (char *)block + (size_t)turn % TURNS * each;
}

/* Blocks with room for all turns; copies of x and dy are at each place. */
static struct rotation rotation_make(const struct net *net)
{
    const size_t more = TURNS * 512;
    struct rotation all = {.net = *net};
    struct net longer = *net;
    longer.y_bytes += more;
    longer.x_bytes += more;
    longer.sizes.dweight_bytes += more;
    longer.sizes.workspace_bytes += more;
    longer.sizes.reserve_bytes += more;
    all.b = buffers_make(&longer);
    all.net.x = ecornn_alloc(device, TURNS * (net->x_bytes + 512));
    all.net.dy = ecornn_alloc(device, TURNS * (net->y_bytes + 512));
    return all;
}

static size_t spaced(size_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

static struct rotation rotation_at(const struct net *net, const struct rotation *all, int turn)
{
    struct rotation now = *all;
    now.net.seed = net->seed;
    now.net.x = later(all->net.x, turn, spaced(net->x_bytes));
    now.net.dy = later(all->net.dy, 3 * turn, spaced(net->y_bytes));
    now.b =
        (struct buffers){later(all->b.y, turn, 512), later(all->b.dx, 2 * turn, 512),
                         later(all->b.dweights, turn, 512), later(all->b.workspace, 4 * turn, 512),
                         later(all->b.reserve, 5 * turn, 512)};
    CHECK_CUDA(cudaMemcpy(now.net.x, net->x, net->x_bytes, cudaMemcpyDeviceToDevice));
    CHECK_CUDA(cudaMemcpy(now.net.dy, net->dy, net->y_bytes, cudaMemcpyDeviceToDevice));
    CHECK_CUDA(cudaDeviceSynchronize());
    return now;
}

static void rotation_free(struct rotation *all)
{
    buffers_free(&all->b);
    ecornn_free(device, all->net.x);
    ecornn_free(device, all->net.dy);
}

/* Each call has other addresses; with dropout also another seed. */
START_TEST(takes_addresses_that_change_from_call_to_call)
{
    struct trial trial;
    struct rotation all;
    struct net queued;
    size_t bytes;
    trial_open(&trial, rotated[_i]);
    net_make(&queued, rotated[_i]);
    all = rotation_make(&trial.net);
    for (int k = 0; k < 2 * TURNS; k++) {
        trial.net.seed = trial.net.desc.dropout > 0 ? (uint64_t)k << 30 | 5 : 0;
        struct rotation now = rotation_at(&trial.net, &all, k);
        CHECK_OK(train(&now.net, &now.b, trial.stream));
        CHECK_OK(ecornn_wait(device, trial.stream));
        unsigned char *first = fetch(&now.net, &now.b, &bytes);
        if (trial.net.desc.dropout > 0) { /* a plan's first run is queued */
            ecornn_plan_free(queued.plan);
            CHECK_OK(ecornn_plan_create_desc(&queued.plan, device, &queued.desc));
            queued.seed = trial.net.seed;
            CHECK_OK(train(&queued, &trial.b, trial.stream));
            CHECK_OK(ecornn_wait(device, trial.stream));
            char how[40];
            snprintf(how, sizeof how, "with another seed in run %d", k);
            check_same(&queued, &trial.b, first, how);
        } else {
            check_same(&now.net, &now.b, trial.first, "with other addresses");
        }
        free(first);
    }
    rotation_free(&all);
    net_free(&queued);
    trial_close(&trial);
}
END_TEST

/* Two streams whose runs overlap, each with arrays of its own that change from call to call. */
START_TEST(two_runs_at_a_time_have_other_addresses)
{
    enum { STREAMS = 2 };
    struct trial trial;
    struct rotation all[STREAMS], now[STREAMS];
    cudaStream_t stream[STREAMS];
    trial_open(&trial, rotated[_i]);
    for (int s = 0; s < STREAMS; s++) {
        all[s] = rotation_make(&trial.net);
        CHECK_CUDA(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
    }
    for (int k = 0; k < 2 * TURNS; k++) {
        for (int s = 0; s < STREAMS; s++)
            now[s] = rotation_at(&trial.net, &all[s], k + s);
        for (int time = 0; time < 2; time++)
            for (int s = 0; s < STREAMS; s++)
                CHECK_OK(train(&now[s].net, &now[s].b, stream[s]));
        for (int s = 0; s < STREAMS; s++) {
            CHECK_OK(ecornn_wait(device, stream[s]));
            check_same(&now[s].net, &now[s].b, trial.first, "beside another run");
        }
    }
    for (int s = 0; s < STREAMS; s++) {
        rotation_free(&all[s]);
        cudaStreamDestroy(stream[s]);
    }
    trial_close(&trial);
}
END_TEST

/* Each call of CUDA fails once while a graph is made, compared or given other addresses. */
START_TEST(a_call_that_fails_spoils_no_other_addresses)
{
    enum { MOST = 4000, RUNS_OF_GRAPH = 4 };
    struct trial trial;
    struct rotation all;
    bool failed = true;
    int k = 1;
    trial_open(&trial, "lstm/f32/train/bi/T3/N80/I5/H40");
    all = rotation_make(&trial.net);
    for (; failed && k < MOST; k += k < 40 ? 1 : 7) {
        ecornn_plan_free(trial.net.plan);
        CHECK_OK(ecornn_plan_create_desc(&trial.net.plan, device, &trial.net.desc));
        all.net.plan = trial.net.plan;
        eco_call_fail_at(k);
        failed = false;
        for (int run = 0; run < RUNS_OF_GRAPH; run++) {
            struct rotation now = rotation_at(&trial.net, &all, run);
            (void)train(&now.net, &now.b, trial.stream);
        }
        failed = !eco_call_fail_at(0);
        CHECK_OK(ecornn_wait(device, trial.stream));
        for (int run = 0; run < RUNS_OF_GRAPH; run++) {
            struct rotation now = rotation_at(&trial.net, &all, run);
            CHECK_OK(train(&now.net, &now.b, trial.stream));
            CHECK_OK(ecornn_wait(device, trial.stream));
            check_same(&now.net, &now.b, trial.first, "after a failure");
        }
    }
    ck_assert_int_gt(k, 3);
    ck_assert_int_lt(k, MOST);
    rotation_free(&all);
    trial_close(&trial);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 6, RUNS = 8 };

struct worker {
    pthread_t thread;
    const struct net *net;
    struct buffers buffers;
    ecornn_status status;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    cudaStream_t stream;
    worker->status = ECORNN_FAILED;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        return NULL;
    worker->status = ECORNN_OK;
    for (int k = 0; k < RUNS && worker->status == ECORNN_OK; k++)
        worker->status = train(worker->net, &worker->buffers, stream);
    if (ecornn_wait(device, stream) != ECORNN_OK)
        worker->status = ECORNN_FAILED;
    cudaStreamDestroy(stream);
    return NULL;
}

START_TEST(one_plan_runs_in_many_threads)
{
    struct trial trial;
    struct worker worker[THREADS];
    trial_open(&trial, problem[_i]);
    for (int k = 0; k < THREADS; k++) {
        worker[k].net = &trial.net;
        worker[k].buffers = buffers_make(&trial.net);
        ck_assert_int_eq(pthread_create(&worker[k].thread, NULL, work, &worker[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        pthread_join(worker[k].thread, NULL);
        ck_assert_int_eq(worker[k].status, ECORNN_OK);
        check_same(&trial.net, &worker[k].buffers, trial.first, "in a thread");
        buffers_free(&worker[k].buffers);
    }
    trial_close(&trial);
}
END_TEST

GPU_TEST_MAIN("gpu graphs", &device, {gives_the_same_bits_on_streams_and_from_graphs, PROBLEMS},
              {takes_other_arrays, PROBLEMS}, {takes_runs_of_other_sizes, 4},
              {may_be_captured_by_the_caller, PROBLEMS}, {an_empty_run_may_be_captured, PROBLEMS},
              {a_captured_tick_takes_other_streams, 1}, {a_call_that_fails_spoils_no_other_run, 1},
              {takes_addresses_that_change_from_call_to_call, ROTATED},
              {two_runs_at_a_time_have_other_addresses, ROTATED - 1},
              {a_call_that_fails_spoils_no_other_addresses, 1},
              {one_plan_runs_in_many_threads, PROBLEMS})
