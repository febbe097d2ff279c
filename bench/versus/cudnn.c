/*
 * The opponent "cudnn": the RNN of cuDNN, called directly.  All its algorithms that take the
 * problem are tried, call by call and from a CUDA graph, and the fastest is measured.  Its math
 * follows the problem: FMA for F32, TF32 for F32/fast.
 *
 * It runs in a process of its own: in a process where cuDNN had run before, ecornn's graphs took up
 * to 13 % longer.  It draws its own numbers, so results are not compared.
 */
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "bench/gpu/clock.h"
#include "versus.h"

/* One algorithm set up for a problem. */
struct net {
    const struct problem *problem;
    const char *device;
    cudnnHandle_t handle;
    cudnnRNNDescriptor_t rnn;
    cudnnDropoutDescriptor_t dropout;
    cudnnRNNDataDescriptor_t x_shape, y_shape;
    cudnnTensorDescriptor_t h_shape, c_shape;
    size_t weight_bytes, workspace_bytes, reserve_bytes;
    void *x, *y, *dx, *dy, *weights, *dweights, *workspace, *reserve;
    void *states[4];       /* streaming: h and c before a call, h and c after it; or NULL */
    int32_t *lengths;      /* on the device */
    cudaGraphExec_t graph; /* NULL: runs are queued call by call */
    bool training;
};

static bool queue(void *self, void *stream)
{
    struct net *net = self;
    const cudnnForwardMode_t mode =
        net->training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
    if (cudnnSetStream(net->handle, stream) != CUDNN_STATUS_SUCCESS ||
        cudnnRNNForward(net->handle, net->rnn, mode, net->lengths, net->x_shape, net->x,
                        net->y_shape, net->y, net->h_shape, net->states[0], net->states[2],
                        net->c_shape, net->states[1], net->states[3], net->weight_bytes,
                        net->weights, net->workspace_bytes, net->workspace, net->reserve_bytes,
                        net->reserve) != CUDNN_STATUS_SUCCESS)
        return false;
    if (!net->training)
        return true;
    return cudnnRNNBackwardData_v8(net->handle, net->rnn, net->lengths, net->y_shape, net->y,
                                   net->dy, net->x_shape, net->dx, net->h_shape, NULL, NULL, NULL,
                                   net->c_shape, NULL, NULL, NULL, net->weight_bytes, net->weights,
                                   net->workspace_bytes, net->workspace, net->reserve_bytes,
                                   net->reserve) == CUDNN_STATUS_SUCCESS &&
           cudnnRNNBackwardWeights_v8(net->handle, net->rnn, CUDNN_WGRAD_MODE_ADD, net->lengths,
                                      net->x_shape, net->x, net->h_shape, NULL, net->y_shape,
                                      net->y, net->weight_bytes, net->dweights,
                                      net->workspace_bytes, net->workspace, net->reserve_bytes,
                                      net->reserve) == CUDNN_STATUS_SUCCESS;
}

static const struct mode {
    const char *name; /* NULL ends the list */
    cudnnRNNMode_t mode;
} modes[] = {{"lstm", CUDNN_LSTM},
             {"gru", CUDNN_GRU},
             {"rnn-tanh", CUDNN_RNN_TANH},
             {"rnn-relu", CUDNN_RNN_RELU},
             {NULL, CUDNN_RNN_TANH}};

/* NULL: cuDNN has no such cell. */
static const struct mode *find_mode(const struct problem *problem)
{
    const struct mode *mode = modes;
    while (mode->name && strcmp(mode->name, problem->cell) != 0)
        mode++;
    return mode->name ? mode : NULL;
}

static const char *refuses(const struct problem *problem)
{
    const ecornn_desc *desc = &problem->desc;
    const bool plain = desc->models <= 1 && !(desc->flags & ECORNN_BATCH_MAJOR) &&
                       !(desc->flags & ECORNN_REVERSE) && !problem->uniform && problem->resets < 0;
    return plain && find_mode(problem)
               ? NULL
               : "supports lstm, gru, rnn-tanh and rnn-relu, forward or bi, time major, without "
                 "lengths and resets";
}

