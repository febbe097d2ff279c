/*
 * Means of a cell that are computed together with another mean (common/cell/means.c), which saves a
 * stage. Checks which means these are, and the condition for it: their values must be quadratic
 * polynomials in the other mean, and the coefficient of the square must be the same for all units.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/core/cell_step.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static void compile_file(const char *name)
{
    char text[ECO_MAX_TEXT + 1];
    ck_assert_msg(cell_read(name, text, sizeof text), "%s", name);
    compile(text);
}

static void fill_random(void *data, size_t bytes)
{
    static uint64_t state = 1;
    double *value = data;
    for (size_t i = 0; i < bytes / sizeof *value; i++)
        value[i] = 2 * uniform(&state) - 1;
}

/* Computes the numbers that mean `own` adds up, for all units, when the mean that it is computed
 * with has the value `with`. */
static void values_at(const struct eco_program *stage, const struct eco_joined_mean *mean, int own,
                      double with, double *value)
{
    for (int e = 0; e < PLANE; e++)
        memory.summand[mean->with][e] = with;
    memory.stage++;
    run_stage(stage, false);
    memcpy(value, memory.summand[own], sizeof(plane));
}

/* Second and third differences are exact for polynomials of these degrees. */
static void check_mean(const struct eco_program *stage, const struct eco_joined_mean *mean, int own)
{
    static plane at[4], kept;
    memcpy(kept, memory.summand[mean->with], sizeof kept);
    for (int k = 0; k < 4; k++)
        values_at(stage, mean, own, 0.3 + k, at[k]);
    for (int e = 0; e < PLANE; e++) {
        const double curve = (at[2][e] - 2 * at[1][e] + at[0][e]) / 2,
                     third = at[3][e] - 3 * at[2][e] + 3 * at[1][e] - at[0][e];
        const double size = 1 + fabs(at[0][e]) + fabs(at[3][e]);
        ck_assert_msg(fabs(curve - mean->curve) <= 1e-13 * size, "%s: mean %d: %g, must be %g",
                      cell.recipe.name, own, mean->curve, curve);
        ck_assert_msg(fabs(third) <= 1e-13 * size, "%s: mean %d", cell.recipe.name, own);
    }
    memcpy(memory.summand[mean->with], kept, sizeof kept);
    memory.stage++;
    run_stage(stage, false);
}

static void check_way(bool backward)
{
    const struct eco_program *program = backward ? cell.lowered.backward : cell.lowered.forward;
    const int n = backward ? cell.lowered.n_backward : cell.lowered.n_forward;
    struct eco_joined_stages joined;
    int ran = 0, sums = 0;
    eco_cell_join_stages(&cell.lowered, backward, &joined);
    for (int k = 0; k < joined.n; k++) {
        ck_assert_int_eq(joined.stage[k].program, ran++);
        if (joined.stage[k].ahead >= 0)
            ck_assert_int_eq(joined.stage[k].ahead, ran++);
    }
    ck_assert_int_eq(ran, n);
    for (int m = 0; m < joined.n_means; m++) {
        const struct eco_joined_mean *mean = &joined.mean[m];
        sums += mean->with < 0 && !mean->leads ? 1 : 2;
        if (mean->with < 0)
            continue;
        ck_assert_int_eq(mean->stage, joined.mean[mean->with].stage);
        ck_assert_int_lt(joined.mean[mean->with].with, 0);
        check_mean(&program[joined.stage[mean->stage].ahead], mean, m);
    }
    ck_assert_int_eq(sums, joined.n_sums);
}

/* stages: how many remain forward and backward after means were joined. */
static const struct {
    const char *name;
    int stages[2];
} file[] = {
    {"norm-lstm", {2, 2}},       {"rms-lstm", {2, 2}},           {"norm-lstm-tf1", {3, 3}},
    {"norm-lstm-haste", {3, 3}}, {"norm-gru-haste", {2, 2}},     {"norm-lstm-torch", {3, 3}},
    {"norm-lstm-gates", {3, 3}}, {"norm-lstm-peephole", {4, 4}}, {"block-gru", {2, 2}}};

static void check_cell(const int stages[2])
{
    fill_random(&in, sizeof in);
    for (int backward = 0; backward < 2; backward++) {
        struct eco_joined_stages joined;
        eco_cell_join_stages(&cell.lowered, backward, &joined);
        ck_assert_msg(joined.n == stages[backward], "%s %d: %d stages", cell.recipe.name, backward,
                      joined.n);
        run_forward(false);
        if (backward)
            run_backward();
        check_way(backward);
    }
}

START_TEST(published_forms)
{
    compile_file(file[_i].name);
    check_cell(file[_i].stages);
}
END_TEST

/* Means that cannot be joined: the degree is too high, the function is not a polynomial, there are
 * two means, or the coefficient of the square depends on the unit. */
static const struct {
    const char *text;
    int forward;
} odd[] = {
    {"cell a(h)\nu = W x + R h\nd = u - mean(u)\nh' = tanh(d + mean(d * d * d))", 3},
    {"cell a(h)\nu = W x + R h\nd = u - mean(u)\nh' = tanh(d + mean(exp(d)))", 3},
    {"cell a(h)\nu = R h\nv = W x\nd = (u - mean(u)) * (v - mean(v))\nh' = tanh(u + mean(d))", 3},
    {"cell a(h)\nu = R h\nd = u - p * mean(u)\nh' = tanh(u + mean(d * d))", 3},
    {"cell a(h)\nu = R h\nd = u / (1 + mean(u))\nh' = tanh(u + mean(d))", 3},
    {"cell a(h)\nu = R h\nd = p * mean(u) - u / 3\nh' = tanh(u + mean(d * 2) + mean(-d))", 2},
};

START_TEST(other_forms)
{
    struct eco_joined_stages joined;
    compile(odd[_i].text);
    fill_random(&in, sizeof in);
    run_forward(false);
    eco_cell_join_stages(&cell.lowered, false, &joined);
    ck_assert_int_eq(joined.n, odd[_i].forward);
    check_way(false);
    run_forward(false);
    run_backward();
    check_way(true);
}
END_TEST

TEST_MAIN("means", {published_forms, sizeof file / sizeof *file},
          {other_forms, sizeof odd / sizeof *odd})
