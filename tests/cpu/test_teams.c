/*
 * How many threads a run takes, and how they share its steps. The plans are for a simulated
 * machine, on which nothing runs. The expected answers were the fastest on a real machine of this
 * kind, with 8 of 16 virtual cores.
 */
#include <check.h>
#include <stdlib.h>

#include "cpu/cpu.h"
#include "cpu/gemm/packed/packed.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

static const struct {
    const char *problem;
    int threads, ops, rows, units;
} choice[] = {
    /* so small that waking other threads and waiting for them costs more than it gains */
    {"lstm/train/L2/bi/T3/N5/I85/H19", 1, 1, 1, 1},
    {"lstm/train/L2/T1/N5/I72/H65", 1, 1, 1, 1},
    {"gru/infer/T20/N5/I8/H9", 1, 1, 1, 1},
    /* directions are separate, so that each thread reads the weights of one only */
    {"lstm-coupled/train/bi/T8/N8/I12/H547", 8, 2, 1, 4},
    /* the fixed cost of a step decides */
    {"lstm/infer/bi/T57/N2/I16/H19", 4, 2, 2, 1},
    /* if the batch were divided, threads would read weights again that do not fit their caches */
    {"gru/infer/L2/T13/N9/I324/H565", 8, 1, 1, 8},
    /* if rows are divided, threads exchange nothing */
    {"gru-reset-first/infer/T2/N55/I25/H115", 8, 1, 8, 1},
    {"gru/infer/L2/bi/T14/N62/I15/H46", 8, 1, 8, 1},
    {"gru/infer/T34/N5/I63/H872", 8, 1, 1, 8},
    /* steps are short, but all threads share the products of the upper layer */
    {"min-gru/infer/L2/T30/N2/I13/H968", 8, 1, 2, 1},
};

static void pretend(struct eco_caps *caps)
{
    caps->flops = 192e9;
    caps->bytes_per_s = 20e9;
    caps->cpu.cache_bytes = 2 << 20;
}

static ecornn_plan *plan_on(ecornn_device **device, const char *problem, const char *force)
{
    ecornn_plan *plan;
    ecornn_desc desc;
    check_ok(ecornn_device_open(device, "cpu:8"));
    pretend(&(*device)->caps);
    check_ok(parse_desc(&desc, problem, NULL));
    setenv("ECORNN_FORCE", force, 1);
    const ecornn_status status = ecornn_plan_create_desc(&plan, *device, &desc);
    unsetenv("ECORNN_FORCE");
    return status == ECORNN_OK ? plan : NULL;
}

START_TEST(teams)
{
    ecornn_device *device;
    ecornn_plan *const plan = plan_on(&device, choice[_i].problem, "algorithm=packed");
    /* no plan: this processor has no kernels for it */
    for (int backward = 0; plan != NULL && backward <= plan->problem.training; backward++) {
        const struct eco_cpu_plan *own = plan->context;
        const struct eco_grid grid = own->team[backward][false][0][0].grid;
        const int threads = own->team[backward][false][0][0].threads;
        ck_assert_msg(threads == choice[_i].threads && grid.ops == choice[_i].ops &&
                          grid.rows == choice[_i].rows && grid.units == choice[_i].units,
                      "%s, backward %d: %d threads, %dx%dx%d", choice[_i].problem, backward,
                      threads, grid.ops, grid.rows, grid.units);
    }
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}
END_TEST

/* If rows are too few to be divided, units are, in groups of 16. */
static const struct {
    const char *problem;
    int threads;
} scan[] = {
    {"min-gru/infer/T400/N7/I4/H16", 1},
    {"min-gru/infer/T2000/N31/I16/H33", 7},
    {"min-gru/infer/T2000/N8/I16/H128", 8},
    /* cache lines written by two threads would move between them */
    {"min-gru/infer/T219/N2/I38/H22", 1},
};

START_TEST(teams_of_scans)
{
    ecornn_device *device;
    ecornn_plan *const plan = plan_on(&device, scan[_i].problem, "algorithm=scan,block-steps=0");
    ck_assert_ptr_nonnull(plan);
    const struct eco_cpu_plan *own = plan->context;
    ck_assert_int_eq(own->team[false][false][0][0].threads, scan[_i].threads);
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}
END_TEST

/* In an input product every row and unit belongs to a thread, and no thread is idle without need.
 */
static const struct {
    int threads, rows, units, busy;
} shared[] = {{2, 48, 39, 2}, {2, 15, 64, 1},  {2, 16, 64, 2},    {4, 48, 128, 4},
              {8, 48, 39, 4}, {2, 10, 128, 2}, {16, 400, 64, 16}, {3, 30, 64, 3}};

START_TEST(parts_of_products)
{
    enum { WIDTH = 64 };
    const struct eco_cpu_run run = {.count = shared[_i].threads};
    const struct eco_multiply multiply = {.part = ECO_WEIGHT_INPUT, .rows = shared[_i].rows};
    const struct eco_panels panels = {.units = shared[_i].units};
    const struct eco_packed_form form = {.copied = 0};
    struct eco_packed_product product = {.multiply = &multiply, .panels = &panels, .form = &form};
    const struct eco_packed_work work = {.run = &run, .product = &product, .width = WIDTH};
    int64_t done = 0;
    int busy = 0;
    for (int id = 0; id < run.count; id++) {
        const struct eco_packed_part part = eco_packed_part_of(&work, id);
        const int64_t mine =
            (int64_t)(part.rows.to - part.rows.from) *
            (part.units.to > part.units.from ? part.units.to - part.units.from : 0);
        done += mine;
        busy += mine > 0;
    }
    ck_assert_int_eq(done, (int64_t)shared[_i].rows * shared[_i].units);
    ck_assert_int_eq(busy, shared[_i].busy);
}
END_TEST

TEST_MAIN("teams", {teams, sizeof choice / sizeof *choice},
          {parts_of_products, sizeof shared / sizeof *shared},
          {teams_of_scans, sizeof scan / sizeof *scan})