static cudnnDataType_t data_type(ecornn_type type)
{
    return type == ECORNN_F64    ? CUDNN_DATA_DOUBLE
           : type == ECORNN_BF16 ? CUDNN_DATA_BFLOAT16
           : type == ECORNN_F16  ? CUDNN_DATA_HALF
                                 : CUDNN_DATA_FLOAT;
}

static cudnnMathType_t math_type(const ecornn_desc *desc)
{
    if (desc->type == ECORNN_F32)
        return desc->flags & ECORNN_FAST_MATH ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    return desc->type == ECORNN_F64 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
}

#define GOOD(call) ((call) == CUDNN_STATUS_SUCCESS)

/* From memory that is not pinned, cudaMemcpy may return before the device has all bytes. */
static bool upload(void *to, const void *from, size_t bytes)
{
    return gpu_check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "upload") &&
           gpu_check(cudaStreamSynchronize(cudaStreamLegacy), "upload");
}

static bool set_rnn(struct net *net, cudnnRNNAlgo_t algo, const struct mode *mode)
{
    const ecornn_desc *desc = &net->problem->desc;
    const cudnnDataType_t sums = desc->type == ECORNN_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    return GOOD(cudnnCreateDropoutDescriptor(&net->dropout)) &&
           GOOD(cudnnSetDropoutDescriptor(net->dropout, net->handle, 0, NULL, 0, 0)) &&
           GOOD(cudnnCreateRNNDescriptor(&net->rnn)) &&
           GOOD(cudnnSetRNNDescriptor_v8(
               net->rnn, algo, mode->mode, CUDNN_RNN_SINGLE_INP_BIAS,
               (desc->flags & ECORNN_BIDIRECTIONAL) ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
               CUDNN_LINEAR_INPUT, data_type(desc->type), sums, math_type(desc), desc->input,
               desc->hidden, desc->proj ? desc->proj : desc->hidden,
               desc->layers ? desc->layers : 1, net->dropout, 0)) &&
           (algo != CUDNN_RNN_ALGO_PERSIST_DYNAMIC ||
            GOOD(cudnnBuildRNNDynamic(net->handle, net->rnn, desc->batch)));
}

static bool set_shapes(struct net *net)
{
    const ecornn_desc *desc = &net->problem->desc;
    const cudnnDataType_t type = data_type(desc->type);
    const int directions = (desc->flags & ECORNN_BIDIRECTIONAL) ? 2 : 1;
    const int width = desc->proj ? desc->proj : desc->hidden;
    int *lengths = malloc((size_t)desc->batch * sizeof *lengths);
    double zero = 0;
    for (int n = 0; lengths && n < desc->batch; n++)
        lengths[n] = desc->steps;
    const int layers = (desc->layers ? desc->layers : 1) * directions;
    const int h[3] = {layers, desc->batch, width}, c[3] = {layers, desc->batch, desc->hidden};
    const int h_step[3] = {desc->batch * width, width, 1};
    const int c_step[3] = {desc->batch * desc->hidden, desc->hidden, 1};
    const bool good =
        lengths && GOOD(cudnnCreateRNNDataDescriptor(&net->x_shape)) &&
        GOOD(cudnnSetRNNDataDescriptor(net->x_shape, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                       desc->steps, desc->batch, desc->input, lengths, &zero)) &&
        GOOD(cudnnCreateRNNDataDescriptor(&net->y_shape)) &&
        GOOD(cudnnSetRNNDataDescriptor(net->y_shape, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                       desc->steps, desc->batch, directions * width, lengths,
                                       &zero)) &&
        GOOD(cudnnCreateTensorDescriptor(&net->h_shape)) &&
        GOOD(cudnnSetTensorNdDescriptor(net->h_shape, type, 3, h, h_step)) &&
        GOOD(cudnnCreateTensorDescriptor(&net->c_shape)) &&
        GOOD(cudnnSetTensorNdDescriptor(net->c_shape, type, 3, c, c_step));
    const size_t bytes = (size_t)desc->batch * sizeof *lengths;
    const bool uploaded = good && gpu_check(cudaMalloc((void **)&net->lengths, bytes), "memory") &&
                          upload(net->lengths, lengths, bytes);
    free(lengths);
    return uploaded;
}

