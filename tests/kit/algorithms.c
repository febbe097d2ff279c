/*
 * What tests of a backend share: its algorithms, the comparison of a case with the reference, and
 * of a built-in cell with the same text parsed at run time.
 */
#include "tests/kit/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/util.h"

int algorithm_count(const struct eco_backend *backend)
{
    int n = 0;
    while (backend->algos[n])
        n++;
    return n;
}

static char wanted[32]; /* the algorithm that the user's environment names */

bool algorithm_take(const struct eco_backend *backend, int k, const char **name)
{
    static bool asked;
    if (!asked && getenv("ECORNN_ALGORITHM"))
        snprintf(wanted, sizeof wanted, "%s", getenv("ECORNN_ALGORITHM"));
    asked = true;
    *name = backend->algos[k]->name;
    setenv("ECORNN_ALGORITHM", *name, 1);
    return !wanted[0] || strcmp(wanted, *name) == 0;
}

void algorithm_leave(void)
{
    setenv("ECORNN_ALGORITHM", wanted, 1);
}

bool algorithm_runs(const ecornn_device *device, int k, const struct test_case *test)
{
    struct eco_problem problem;
    if (eco_problem_build(&problem, &test->desc) == ECORNN_OK)
        return (problem.Y == problem.P || !device->caps.own_memory) &&
               !eco_algo_refusal(device->backend->algos[k], &problem, &device->caps);
    fprintf(stderr, "%s: %s\n", test->text, eco_fail_detail());
    exit(99); /* cannot happen: case_parse accepted it before */
}

bool case_agrees(const char *text, bool lean, case_check *agrees)
{
    struct test_case test;
    struct data inputs = {0}, expected = {0};
    if (!case_parse(&test, text))
        return false;
    test.lean = lean;
    case_inputs(&test, &inputs);
    const bool ok = case_expect(&test, &inputs, &expected) && agrees(&test, &inputs, &expected);
    data_free(&inputs);
    data_free(&expected);
    case_free(&test);
    return ok;
}

static bool runs_same(const struct test_case twin[2], const struct machine *machine,
                      const struct data *inputs, const char *who)
{
    struct data results[2] = {{0}};
    const bool ok = case_run(&twin[0], machine, inputs, &results[0]) &&
                    case_run(&twin[1], machine, inputs, &results[1]) &&
                    results_same(&twin[1], who, &results[0], &results[1]);
    data_free(&results[0]);
    data_free(&results[1]);
    return ok;
}

int interpreted_same(const char *cell, const char *rest, const struct machine *machine)
{
    const ecornn_device *device = machine->device;
    char text[CASE_TEXT];
    struct test_case twin[2];
    struct data inputs = {0};
    const char *name;
    int ran = 0;
    snprintf(text, sizeof text, "%s/%s", cell, rest);
    if (!case_parse(&twin[0], text))
        return -1;
    snprintf(text, sizeof text, "own-%s/%s", cell, rest);
    if (!case_parse(&twin[1], text))
        return -1;
    case_inputs(&twin[0], &inputs);
    for (int k = 0; ran >= 0 && k < algorithm_count(device->backend); k++)
        if (algorithm_take(device->backend, k, &name) && algorithm_runs(device, k, &twin[0]) &&
            algorithm_runs(device, k, &twin[1]))
            ran = runs_same(twin, machine, &inputs, name) ? ran + 1 : -1;
    algorithm_leave();
    data_free(&inputs);
    case_free(&twin[0]);
    case_free(&twin[1]);
    return ran;
}
