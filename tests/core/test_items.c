/*
 * The items of cells are all that a program needs to compute a step.  A walk over the items of each
 * cell, in double, gives the y and final states of the reference, which computes the text's graph
 * and has no stages.  Wrong calls are refused, and write nothing.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

enum { T = 3, N = 2, H = 3, SOME = 32, MOST_VALUES = 256 };

static ecornn_cell_item item[2048];
static int items;

static bool is(const ecornn_cell_item *one, const char *word)
{
    return strcmp(one->word, word) == 0;
}

/* Reads all items of a cell: the head, then stages in order. */
static void read_items(const ecornn_cell *cell)
{
    int states = 0;
    for (items = 0;; items++) {
        item[items].size = sizeof *item;
        if (ecornn_cell_item_get(cell, items, &item[items]) != ECORNN_OK)
            break;
        const int before = items == 0 ? -1 : item[items - 1].stage;
        ck_assert(item[items].stage == before || item[items].stage == before + 1);
        states += is(&item[items], "state");
    }
    ck_assert_ptr_nonnull(strstr(ecornn_error_detail(), "has no such item"));
    ck_assert(is(&item[0], "cell") && states == count_states(cell));
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* One row. */
static struct {
    const struct data *inputs;
    const double *x;
    int rest, outputs;            /* numbers of x before its parts, states in y */
    int part[SOME], stride[SOME]; /* where each part of x begins, and from unit to unit */
    double before[ECORNN_MAX_STATES][H], next[ECORNN_MAX_STATES][H];
    double acc[SOME][H], operand[SOME][H], mean[SOME], value[MOST_VALUES][H];
} row;

static double parameter(const char *name, int element)
{
    char full[64];
    snprintf(full, sizeof full, "0.fwd.%s", name);
    return data_find(row.inputs, full)->value[element];
}

/* Adds an item to an accumulator, if it is of that kind. */
static bool adds(const ecornn_cell_item *one, int u)
{
    const int first = one->argument[0];
    const bool input = is(one, "input");
    if (input || is(one, "product")) {
        const int columns = input ? row.rest : H;
        const double *const from = input                   ? row.x
                                   : one->argument[1] >= 0 ? row.before[one->argument[1]]
                                                           : row.operand[one->argument[2]];
        for (int k = 0; k < columns; k++)
            row.acc[one->index][u] += parameter(one->name, u * columns + k) * from[k];
    } else if (is(one, "bias"))
        row.acc[one->index][u] += parameter(one->name, u);
    else if (is(one, "copy"))
        row.acc[one->index][u] +=
            first < 0 ? row.x[u] : row.x[row.part[first] + u * row.stride[first]];
    else
        return false;
    return true;
}

static double of_values(const char *word, double a, double b, double c)
{
    const struct {
        const char *word;
        double value;
    } one[] = {
        {"add", a + b},    {"sub", a - b},           {"mul", a * b},
        {"div", a / b},    {"min", a < b ? a : b},   {"max", a > b ? a : b},
        {"neg", -a},       {"abs", fabs(a)},         {"select", a > 0 ? b : c},
        {"exp", exp(a)},   {"log", log(a)},          {"sqrt", sqrt(a)},
        {"tanh", tanh(a)}, {"relu", a > 0 ? a : 0.}, {"sigmoid", 1 / (1 + exp(-a))},
    };
    for (size_t k = 0; k < sizeof one / sizeof *one; k++)
        if (strcmp(one[k].word, word) == 0)
            return one[k].value;
    ck_abort_msg("no word %s", word);
    return 0;
}

static double value_of(const ecornn_cell_item *one, int u)
{
    double argument[3] = {0};
    if (is(one, "load_acc"))
        return row.acc[one->argument[0]][u];
    if (is(one, "load_state"))
        return row.before[one->argument[0]][u];
    if (is(one, "load_vector"))
        return parameter(one->name, u);
    if (is(one, "load_mean"))
        return row.mean[one->argument[0]];
    if (is(one, "const") || is(one, "bernoulli"))
        return one->value;
    for (int k = 0; k < 3 && one->argument[k] >= 0; k++) {
        ck_assert_int_lt(one->argument[k], one->index);
        argument[k] = row.value[one->argument[k]][u];
    }
    return of_values(one->word, argument[0], argument[1], argument[2]);
}

static void execute(const ecornn_cell_item *one, int u)
{
    if (adds(one, u) || is(one, "store_save"))
        return;
    if (is(one, "store_next"))
        row.next[one->index][u] = row.value[one->argument[0]][u];
    else if (is(one, "store_operand"))
        row.operand[one->index][u] = row.value[one->argument[0]][u];
    else if (is(one, "store_mean"))
        row.mean[one->index] += row.value[one->argument[0]][u] / H;
    else
        row.value[one->index][u] = value_of(one, u);
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* Places the parts at the end of x, and lets the states begin where the items say. */
static void begin(const struct data *inputs)
{
    memset(&row, 0, sizeof row);
    row.inputs = inputs;
    row.rest = data_find(inputs, "x")->extent[2];
    for (const ecornn_cell_item *one = item + items - 1; one >= item; one--)
        if (is(one, "part")) {
            row.stride[one->index] = one->argument[0] != '1';
            row.part[one->index] = row.rest -= one->argument[0] == '1' ? 1 : H;
        } else if (is(one, "state")) {
            row.outputs += one->argument[0];
            for (int u = 0; u < H; u++)
                row.before[one->index][u] = one->value;
        }
}

static void same(const char *cell, const struct array *right, int at, const double *got)
{
    for (int u = 0; u < H; u++)
        ck_assert_msg(fabs(right->value[at + u] - got[u]) <= right->bound,
                      "%s: %s[%d] is %.17g, must be %.17g within %.2g", cell, right->name, at + u,
                      got[u], right->value[at + u], right->bound);
}

/* Runs row n of all steps. */
static void run_row(const char *cell, const struct data *inputs, const struct data *expected, int n)
{
    const struct array *const x = data_find(inputs, "x");
    begin(inputs);
    for (int t = 0; t < T; t++) {
        row.x = x->value + (t * N + n) * x->extent[2];
        memset(row.acc, 0, sizeof row.acc);
        memset(row.mean, 0, sizeof row.mean);
        for (int k = 0; k < items; k++)
            for (int u = 0; item[k].stage >= 0 && u < H; u++)
                execute(&item[k], u);
        memcpy(row.before, row.next, sizeof row.before);
        for (int s = 0; s < row.outputs; s++)
            same(cell, data_find(expected, "y"), ((t * N + n) * row.outputs + s) * H,
                 row.before[s]);
    }
    for (int k = 0; k < items; k++)
        if (is(&item[k], "state")) {
            char name[16];
            snprintf(name, sizeof name, "final%d", item[k].index);
            same(cell, data_find(expected, name), n * H, row.before[item[k].index]);
        }
}

static void check_cell(const char *name, bool matrix)
{
    char text[CASE_TEXT];
    struct test_case test;
    struct data inputs = {0}, expected = {0};
    snprintf(text, sizeof text, "%s/f64/T%d/N%d/I%d/H%d", name, T, N, H, H);
    ck_assert(case_parse(&test, text));
    read_items(test.desc.cell);
    ck_assert_msg((item[items - 1].stage < 0) == matrix, "%s: stages", name);
    if (!matrix) {
        case_inputs(&test, &inputs);
        ck_assert(case_expect(&test, &inputs, &expected));
        for (int n = 0; n < N; n++)
            run_row(name, &inputs, &expected, n);
    }
    data_free(&expected);
    data_free(&inputs);
    case_free(&test);
}

START_TEST(compute_every_cell)
{
    char name[64];
    for (int k = 0; k < builtin_count(); k++)
        check_cell(cell_name(k), false);
    for (int k = 0; sweep_own_cell(k, name); k++)
        check_cell(name, false);
    for (int k = 0; sweep_matrix_cell(k, name); k++)
        check_cell(name, true);
}
END_TEST

START_TEST(refuses)
{
    const ecornn_cell *const cell = builtin_cell("lstm");
    read_items(cell);
    const int bad[] = {-1, INT32_MIN, items, INT32_MAX};
    const size_t sizes[] = {0, 8, sizeof *item - 1, (size_t)-1};
    ecornn_cell_item one, before;
    memset(&one, 7, sizeof one);
    one.size = sizeof one;
    before = one;
    REFUSES(ecornn_cell_item_get(NULL, 0, &one), "cell is NULL");
    REFUSES(ecornn_cell_item_get(cell, 0, NULL), "item is NULL");
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        char words[64];
        snprintf(words, sizeof words, "index is %d, but cell lstm has no such item", bad[k]);
        REFUSES(ecornn_cell_item_get(cell, bad[k], &one), words);
    }
    ck_assert_mem_eq(&one, &before, sizeof one);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        one.size = before.size = sizes[k];
        REFUSES(ecornn_cell_item_get(cell, 0, &one), "item.size is ");
        ck_assert_mem_eq(&one, &before, sizeof one);
    }
    /* A program of another header has a structure of another length. */
    one.size = before.size = offsetof(ecornn_cell_item, name);
    check_ok(ecornn_cell_item_get(cell, 0, &one));
    ck_assert_str_eq(one.word, "cell");
    ck_assert_mem_eq(one.name, before.name, sizeof one - one.size);
}
END_TEST

TEST_MAIN("items", {compute_every_cell, 1}, {refuses, 1})
