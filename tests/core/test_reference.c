/*
 * Compares the reference with independent results: the textbook's equations, and finite differences
 * of the forward pass, which hold what is under stop(). Whole nets are compared with tests/vectors
 * and tests/data/torch.txt.
 *
 *     test_reference [CASE]     finite differences of that case only
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ref/ref.h"
#include "common/type.h"
#include "common/util.h"
#include "tests/kit/calls.h"
#include "tests/kit/planned.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const char *only; /* the argument */

static struct machine reference(ecornn_type type)
{
    struct machine machine = {.type = type, .backwards = 1};
    check_ok(ecornn_device_open(&machine.device, "reference"));
    return machine;
}

static struct test_case parsed(const char *text)
{
    struct test_case test;
    ck_assert_msg(case_parse(&test, text), "%s: not a case", text);
    return test;
}

/* ---- textbook -------------------------------------------------------------------------------- */

static const char *const textbook[] = {
    "lstm/f64/train/T6/N3/I4/H5/states",
    "lstm/f64/train/T1/N1/I1/H1",
    "gru/f64/train/T6/N3/I4/H5/states",
    "gru/f64/train/T1/N1/I1/H1",
    "rnn-tanh/f64/train/T6/N3/I4/H5/states",
    "rnn-tanh/f64/train/T1/N1/I1/H1",
    "rnn-relu/f64/train/T6/N3/I4/H5/states",
    "rnn-relu/f64/train/T3/N1/I1/H1",
    "lstm/f64/train/T9/N2/I3/H7/null:dy/states",
    "gru/f64/train/T9/N2/I16/H16/null:dfinal/states",
    "lstm/f64/train/T9/N4/I3/H7/resets:30/states",
    "gru/f64/train/T9/N4/I3/H7/resets:30",
    "rnn-tanh/f64/train/T9/N4/I3/H7/resets:30/states",
    "rnn-relu/f64/train/T9/N4/I3/H7/resets:100/states",
};

START_TEST(agrees_with_textbook)
{
    struct test_case test = parsed(textbook[_i]);
    struct machine machine = reference(ECORNN_F64);
    struct data inputs = {0}, expected = {0}, results = {0};
    char cell[64];
    snprintf(cell, sizeof cell, "%.*s", (int)strcspn(test.text, "/"), test.text);
    case_inputs(&test, &inputs);
    textbook_run(cell, &inputs, &expected);
    ck_assert(case_run(&test, &machine, &inputs, &results));
    ck_assert_int_eq(expected.n, results.n);
    ck_assert(
        results_agree_within(&test, "reference against textbook", &expected, &results, 1e-13));
    data_free(&inputs);
    data_free(&expected);
    data_free(&results);
    ecornn_device_close(machine.device);
}
END_TEST

/* ---- finite differences ---------------------------------------------------------------------- */

/* Every cell runs with each of these options. */
static const char *const option[] = {
    "f64/train/T3/N2/I2/H3/states",
    "f64/train/L2/bi/T3/N3/I2/H2/states/lengths:random/dropout:0.3/seed:5",
    "f64/train/L2/rev/T3/N2/I1/H3/batch-major/lengths:short/states",
    "f64/train/bi/T4/N2/I2/H3/lengths:random/states/resets:40/mask:30/repeat-padding/all-states/"
    "seed:2",
    "f64/train/L2/bi/T5/N2/I2/H2/lengths:random/mask:40/dropout:0.3/batch-major/all-states/seed:3",
};
/* and projection where the cell allows it */
static const char *const projected = "f64/train/L2/bi/T3/N2/I2/H3/P2/states/lengths:random";

enum { OPTIONS = sizeof option / sizeof *option + 1 };

static bool any_cell(int index, char name[64])
{
    const int own = index - builtin_count(), matrix = own - sweep_own_cells();
    if (index >= builtin_count())
        return matrix >= 0 ? sweep_matrix_cell(matrix, name) : sweep_own_cell(own, name);
    snprintf(name, 64, "%s", cell_name(index));
    return true;
}

static int difference_count(void)
{
    return only ? 1 : (builtin_count() + sweep_own_cells() + sweep_matrix_cells()) * OPTIONS;
}

static double dot(const struct data *inputs, const struct data *results, const char *with,
                  const char *name)
{
    const struct array *a = data_find(inputs, with), *b = data_find(results, name);
    double sum = 0;
    for (size_t i = 0; a && b && i < a->count; i++)
        sum += a->value[i] * b->value[i];
    return sum;
}

