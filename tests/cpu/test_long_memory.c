/*
 * Cells whose output state is their memory, in 16-bit rows, with gates near sigmoid(-5) over many
 * steps: a memory of 16 bits would not move.  Every algorithm, with any chunks, is off by the
 * rounding of its results alone.
 *
 *     ECORNN_CASE=CASE          that case only
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const char *const list[] = {
    "min-gru/bf16/train/T1000/N3/I8/H40/states",
    "min-gru/bf16/train/rev/T900/N9/I8/H35/states/batch-major/resets:1",
    "min-gru/bf16/train/L3/T600/N3/I8/H32/states/mask:20/dropout:0.2",
    "min-gru/bf16/train/bi/T600/N3/I8/H32/states/all-states/resets:1/lengths:random",
    "min-gru/bf16/train/L2/rev/T600/N3/I8/H32/resets:1/save:every:7",
    "min-gru/bf16/infer/L4/bi/T600/N9/I8/H40/states/lengths:random/alias",
    "min-lstm/bf16/train/L2/T900/N3/I8/H40/states/batch-major",
    "own-min-gru/bf16/train/L2/bi/T600/N3/I8/H32/states/lengths:random/save:states",
    "two-averages/bf16/train/L2/bi/T500/N3/I8/H32/states/lengths:random",
    "min-gru/bf16/train/L2/bi/T700/N2/I8/H33/states/lengths:random",
    "min-gru/bf16/train/L2/bi/T600/N3/I8/H32/states/lengths:random/save:states",
    "min-gru/bf16/infer/L2/T900/N1/I8/H40",
    "own-min-lstm/bf16/train/T900/N2/I8/H40/states",
    "two-averages/bf16/train/L2/T500/N3/I8/H32/states/save:every:9/resets:1",
    "two-averages/bf16/train/L2/bi/T500/N2/I8/H32/save:states",
};
enum { CASES = sizeof list / sizeof *list, USUAL = 9 }; /* each day */

/* Choices of the planner; an algorithm that has no such choice is left out. */
static const char *const force[] = {"", "chunk=1,chunk-back=1", "chunk=64,chunk-back=50",
                                    "block-steps=16,chunk=160,chunk-back=96", "fuse=1"};
enum { FORCES = sizeof force / sizeof *force };

static int ran[FORCES];

/* y and the final states are rounded to 8 bits, and y of each layer below. */
static bool outputs_agree(const struct test_case *test, const char *who,
                          const struct data *expected, const struct data *results)
{
    struct data outputs = {0};
    const double relative = 0x1p-8 * (test->desc.layers > 1 ? test->desc.layers : 1);
    bool ok = true;
    for (int i = 0; ok && i < expected->n; i++) {
        outputs = (struct data){.n = 1, .array = &expected->array[i]};
        if (outputs.array->name[0] == 'y' || strncmp(outputs.array->name, "final", 5) == 0)
            ok = results_agree_within(test, who, &outputs, results, relative);
    }
    return ok;
}

static bool algorithm_agrees(const struct test_case *test, const char *name,
                             const struct data *inputs, const struct data *expected)
{
    struct machine machine = {.type = test->desc.type, .backwards = 1};
    bool ok = true;
    for (int k = 0; ok && k < FORCES; k++) {
        struct data results = {0};
        ecornn_plan *plan = NULL;
        char who[96];
        snprintf(who, sizeof who, "%s, %s", name, force[k]);
        setenv("ECORNN_FORCE", force[k], 1);
        check_ok(ecornn_device_open(&machine.device, k % 2 ? "cpu:1" : "cpu:2"));
        if (ecornn_plan_create_desc(&plan, machine.device, &test->desc) == ECORNN_OK) {
            ok = case_run(test, &machine, inputs, &results) &&
                 outputs_agree(test, who, expected, &results) &&
                 results_agree(test, who, expected, &results);
            ran[k]++;
        }
        ecornn_plan_free(plan);
        data_free(&results);
        ecornn_device_close(machine.device);
    }
    return ok;
}

static bool all_agree(const struct test_case *test, const struct data *inputs,
                      const struct data *expected)
{
    const char *name;
    bool ok = true;
    memset(ran, 0, sizeof ran);
    for (int k = 0; ok && k < algorithm_count(&eco_backend_cpu); k++)
        if (algorithm_take(&eco_backend_cpu, k, &name))
            ok = algorithm_agrees(test, name, inputs, expected);
    ck_assert(!ok || getenv("ECORNN_CASE") ||
              ran[0] == 1 + (int)test->desc.cell->lowered.linear.scans);
    return ok;
}

START_TEST(only_results_are_rounded)
{
    const char *one = getenv("ECORNN_CASE");
    char text[CASE_TEXT];
    snprintf(text, sizeof text, "%s/gates:-5", one ? one : list[_i]);
    ck_assert_msg(case_agrees(text, false, all_agree), "%s", text);
}
END_TEST

TEST_MAIN("long memory", {only_results_are_rounded, tests_all() ? CASES : USUAL})
