/*
 * Gradients of weights over many rows. For a linear cell with equal rows they are known in closed
 * form, and all terms have one sign, so errors add up. The bound follows from the order of the sums
 * (cpu/ops/gradient_sums.c, doc/numerics.md), not from another run that rounds alike. Sums in small
 * groups of rows are also forced and compared with the reference.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/type.h"
#include "tests/kit/calls.h"
#include "tests/kit/planned.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

/* ---- many rows of one sign ------------------------------------------------------------------- */

static const char linear[] = "cell linear(h, c)\n"
                             "c' = W x\n"
                             "h' = p * c' + R c + b\n";
enum { UNITS = 2, PARAMS = 4 };
static const double input_weight = 0.5, recurrent_weight = 0.25, peephole = 0.5;

/* The error of n additions of one sign is that of n/2 roundings, because the sum is on average half
 * as large as at the end. chain: rows in a chain; group: chains in a group. All other errors are
 * small.
 */
static double relative_bound(double chain, double group)
{
    return (chain / 2 + group / 2 + 16) * 0x1p-24;
}

static const struct {
    const char *problem, *algorithm;
    double dy;
    double chain, group; /* rows of a chain and chains of a group, for matrices */
} many[] = {
    {"linear/f32/train/T25000/N64/I1/H2", "packed", 0.1, 528, 124},
    {"linear/f32/train/T12500/N64/I1/H2", "blas", 0.1, 1024, 128}, /* the chains of OpenBLAS */
    {"linear/bf16/train/T6250/N64/I1/H2", "packed", 205.0 / 2048, 528, 124},
};

/* The arrays of a run whose rows are all equal. */
struct rows {
    struct planned of;
    ecornn_cell *cell;
    double rows, dy;
    float dparam[PARAMS][UNITS * UNITS];
};

static void *equal(size_t n, ecornn_type type, double value)
{
    void *array = malloc(n * eco_type_bytes(type));
    for (size_t i = 0; i < n; i++)
        eco_type_set(array, i, type, value);
    return array;
}

static void rows_open(struct rows *r, const char *problem, double dy)
{
    check_ok(ecornn_cell_parse(&r->cell, linear));
    planned_open(&r->of, "cpu:2", problem, r->cell);
    r->rows = (double)r->of.desc.steps * r->of.desc.batch;
    r->dy = eco_type_round(dy, r->of.desc.type);
}

static void rows_close(struct rows *r)
{
    planned_close(&r->of);
    ecornn_cell_free(r->cell);
}

/* Packs parameters: W, R, then the vectors in the order of the text. */
static void pack(const struct rows *r)
{
    const double value[PARAMS] = {input_weight, recurrent_weight, peephole, 0};
    float block[PARAMS][UNITS * UNITS];
    const void *params[PARAMS];
    ck_assert_int_eq(count_params(r->of.plan), PARAMS);
    for (int k = 0; k < PARAMS; k++) {
        for (int i = 0; i < UNITS * UNITS; i++)
            block[k][i] = (float)value[k];
        params[k] = block[k];
    }
    check_ok(ecornn_pack(r->of.plan, params, NULL, r->of.weights, NULL));
}

/* Runs backward `times` times; each run adds to the gradients of the one before. */
static void train(struct rows *r, int times)
{
    const size_t n = (size_t)r->rows;
    void *x = equal(n, r->of.desc.type, 1), *y = equal(n * UNITS, r->of.desc.type, 0);
    void *dy = equal(n * UNITS, r->of.desc.type, r->dy), *to[PARAMS];
    ecornn_io io = planned_io(&r->of);
    ecornn_gradient gradient = {.size = sizeof gradient, .dy = dy, .dweights = r->of.dweights};
    io.x = x, io.y = y;
    pack(r);
    memset(io.workspace, 0xff, r->of.sizes.workspace_bytes); /* NaN */
    check_ok(forward_all(r->of.plan, &io));
    for (int k = 0; k < times; k++, gradient.add = true)
        check_ok(backward_all(r->of.plan, &io, &gradient));
    for (int k = 0; k < PARAMS; k++)
        to[k] = r->dparam[k];
    check_ok(ecornn_unpack(r->of.plan, gradient.dweights, to, 0, NULL));
    free(x);
    free(y);
    free(dy);
}