/* The function whose gradients are dy and dfinal. */
static double loss(const struct test_case *test, const struct machine *machine,
                   const struct data *inputs)
{
    struct data results = {0};
    const struct machine forward = {machine->device, machine->type, 0, NULL};
    ck_assert(case_run(test, &forward, inputs, &results));
    double sum = dot(inputs, &results, "dy", "y");
    for (int s = 0; s < test->states; s++) {
        char with[32], name[32];
        snprintf(with, sizeof with, "dfinal%d", s);
        snprintf(name, sizeof name, "final%d", s);
        sum += dot(inputs, &results, with, name);
        snprintf(with, sizeof with, "dstates%d", s);
        snprintf(name, sizeof name, "states%d", s);
        sum += dot(inputs, &results, with, name);
    }
    data_free(&results);
    return sum;
}

/* The fourth-order central difference. Each doubling of the step makes the error of the formula
 * sixteen times as large. */
static double difference(const struct test_case *test, const struct machine *machine,
                         const struct data *inputs, double *at, double step)
{
    const double here = *at;
    double side[4];
    static const int where[] = {-2, -1, 1, 2};
    for (int k = 0; k < 4; k++) {
        *at = here + where[k] * step;
        side[k] = loss(test, machine, inputs);
    }
    *at = here;
    return (side[0] - 8 * side[1] + 8 * side[2] - side[3]) / (12 * step);
}

/* Makes the name of a gradient from the name of its input. */
static void gradient_name(char name[80], const char *input)
{
    const bool plain = strcmp(input, "x") == 0 || strncmp(input, "initial", 7) == 0 ||
                       strncmp(input, "start", 5) == 0;
    snprintf(name, 80, "%s%s", plain ? "d" : "d:", input);
}

/* False before the first difference was made. */
static bool agrees(double gradient, double should, bool made)
{
    return made && fabs(gradient - should) <= 1e-7 * (1 + fabs(should));
}

/* A step of 2^-15 suits most cells; those as sharp as 1 / sqrt(variance) need one of 2^-17 or
 * 2^-19, whose differences have more rounding. */
static void check_differences(const struct test_case *test)
{
    static double stopped[1 << 16];
    struct machine machine = reference(test->desc.type);
    struct data inputs = {0}, results = {0};
    const size_t step =
        tests_all() || only ? 1 : 7; /* only some elements, because each takes four runs */
    case_inputs(test, &inputs);
    ck_assert(case_run(test, &machine, &inputs, &results));
    eco_reference_stopped(machine.device, stopped, false);
    loss(test, &machine, &inputs);
    eco_reference_stopped(machine.device, stopped, true);
    int checked = 0;
    for (int i = 0; i < inputs.n; i++) {
        char name[80];
        gradient_name(name, inputs.array[i].name);
        const struct array *gradient = data_find(&results, name);
        const size_t first = gradient && gradient->count > step ? (size_t)i % step : 0;
        for (size_t j = first; gradient && j < gradient->count; j += step, checked++) {
            double should = 0;
            for (int k = 0; k < 3 && !agrees(gradient->value[j], should, k > 0); k++)
                should = difference(test, &machine, &inputs, &inputs.array[i].value[j],
                                    0x1p-15 / (1 << 4 * k));
            ck_assert_msg(agrees(gradient->value[j], should, true),
                          "%s: %s[%zu] is %.12g, finite differences give %.12g", test->text, name,
                          j, gradient->value[j], should);
        }
    }
    ck_assert_int_gt(checked, 0);
    data_free(&inputs);
    data_free(&results);
    ecornn_device_close(machine.device);
}

START_TEST(agrees_with_finite_differences)
{
    char name[64], text[CASE_TEXT];
    if (only) {
        snprintf(text, sizeof text, "%s", only);
    } else {
        const int cell = _i / OPTIONS - builtin_count();
        const bool last = _i % OPTIONS == OPTIONS - 1;
        if (!tests_all() && cell >= 0 && (cell + _i) % 2)
            return; /* of a cell from text, every second option; its neighbours have the others */
        ck_assert(any_cell(_i / OPTIONS, name));
        struct test_case plain = parsed(strcat(strcpy(text, name), "/T1/N1/I1/H1"));
        const bool projectable = plain.desc.cell->lowered.projectable;
        case_free(&plain);
        if (last && !projectable)
            return;
        snprintf(text, sizeof text, "%s/%s", name, last ? projected : option[_i % OPTIONS]);
    }
    struct test_case test = parsed(text);
    check_differences(&test);
    case_free(&test);
}
END_TEST

/* ---- the rest -------------------------------------------------------------------------------- */

static const char *const narrow_type[] = {"f32", "bf16/bf16-params", "f16/f16-params"};

/* Arrays of narrower types hold the rounded double results. Gradients of parameters are rounded
 * from F32. */
