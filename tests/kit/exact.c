/*
 * Comparing bits by every algorithm, see exact.h.
 */
#include "tests/kit/exact.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "common/backend.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

bool exact_on(const char *device, const struct test_case *test, const struct data *inputs,
              exact_check *check)
{
    struct machine machine = {.type = test->desc.type, .backwards = 1};
    const char *name;
    bool ok = true;
    int ran = 0;
    check_ok(ecornn_device_open(&machine.device, device));
    for (int i = 0; ok && i < algorithm_count(&eco_backend_cpu); i++) {
        /* the CBLAS adds in an order that depends on the number of rows */
        const bool exact = test->desc.type != ECORNN_F32 ||
                           strcmp(eco_backend_cpu.algos[i]->name, "packed") == 0 ||
                           strcmp(eco_backend_cpu.algos[i]->name, "matrix") == 0;
        if (!algorithm_take(&eco_backend_cpu, i, &name) || !exact ||
            !algorithm_runs(machine.device, i, test))
            continue;
        ran++;
        ok = check(test, &machine, inputs);
        if (!ok)
            fprintf(stderr, "    by %s on %s\n", name, device);
    }
    ck_assert_int_gt(ran, 0);
    ecornn_device_close(machine.device);
    return ok;
}

static const char *only; /* the argument */

static bool runs(const struct test_case *test, const struct data *inputs)
{
    exact_check *const check = exact_program.check;
    return check != NULL
               ? exact_on("cpu:1", test, inputs, check) && exact_on("cpu:2", test, inputs, check)
               : exact_program.run(test, inputs);
}

START_TEST(bits_are_the_same)
{
    struct test_case test;
    struct data inputs = {0};
    ck_assert(case_parse(&test, only ? only : exact_program.list[_i]));
    case_inputs(&test, &inputs);
    ck_assert(runs(&test, &inputs));
    data_free(&inputs);
    case_free(&test);
}
END_TEST

/* The main of programs that define exact_program; other programs do not link this file. */
int main(int argc, char **argv)
{
    const struct suite_program program = {.name = exact_program.suite};
    only = argc > 1 ? argv[1] : NULL;
    return suite_run(&program, SUITE_TESTS({bits_are_the_same, only ? 1 : exact_program.cases}));
}