/* Allocates an array on the device and fills it with numbers that are uniform in (-bound, bound):
 * zeros would be faster. */
static void *draw(ecornn_type type, size_t count, double bound, uint64_t seed)
{
    const size_t bytes = (count + 1) * type_bytes(type);
    void *host = random_array(type, count + 1, bound, &seed), *device = NULL;
    if (host && gpu_check(cudaMalloc(&device, bytes), "memory"))
        upload(device, host, bytes);
    free(host);
    return device;
}

static bool make(struct net *net, cudnnRNNAlgo_t algo)
{
    const ecornn_desc *desc = &net->problem->desc;
    const size_t rows = (size_t)desc->steps * (size_t)desc->batch, x = rows * (size_t)desc->input,
                 y = rows * (size_t)net->problem->width;
    enum { X = 1, DY, WEIGHTS, RESULT }; /* seeds */
    net->training = net->problem->training;
    if (!GOOD(cudnnCreate(&net->handle)) || !set_rnn(net, algo, find_mode(net->problem)) ||
        !set_shapes(net) ||
        !GOOD(cudnnGetRNNWeightSpaceSize(net->handle, net->rnn, &net->weight_bytes)) ||
        !GOOD(cudnnGetRNNTempSpaceSizes(net->handle, net->rnn,
                                        net->training ? CUDNN_FWD_MODE_TRAINING
                                                      : CUDNN_FWD_MODE_INFERENCE,
                                        net->x_shape, &net->workspace_bytes, &net->reserve_bytes)))
        return false;
    const size_t weights = net->weight_bytes / type_bytes(desc->type);
    net->x = draw(desc->type, x, 1, X);
    net->dx = draw(desc->type, x, 1, RESULT);
    net->y = draw(desc->type, y, 1, RESULT);
    net->dy = draw(desc->type, y, 1, DY);
    net->weights = draw(desc->type, weights, 1 / sqrt(desc->hidden), WEIGHTS);
    net->dweights = draw(desc->type, weights, 1, RESULT);
    const size_t state = (size_t)(desc->layers ? desc->layers : 1) * 2 * (size_t)desc->batch *
                         (size_t)desc->hidden; /* of two directions */
    for (int s = 0; s < 4 && net->problem->streaming; s++)
        if (!(net->states[s] = draw(desc->type, state, 1, RESULT)))
            return false;
    return net->x && net->dx && net->y && net->dy && net->weights && net->dweights &&
           gpu_check(cudaMalloc(&net->workspace, net->workspace_bytes + 1), "memory") &&
           gpu_check(cudaMalloc(&net->reserve, net->reserve_bytes + 1), "memory");
}

static void destroy(struct net *net)
{
    if (net->graph)
        cudaGraphExecDestroy(net->graph);
    void *const blocks[] = {net->x,        net->y,         net->dx,      net->dy,     net->weights,
                            net->dweights, net->workspace, net->reserve, net->lengths};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        cudaFree(blocks[i]);
    for (int s = 0; s < 4; s++)
        cudaFree(net->states[s]);
    if (net->rnn)
        cudnnDestroyRNNDescriptor(net->rnn);
    if (net->dropout)
        cudnnDestroyDropoutDescriptor(net->dropout);
    if (net->x_shape)
        cudnnDestroyRNNDataDescriptor(net->x_shape);
    if (net->y_shape)
        cudnnDestroyRNNDataDescriptor(net->y_shape);
    if (net->h_shape)
        cudnnDestroyTensorDescriptor(net->h_shape);
    if (net->c_shape)
        cudnnDestroyTensorDescriptor(net->c_shape);
    if (net->handle)
        cudnnDestroy(net->handle);
    cudaGetLastError();
}

