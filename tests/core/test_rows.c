/*
 * Row invariance. The bits of a row of y, final, dx and dinitial must not depend on N, on the row's
 * index, on the other rows (even if these have NaN and infinities), on the plan's sizes, on where T
 * is cut, or on threads. Each row is compared with a run of that row alone.
 *
 *     test_rows [all | PROBLEM]    all: every N from 1 to 70, wide layers
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/problem.h"
#include "common/type.h"
#include "cpu/isa/isa.h"
#include "tests/kit/rows.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

/* ---- comparing ------------------------------------------------------------------------------- */

enum { ROWS = 70, ROWS_TEXT = 200 };
static int differ, compared; /* rows */
static const char *where = "";

static void compare(struct rows *rows, struct trial *b, const struct order *order, const char *what)
{
    const int last = b->trains ? DSTART : STATES;
    for (int32_t n = 0; n < b->N; n++) {
        const char *const name = rows_differ(rows, b, order, n, Y, last);
        if (name != NULL && differ < 20)
            fprintf(stderr, "%s %s: %s: %s of row %d of %d\n", where, rows->all.of[0]->text, what,
                    name, (int)n, (int)b->N);
        compared += order->poison[n] == NO_POISON;
        differ += name != NULL;
    }
}

/* ---- what is asked --------------------------------------------------------------------------- */

/* Runs N rows, beginning with row `first`, on a plan for `planned` rows. Some rows are poison; the
 * others must give what they give alone. stay: each row keeps its index. */
static void check_batch(struct rows *rows, ecornn_device *device, int32_t planned, int32_t N,
                        bool stay)
{
    struct trial b;
    struct order order;
    char what[64];
    ck_assert(rows_batch(rows, &b, device, rows->all.T, planned));
    trial_size(&b, rows->all.T, N, 0);
    for (int32_t n = 0; n < N; n++) {
        order.id[n] = stay ? n : (n * 11 + 5 + N) % ROWS;
        order.poison[n] = n % 4 == 2 ? (enum poison)(POISON_NAN + n / 4 % 3) : NO_POISON;
    }
    rows_take(rows, &b, &order, 0);
    trial_run(&b);
    snprintf(what, sizeof what, "plan N%d", planned);
    compare(rows, &b, &order, what);
    trial_close(&b);
}

/* Runs steps [0, cut) and then the others, passing states and their gradients on. */
static void check_cut(struct rows *rows, ecornn_device *device, int32_t N, int32_t cut)
{
    static const int same[2][3] = {{Y, DX, DINITIAL}, {Y, DX, FINAL}};
    struct trial run[2];
    struct order order = {.id = {0}};
    const struct part part[] = {{.of = &run[0]}, {.of = &run[1]}};
    for (int32_t n = 0; n < N; n++)
        order.id[n] = n;
    for (int k = 0; k < 2; k++) {
        ck_assert(rows_batch(rows, &run[k], device, k == 0 ? rows->all.T : rows->all.T - cut, N));
        trial_size(&run[k], k == 0 ? cut : rows->all.T - cut, N, 0);
        rows_take(rows, &run[k], &order, k * cut);
    }
    trial_run(&run[0]);
    part_copy(part[1], INITIAL, part[0], FINAL);
    trial_run(&run[1]);
    part_copy(part[0], DFINAL, part[1], DINITIAL);
    trial_run(&run[0]);
    for (int k = 0; k < 2; k++) {
        const struct part whole = {.of = &rows->all, .step = k * cut};
        for (int i = 0; i < 3; i++)
            if (!part_same(part[k], same[k][i], whole, same[k][i])) {
                fprintf(stderr, "%s %s: cut: %s\n", where, rows->all.of[0]->text,
                        trial_role(same[k][i]));
                differ++;
            }
    }
    compared += N;
    trial_close(&run[0]), trial_close(&run[1]);
}

/* Do states pass from one run to the next as they are inside of one? */
static bool can_cut(const struct rows *rows)
{
    const bool narrow = eco_type_narrow(rows->desc.type);
    return !rows->by_place && !rows->all.ragged && rows->desc.save_type == 0 &&
           !(rows->desc.flags & (ECORNN_REVERSE | ECORNN_BIDIRECTIONAL)) &&
           !(narrow && (rows->all.trains || rows->all.array[0][FINAL][1].host != NULL));
}

/* ---- problems -------------------------------------------------------------------------------- */