START_TEST(rounds_once)
{
    char text[CASE_TEXT];
    snprintf(text, sizeof text, "lstm/%s/train/L2/bi/T4/N3/I3/H5/lengths:random/states/dropout:0.2",
             narrow_type[_i]);
    struct test_case test = parsed(text);
    struct machine own = reference(test.desc.type), f64 = reference(ECORNN_F64);
    struct data inputs = {0}, narrow = {0}, wide = {0};
    case_inputs(&test, &inputs);
    ck_assert(case_run(&test, &own, &inputs, &narrow));
    ck_assert(case_run(&test, &f64, &inputs, &wide));
    for (int i = 0; i < wide.n; i++)
        for (size_t j = 0; j < wide.array[i].count; j++) {
            double *value = &wide.array[i].value[j];
            *value = wide.array[i].name[1] == ':' ? (double)(float)*value : *value;
            *value = eco_type_round(*value, test.desc.type);
        }
    ck_assert(results_same(&test, "own type against F64", &wide, &narrow));
    data_free(&inputs);
    data_free(&narrow);
    data_free(&wide);
    ecornn_device_close(own.device);
    ecornn_device_close(f64.device);
}
END_TEST

/* With saturated gates and states nothing overflows, and no row changes another row. */
START_TEST(survives_naughty_inputs)
{
    struct test_case test = parsed("lstm/f64/train/L2/bi/T4/N3/I3/H4/states/lengths:random");
    struct machine machine = reference(ECORNN_F64);
    struct data inputs = {0}, results = {0}, clean = {0};
    case_inputs(&test, &inputs);
    ck_assert(case_run(&test, &machine, &inputs, &clean));
    struct array *x = data_find(&inputs, "x");
    for (int t = 0; t < 4; t++)
        x->value[(t * 3 + 1) * 3] = t % 2 ? NAN : INFINITY; /* row 1 */
    ck_assert(case_run(&test, &machine, &inputs, &results));
    const struct array *y = data_find(&results, "y"), *good = data_find(&clean, "y");
    for (size_t i = 0; i < y->count; i++)
        if (i / 8 % 3 != 1)
            ck_assert_double_eq(y->value[i], good->value[i]);
    for (size_t i = 0; i < x->count; i++)
        x->value[i] = i % 2 ? 1e300 : -1e300;
    data_free(&results);
    ck_assert(case_run(&test, &machine, &inputs, &results));
    for (int i = 0; i < results.n; i++)
        for (size_t j = 0; j < results.array[i].count; j++)
            ck_assert_msg(isfinite(results.array[i].value[j]), "%s[%zu]", results.array[i].name, j);
    data_free(&inputs);
    data_free(&results);
    data_free(&clean);
    ecornn_device_close(machine.device);
}
END_TEST

static const struct {
    const char *type;
    double least, most; /* bounds, relative to an array's largest magnitude */
} rounding[] = {{"f32", 1e-8, 1e-5},
                {"f32/bf16-weights", 1e-8, 1e-5},
                {"f16", 1e-4, 2e-2},
                {"bf16", 1e-3, 2e-1}};

/* Bounds come from rounded runs, which must be close to the exact run but not equal to it. */
START_TEST(rounds_when_asked)
{
    char text[CASE_TEXT];
    snprintf(text, sizeof text, "gru/%s/train/T8/N3/I5/H9/states", rounding[_i].type);
    struct test_case test = parsed(text);
    struct data inputs = {0}, expected = {0};
    case_inputs(&test, &inputs);
    ck_assert(case_expect(&test, &inputs, &expected));
    for (int i = 0; i < expected.n; i++) {
        const struct array *array = &expected.array[i];
        double most = 0;
        for (size_t j = 0; j < array->count; j++)
            most = fmax(most, fabs(array->value[j]));
        ck_assert_msg(array->bound > rounding[_i].least * most &&
                          array->bound < rounding[_i].most * most,
                      "%s: %s: %g of %g", text, array->name, array->bound, most);
    }
    data_free(&inputs);
    data_free(&expected);
}
END_TEST

START_TEST(says_when_memory_fails)
{
    struct planned of;
    double x[8] = {0};
    planned_open(&of, "reference", "lstm/f64/train/T2/N2/I2/H2", NULL);
    memset(of.weights, 0, of.sizes.weight_bytes);
    ecornn_io io = planned_io(&of);
    io.x = x, io.reserve = NULL;
    eco_alloc_fail_at(1);
    ck_assert_int_eq(forward_all(of.plan, &io), ECORNN_NO_MEMORY);
    eco_alloc_fail_at(0);
    check_ok(forward_all(of.plan, &io));
    planned_close(&of);
}
END_TEST

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "reference"};
    only = argc > 1 ? argv[1] : getenv("ECORNN_CASE");
    return suite_run(
        &program, SUITE_TESTS({agrees_with_finite_differences, difference_count()},
                              {agrees_with_textbook, only ? 0 : sizeof textbook / sizeof *textbook},
                              {rounds_once, only ? 0 : 3}, {survives_naughty_inputs, !only},
                              {rounds_when_asked, only ? 0 : 4}, {says_when_memory_fails, !only}));
}
