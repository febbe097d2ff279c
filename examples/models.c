/* Many small nets in one run. Prints how long a training run of 16 LSTMs takes, and how long 16
 * separate runs take.
 *
 *     models [PROBLEM]        of one of them, e.g. lstm/train/T50/N32/I32/H128; on all CPUs
 */
#include <ecornn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MODELS = 16, ROUNDS = 9 };

static void check(ecornn_status status)
{
    if (status != ECORNN_OK)
        puts(ecornn_error_detail()), exit(1);
}

/* A plan, and arrays of all models: x [M,T,N,I], y [M,T,N,D*P]. */
struct run {
    ecornn_plan *plan;
    int32_t steps, batch;
    ecornn_io io;
    ecornn_gradient gradient;
};

static float *numbers(size_t n)
{
    float *array = malloc(n * sizeof *array);
    for (size_t k = 0; k < n; k++) /* a real program has data and weights */
        array[k] = 0.01f * (float)((int)(k % 13) - 6);
    return array;
}

static struct run make(ecornn_device *device, const ecornn_desc *desc)
{
    struct run run = {.io.size = sizeof run.io, .gradient.size = sizeof run.gradient};
    ecornn_sizes sizes = {.size = sizeof sizes};
    check(ecornn_plan_create_desc(&run.plan, device, desc));
    check(ecornn_plan_sizes(run.plan, &sizes));
    run.steps = sizes.steps;
    run.batch = sizes.batch;
    const size_t rows = (size_t)MODELS * (size_t)desc->steps * (size_t)desc->batch;
    const size_t width = 2 * (size_t)(desc->proj ? desc->proj : desc->hidden);
    const int count = sizes.param_count;
    const void **params = malloc((size_t)count * sizeof *params);
    const float *block = numbers(sizes.param_elements);
    for (int k = 0; k < count; k++) { /* a model's parameters follow those of the model before */
        ecornn_param param = {.size = sizeof param};
        check(ecornn_param_get(run.plan, k, &param));
        params[k] = block + param.offset;
    }
    void *weights = ecornn_alloc(device, sizes.weight_bytes);
    check(ecornn_pack(run.plan, params, NULL, weights, NULL));
    run.io.x = numbers(rows * (size_t)desc->input);
    run.io.y = numbers(rows * width);
    run.io.weights = weights;
    run.io.workspace = ecornn_alloc(device, sizes.workspace_bytes);
    run.io.reserve = ecornn_alloc(device, sizes.reserve_bytes);
    run.gradient.dy = numbers(rows * width);
    run.gradient.dx = numbers(rows * (size_t)desc->input);
    run.gradient.dweights = ecornn_alloc(device, sizes.dweight_bytes);
    return run;
}

/* Milliseconds of this number of runs. */
static double train(const struct run *run, int times)
{
    struct timespec begin, end;
    timespec_get(&begin, TIME_UTC);
    for (int k = 0; k < times; k++) {
        check(ecornn_forward(run->plan, run->steps, run->batch, &run->io));
        check(ecornn_backward(run->plan, run->steps, run->batch, &run->io, &run->gradient));
    }
    timespec_get(&end, TIME_UTC);
    return 1e3 * (double)(end.tv_sec - begin.tv_sec) + 1e-6 * (double)(end.tv_nsec - begin.tv_nsec);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    ecornn_device *device;
    ecornn_desc desc = {.size = sizeof desc};
    double together[ROUNDS], apart[ROUNDS];
    check(ecornn_device_open(&device, "cpu"));
    check(ecornn_desc_parse(&desc, argc > 1 ? argv[1] : "lstm/train/T50/N32/I32/H128", NULL));
    if (desc.type != ECORNN_F32 || !(desc.flags & ECORNN_TRAINING))
        puts("the problem must be of f32 and train"), exit(1);
    const struct run one = make(device, &desc);
    desc.models = MODELS;
    const struct run all = make(device, &desc);
    train(&all, 1), train(&one, MODELS); /* the first runs start threads and touch pages */
    for (int k = 0; k < ROUNDS; k++) {
        together[k] = train(&all, 1);
        apart[k] = train(&one, MODELS);
    }
    qsort(together, ROUNDS, sizeof *together, compare);
    qsort(apart, ROUNDS, sizeof *apart, compare);
    printf("%d models: %.2f ms in one run, %.2f ms one by one, medians of %d: %.2f times as fast\n",
           MODELS, together[ROUNDS / 2], apart[ROUNDS / 2], ROUNDS,
           apart[ROUNDS / 2] / together[ROUNDS / 2]);
    return 0; /* lengths.c shows what to free */
}