/* Problems for which row invariance holds: doc/numerics.md, "Rows". */
static const char *const problem[] = {
    "lstm/f32/train/T5/I3/H8",
    "lstm/f32/train/L2/bi/T4/I9/H37",
    "lstm/f32/infer/T5/I70/H65/batch-major",
    "lstm/f32/train/L2/T5/I4/H21/P6",
    "lstm/f32/train/L2/rev/T4/I5/H19/dropout:0.4",
    "lstm/f32/infer/T2/I1024/H40",
    "lstm/f32/fast/row-invariant/train/T3/I5/H33",
    "gru/f32/train/T6/I5/H50",
    "gru/f32/infer/L3/T5/I4/H19",
    "gru-reset-first/f32/train/bi/T4/I3/H34",
    "mgu/f32/train/L2/T4/I3/H17",
    "lstm-peephole/f32/train/T4/I7/H16/P4",
    "lstm-coupled/f32/train/T4/I7/H23",
    "rnn-tanh/f32/train/T4/I5/H100",
    "rnn-relu/f32/train/L2/T5/I2/H1",
    "lstm/f32/bf16-weights/row-invariant/train/L2/T4/I5/H35",
    "gru/f32/bf16-weights/row-invariant/infer/T4/I33/H66",
    "lstm/f32/bf16-weights/row-invariant/infer/T2/I1037/H35",
    "lstm/f32/int8/infer/L2/bi/T4/I5/H35",
    "gru/f32/int8/infer/T4/I130/H66",
    "lstm/f32/int8-weights/infer/T4/I33/H66",
    "lstm/bf16/row-invariant/train/T3/I7/H40",
    "lstm/bf16/row-invariant/infer/L2/bi/T3/I7/H33",
    "gru/bf16/row-invariant/infer/T5/I35/H48",
    "gru/bf16/row-invariant/train/L2/T3/I3/H20/batch-major",
    "gru-reset-first/bf16/row-invariant/train/T3/I5/H35",
    "rnn-tanh/bf16/bf16-params/row-invariant/infer/T4/I64/H96",
    "lstm/f64/row-invariant/train/L2/T4/I5/H19",
    "gru/f64/row-invariant/train/bi/T3/I3/H70",
    "lstm-peephole/f64/row-invariant/train/T3/I9/H33/P5/batch-major",
    "mgu/f64/row-invariant/infer/L2/T4/I130/H9",
    /* Two directions, whose parts of dx are added, and a second state after the last step. */
    "lstm/f64/row-invariant/train/bi/T3/I4/H5/batch-major",
    "sru/f32/row-invariant/train/bi/T3/I19/H19/batch-major",
    "sru/bf16/row-invariant/train/bi/T3/I19/H19/batch-major",
    "sru/bf16/row-invariant/train/T5/I19/H19/save:states",
    "highway/bf16/train/T3/I19/H19/batch-major",
    /* N decides where chunks of backward end: which direction adds to dx first, and from which
     * rounded states a replay begins. */
    "gru/bf16/row-invariant/train/bi/T20/I5/H7",
    "lstm/f32/train/L2/bi/T20/I3/H5/dropout:0.4",
    "lstm/f64/row-invariant/train/L2/bi/T33/I3/H5",
    "qrnn/f32/train/T20/I3/H5/save:every:2/bf16-save",
    "norm-lstm/f32/train/T20/I3/H5/save:states/bf16-save",
};
enum { PROBLEMS = sizeof problem / sizeof *problem };
static const char *const wide_problem[] = {
    "lstm/f32/train/T3/I200/H300",
    "lstm/f32/infer/T3/I300/H260",
    "gru/f32/train/T3/I100/H290",
    "gru/f32/infer/L2/T3/I256/H256",
    "lstm/f32/infer/T2/I1024/H270",
    "gru-reset-first/f32/train/T3/I100/H290",
    "rnn-relu/f32/train/bi/T3/I30/H300",
    "lstm/f32/bf16-weights/row-invariant/infer/T3/I200/H300",
    "lstm/f32/int8/infer/T3/I200/H300",
    "lstm/f32/train/L2/T3/I64/H256/P100",
    "gru/f32/bf16-weights/row-invariant/train/T3/I200/H300",
    "lstm/bf16/row-invariant/train/T3/I200/H300",
    "gru/bf16/row-invariant/infer/T3/I300/H256",
    "lstm/f64/row-invariant/train/T3/I200/H300",
    "gru/f64/row-invariant/infer/T3/I100/H260",
};
enum { WIDE_PROBLEMS = sizeof wide_problem / sizeof *wide_problem };
/* Options for cells from text. */
static const char *const own_option[] = {
    "f32/train/T4/I3/H20", "f32/train/L2/T3/I7/H37", "f32/infer/bi/T4/I4/H19",
    "bf16/row-invariant/train/T3/I4/H37", "f64/row-invariant/train/T3/I2/H5"};
enum { OWN_OPTIONS = sizeof own_option / sizeof *own_option };

