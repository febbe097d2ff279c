/*
 * Training on sequences of different lengths: a GRU learns to say whether a row has seen more
 * ones than zeros.  Rows of a batch may have any length and stand in any order; padding is never
 * read and gets no gradient.  It uses plain gradient descent, and the loss compares each row's last
 * output with a target.
 */
#include <ecornn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 12, N = 32, H = 16, PARAMS = 10, BLOCK = 3 * H + 3 * H * H + 4 * H, ROUNDS = 300 };

static void check(ecornn_status status)
{
    if (status == ECORNN_OK)
        return;
    fprintf(stderr, "%s: %s\n", ecornn_status_name(status), ecornn_error_detail());
    exit(1);
}

static int random_below(int limit)
{
    static unsigned seed = 1;
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (unsigned)limit);
}

/* x [T,N,1] of +1 and -1, a length for every row, and as target the sign of the sum. */
static void make_batch(float *x, int32_t *lengths, float *target)
{
    for (int n = 0; n < N; n++) {
        int sum = 0;
        lengths[n] = 1 + 2 * random_below(T / 2); /* odd: the sum is never 0 */
        for (int t = 0; t < T; t++) {
            const int value = 2 * random_below(2) - 1;
            x[t * N + n] = t < lengths[n] ? (float)value : NAN; /* never read */
            sum += t < lengths[n] ? value : 0;
        }
        target[n] = sum > 0 ? 0.8f : -0.8f; /* h is within (-1, 1) */
    }
}

/* Squared distance of unit 0 of the final states from the targets, and its gradient, both [N,H]. */
static double measure(const float *final, const float *target, float *dfinal)
{
    double loss = 0;
    memset(dfinal, 0, sizeof(float) * N * H);
    for (int n = 0; n < N; n++) {
        const float distance = final[n * H] - target[n];
        loss += 0.5 * (double)(distance * distance) / N;
        dfinal[n * H] = distance / N;
    }
    return loss;
}

int main(void)
{
    static float block[BLOCK], dblock[BLOCK], x[T * N], target[N], final[N * H], dfinal[N * H];
    int32_t lengths[N];
    const void *params[PARAMS];
    void *dparams[PARAMS];
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_sizes sizes = {.size = sizeof sizes};
    check(ecornn_device_open(&device, "cpu:1"));
    check(ecornn_plan_create(&plan, device, "gru/train/T12/N32/I1/H16", NULL));
    check(ecornn_plan_sizes(plan, &sizes));
    for (int k = 0; k < BLOCK; k++)
        block[k] = (float)(random_below(2001) - 1000) / 4000;
    for (int k = 0; k < PARAMS; k++) {
        ecornn_param param = {.size = sizeof param};
        check(ecornn_param_get(plan, k, &param));
        params[k] = block + param.offset;
        dparams[k] = dblock + param.offset;
    }
    void *weights = ecornn_alloc(device, sizes.weight_bytes);
    void *dweights = ecornn_alloc(device, sizes.dweight_bytes);
    void *workspace = ecornn_alloc(device, sizes.workspace_bytes);
    void *reserve = ecornn_alloc(device, sizes.reserve_bytes);
    const ecornn_io io = {.size = sizeof io,
                          .lengths = lengths,
                          .x = x,
                          .final = {final}, /* at each row's own last step; y is not needed */
                          .weights = weights,
                          .workspace = workspace,
                          .reserve = reserve};
    const ecornn_gradient gradient = {
        .size = sizeof gradient, .dfinal = {dfinal}, .dweights = dweights};
    for (int round = 0; round <= ROUNDS; round++) {
        make_batch(x, lengths, target);
        check(ecornn_pack(plan, params, NULL, weights, NULL));
        check(ecornn_forward(plan, T, N, &io));
        const double loss = measure(final, target, dfinal);
        check(ecornn_backward(plan, T, N, &io, &gradient));
        check(ecornn_unpack(plan, dweights, dparams, 0, NULL));
        for (int k = 0; k < BLOCK; k++)
            block[k] -= 0.5f * dblock[k];
        if (round % 50 == 0)
            printf("round %3d: loss %.4f\n", round, loss);
    }
    ecornn_free(device, reserve);
    ecornn_free(device, workspace);
    ecornn_free(device, dweights);
    ecornn_free(device, weights);
    ecornn_plan_free(plan);
    ecornn_device_close(device);
    return 0;
}
