/*
 * cuDNN's RNN, called directly: every algorithm that takes the problem, queued call by call and
 * from a graph; the fastest counts.  Its math follows the problem: FMA for F32, TF32 for F32/fast.
 */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ECO_HAVE_CUDNN

#include <cudnn.h>
#include <math.h>

/* One algorithm set up for a problem. */
struct net {
    const ecornn_desc *desc;
    cudnnHandle_t handle;
    cudnnRNNDescriptor_t rnn;
    cudnnDropoutDescriptor_t dropout;
    cudnnRNNDataDescriptor_t x_shape, y_shape;
    cudnnTensorDescriptor_t h_shape, c_shape;
    size_t weight_bytes, workspace_bytes, reserve_bytes;
    void *x, *y, *dx, *dy, *weights, *dweights, *workspace, *reserve;
    int32_t *lengths; /* on the device */
    bool training;
};

static bool queue(void *self, cudaStream_t stream)
{
    struct net *net = self;
    const cudnnForwardMode_t mode =
        net->training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
    if (cudnnSetStream(net->handle, stream) != CUDNN_STATUS_SUCCESS ||
        cudnnRNNForward(net->handle, net->rnn, mode, net->lengths, net->x_shape, net->x,
                        net->y_shape, net->y, net->h_shape, NULL, NULL, net->c_shape, NULL, NULL,
                        net->weight_bytes, net->weights, net->workspace_bytes, net->workspace,
                        net->reserve_bytes, net->reserve) != CUDNN_STATUS_SUCCESS)
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
    const char *name; /* NULL: the last */
    cudnnRNNMode_t mode;
} modes[] = {{"lstm", CUDNN_LSTM},
             {"gru", CUDNN_GRU},
             {"rnn-tanh", CUDNN_RNN_TANH},
             {"rnn-relu", CUDNN_RNN_RELU},
             {NULL, CUDNN_RNN_TANH}};

