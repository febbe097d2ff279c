/*
 * A cell of your own, from text: a leaky unit with one gate.  Gradients come with it; this program
 * compares one of them with a finite difference.
 */
#include <ecornn.h>
#include <stdio.h>
#include <stdlib.h>

static const char text[] = "cell leaky(h)\n"
                           "k  = sigmoid(W x + b)          # how much to keep\n"
                           "n  = tanh(W x + R h + b)\n"
                           "h' = k * h + (1 - k) * n\n";

enum { T = 8, N = 2, I = 3, H = 5, PARAMS = 5, BLOCK = 2 * H * I + H * H + 2 * H };

static void check(ecornn_status status)
{
    if (status == ECORNN_OK)
        return;
    fprintf(stderr, "%s: %s\n", ecornn_status_name(status), ecornn_error_detail());
    exit(1);
}

/* Half the sum of the squares of y, whose gradient is y itself. */
static double loss(const double *y)
{
    double sum = 0;
    for (int k = 0; k < T * N * H; k++)
        sum += y[k] * y[k] / 2;
    return sum;
}

/* A plan of the cell and the memory of its runs. */
struct net {
    ecornn_device *device;
    ecornn_plan *plan;
    void *weights, *dweights, *workspace, *reserve;
};

static void net_open(struct net *net, const ecornn_cell *cell)
{
    ecornn_sizes sizes = {.size = sizeof sizes};
    check(ecornn_device_open(&net->device, "cpu"));
    check(ecornn_plan_create(&net->plan, net->device, "leaky/f64/train/T8/N2/I3/H5",
                             (const ecornn_cell *[]){cell, NULL}));
    check(ecornn_plan_sizes(net->plan, &sizes));
    net->weights = ecornn_alloc(net->device, sizes.weight_bytes);
    net->dweights = ecornn_alloc(net->device, sizes.dweight_bytes);
    net->workspace = ecornn_alloc(net->device, sizes.workspace_bytes);
    net->reserve = ecornn_alloc(net->device, sizes.reserve_bytes);
}

static void net_close(struct net *net)
{
    ecornn_free(net->device, net->reserve);
    ecornn_free(net->device, net->workspace);
    ecornn_free(net->device, net->dweights);
    ecornn_free(net->device, net->weights);
    ecornn_plan_free(net->plan);
    ecornn_device_close(net->device);
}

int main(void)
{
    static double block[BLOCK], dblock[BLOCK], x[T * N * I], y[T * N * H];
    const void *params[PARAMS];
    void *dparams[PARAMS];
    ecornn_cell *cell;
    struct net net;
    if (ecornn_cell_parse(&cell, "cell broken(h)\nh' = tanh(W x + R g)\n") != ECORNN_OK)
        printf("a wrong text: %s\n", ecornn_error_detail());
    check(ecornn_cell_parse(&cell, text));
    net_open(&net, cell);
    for (int k = 0; k < BLOCK; k++)
        block[k] = 0.1 * (k % 7 - 3);
    for (int k = 0; k < T * N * I; k++)
        x[k] = 0.2 * (k % 5 - 2);
    for (int k = 0; k < PARAMS; k++) {
        ecornn_param param = {.size = sizeof param};
        check(ecornn_param_get(net.plan, k, &param));
        printf("%-8s [%d,%d]\n", param.name, (int)param.rows, (int)param.cols);
        params[k] = block + param.offset;
        dparams[k] = dblock + param.offset;
    }
    const ecornn_io io = {.size = sizeof io,
                          .x = x,
                          .y = y,
                          .weights = net.weights,
                          .workspace = net.workspace,
                          .reserve = net.reserve};
    const ecornn_gradient gradient = {.size = sizeof gradient, .dy = y, .dweights = net.dweights};
    check(ecornn_pack(net.plan, params, NULL, net.weights, NULL));
    check(ecornn_forward(net.plan, T, N, &io));
    check(ecornn_backward(net.plan, T, N, &io, &gradient));
    check(ecornn_unpack(net.plan, net.dweights, dparams, 0, NULL));
    const double step = 1e-5;
    double side[2];
    for (int k = 0; k < 2; k++) {
        block[0] += k ? -2 * step : step;
        check(ecornn_pack(net.plan, params, NULL, net.weights, NULL));
        check(ecornn_forward(net.plan, T, N, &io));
        side[k] = loss(y);
    }
    printf("gradient of the first weight: %.8f, by differences %.8f\n", dblock[0],
           (side[0] - side[1]) / (2 * step));
    net_close(&net);
    ecornn_cell_free(cell);
    return 0;
}
