/*
 * Backward computes again what forward did not save. Every training case of the sweep, and every
 * cell from text, runs with each policy on the CPU, with one thread and with several, and is
 * compared with the reference. If products use the same kernels in the same order
 * (doc/numerics.md), the bits must also be those of the plan that saves all.
 *
 *     test_replay              each case with one of the policies
 *     test_replay all          with all
 *     test_replay CASE         that case only, which may name its policy
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const char *only;  /* the argument */
static bool every_policy; /* runs each case with every policy */

/* Is test i left out? It is case i / POLICIES with policy i % POLICIES. */
static bool is_left_out(int i)
{
    return !every_policy && !only && i / POLICIES % POLICIES != i % POLICIES;
}

static ecornn_device *device[2]; /* with one thread and with several */

/* Does a run use kernels whose bits do not depend on the number of rows? AMX's do. */
static bool is_exact(const struct test_case *test, const char *algorithm)
{
    const ecornn_type weight = test->desc.weight_type;
    return test->desc.type == ECORNN_F32 && strcmp(algorithm, "packed") == 0 &&
           test->desc.save_type == 0 && (weight == 0 || weight == ECORNN_F32);
}

static bool same_as_saved(const struct test_case *test, const struct machine *machine,
                          const struct data *inputs, const struct data *replayed)
{
    struct test_case saves = *test;
    struct data all = {0};
    saves.desc.flags &= ~(uint32_t)(ECORNN_SAVE_ALL | ECORNN_SAVE_STATES);
    saves.desc.save_every = 0;
    saves.null &= ~(1u << case_array("y"));
    const bool ok = case_run(&saves, machine, inputs, &all) &&
                    results_same(test, "replayed against saved", replayed, &all);
    data_free(&all);
    return ok;
}

static bool algorithm_agrees(const struct test_case *test, const char *name,
                             const struct data *inputs, const struct data *expected)
{
    const struct machine machine[2] = {
        {.device = device[0], .type = test->desc.type, .backwards = 2},
        {.device = device[1], .type = test->desc.type, .backwards = 1}};
    struct data alone = {0}, both = {0};
    bool ok = case_run(test, &machine[0], inputs, &alone) &&
              results_agree(test, name, expected, &alone) &&
              case_run(test, &machine[1], inputs, &both) &&
              results_same(test, "several threads against one", &alone, &both);
    if (ok && is_exact(test, name))
        ok = same_as_saved(test, &machine[0], inputs, &alone);
    data_free(&alone);
    data_free(&both);
    return ok;
}

static bool agrees(const struct test_case *test, const struct data *inputs,
                   const struct data *expected)
{
    bool ok = true;
    const char *name;
    for (int k = 0; ok && k < algorithm_count(&eco_backend_cpu); k++)
        if (algorithm_take(&eco_backend_cpu, k, &name) && algorithm_runs(device[0], k, test))
            ok = algorithm_agrees(test, name, inputs, expected);
    return ok;
}

/* Forces short chunks, whatever the policy, so that many of them begin with a kept state. */
static void force_chunks(const char *policy)
{
    const char *const every = strstr(policy, "/save:every:");
    const int K = every ? atoi(every + strlen("/save:every:")) : 3;
    char force[64];
    snprintf(force, sizeof force, "chunk=2,chunk-back=%d", K);
    setenv("ECORNN_FORCE", force, 1);
}

static void check_case(const char *text, int k, int i)
{
    char policy[CASE_TEXT];
    if (!sweep_policy(text, k, only != NULL, policy))
        return;
    if (i % 4 > 0)
        force_chunks(policy);
    check_ok(ecornn_device_open(&device[0], "cpu:1"));
    check_ok(ecornn_device_open(&device[1], i % 2 ? "cpu:2" : "cpu:5"));
    ck_assert_msg(case_agrees(policy, k == 0, agrees), "%s", policy);
    ecornn_device_close(device[0]);
    ecornn_device_close(device[1]);
    unsetenv("ECORNN_FORCE");
}

START_TEST(agrees_with_reference)
{
    char text[CASE_TEXT];
    if (is_left_out(_i))
        return;
    sweep_text(only, _i / POLICIES, text);
    check_case(text, _i % POLICIES, _i);
}
END_TEST

START_TEST(agrees_for_own_cells)
{
    char text[CASE_TEXT];
    if (is_left_out(_i) || (!every_policy && !tests_all() && _i / POLICIES % 2))
        return; /* every second case; these still cover all cells and options */
    sweep_own_text(_i / POLICIES, text);
    check_case(text, _i % POLICIES, _i);
}
END_TEST

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "replay"};
    only = argc > 1 ? argv[1] : getenv("ECORNN_CASE");
    every_policy = only != NULL && strcmp(only, "all") == 0;
    only = every_policy ? NULL : only;
    return suite_run(&program,
                     SUITE_TESTS({agrees_with_reference, POLICIES * sweep_count(only)},
                                 {agrees_for_own_cells, only ? 0 : POLICIES * sweep_own_count()}));
}
