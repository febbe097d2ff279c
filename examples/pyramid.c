/* A pyramidal listener: each layer hears half as many steps as the one below.  Runs training steps
 * on made-up data and prints how long one takes.
 *
 *     pyramid [NET]        of F32 and train, e.g. "train/T200/N8/I40; lstm/H64/bi; join:2; gru/H64"
 */
#include <ecornn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(ecornn_status status)
{
    if (status != ECORNN_OK)
        puts(ecornn_error_detail()), exit(1);
}

static double now(void)
{
    struct timespec at;
    timespec_get(&at, TIME_UTC);
    return 1e3 * (double)at.tv_sec + 1e-6 * (double)at.tv_nsec;
}

static float *numbers(size_t n)
{
    float *array = malloc(n * sizeof *array);
    for (size_t k = 0; k < n; k++) /* a real program has data and weights */
        array[k] = 0.01f * (float)((int)(k % 13) - 6);
    return array;
}

/* Pointers to the parameters of all layers.  `block` has room for all of them. */
static void **pointers(const ecornn_plan *plan, const ecornn_sizes *sizes, float *block)
{
    void **params = malloc((size_t)sizes->param_count * sizeof *params);
    for (int k = 0; k < sizes->param_count; k++) {
        ecornn_param param = {.size = sizeof param};
        check(ecornn_param_get(plan, k, &param));
        params[k] = block + param.offset;
    }
    return params;
}

int main(int argc, char **argv)
{
    const char *net = argc > 1 ? argv[1]
                               : "train/T400/N16/I40; lstm/H128/bi; join:2; lstm/H128/bi; join:2; "
                                 "lstm/H128/bi; join:2; lstm/H128/bi";
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_sizes sizes = {.size = sizeof sizes};
    check(ecornn_device_open(&device, "cpu"));
    check(ecornn_plan_create(&plan, device, net, NULL));
    check(ecornn_plan_sizes(plan, &sizes));
    const size_t steps = (size_t)((sizes.steps + sizes.joined - 1) / sizes.joined);
    const size_t x = (size_t)sizes.steps * (size_t)sizes.batch * (size_t)sizes.input;
    const size_t y = steps * (size_t)sizes.batch * (size_t)sizes.output;
    void **params = pointers(plan, &sizes, numbers(sizes.param_elements));
    void **dparams = pointers(plan, &sizes, numbers(sizes.param_elements));
    void *weights = ecornn_alloc(device, sizes.weight_bytes);
    const ecornn_io io = {.size = sizeof io,
                          .x = numbers(x),
                          .y = numbers(y),
                          .weights = weights,
                          .workspace = ecornn_alloc(device, sizes.workspace_bytes),
                          .reserve = ecornn_alloc(device, sizes.reserve_bytes)};
    const ecornn_gradient gradient = {.size = sizeof gradient,
                                      .dy = numbers(y),
                                      .dx = numbers(x),
                                      .dweights = ecornn_alloc(device, sizes.dweight_bytes)};
    double begin = 0, forward = 0, end = 0;
    for (int k = 0; k < 3; k++) { /* the first also starts threads and touches pages */
        begin = now();
        check(ecornn_pack(plan, (const void *const *)params, NULL, weights, NULL));
        check(ecornn_forward(plan, sizes.steps, sizes.batch, &io));
        forward = now();
        check(ecornn_backward(plan, sizes.steps, sizes.batch, &io, &gradient));
        check(ecornn_unpack(plan, gradient.dweights, dparams, 0, NULL));
        end = now();
    }
    printf("%d steps to %zu: %.1f ms forward, %.1f ms back\n", sizes.steps, steps, forward - begin,
           end - forward);
    return 0; /* lengths.c shows what to free */
}
