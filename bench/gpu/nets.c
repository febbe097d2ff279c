/*
 * Nets: as planned, and with all their layers in order; see gpu.h.
 */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct net {
    ecornn_net_plan *plan;
    ecornn_net_sizes sizes;
    ecornn_io io;
    ecornn_gradient gradient;
    void *block;         /* parameters */
    const void **params; /* into it */
    bool training;
};

static bool queue(void *self, cudaStream_t stream)
{
    struct net *net = self;
    net->io.stream = stream;
    ecornn_status status = ecornn_net_forward(net->plan, &net->io, NULL);
    if (status == ECORNN_OK && net->training)
        status = ecornn_net_backward(net->plan, &net->io, &net->gradient, NULL);
    if (status != ECORNN_OK)
        fprintf(stderr, "bench_gpu: %s\n", ecornn_error_detail());
    return status == ECORNN_OK;
}

static void make_params(struct net *net, const char *text, ecornn_type type)
{
    const double bound = 0.05;
    net->block = gpu_draw(type, net->sizes.blocks.params, bound, GPU_PARAMS);
    net->params = calloc((size_t)net->sizes.params + 1, sizeof *net->params);
    for (int k = 0; net->params && k < net->sizes.layers; k++) {
        ecornn_net_layer layer;
        ecornn_param at;
        gpu_check_ours(ecornn_net_layer_get(net->plan, k, &layer), text);
        for (int i = 0; i < ecornn_param_count(layer.plan); i++) {
            gpu_check_ours(ecornn_param_get(layer.plan, i, &at), text);
            net->params[layer.first_param + i] =
                (char *)net->block + (layer.params + at.offset) * gpu_element(type);
        }
    }
}

/* By the words of the first piece. */
static ecornn_type type_of(const char *text)
{
    static const struct {
        const char *word;
        ecornn_type type;
    } types[] = {{"bf16", ECORNN_BF16}, {"f16", ECORNN_F16}, {"f64", ECORNN_F64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strncmp(text, types[i].word, strlen(types[i].word)) == 0)
            return types[i].type;
    return ECORNN_F32;
}

static void make_net(struct net *net, ecornn_device *device, const char *text)
{
    const ecornn_type type = type_of(text);
    ecornn_net_sizes *const sizes = &net->sizes;
    gpu_check_ours(ecornn_net_plan_create(&net->plan, device, text, NULL), text);
    ecornn_net_plan_sizes(net->plan, sizes);
    const size_t rows = (size_t)sizes->steps * (size_t)sizes->batch,
                 U = (size_t)((sizes->steps + sizes->joined - 1) / sizes->joined),
                 x = rows * (size_t)sizes->input,
                 y = U * (size_t)sizes->batch * (size_t)sizes->output;
    void *weights = ecornn_alloc(device, sizes->blocks.weights);
    net->training = sizes->blocks.reserve > 0;
    net->io = (ecornn_io){.size = sizeof net->io,
                          .steps = ECORNN_ALL,
                          .batch = ECORNN_ALL,
                          .x = gpu_draw(type, x, 1, GPU_X),
                          .y = gpu_random(type, y, 1),
                          .weights = weights,
                          .workspace = ecornn_alloc(device, sizes->blocks.workspace)};
    net->gradient = (ecornn_gradient){.size = sizeof net->gradient};
    if (net->training) {
        net->io.reserve = ecornn_alloc(device, sizes->blocks.reserve);
        net->gradient.dy = gpu_draw(type, y, 1, GPU_DY);
        net->gradient.dx = gpu_random(type, x, 1);
        net->gradient.dweights = ecornn_alloc(device, sizes->blocks.dweights);
    }
    make_params(net, text, type == ECORNN_F64 ? ECORNN_F64 : ECORNN_F32);
    gpu_check_ours(ecornn_net_pack(net->plan, net->params, weights, NULL), text);
    gpu_check_ours(ecornn_wait(device, NULL), text);
}

static void free_net(struct net *net)
{
    void *const blocks[] = {(void *)(uintptr_t)net->io.x,
                            net->io.y,
                            (void *)(uintptr_t)net->io.weights,
                            net->io.workspace,
                            net->io.reserve,
                            (void *)(uintptr_t)net->gradient.dy,
                            net->gradient.dx,
                            net->gradient.dweights,
                            net->block};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        cudaFree(blocks[i]);
    free(net->params);
    ecornn_net_plan_free(net->plan);
}

/* Microseconds of a run, and of a graph captured from it. */
struct net_time {
    double run, graph;
    bool at_once; /* some layers are */
};

/* forced: as ECORNN_FORCE, or NULL. */
static struct net_time time_net(ecornn_device *device, const char *text, const char *forced,
                                cudaStream_t stream)
{
    static char printed[1 << 16];
    struct net net = {.plan = NULL};
    if (forced)
        setenv("ECORNN_FORCE", forced, 1);
    make_net(&net, device, text);
    if (forced)
        unsetenv("ECORNN_FORCE");
    ecornn_net_plan_print(net.plan, printed, sizeof printed);
    const struct gpu_work work = {queue, &net};
    const struct net_time time = {.run = 1e6 * gpu_time(&work, stream).median,
                                  .graph = 1e6 * gpu_time_graph(&work, stream).median,
                                  .at_once = strstr(printed, " at once, each in a part") != NULL};
    free_net(&net);
    return time;
}

void gpu_measure_net(ecornn_device *device, const char *text, cudaStream_t stream)
{
    const struct net_time before = time_net(device, text, "at-once=1", stream),
                          planned = time_net(device, text, NULL, stream),
                          after = time_net(device, text, "at-once=1", stream);
    printf("%9.1f us, in order %9.1f, %9.1f: %5.2f; captured %9.1f, %9.1f: %5.2f; %s  %s\n",
           planned.run, before.run, after.run, (before.run + after.run) / 2 / planned.run,
           planned.graph, before.graph, before.graph / planned.graph,
           planned.at_once ? "at once" : "in order", text);
    fflush(stdout);
}
