/*
 * Plans of a bucket of T and N. Tests which sizes share a bucket, and compares the memory of a run
 * by the bucket's plan with that of a plan for its own size. Problems are random, on each device of
 * the machine.
 */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ecornn.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

/* ---- the rule -------------------------------------------------------------------------------- */

START_TEST(a_bucket_is_up_to_an_eighth_larger)
{
    for (int32_t size = 1; size < 100000; size++) {
        const int32_t bucket = ecornn_bucket(size);
        ck_assert(bucket >= size && 8 * (int64_t)(bucket - size) < size);
        ck_assert(size > 16 || bucket == size);
        ck_assert_int_eq(ecornn_bucket(bucket), bucket);
        ck_assert_int_ge(ecornn_bucket(size + 1), bucket);
    }
}
END_TEST

START_TEST(a_power_of_two_has_eight)
{
    for (int32_t power = 16; power <= 1 << 29; power *= 2) {
        int count = 0;
        for (int32_t size = power; size < 2 * power; size = ecornn_bucket(size + 1))
            count++;
        ck_assert_int_eq(count, 8);
    }
}
END_TEST

START_TEST(the_largest_sizes_are_exact)
{
    ck_assert_int_eq(ecornn_bucket(INT32_MAX), INT32_MAX);
    ck_assert_int_eq(ecornn_bucket(INT32_MAX - (1 << 27)), 15 << 27);
    ck_assert_int_eq(ecornn_bucket(0), 0);
    ck_assert_int_eq(ecornn_bucket(INT32_MIN), INT32_MIN);
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------------- */

static const char *const names[] = {"cpu:1", "cpu:2", "reference", "cuda:0"};
enum { DEVICES = sizeof names / sizeof *names, ROUNDS = 200 };

static int dice(uint64_t *state, int sides)
{
    return (int)(uniform(state) * sides);
}

/* Draws a size; small ones are as likely as large ones. */
static int extent(uint64_t *state, int octaves)
{
    const int least = 1 << dice(state, octaves);
    return least + dice(state, least);
}

struct shape {
    char head[80], tail[40];
    int32_t T, N;
};

static struct shape draw(uint64_t *state)
{
    static const char *const
        cells[] = {"lstm", "gru", "mgu", "qrnn", "lstm-peephole"},
        *const types[] = {"f32", "f64", "bf16", "f32/fast"},
        *const more[] = {"", "/L2", "/bi", "/L2/bi", "/batch-major", "/resets", "/models:3", ""},
        *const saves[] = {"", "", "/save:states", "/save:every:5"};
    struct shape shape = {.T = extent(state, 10), .N = extent(state, 10)};
    const bool training = dice(state, 2);
    const int save = dice(state, 4);
    snprintf(shape.head, sizeof shape.head, "%s/%s/%s%s%s", cells[dice(state, 5)],
             types[dice(state, 4)], training ? "train" : "infer", more[dice(state, 8)],
             training && (save < 3 || shape.T >= 5) ? saves[save] : "");
    snprintf(shape.tail, sizeof shape.tail, "I%d/H%d", 8 * extent(state, 7), 8 * extent(state, 7));
    return shape;
}

/* NULL: the device does not support it. */
static ecornn_plan *plan_of(ecornn_device *device, const struct shape *shape, int32_t T, int32_t N)
{
    char problem[200];
    ecornn_desc desc;
    ecornn_plan *plan;
    snprintf(problem, sizeof problem, "%s/T%d/N%d/%s", shape->head, (int)T, (int)N, shape->tail);
    ck_assert_msg(parse_desc(&desc, problem, NULL) == ECORNN_OK, "%s: %s", problem,
                  ecornn_error_detail());
    return ecornn_plan_create_desc(&plan, device, &desc) == ECORNN_OK ? plan : NULL;
}

/* The plan of the shape itself with the choices of another plan, which the planner might not make:
 * other choices may need more memory. */
static ecornn_plan *plan_like(ecornn_device *device, const struct shape *shape,
                              const ecornn_plan *other)
{
    static char print[1 << 14];
    ck_assert_int_lt(ecornn_plan_print(other, print, sizeof print), sizeof print);
    char *choices = strstr(print, "ECORNN_FORCE="); /* the reference has none */
    if (choices != NULL) {
        choices[strcspn(choices, "\n")] = '\0';
        ck_assert_int_eq(setenv("ECORNN_FORCE", strchr(choices, '=') + 1, 1), 0);
    }
    ecornn_plan *const plan = plan_of(device, shape, shape->T, shape->N);
    ck_assert_int_eq(unsetenv("ECORNN_FORCE"), 0);
    return plan;
}

/* The runs that were compared, those that need more memory, and the most of one.  A GPU, where not
 * every choice is forced, may have a few.  On a CPU the reserve is the same, and chunks of a bucket
 * may have an eighth more rows. */
struct memory {
    double most;
    int runs, more;
};

static void compare(ecornn_device *device, bool gpu, const struct shape *shape,
                    struct memory *memory)
{
    ecornn_sizes own, run, all;
    ecornn_plan *near = plan_of(device, shape, ecornn_bucket(shape->T), ecornn_bucket(shape->N)),
                *exact = near != NULL ? plan_like(device, shape, near) : NULL;
    if (exact != NULL) {
        get_sizes(exact, &own);
        get_sizes(near, &all);
        check_ok(get_run_sizes(near, shape->T, shape->N, &run));
        ck_assert(run.workspace_bytes <= all.workspace_bytes &&
                  run.reserve_bytes <= all.reserve_bytes);
        ck_assert(run.weight_bytes == all.weight_bytes && run.dweight_bytes == all.dweight_bytes);
        const double ratio = (double)(run.workspace_bytes + run.reserve_bytes) /
                             ((double)own.workspace_bytes + (double)own.reserve_bytes);
        const double most = gpu ? 1.05 : 1.125;
        ck_assert(gpu || run.reserve_bytes == own.reserve_bytes);
        if (ratio > most)
            printf("# %s/T%d/N%d/%s: %zu + %zu bytes, alone %zu + %zu\n", shape->head,
                   (int)shape->T, (int)shape->N, shape->tail, run.workspace_bytes,
                   run.reserve_bytes, own.workspace_bytes, own.reserve_bytes);
        memory->runs++;
        memory->more += ratio > most;
        memory->most = ratio > memory->most ? ratio : memory->most;
    }
    ecornn_plan_free(exact);
    ecornn_plan_free(near);
}

START_TEST(runs_take_what_their_own_plan_would)
{
    uint64_t state = (uint64_t)_i;
    struct memory memory = {0};
    const bool gpu = strncmp(names[_i], "cuda", 4) == 0;
    if (suite_lacks(names[_i]))
        return;
    ecornn_device *const device = device_on(names[_i]);
    for (int round = 0; round < ROUNDS; round++) {
        const struct shape shape = draw(&state);
        compare(device, gpu, &shape, &memory);
    }
    printf("# %s: %d runs of buckets take up to %.3f of the memory of their own plans\n", names[_i],
           memory.runs, memory.most);
    ck_assert_int_gt(memory.runs, ROUNDS / 2);
    ck_assert_int_le(memory.more, gpu ? ROUNDS / 100 : 0);
    ecornn_device_close(device);
}
END_TEST

/* ---- arguments ------------------------------------------------------------------------------- */

START_TEST(sizes_of_a_run)
{
    ecornn_sizes all, run;
    const struct shape shape = {"lstm/f32/train", "I8/H8", 20, 6};
    ecornn_device *const device = device_on("cpu:1");
    ecornn_plan *plan = plan_of(device, &shape, shape.T, shape.N);
    get_sizes(plan, &all);
    check_ok(get_run_sizes(plan, 20, 6, &run));
    ck_assert(run.workspace_bytes == all.workspace_bytes && run.reserve_bytes == all.reserve_bytes);
    check_ok(get_run_sizes(plan, 10, 6, &run));
    ck_assert(run.reserve_bytes < all.reserve_bytes && run.param_elements == all.param_elements);
    check_ok(get_run_sizes(plan, 0, 6, &run));
    ck_assert(run.reserve_bytes == 0 && run.workspace_bytes == 0 &&
              run.weight_bytes == all.weight_bytes);
    REFUSES(get_run_sizes(plan, 21, 6, &run), "steps is 21, must be 0 to 20");
    REFUSES(get_run_sizes(plan, 20, -2, &run), "batch is -2, must be 0 to 6");
    REFUSES(get_run_sizes(NULL, 1, 1, &run), "plan is NULL");
    REFUSES(ecornn_run_sizes(plan, 1, 1, NULL), "sizes is NULL");
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}
END_TEST

TEST_MAIN("bucket", {a_bucket_is_up_to_an_eighth_larger, 1}, {a_power_of_two_has_eight, 1},
          {the_largest_sizes_are_exact, 1}, {runs_take_what_their_own_plan_would, DEVICES},
          {sizes_of_a_run, 1})
