/*
 * Little address space, in which OpenBLAS would ask for its buffers for ever. A run must take fewer
 * threads, with the same bits, or fail with an error, and must succeed once there is enough memory.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cpu/cpu.h"
#include "tests/kit/calls.h"
#include "tests/kit/planned.h"
#include "tests/kit/suite.h"

#include <cblas.h>

enum { LIMITS = !SANITIZED }; /* sanitizers need address space of their own */

enum { STEPS = 20, ROWS = 16, INPUT = 64, HIDDEN = 128, MIB = 1 << 20 };
static double x[STEPS * ROWS * INPUT], y[2][STEPS * ROWS * HIDDEN];

static void make(struct planned *run, const char *device)
{
    char text[64];
    snprintf(text, sizeof text, "gru/f64/T%d/N%d/I%d/H%d", STEPS, ROWS, INPUT, HIDDEN);
    planned_open(run, device, text, NULL);
    double *params = calloc(run->sizes.param_elements, sizeof *params);
    for (size_t k = 0; k < run->sizes.param_elements; k++)
        params[k] = (double)(k * 2654435761u % 1000) / 8000 - 0.06;
    planned_pack(run, params, run->weights);
    free(params);
}

static ecornn_status forward(const struct planned *run, double *to)
{
    ecornn_io io = planned_io(run);
    io.x = x, io.y = to;
    return forward_all(run->plan, &io);
}

/* Pages of address space in use. */
static long pages_now(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    return pages;
}

/* Limits the address space to `more` MiB above what the process uses. */
static void limit(struct rlimit *before, int more)
{
    ck_assert_int_eq(getrlimit(RLIMIT_AS, before), 0);
    struct rlimit now = *before;
    now.rlim_cur = (rlim_t)pages_now() * (rlim_t)sysconf(_SC_PAGESIZE) + (rlim_t)more * MIB;
    if (LIMITS)
        ck_assert_int_eq(setrlimit(RLIMIT_AS, &now), 0);
}

static const int more[] = {8, 40, 150, 300, 700};
enum { MORE = sizeof more / sizeof *more };

START_TEST(a_run_ends)
{
    struct rlimit before;
    struct planned four, one;
    for (size_t k = 0; k < sizeof x / sizeof *x; k++)
        x[k] = (double)(k * 40503u % 2000) / 1000 - 1;
    make(&four, "cpu:4");
    make(&one, "cpu:1");
    limit(&before, more[_i]);
    const ecornn_status status = forward(&four, y[0]);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    if (status != ECORNN_OK) {
        check_refused(status, ECORNN_NO_MEMORY, "address space");
        ck_assert_int_lt(more[_i], 150); /* a little more than one buffer */
        check_ok(forward(&four, y[0]));
    }
    check_ok(forward(&one, y[1]));
    ck_assert_mem_eq(y[0], y[1], sizeof y[0]);
    planned_close(&four);
    planned_close(&one);
}
END_TEST

#ifdef OPENBLAS_VERSION
__attribute__((weak)) void *blas_memory_alloc(int unused);
__attribute__((weak)) void blas_memory_free(void *buffer);

/* While threads of another run hold buffers, only the missing ones are allocated. */
START_TEST(none_is_allocated_twice)
{
    enum { EACH = 3 };
    void *held[EACH];
    if (suite_skips(blas_memory_alloc == NULL, "no OpenBLAS"))
        return;
    const long each = 128L * MIB / sysconf(_SC_PAGESIZE); /* or less */
    ck_assert_int_eq(eco_cpu_blas_take(EACH), EACH);
    const long before = pages_now();
    for (int k = 0; k < EACH; k++)
        held[k] = blas_memory_alloc(0);
    ck_assert_int_eq(eco_cpu_blas_take(EACH), EACH);
    ck_assert_int_le(pages_now() - before, EACH * each);
    for (int k = 0; k < EACH; k++)
        blas_memory_free(held[k]);
    eco_cpu_blas_give(2 * EACH);
}
END_TEST

/* OpenBLAS ends a process that holds more buffers than its table has entries. */
START_TEST(threads_have_places)
{
    enum { MORE_THAN_PLACES = 1 << 20 };
    const char *threads = strstr(openblas_get_config(), "MAX_THREADS=");
    const int twice = threads == NULL ? 0 : 2 * atoi(threads + strlen("MAX_THREADS="));
    const int taken = eco_cpu_blas_take(MORE_THAN_PLACES);
    ck_assert_int_gt(taken, 0);
    ck_assert_int_lt(taken, twice < 50 ? 50 : twice);
    ck_assert_int_eq(eco_cpu_blas_take(1), 0);
    eco_cpu_blas_give(taken);
    ck_assert_int_eq(eco_cpu_blas_take(1), 1);
    eco_cpu_blas_give(1);
}
END_TEST
#else
START_TEST(none_is_allocated_twice)
{
}
END_TEST
START_TEST(threads_have_places)
{
}
END_TEST
#endif

TEST_MAIN("blas memory", {a_run_ends, MORE}, {none_is_allocated_twice, 1}, {threads_have_places, 1})
