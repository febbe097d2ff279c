/*
 * bench/bench_attention: how long attention takes, forward and back, on a device.
 *
 *     bench_attention [--device NAME] [--runs K] [PROBLEM...]
 *
 * PROBLEM: as ecornn_attention_desc_parse reads it.  A line each: median and quartiles of forward
 * and of backward in milliseconds, and the bytes of workspace and reserve.  Of a GPU the clock is
 * the host's, around a run and the wait for it: short runs look some microseconds longer.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/stats.h"
#include "ecornn.h"

enum { MOST_RUNS = 1000, ARRAYS = 10 };

/* A problem's plan and arrays, on the device. */
struct work {
    ecornn_device *device;
    ecornn_attention_plan *plan;
    ecornn_attention_sizes sizes;
    void *array[ARRAYS];
    ecornn_attention_io io;
    ecornn_attention_gradient gradient;
};

static void check(ecornn_status status)
{
    if (status == ECORNN_OK)
        return;
    fprintf(stderr, "bench_attention: %s: %s\n", ecornn_status_name(status), ecornn_error_detail());
    exit(EXIT_FAILURE);
}

static size_t element_bytes(ecornn_type type)
{
    return type == ECORNN_F64 ? 8 : type == ECORNN_F32 ? 4 : 2;
}

/* Small numbers of the type: BF16 and F16 whose upper bytes make them about 1/2. */
static void fill(void *host, size_t count, ecornn_type type)
{
    for (size_t i = 0; i < count; i++) {
        const double value = (double)(i * 7919 % 2003) / 1001.5 - 1;
        const uint16_t half = (uint16_t)((type == ECORNN_BF16 ? 0x3e80 : 0x3400) |
                                         (i * 7919 % 128) | (i * 31 % 2) << 15);
        if (type == ECORNN_F64)
            ((double *)host)[i] = value;
        else if (type == ECORNN_F32)
            ((float *)host)[i] = (float)value;
        else
            ((uint16_t *)host)[i] = half;
    }
}

static void *make(struct work *work, size_t count, ecornn_type type)
{
    const size_t bytes = count * element_bytes(type);
    void *host = malloc(bytes), *memory = ecornn_alloc(work->device, bytes);
    if (!host || !memory) {
        fprintf(stderr, "bench_attention: no memory for %zu bytes\n", bytes);
        exit(EXIT_FAILURE);
    }
    fill(host, count, type);
    check(ecornn_upload(work->device, memory, host, bytes));
    free(host);
    return memory;
}

static void open_work(struct work *work, const ecornn_attention_desc *desc)
{
    const size_t T = (size_t)desc->steps, S = (size_t)desc->source, N = (size_t)desc->batch;
    const size_t H = (size_t)desc->hidden, V = desc->value ? (size_t)desc->value : H;
    const ecornn_type wide = desc->type == ECORNN_F64 ? ECORNN_F64 : ECORNN_F32;
    const size_t count[ARRAYS] = {T * N * H, S * N * H, S * N * V, H,         T * N * V,
                                  T * N * V, T * N * H, S * N * H, S * N * V, H};
    check(ecornn_attention_plan_create(&work->plan, work->device, desc));
    ecornn_attention_plan_sizes(work->plan, &work->sizes);
    for (int k = 0; k < ARRAYS; k++)
        work->array[k] = make(work, count[k], k == 3 || k == 9 ? wide : desc->type);
    void **a = work->array;
    work->io = (ecornn_attention_io){.size = sizeof work->io,
                                     .query = a[0],
                                     .keys = a[1],
                                     .values = a[2],
                                     .vector = a[3],
                                     .context = a[4],
                                     .workspace = ecornn_alloc(work->device, work->sizes.workspace),
                                     .reserve = ecornn_alloc(work->device, work->sizes.reserve)};
    work->gradient = (ecornn_attention_gradient){.size = sizeof work->gradient,
                                                 .dcontext = a[5],
                                                 .dquery = a[6],
                                                 .dkeys = a[7],
                                                 .dvalues = a[8],
                                                 .dvector = a[9]};
}

static void close_work(struct work *work)
{
    for (int k = 0; k < ARRAYS; k++)
        ecornn_free(work->device, work->array[k]);
    ecornn_free(work->device, work->io.workspace);
    ecornn_free(work->device, work->io.reserve);
    ecornn_attention_plan_free(work->plan);
}

/* One run in seconds. */
static double run(const struct work *work, bool backward)
{
    const double start = now();
    check(backward ? ecornn_attention_backward(work->plan, &work->io, &work->gradient)
                   : ecornn_attention_forward(work->plan, &work->io));
    check(ecornn_wait(work->device, NULL));
    return now() - start;
}

static struct spread measure(const struct work *work, bool backward, int runs)
{
    double seconds[MOST_RUNS];
    for (int k = 0; k < 3; k++)
        run(work, backward);
    for (int k = 0; k < runs; k++)
        seconds[k] = run(work, backward);
    return spread_of(seconds, runs);
}

static void bench(ecornn_device *device, const char *problem, int runs)
{
    struct work work = {.device = device};
    ecornn_attention_desc desc;
    check(ecornn_attention_desc_parse(&desc, problem));
    open_work(&work, &desc);
    const struct spread forward = measure(&work, false, runs);
    printf("%s: forward %.3f ms (%.3f to %.3f)", problem, 1e3 * forward.median, 1e3 * forward.low,
           1e3 * forward.high);
    if (desc.flags & ECORNN_TRAINING) {
        const struct spread back = measure(&work, true, runs);
        printf(", backward %.3f ms (%.3f to %.3f)", 1e3 * back.median, 1e3 * back.low,
               1e3 * back.high);
    }
    printf("; bytes: workspace %zu, reserve %zu\n", work.sizes.workspace, work.sizes.reserve);
    close_work(&work);
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"attention/additive/f32/train/T50/S50/N128/H512",
                                        "attention/additive/bf16/train/T50/S50/N128/H512",
                                        "attention/additive/f32/infer/T1/S50/N128/H512"};
    const char *name = NULL;
    int runs = 20, at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (strcmp(argv[at], "--device") == 0)
            name = argv[at + 1];
        else if (strcmp(argv[at], "--runs") == 0)
            runs = atoi(argv[at + 1]);
        else
            break;
    }
    if (runs < 1 || runs > MOST_RUNS || (at < argc && argv[at][0] == '-')) {
        fprintf(stderr, "usage: bench_attention [--device NAME] [--runs 1..%d] [PROBLEM...]\n",
                MOST_RUNS);
        return EXIT_FAILURE;
    }
    ecornn_device *device;
    ecornn_device_info info;
    check(ecornn_device_open(&device, name));
    check(ecornn_device_query(device, &info));
    printf("# %s, %s, %d threads, %d runs\n", info.name, info.variant, (int)info.threads, runs);
    for (int k = at; k < argc; k++)
        bench(device, argv[k], runs);
    for (size_t k = 0; at == argc && k < sizeof usual / sizeof *usual; k++)
        bench(device, usual[k], runs);
    ecornn_device_close(device);
    return EXIT_SUCCESS;
}