static const int few[] = {2, 3, 4, 5, 7, 12, 13, 16, 17, 24, 33, 70};

static void check_all_rows(struct rows *rows, ecornn_device *device, bool all)
{
    for (int i = 0; i < (all ? ROWS : (int)(sizeof few / sizeof *few)); i++) {
        const int32_t N = all ? i + 1 : few[i];
        check_batch(rows, device, N, N, rows->by_place);
        if (all || i % 3 == 0)
            check_batch(rows, device, N + (ROWS - N) / 2, N, rows->by_place);
    }
    for (int i = 0; can_cut(rows) && i < 3; i++)
        for (int32_t cut = 1; cut < rows->all.T;
             cut += all ? 1 : rows->all.T - 2 + (rows->all.T == 2))
            check_cut(rows, device, (const int[]){1, 4, 19}[i], cut);
}

/* Devices of several threads, and the grids in which these share steps. */
static const struct {
    const char *device, *grid;
} machine[] = {{"cpu:1", NULL}, {"cpu:3", "1x3x1"}, {"cpu:4", "2x1x2"}};

/* Opens a device for one instruction set; NULL: the usual one. */
static ecornn_device *open_device(const char *name, const struct eco_isa *isa, const char *grid)
{
    if (isa != NULL)
        setenv("ECORNN_ISA", isa->name, 1);
    if (grid != NULL)
        setenv("ECORNN_GRID", grid, 1);
    ecornn_device *const device = device_on(name);
    unsetenv("ECORNN_GRID");
    return device;
}

/* The description of a problem without N; case_free(test) later. */
static const ecornn_desc *parse(struct test_case *test, const char *text)
{
    char whole[ROWS_TEXT];
    snprintf(whole, sizeof whole, "%s/N1", text);
    ck_assert_msg(case_parse(test, whole), "%s", text);
    return &test->desc;
}

static void check_set(const char *text, const struct eco_isa *isa, bool all)
{
    struct rows rows;
    struct test_case test;
    char name[64];
    const ecornn_desc *const desc = parse(&test, text);
    for (int ragged = 0; ragged < 2; ragged++) {
        ecornn_device *const alone = open_device(machine[0].device, isa, NULL);
        rows_open(&rows, alone, desc, ROWS, ragged);
        rows_alone(&rows);
        for (size_t k = 0; k < sizeof machine / sizeof *machine; k++) {
            if (k > 0 && !all && (k + (size_t)ragged) % 2 == 0)
                continue;
            ecornn_device *const device = open_device(machine[k].device, isa, machine[k].grid);
            snprintf(name, sizeof name, "%s %s%s", isa->name, machine[k].device,
                     ragged ? " lengths" : "");
            where = name;
            check_all_rows(&rows, device, all && k == 0);
            ecornn_device_close(device);
        }
        rows_close(&rows);
        ecornn_device_close(alone);
    }
    case_free(&test);
}

static int sets; /* of instructions that this machine has */

/* Every `every`-th of them, from number `first` modulo `every` on; with tests_all(), each. */
static void check_problem(const char *text, bool all, int first, int every)
{
    const struct eco_isa *isa;
    const bool doubles = strstr(text, "/f64") != NULL; /* all instruction sets use one kernel */
    differ = compared = 0;
    for (int k = 0; (k == 0 || !doubles) && (isa = eco_isa_supported(k)); k++)
        if (doubles || tests_all() || k % every == first % every % sets)
            check_set(text, isa, all);
    if (all)
        printf("%6d of %6d rows differ: %s\n", differ, compared, text);
    else
        ck_assert_msg(compared && !differ, "%d of %d rows differ: %s", differ, compared, text);
}

START_TEST(rows_are_alone)
{
    check_problem(problem[_i], false, _i, 2);
}
END_TEST

START_TEST(rows_of_own_cells_are_alone)
{
    char name[64], text[ROWS_TEXT];
    ck_assert(sweep_own_cell(_i / OWN_OPTIONS, name));
    if (!tests_all() && (_i / OWN_OPTIONS + _i) % 7 != 0)
        return;
    snprintf(text, sizeof text, "%s/%s", name, own_option[_i % OWN_OPTIONS]);
    check_problem(text, false, _i / 7, sets);
}
END_TEST

START_TEST(rows_of_the_reference_are_alone)
{
    struct rows rows;
    struct test_case test;
    ecornn_device *const device = open_device("reference", NULL, NULL);
    differ = compared = 0;
    where = "reference";
    rows_open(&rows, device, parse(&test, problem[_i]), ROWS, _i % 2);
    rows_alone(&rows);
    check_batch(&rows, device, 13, 9, rows.by_place);
    ck_assert_msg(differ == 0, "%d of %d rows differ: %s", differ, compared, problem[_i]);
    rows_close(&rows);
    case_free(&test);
    ecornn_device_close(device);
}
END_TEST