static void check_sums(const struct rows *r, int param, int n, double should, double bound)
{
    for (int i = 0; i < n; i++)
        ck_assert_msg(fabs(r->dparam[param][i] / should - 1) <= bound,
                      "parameter %d[%d] is %.9g, should be %.9g: off by %.2g, allowed %.2g", param,
                      i, (double)r->dparam[param][i], should,
                      fabs(r->dparam[param][i] / should - 1), bound);
}

START_TEST(many_rows_of_one_sign)
{
    enum {
        TIMES = 2,
        CHAIN = 64,
        GROUP = 64
    }; /* for vectors: rows of a chain, and ops of a group */
    struct rows r;
    setenv("ECORNN_ALGORITHM", many[_i].algorithm, 1);
    rows_open(&r, many[_i].problem, many[_i].dy);
    unsetenv("ECORNN_ALGORITHM");
    train(&r, TIMES);
    const double matrix = relative_bound(many[_i].chain, many[_i].group);
    const double vector = relative_bound(CHAIN, GROUP);
    const double all = TIMES * r.rows * r.dy, later = TIMES * (r.rows - r.of.desc.batch) * r.dy;
    check_sums(&r, 0, UNITS, all * peephole + later * UNITS * recurrent_weight, matrix);
    check_sums(&r, 1, UNITS * UNITS, later * input_weight, matrix);
    check_sums(&r, 2, UNITS, all * input_weight, vector);
    check_sums(&r, 3, UNITS, all, vector);
    rows_close(&r);
}
END_TEST

/* ---- small groups ---------------------------------------------------------------------------- */

static const char *const grouped[] = {
    "lstm/f32/train/bi/T36/N64/I3/H5/P3/states/lengths:random",
    "lstm-peephole/f32/train/rev/T20/N130/I3/H5/states/accumulate",
    "gru/f32/train/L2/T3/N700/I3/H5/states", /* an op has many groups */
    "gru-reset-first/f32/train/T1100/N2/I3/H3/lengths:random",
    "lstm/bf16/train/L2/T36/N64/I3/H17/states/lengths:random",
    "rnn-tanh/f32/bf16-weights/train/L2/T30/N70/I20/H5/states/run:27x60/accumulate",
    "rnn-tanh/f64/train/T36/N64/I3/H5/states",
};

/* Algorithms agree with the reference, and give the same bits with more threads. */
static bool algorithms_agree(const struct test_case *test, const struct data *inputs,
                             const struct data *expected)
{
    static const char *const devices[] = {"cpu:1", "cpu:3"};
    const char *name;
    bool ok = true;
    for (int k = 0; ok && k < algorithm_count(&eco_backend_cpu); k++) {
        struct data results[2] = {{0}};
        for (int i = 0; ok && i < 2; i++) {
            struct machine machine = {.type = test->desc.type, .backwards = 1 + i};
            check_ok(ecornn_device_open(&machine.device, devices[i]));
            if (algorithm_take(&eco_backend_cpu, k, &name) &&
                algorithm_runs(machine.device, k, test))
                ok = case_run(test, &machine, inputs, &results[i]) &&
                     results_agree(test, name, expected, &results[i]);
            ecornn_device_close(machine.device);
        }
        ok = ok && results_same(test, name, &results[0], &results[1]);
        data_free(&results[0]);
        data_free(&results[1]);
    }
    return ok;
}

START_TEST(small_groups_of_rows)
{
    setenv("ECORNN_FORCE", "gradient-rows=300", 1);
    ck_assert_msg(case_agrees(grouped[_i], false, algorithms_agree), "%s", grouped[_i]);
    unsetenv("ECORNN_FORCE");
}
END_TEST

TEST_MAIN("sums", {many_rows_of_one_sign, sizeof many / sizeof *many},
          {small_groups_of_rows, sizeof grouped / sizeof *grouped})
