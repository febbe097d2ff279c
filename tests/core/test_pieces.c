/*
 * Runs in pieces on the CPU: states of every step are those that runs of fewer steps end with, and
 * pieces in time and in rows have the bits of the whole, random numbers included.
 *
 *     test_pieces [CASE]
 */
#include <check.h>
#include <string.h>

#include "common/backend.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const char *only;

/* No number may depend on how many rows or steps there are: doc/numerics.md, "Rows". */
static const char *const list[] = {
    "lstm/f32/train/L2/T7/N4/I3/H21/states/all-states/dropout:0.4",
    "lstm/f32/infer/L3/T6/N5/I3/H8/states/all-states",
    "lstm/f32/train/L2/T6/N4/I3/H16/P5/states/all-states/resets:30/first:9x2/dropout:0.2",
    "gru/f64/row-invariant/train/L2/T7/N4/I3/H19/states/all-states/dropout:0.3",
    "gru-reset-first/f32/train/T8/N3/I3/H24/states/all-states/save:every:3",
    "zoneout-lstm/f32/train/L2/T7/N4/I3/H17/states/all-states/dropout:0.3",
};
enum { CASES = sizeof list / sizeof *list };

static void check_device(const struct test_case *test, const char *device,
                         const struct data *inputs)
{
    struct machine machine = {.type = test->desc.type, .backwards = 1};
    const char *name;
    int ran = 0;
    ck_assert_int_eq(ecornn_device_open(&machine.device, device), ECORNN_OK);
    for (int i = 0; i < algorithm_count(&eco_backend_cpu); i++) {
        /* CBLAS takes another order for other numbers of rows. */
        const bool exact =
            test->desc.type != ECORNN_F32 || strcmp(eco_backend_cpu.algos[i]->name, "packed") == 0;
        if (!algorithm_take(&eco_backend_cpu, i, &name) || !exact ||
            !algorithm_runs(machine.device, i, test))
            continue;
        ran++;
        ck_assert_msg(pieces_same(test, &machine, inputs, 1, test->N), "%s on %s", name, device);
        ck_assert_msg(pieces_same(test, &machine, inputs, 4, 3), "%s on %s", name, device);
    }
    ck_assert_int_gt(ran, 0);
    ecornn_device_close(machine.device);
}

START_TEST(bits_are_those_of_the_whole)
{
    struct test_case test;
    struct data inputs = {0};
    ck_assert(case_parse(&test, only ? only : list[_i]));
    case_inputs(&test, &inputs);
    check_device(&test, "cpu:1", &inputs);
    check_device(&test, "cpu:2", &inputs);
    data_free(&inputs);
    case_free(&test);
}
END_TEST

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    Suite *suite = suite_create("pieces");
    TCase *tests = tcase_create("cpu");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, bits_are_those_of_the_whole, 0, only ? 1 : CASES);
    return suite_run(suite, true);
}