/* NULL: it has none for this problem. */
static const struct mode *find_mode(const ecornn_desc *desc, const char *cell)
{
    const struct mode *mode = modes;
    while (mode->name && strcmp(mode->name, cell) != 0)
        mode++;
    return mode->name && desc->models <= 1 && desc->order == ECORNN_TIME_MAJOR &&
                   desc->direction != ECORNN_REVERSE
               ? mode
               : NULL;
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

static bool set_rnn(struct net *net, cudnnRNNAlgo_t algo, const struct mode *mode)
{
    const ecornn_desc *desc = net->desc;
    const cudnnDataType_t sums = desc->type == ECORNN_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    return GOOD(cudnnCreateDropoutDescriptor(&net->dropout)) &&
           GOOD(cudnnSetDropoutDescriptor(net->dropout, net->handle, 0, NULL, 0, 0)) &&
           GOOD(cudnnCreateRNNDescriptor(&net->rnn)) &&
           GOOD(cudnnSetRNNDescriptor_v8(
               net->rnn, algo, mode->mode, CUDNN_RNN_SINGLE_INP_BIAS,
               desc->direction == ECORNN_BIDIRECTIONAL ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
               CUDNN_LINEAR_INPUT, data_type(desc->type), sums, math_type(desc), desc->input,
               desc->hidden, desc->proj ? desc->proj : desc->hidden,
               desc->layers ? desc->layers : 1, net->dropout, 0)) &&
           (algo != CUDNN_RNN_ALGO_PERSIST_DYNAMIC ||
            GOOD(cudnnBuildRNNDynamic(net->handle, net->rnn, desc->batch)));
}

static bool set_shapes(struct net *net)
{
    const ecornn_desc *desc = net->desc;
    const cudnnDataType_t type = data_type(desc->type);
    const int directions = desc->direction == ECORNN_BIDIRECTIONAL ? 2 : 1;
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
    gpu_check(cudaMalloc((void **)&net->lengths, (size_t)desc->batch * sizeof *lengths), "memory");
    gpu_check(cudaMemcpy(net->lengths, lengths, (size_t)desc->batch * sizeof *lengths,
                         cudaMemcpyHostToDevice),
              "upload");
    free(lengths);
    return good;
}

static bool make(struct net *net, cudnnRNNAlgo_t algo, const struct mode *mode)
{
    const ecornn_desc *desc = net->desc;
    const size_t x = gpu_x_elements(desc), y = gpu_y_elements(desc);
    net->training = (desc->flags & ECORNN_TRAINING) != 0;
    if (!GOOD(cudnnCreate(&net->handle)) || !set_rnn(net, algo, mode) || !set_shapes(net) ||
        !GOOD(cudnnGetRNNWeightSpaceSize(net->handle, net->rnn, &net->weight_bytes)) ||
        !GOOD(cudnnGetRNNTempSpaceSizes(net->handle, net->rnn,
                                        net->training ? CUDNN_FWD_MODE_TRAINING
                                                      : CUDNN_FWD_MODE_INFERENCE,
                                        net->x_shape, &net->workspace_bytes, &net->reserve_bytes)))
        return false;
    const size_t weights = net->weight_bytes / gpu_element(desc->type);
    net->x = gpu_draw(desc->type, x, 1, GPU_X);
    net->dx = gpu_random(desc->type, x, 1);
    net->y = gpu_random(desc->type, y, 1);
    net->dy = gpu_draw(desc->type, y, 1, GPU_DY);
    net->weights = gpu_draw(desc->type, weights, 1 / sqrt(desc->hidden), GPU_PARAMS);
    net->dweights = gpu_random(desc->type, weights, 1);
    gpu_check(cudaMalloc(&net->workspace, net->workspace_bytes + 1), "memory");
    gpu_check(cudaMalloc(&net->reserve, net->reserve_bytes + 1), "memory");
    return true;
}

static void destroy(struct net *net)
{
    void *const blocks[] = {net->x,        net->y,         net->dx,      net->dy,     net->weights,
                            net->dweights, net->workspace, net->reserve, net->lengths};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        cudaFree(blocks[i]);
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

static void keep(struct gpu_seconds *best, const char **how, struct gpu_seconds seconds,
                 const char *name)
{
    if (seconds.median > 0 && (best->median < 0 || seconds.median < best->median)) {
        *best = seconds;
        *how = name;
    }
}

struct cudnn_best cudnn_measure(const ecornn_desc *desc, const char *cell, cudaStream_t stream)
{
    static const char *const name[] = {"standard", "static", "dynamic", "small-h"};
    struct cudnn_best best = {{-1, 0}, {-1, 0}, "none", "none", 0, 0};
    const struct mode *mode = find_mode(desc, cell);
    for (int algo = 0; mode && algo < CUDNN_RNN_ALGO_COUNT; algo++) {
        struct net net = {.desc = desc};
        if (make(&net, (cudnnRNNAlgo_t)algo, mode)) {
            const struct gpu_work work = {queue, &net};
            const struct gpu_seconds eager = gpu_time(&work, stream);
            keep(&best.eager, &best.eager_how, eager, name[algo]);
            if (eager.median > 0)
                keep(&best.graph, &best.graph_how, gpu_time_graph(&work, stream), name[algo]);
            keep(&best.graph, &best.graph_how, eager, name[algo]); /* persistent: no graph needed */
            if (best.graph_how == name[algo]) {
                best.workspace = net.workspace_bytes;
                best.reserve = net.reserve_bytes;
            }
        }
        destroy(&net);
    }
    return best;
}

#else

struct cudnn_best cudnn_measure(const ecornn_desc *desc, const char *cell, cudaStream_t stream)
{
    (void)desc;
    (void)cell;
    (void)stream;
    return (struct cudnn_best){{-1, 0}, {-1, 0}, "none", "none", 0, 0};
}

#endif
