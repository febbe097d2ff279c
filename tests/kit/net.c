/*
 * The small net of net.h.
 */
#include "tests/kit/net.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const char *const net_device[NET_DEVICES] = {"cpu:1", "cpu:2", "reference"};

static void fill(float *values, size_t n, unsigned seed)
{
    for (size_t k = 0; k < n; k++) {
        seed = seed * 1664525u + 1013904223u;
        values[k] = (float)(seed >> 8) / (float)(1u << 24) - 0.5f;
    }
}

void net_open(struct net *net, const char *device, const char *problem)
{
    ecornn_desc desc;
    check_ok(ecornn_device_open(&net->device, device));
    check_ok(ecornn_desc_parse(&desc, problem, NULL));
    check_ok(ecornn_plan_create(&net->plan, net->device, &desc));
    ecornn_plan_sizes(net->plan, &net->sizes);
    const void *params[PARAMS];
    float *block = malloc(net->sizes.params * sizeof *block);
    fill(block, net->sizes.params, 1);
    const int count = ecornn_param_count(net->plan);
    ck_assert_int_eq(count, PARAMS);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        check_ok(ecornn_param_get(net->plan, k, &param));
        params[k] = block + param.offset;
    }
    net->weights = ecornn_alloc(net->device, net->sizes.weights);
    check_ok(ecornn_pack(net->plan, params, net->weights, NULL));
    free(block);
}

void net_close(struct net *net)
{
    ecornn_free(net->device, net->weights);
    ecornn_plan_free(net->plan);
    ecornn_device_close(net->device);
}

struct buffers *buffers_open(const struct net *net)
{
    struct buffers *b = calloc(1, sizeof *b);
    fill(b->x, X, 2);
    fill(b->dy, Y, 3);
    b->workspace = ecornn_alloc(net->device, net->sizes.workspace);
    b->reserve = ecornn_alloc(net->device, net->sizes.reserve);
    b->dweights = ecornn_alloc(net->device, net->sizes.dweights);
    b->io = (ecornn_io){.size = sizeof b->io,
                        .steps = ECORNN_ALL,
                        .batch = ECORNN_ALL,
                        .x = b->x,
                        .y = b->y,
                        .final = {b->final[0], b->final[1]},
                        .weights = net->weights,
                        .workspace = b->workspace,
                        .reserve = b->reserve};
    b->gradient = (ecornn_gradient){.size = sizeof b->gradient,
                                    .dy = b->dy,
                                    .dx = b->dx,
                                    .dinitial = {b->dinitial[0], b->dinitial[1]},
                                    .dweights = b->dweights};
    return b;
}

void buffers_close(const struct net *net, struct buffers *b)
{
    ecornn_free(net->device, b->workspace);
    ecornn_free(net->device, b->reserve);
    ecornn_free(net->device, b->dweights);
    free(b);
}

void net_train(const struct net *net, struct buffers *b)
{
    memset(b->dweights, 0, net->sizes.dweights); /* gaps between parameters compare equal */
    check_ok(ecornn_forward(net->plan, &b->io));
    check_ok(ecornn_backward(net->plan, &b->io, &b->gradient));
}
