/*
 * ecornn bench of attention: forward and backward of a problem.
 *
 * Times are the host's, around a run and the wait for it, so short runs on a GPU look some
 * microseconds longer than they are.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/problem.h"
#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "command.h"

enum { ARRAYS = 10, ROUNDS_MIN = 5, ROUNDS_MAX = 2000, WARM_UP_RUNS = 3 };

/* The plan and the arrays on the device. */
struct work {
    const char *problem;
    ecornn_device *device;
    ecornn_attention_plan *plan;
    ecornn_attention_sizes sizes;
    void *arrays[ARRAYS];
    ecornn_attention_io io;
    ecornn_attention_gradient gradient;
};

static bool check(const struct work *work, ecornn_status status)
{
    return status == ECORNN_OK ||
           say("%s: %s: %s", work->problem, ecornn_status_name(status), ecornn_error_detail());
}

static bool make_arrays(struct work *work, const ecornn_attention_desc *desc)
{
    const size_t T = (size_t)desc->steps, S = (size_t)desc->source, N = (size_t)desc->batch;
    const size_t H = (size_t)desc->hidden, V = desc->value ? (size_t)desc->value : H;
    const ecornn_type wide = desc->type == ECORNN_F64 ? ECORNN_F64 : ECORNN_F32;
    /* query, keys, values, vector, context; their gradients in another order */
    const size_t count[ARRAYS] = {T * N * H, S * N * H, S * N * V, H,         T * N * V,
                                  T * N * V, T * N * H, S * N * H, S * N * V, H};
    uint64_t state = 1;
    for (int k = 0; k < ARRAYS; k++) {
        const ecornn_type type = k == 3 || k == 9 ? wide : desc->type;
        const size_t bytes = count[k] * type_bytes(type);
        void *host = random_array(type, count[k], 1, &state);
        work->arrays[k] = ecornn_alloc(work->device, bytes);
        const bool good = host && work->arrays[k] &&
                          check(work, ecornn_upload(work->device, work->arrays[k], host, bytes));
        free(host);
        if (!good)
            return say("%s: no memory for %zu bytes", work->problem, bytes);
    }
    return true;
}

static bool open_work(struct work *work, const ecornn_attention_desc *desc)
{
    void **a = work->arrays;
    if (!check(work, ecornn_attention_plan_create(&work->plan, work->device, desc)) ||
        !make_arrays(work, desc))
        return false;
    ecornn_attention_plan_sizes(work->plan, &work->sizes);
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
    return true;
}

static void close_work(struct work *work)
{
    for (int k = 0; k < ARRAYS; k++)
        ecornn_free(work->device, work->arrays[k]);
    ecornn_free(work->device, work->io.workspace);
    ecornn_free(work->device, work->io.reserve);
    ecornn_attention_plan_free(work->plan);
}

static bool run(const struct work *work, bool backward)
{
    return check(work, backward ? ecornn_attention_backward(work->plan, &work->io, &work->gradient)
                                : ecornn_attention_forward(work->plan, &work->io)) &&
           check(work, ecornn_wait(work->device, NULL));
}

/* Runs for this number of seconds, and prints median and quartiles of a run's time. */
static bool time_pass(const struct work *work, bool backward, double seconds)
{
    double times[ROUNDS_MAX], sum = 0;
    int n = 0;
    for (int k = 0; k < WARM_UP_RUNS; k++)
        if (!run(work, backward))
            return false;
    for (; n < ROUNDS_MAX && (n < ROUNDS_MIN || sum < seconds); n++) {
        const double start = now();
        if (!run(work, backward))
            return false;
        times[n] = now() - start;
        sum += times[n];
    }
    const struct spread spread = spread_of(times, n);
    printf("%s %.3f ms [%.3f, %.3f]", backward ? ", backward" : " forward", 1e3 * spread.median,
           1e3 * spread.low, 1e3 * spread.high);
    return true;
}

bool is_attention(const char *problem)
{
    return strncmp(problem, "attention/", strlen("attention/")) == 0;
}

bool attention_bench(struct session *session, const char *problem)
{
    const struct options *options = session->options;
    const double seconds = options->seconds > 0 ? options->seconds : 1;
    struct work work = {.problem = problem, .device = session->device};
    ecornn_attention_desc desc;
    if (options->csv || options->json || options->versus || options->threads)
        return say("%s: attention is measured without --csv, --json, --versus and --threads",
                   problem);
    if (!check(&work, ecornn_attention_desc_parse(&desc, problem)))
        return false;
    bool good = open_work(&work, &desc);
    if (good) {
        printf("%-44s", problem);
        good = time_pass(&work, false, seconds) &&
               (!(desc.flags & ECORNN_TRAINING) || time_pass(&work, true, seconds));
        printf("; bytes: workspace %zu, reserve %zu\n", work.sizes.workspace, work.sizes.reserve);
    }
    close_work(&work);
    return good;
}
