/*
 * Prints how long a tick of many streams takes: the median and the 99th percentile, in ms.
 *
 *     time_streams PROBLEM [PERCENT [SECONDS [DEVICE [PERIOD]]]]   N of the problem is the number
 * of streams; PERCENT of them, 100, are active in a tick; a tick begins every PERIOD ms, 0: at once
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/problem.h"
#include "ecornn.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void *moved(ecornn_device *device, void *from, size_t bytes)
{
    void *const to = ecornn_alloc(device, bytes);
    if (ecornn_upload(device, to, from, bytes) != ECORNN_OK)
        exit(1);
    free(from);
    return to;
}

static void *filled(ecornn_device *device, size_t elements, ecornn_type type)
{
    const size_t bytes = elements * (type == ECORNN_BF16 ? 2 : 4);
    unsigned char *to = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) /* numbers of about 0.001 to 0.5, and their negatives */
        to[i] = (unsigned char)(i % (type == ECORNN_BF16 ? 2 : 4) == (type == ECORNN_BF16 ? 1 : 3)
                                    ? 0x3b + rand() % 4 + (rand() % 2 ? 0x80 : 0)
                                    : rand() % 128);
    return moved(device, to, bytes);
}

/* Lists of active streams, each for a tick. */
enum { LISTS = 7 };
static void list_streams(ecornn_device *device, const int32_t *list[LISTS], int32_t N,
                         int32_t active)
{
    for (int k = 0; k < LISTS; k++) {
        int32_t *const rows = malloc((size_t)N * sizeof *rows);
        for (int32_t n = 0; n < active; n++)
            rows[n] = (int32_t)((n + (double)k / LISTS) * N / active);
        list[k] = moved(device, rows, (size_t)active * sizeof *rows);
    }
}

/* Sleeps until a time of now(). */
static void wait_until(double time)
{
    const double left = time - now();
    const struct timespec some = {(time_t)left, (long)(1e9 * (left - (double)(time_t)left))};
    if (left > 0)
        nanosleep(&some, NULL);
}

enum { MOST = 1 << 20 };

int main(int argc, char **argv)
{
    ecornn_desc desc;
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_sizes sizes = {.size = sizeof sizes};
    const double percent = argc > 2 ? atof(argv[2]) : 100, seconds = argc > 3 ? atof(argv[3]) : 10;
    const double period = argc > 5 ? 1e-3 * atof(argv[5]) : 0, begin = now();
    if (argc < 2 || eco_problem_parse(&desc, argv[1], NULL) != ECORNN_OK ||
        ecornn_device_open(&device, argc > 4 ? argv[4] : "cpu") != ECORNN_OK ||
        ecornn_plan_create(&plan, device, argv[1], NULL) != ECORNN_OK ||
        ecornn_plan_sizes(plan, &sizes) != ECORNN_OK) {
        fprintf(stderr, "%s\n", argc < 2 ? "time_streams PROBLEM" : ecornn_error_detail());
        return 1;
    }
    const size_t N = (size_t)desc.batch, H = (size_t)desc.hidden;
    const int32_t active = (int32_t)((double)N * percent / 100);
    const int32_t *list[LISTS];
    double *took = malloc(MOST * sizeof *took);
    const void *from[64];
    float *params = filled(device, sizes.param_elements, ECORNN_F32);
    for (int i = 0; i < sizes.param_count && i < 64; i++) {
        ecornn_param param = {.size = sizeof param};
        ecornn_param_get(plan, i, &param);
        from[i] = params + param.offset;
    }
    ecornn_io io = {.size = sizeof io,
                    .x = filled(device, N * (size_t)desc.input, desc.type),
                    .y = filled(device, N * H, desc.type),
                    .weights = ecornn_alloc(device, sizes.weight_bytes),
                    .workspace = ecornn_alloc(device, sizes.workspace_bytes),
                    .streams = desc.batch};
    for (int s = 0; s < desc.cell->recipe.n_states; s++)
        io.initial[s] = io.final[s] = filled(device, N * H, desc.type);
    list_streams(device, list, desc.batch, active);
    ecornn_status status = ecornn_pack(plan, from, NULL, (void *)(size_t)io.weights, NULL);
    int ticks = 0;
    for (const double end = now() + seconds; status == ECORNN_OK && ticks < MOST && now() < end;) {
        io.rows = list[ticks % LISTS];
        if (period > 0)
            wait_until(begin + period * ceil((now() - begin) / period));
        const double start = now();
        status = ecornn_forward(plan, 1, active, &io);
        if (status == ECORNN_OK)
            status = ecornn_wait(device, NULL);
        took[ticks++] = now() - start;
    }
    if (status != ECORNN_OK) {
        fprintf(stderr, "%s\n", ecornn_error_detail());
        return 1;
    }
    qsort(took, (size_t)ticks, sizeof *took, ascending);
    printf("%s, %d active: median %.3f ms, 99th percentile %.3f ms, %d ticks\n", argv[1],
           (int)active, 1e3 * took[ticks / 2], 1e3 * took[ticks * 99 / 100], ticks);
    return 0;
}
