/*
 * Resets on the CPU: the bits of a run are those of its episodes, runs of their own, by every
 * algorithm and instruction set, on one thread and on several.
 *
 *     test_resets [CASE]
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "cpu/isa/isa.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const char *only;

/* No number may depend on how many rows or steps there are: doc/numerics.md, "Rows". */
static const char *const list[] = {
    "lstm/f32/train/T9/N5/I3/H8/states/resets:30",
    "lstm/f32/train/L2/T7/N4/I3/H21/resets:30",
    "lstm/f32/infer/L3/T7/N4/I3/H19/states/resets:30/lengths:random",
    "lstm/f32/train/L2/rev/T7/N4/I3/H19/states/resets:30/lengths:random",
    "lstm/f32/train/L2/T7/N4/I3/H19/P5/states/resets:30/batch-major",
    "lstm/f32/infer/rev/T8/N3/I3/H24/P40/states/resets:40",
    "lstm/f32/train/T5/N33/I5/H37/states/resets:10",
    "lstm/f32/train/T12/N3/I3/H16/states/resets:100",
    "lstm/f32/train/T12/N3/I3/H16/states/resets:0",
    "lstm/f32/train/L2/T11/N4/I3/H11/states/resets:25/save:states",
    "lstm/f32/train/L2/rev/T11/N4/I3/H11/states/resets:25/lengths:random/save:every:3",
    "gru/f32/train/L2/T7/N4/I3/H50/states/resets:30",
    "gru/f32/infer/T40/N1/I3/H50/states/resets:20",
    "gru/f32/train/T11/N4/I3/H19/states/resets:25/lengths:random/save:every:4",
    "gru-reset-first/f32/train/T7/N4/I3/H34/states/resets:30/lengths:random",
    "gru-reset-first/f32/train/T9/N4/I3/H34/states/resets:30/save:every:4",
    "mgu/f32/train/L2/rev/T7/N4/I3/H17/states/resets:30",
    "lstm-peephole/f32/train/T7/N4/I7/H16/P4/states/resets:30",
    "rnn-tanh/f32/train/L2/T7/N4/I5/H100/states/resets:30",
    "rnn-relu/f32/train/T7/N4/I5/H1/states/resets:30",
    "lstm/f32/bf16-weights/train/T7/N4/I5/H35/states/resets:30",
    "lstm/bf16/row-invariant/train/T7/N4/I7/H40/states/resets:30/lengths:random",
    "gru/bf16/row-invariant/infer/L2/T7/N4/I7/H48/states/resets:30",
    "gru-reset-first/bf16/row-invariant/train/T7/N4/I5/H35/states/resets:30/save:states",
    "lstm/f64/row-invariant/train/L2/T7/N4/I5/H19/states/resets:30/lengths:random",
    "gru/f64/row-invariant/train/rev/T7/N4/I3/H20/states/resets:30",
    "four-states/f32/train/L2/T7/N4/I3/H17/resets:30/lengths:random",
    "norm-lstm-peephole/f32/train/T6/N4/I3/H20/states/resets:30",
};
enum { CASES = sizeof list / sizeof *list };

static const struct {
    const char *device, *grid;
} machine_list[] = {{"cpu:1", NULL}, {"cpu:2", "1x2x1"}, {"cpu:3", "1x1x3"}};
enum { MACHINES = sizeof machine_list / sizeof *machine_list };

static bool check_device(const struct test_case *test, int k, const struct data *inputs)
{
    struct machine machine = {.type = test->desc.type, .backwards = 1};
    const char *name;
    bool ok = true;
    if (machine_list[k].grid)
        setenv("ECORNN_GRID", machine_list[k].grid, 1);
    ck_assert_int_eq(ecornn_device_open(&machine.device, machine_list[k].device), ECORNN_OK);
    unsetenv("ECORNN_GRID");
    int ran = 0;
    for (int i = 0; ok && i < algorithm_count(&eco_backend_cpu); i++) {
        /* CBLAS takes another order for other numbers of rows. */
        const bool exact =
            test->desc.type != ECORNN_F32 || strcmp(eco_backend_cpu.algos[i]->name, "packed") == 0;
        if (!algorithm_take(&eco_backend_cpu, i, &name) || !exact ||
            !algorithm_runs(machine.device, i, test))
            continue;
        ran++;
        ok = episodes_same(test, &machine, inputs);
        if (!ok)
            fprintf(stderr, "    by %s on %s\n", name, machine_list[k].device);
    }
    ck_assert_int_gt(ran, 0);
    ecornn_device_close(machine.device);
    return ok;
}

START_TEST(bits_are_those_of_episodes)
{
    struct test_case test;
    struct data inputs = {0};
    const struct eco_isa *isa;
    ck_assert(case_parse(&test, only ? only : list[_i]));
    case_inputs(&test, &inputs);
    for (int k = 0; (isa = eco_isa_supported(k)) != NULL; k++) {
        setenv("ECORNN_ISA", isa->name, 1);
        for (int d = 0; d < MACHINES; d++)
            if (k == 0 || d == k % MACHINES)
                ck_assert_msg(check_device(&test, d, &inputs), "%s", isa->name);
    }
    data_free(&inputs);
    case_free(&test);
}
END_TEST

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    Suite *suite = suite_create("resets");
    TCase *tests = tcase_create("cpu");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, bits_are_those_of_episodes, 0, only ? 1 : CASES);
    return suite_run(suite, true);
}
