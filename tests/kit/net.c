/*
 * The small net of net.h.
 */
#include "tests/kit/net.h"
#include "tests/kit/calls.h"

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
    check_ok(parse_desc(&desc, problem, NULL));
    check_ok(ecornn_plan_create_desc(&net->plan, net->device, &desc));
    get_sizes(net->plan, &net->sizes);
    const void *params[PARAMS];
    float *block = malloc(net->sizes.param_elements * sizeof *block);
    fill(block, net->sizes.param_elements, 1);
    const int count = count_params(net->plan);
    ck_assert_int_eq(count, PARAMS);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        check_ok(param_at(net->plan, k, &param));
        params[k] = block + param.offset;
    }
    net->weights = ecornn_alloc(net->device, net->sizes.weight_bytes);
    check_ok(ecornn_pack(net->plan, params, NULL, net->weights, NULL));
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
    b->workspace = ecornn_alloc(net->device, net->sizes.workspace_bytes);
    b->reserve = ecornn_alloc(net->device, net->sizes.reserve_bytes);
    b->dweights = ecornn_alloc(net->device, net->sizes.dweight_bytes);
    b->io = (ecornn_io){.size = sizeof b->io,
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
    memset(b->dweights, 0, net->sizes.dweight_bytes); /* gaps between parameters compare equal */
    check_ok(forward_all(net->plan, &b->io));
    check_ok(backward_all(net->plan, &b->io, &b->gradient));
}
