/*
 * Masked steps on the CPU: the bits of a row are those of a run that has only its steps that count,
 * by every algorithm, on one thread and on several.
 *
 *     test_mask [CASE]
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const char *only;

/* No number may depend on how many rows or steps there are: doc/numerics.md, "Rows". */
static const char *const list[] = {
    "lstm/f32/train/T9/N5/I3/H8/states/mask:30",
    "lstm/f32/train/L2/bi/T7/N6/I3/H21/states/mask:50/lengths:random",
    "lstm/f32/infer/L3/rev/T7/N4/I3/H19/states/mask:30/lengths:random/repeat-padding",
    "lstm/f32/train/L2/bi/T8/N5/I3/H19/P5/states/mask:0/lengths:random/repeat-padding/batch-major",
    "gru/f32/train/L2/bi/T7/N5/I3/H19/states/repeat-padding/lengths:random",
    "gru/f32/train/T11/N4/I3/H19/states/mask:25/resets:30/save:every:4",
    "gru/f32/train/T6/N3/I3/H19/states/mask:100",
    "gru-reset-first/f32/train/bi/T7/N9/I3/H34/states/mask:40/resets:30/lengths:random/batch-major",
    "lstm/bf16/row-invariant/train/bi/T7/N4/I7/H40/states/mask:30",
    "lstm/f64/row-invariant/train/L2/rev/T7/N4/I5/H19/states/mask:30/save:states",
    "projected-two-states/f32/train/L2/T5/N3/I4/H16/P6/states/mask:40",
};
enum { CASES = sizeof list / sizeof *list };

static bool check_device(const struct test_case *test, const char *device,
                         const struct data *inputs)
{
    struct machine machine = {.type = test->desc.type, .backwards = 1};
    const char *name;
    bool ok = true;
    int ran = 0;
    ck_assert_int_eq(ecornn_device_open(&machine.device, device), ECORNN_OK);
    for (int i = 0; ok && i < algorithm_count(&eco_backend_cpu); i++) {
        /* CBLAS takes another order for other numbers of rows. */
        const bool exact =
            test->desc.type != ECORNN_F32 || strcmp(eco_backend_cpu.algos[i]->name, "packed") == 0;
        if (!algorithm_take(&eco_backend_cpu, i, &name) || !exact ||
            !algorithm_runs(machine.device, i, test))
            continue;
        ran++;
        ok = masked_same(test, &machine, inputs);
        if (!ok)
            fprintf(stderr, "    by %s on %s\n", name, device);
    }
    ck_assert_int_gt(ran, 0);
    ecornn_device_close(machine.device);
    return ok;
}

START_TEST(bits_are_those_of_steps_that_count)
{
    struct test_case test;
    struct data inputs = {0};
    ck_assert(case_parse(&test, only ? only : list[_i]));
    case_inputs(&test, &inputs);
    ck_assert(check_device(&test, "cpu:1", &inputs));
    ck_assert(check_device(&test, "cpu:2", &inputs));
    data_free(&inputs);
    case_free(&test);
}
END_TEST

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    Suite *suite = suite_create("masked steps");
    TCase *tests = tcase_create("cpu");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, bits_are_those_of_steps_that_count, 0, only ? 1 : CASES);
    return suite_run(suite, true);
}