/* ---- the fastest algorithm --------------------------------------------------------------------
 */

static double time_net(const struct net *net, int repeats)
{
    return net->graph ? gpu_time_graph(net->device, net->graph, repeats)
                      : gpu_time_queued(net->device, queue, (void *)(uintptr_t)net, repeats);
}

/* Seconds of a run: the median of some samples of 1 ms and more; negative on failure. */
static double try(const struct net *net)
{
    enum { SAMPLES = 5, WARM_UP = 3 };
    double samples[SAMPLES];
    if (time_net(net, WARM_UP) < 0)
        return -1;
    const double first = time_net(net, 1);
    const int repeats = 1 + (int)(1e-3 / fmax(first, 1e-6));
    if (first < 0)
        return -1;
    for (int k = 0; k < SAMPLES; k++)
        if ((samples[k] = time_net(net, repeats)) < 0)
            return -1;
    return spread_of(samples, SAMPLES).median;
}

/* Remembers the fastest algorithm and whether it ran from a graph. */
struct choice {
    double seconds; /* negative: none yet */
    int algo;
    bool captured;
};

static bool make_net(struct net *net, const struct side *side, int algo)
{
    *net = (struct net){.problem = side->problem, .device = side->device};
    return gpu_stream(side->device) && make(net, (cudnnRNNAlgo_t)algo);
}

static bool capture(struct net *net)
{
    net->graph = gpu_capture(net->device, queue, net);
    return net->graph != NULL;
}

static void consider(struct choice *best, const struct net *net, int algo)
{
    const double seconds = try(net);
    if (seconds > 0 && (best->seconds < 0 || seconds < best->seconds))
        *best = (struct choice){seconds, algo, net->graph != NULL};
}

/* With a graph, both forms are tried: a persistent algorithm may be faster without one. */
static struct choice choose(struct net *net, const struct side *side)
{
    struct choice best = {.seconds = -1};
    for (int algo = 0; algo < CUDNN_RNN_ALGO_COUNT; algo++) {
        if (make_net(net, side, algo)) {
            consider(&best, net, algo);
            if (side->way == GRAPH && capture(net))
                consider(&best, net, algo);
        }
        destroy(net);
        *net = (struct net){.problem = NULL};
    }
    return best;
}

static bool prepare(struct side *side)
{
    static const char *const names[] = {"standard", "static", "dynamic", "small-h"};
    struct net *net = side->context = calloc(1, sizeof *net);
    if (!net)
        return say("%s: no memory for cuDNN", side->problem->text);
    const struct choice best = choose(net, side);
    if (best.seconds < 0 || !make_net(net, side, best.algo) || (best.captured && !capture(net)) ||
        time_net(net, 3) < 0)
        return say("%s: no algorithm of cuDNN runs it", side->problem->text);
    snprintf(side->detail, sizeof side->detail, "%s", names[best.algo]);
    side->workspace = net->workspace_bytes;
    side->reserve = net->reserve_bytes;
    return true;
}

static bool run(struct side *side, int repeats)
{
    side->seconds = side->core_seconds = time_net(side->context, repeats);
    return side->seconds > 0;
}

static void destroy_side(struct side *side)
{
    if (side->context)
        destroy(side->context);
    free(side->context);
}

const struct opponent opponent_cudnn = {
    .name = "cudnn",
    .about = "the RNN of cuDNN, its fastest algorithm",
    .refuses = refuses,
    .prepare = prepare,
    .run = run,
    .free = destroy_side,
    .gpu = true,
    .where = IN_CHILD,
};
