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

#include <ecornn/experimental.h>

#include "bench/core/problem.h"
#include "bench/core/say.h"
#include "bench/core/stats.h"
#include "command.h"

enum { ARRAYS = 10, ROUNDS_MIN = 5, ROUNDS_MAX = 2000, WARM_UP_RUNS = 3 };

/* The plan and the arrays on the device. */
struct work {
    const char *problem;
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    void *arrays[ARRAYS];
    ecornn_attention_io io;
    ecornn_attention_gradient gradient;
};

static bool check(const struct work *work, ecornn_status status)
{
    return status == ECORNN_OK ||
           say("%s: %s: %s", work->problem, ecornn_status_name(status), ecornn_error_detail());
}

/* The type that the problem names; F32 if it names none. */
static ecornn_type type_of(const char *problem)
{
    return strstr(problem, "/f64")    ? ECORNN_F64
           : strstr(problem, "/bf16") ? ECORNN_BF16
           : strstr(problem, "/f16")  ? ECORNN_F16
                                      : ECORNN_F32;
}

static bool make_arrays(struct work *work)
{
    const ecornn_sizes *sizes = &work->sizes;
    const size_t T = (size_t)sizes->steps, S = (size_t)sizes->source, N = (size_t)sizes->batch;
    const size_t H = (size_t)sizes->input, V = (size_t)sizes->output;
    const ecornn_type rows = type_of(work->problem),
                      wide = rows == ECORNN_F64 ? ECORNN_F64 : ECORNN_F32;
    /* query, keys, values, vector, context; their gradients in another order */
    const size_t count[ARRAYS] = {T * N * H, S * N * H, S * N * V, H,         T * N * V,
                                  T * N * V, T * N * H, S * N * H, S * N * V, H};
    uint64_t state = 1;
    for (int k = 0; k < ARRAYS; k++) {
        const ecornn_type type = k == 3 || k == 9 ? wide : rows;
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

static bool open_work(struct work *work)
{
    void **a = work->arrays;
    work->sizes.size = sizeof work->sizes;
    if (!check(work, ecornn_plan_create(&work->plan, work->device, work->problem, NULL)) ||
        !check(work, ecornn_plan_sizes(work->plan, &work->sizes)) || !make_arrays(work))
        return false;
    work->io =
        (ecornn_attention_io){.size = sizeof work->io,
                              .query = a[0],
                              .keys = a[1],
                              .values = a[2],
                              .vector = a[3],
                              .context = a[4],
                              .workspace = ecornn_alloc(work->device, work->sizes.workspace_bytes),
                              .reserve = ecornn_alloc(work->device, work->sizes.reserve_bytes)};
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
    ecornn_plan_free(work->plan);
}

static bool run(const struct work *work, bool backward)
{
    const int32_t T = work->sizes.steps, S = work->sizes.source, N = work->sizes.batch;
    return check(work, backward ? ecornn_attention_backward(work->plan, T, S, N, &work->io,
                                                            &work->gradient)
                                : ecornn_attention_forward(work->plan, T, S, N, &work->io)) &&
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
    if (options->csv || options->json || options->versus || options->threads)
        return say("%s: attention is measured without --csv, --json, --versus and --threads",
                   problem);
    bool good = open_work(&work);
    if (good) {
        printf("%-44s", problem);
        good = time_pass(&work, false, seconds) &&
               (work.sizes.reserve_bytes == 0 || time_pass(&work, true, seconds));
        printf("; bytes: workspace %zu, reserve %zu\n", work.sizes.workspace_bytes,
               work.sizes.reserve_bytes);
    }
    close_work(&work);
    return good;
}