/* ---- infinities ------------------------------------------------------------------------------ */

/* Both must have NaN and infinities in the same places, and all other numbers must be close. */
static bool alike(struct part_row a, struct part_row b, void *most)
{
    bool same = true;
    for (size_t i = 0; i < a.array->row / a.array->element; i++) {
        const double x = eco_type_get(a.at, i, a.array->type),
                     y = eco_type_get(b.at, i, b.array->type);
        same &= isfinite(x) ? fabs(x - y) <= *(double *)most * (1 + fabs(x))
                            : (isnan(x) && isnan(y)) || x == y;
    }
    return same;
}

static const char *const infinite[] = {"lstm/f32/train/T3/I5/H19",
                                       "gru/f32/train/L2/T3/I3/H37",
                                       "rnn-tanh/bf16/train/T3/I33/H35",
                                       "lstm/bf16/train/T3/I7/H21",
                                       "mgu/f32/bf16-weights/row-invariant/train/T3/I3/H131",
                                       "lstm/f32/bf16-weights/train/T3/I3/H128/heads:2",
                                       "gru-reset-first/f64/row-invariant/train/T3/I9/H5",
                                       "rnn-relu/f32/train/T2/I7/H23",
                                       "lstm-peephole/f64/train/T3/I5/H13"};

/* An infinite number or a NaN in x of a row, with heads in a state, spreads as the equations say,
 * and is not multiplied by the zeros that pad vectors and groups or are other heads'. */
START_TEST(infinities_are_the_references)
{
    struct rows rows;
    struct test_case test;
    const struct eco_isa *isa;
    const ecornn_desc *const desc = parse(&test, infinite[_i]);
    ecornn_device *const reference = open_device("reference", NULL, NULL);
    double most = eco_type_narrow(desc->type) ? 0.1 : 1e-4;
    rows_open(&rows, reference, desc, ROWS, false);
    const struct trial_array *const in = &rows.all.array[0][desc->heads > 1 ? INITIAL : X][0];
    for (int n = 0; n < ROWS; n++)
        if (n % 3 != 0)
            eco_type_set(in->host + (size_t)n * in->row, (size_t)(n % desc->input), desc->type,
                         n % 3 == 1 ? NAN
                         : n % 2    ? INFINITY
                                    : -INFINITY);
    trial_run(&rows.all);
    for (int k = 0; (isa = eco_isa_supported(k)); k++) {
        const struct part all = {.of = &rows.all};
        struct trial b;
        ecornn_device *const device = open_device("cpu:1", isa, NULL);
        ck_assert(rows_batch(&rows, &b, device, rows.all.T, ROWS));
        part_copy_inputs((struct part){.of = &b}, all);
        trial_run(&b);
        for (int role = Y; role <= DSTART; role++)
            ck_assert_msg(part_each(all, role, (struct part){.of = &b}, role, alike, &most),
                          "%s: %s: %s", isa->name, infinite[_i], trial_role(role));
        trial_close(&b);
        ecornn_device_close(device);
    }
    rows_close(&rows);
    case_free(&test);
    ecornn_device_close(reference);
}
END_TEST

static const char *only; /* the argument, if it is a problem */

START_TEST(look_at_all)
{
    char name[64], text[ROWS_TEXT];
    if (only) {
        check_problem(only, true, 0, 1);
        return;
    }
    for (int i = 0; i < PROBLEMS; i++)
        check_problem(problem[i], true, 0, 1);
    for (int i = 0; i < WIDE_PROBLEMS; i++)
        check_problem(wide_problem[i], true, 0, 1);
    for (int i = 0; sweep_own_cell(i / OWN_OPTIONS, name); i++) {
        snprintf(text, sizeof text, "%s/%s", name, own_option[i % OWN_OPTIONS]);
        check_problem(text, true, 0, 1);
    }
}
END_TEST

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "rows"},
                                      by_hand = {.name = "rows", .one_process = true};
    while (eco_isa_supported(sets))
        sets++;
    if (argc > 1) {
        only = strcmp(argv[1], "all") == 0 ? NULL : argv[1];
        return suite_run(&by_hand, SUITE_TESTS({look_at_all, 1}));
    }
    return suite_run(
        &program, SUITE_TESTS({rows_are_alone, PROBLEMS},
                              {rows_of_own_cells_are_alone, sweep_own_cells() * OWN_OPTIONS},
                              {rows_of_the_reference_are_alone, PROBLEMS},
                              {infinities_are_the_references, sizeof infinite / sizeof *infinite}));
}
