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

#include "common/type.h"
#include "cpu/isa/isa.h"
#include "tests/kit/rows.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

/* ---- comparing ------------------------------------------------------------------------------- */

static const char *const kind_name[KINDS] = {"x", "dy", "initial", "dfinal",
                                             "y", "dx", "final",   "dinitial"};
static int differ, compared; /* rows */
static const char *where = "";

/* Two NaN are equal, whatever their bits. */
static bool same(const struct rows *rows, const char *a, const char *b, int kind)
{
    const size_t from = rows->before[kind], n = rows_elements(rows, kind);
    if (memcmp(a + from, b + from, rows->before[kind + 1] - from) == 0)
        return true;
    for (size_t i = 0; i < n; i++) {
        const double x = eco_type_get(a + from, i, rows->type),
                     y = eco_type_get(b + from, i, rows->type);
        if (memcmp(&x, &y, sizeof x) != 0 && !(isnan(x) && isnan(y)))
            return false;
    }
    return true;
}

static void compare(const struct rows *rows, const char *a, const char *b, const char *what, int n,
                    int N)
{
    bool ok = true;
    for (int kind = INPUTS; ok && kind < KINDS; kind++)
        if (rows->training || (kind != DX && kind != DINITIAL)) {
            ok = same(rows, a, b, kind);
            if (!ok && differ < 20)
                fprintf(stderr, "%s %s: %s: %s of row %d of %d\n", where, rows->text, what,
                        kind_name[kind], n, N);
        }
    compared++;
    differ += !ok;
}

/* ---- what is asked --------------------------------------------------------------------------- */

/* A row of NaN or infinities, which must not change other rows. */
static char *poison(const struct rows *rows, int how)
{
    static const double bad[] = {NAN, INFINITY, 0};
    char *row = calloc(1, rows->before[KINDS]);
    rows_fill(row, rows->type, rows->before[INPUTS] / eco_type_bytes(rows->type), bad[how % 3]);
    return row;
}

/* Runs N rows, beginning with row `first`, on a plan for `planned` rows. Some rows are poison; the
 * others must give what they give alone. stay: each row keeps its index. */
static void check_batch(const struct rows *rows, ecornn_device *device, int32_t planned, int32_t N,
                        bool stay)
{
    struct batch b;
    char *row[ROWS] = {0};
    int32_t length[ROWS] = {0}, id[ROWS];
    char what[64];
    batch_open(&b, rows, device, rows->T, planned);
    b.T = rows->T;
    b.N = N;
    for (int32_t n = 0; n < N; n++) {
        id[n] = stay ? n : (n * 11 + 5 + N) % ROWS;
        const bool bad = n % 4 == 2;
        row[n] = bad ? poison(rows, n / 4) : malloc(rows->before[KINDS]);
        if (!bad)
            memcpy(row[n], rows->row[id[n]], rows->before[KINDS]);
        length[n] = bad ? rows_length(rows->T) : rows->length[id[n]];
    }
    batch_forward(&b, row, length, 0);
    batch_backward(&b, row, 0);
    snprintf(what, sizeof what, "plan N%d", planned);
    for (int32_t n = 0; n < N; n++) {
        if (n % 4 != 2)
            compare(rows, row[n], rows->row[id[n]], what, n, N);
        free(row[n]);
    }
    batch_close(&b);
}

static bool is_finite(const struct rows *rows, const char *row)
{
    bool finite = true;
    for (int kind = INPUTS; kind < KINDS; kind++)
        for (size_t i = 0; i < rows_elements(rows, kind); i++)
            finite &= isfinite(eco_type_get(row + rows->before[kind], i, rows->type)) != 0;
    return finite;
}

/* Makes the expected results by running each row alone for its steps, or all rows together if
 * random numbers depend on the index of a row. */
static void make_expected(struct rows *rows, ecornn_device *device)
{
    struct batch b;
    const int32_t N = rows->by_place ? ROWS : 1;
    batch_open(&b, rows, device, rows->T, N);
    b.T = rows->T;
    b.N = N;
    for (int n = 0; n < ROWS; n += N) {
        if (rows->ragged && N == 1 && rows->length[n] > 0)
            b.T = rows->length[n];
        batch_forward(&b, &rows->row[n], &rows->length[n], 0);
        batch_backward(&b, &rows->row[n], 0);
    }
    for (int n = 0; n < ROWS; n++)
        ck_assert_msg(is_finite(rows, rows->row[n]), "%s: row %d", rows->text, n);
    batch_close(&b);
}

/* Runs steps [0, cut) and then the others, passing states and their gradients on. */
static void check_cut(const struct rows *rows, ecornn_device *device, int32_t N, int32_t cut)
{
    struct batch part[2];
    char *row[2][ROWS];
    const size_t bytes = rows->before[KINDS], state = rows->before[FINAL + 1] - rows->before[FINAL];
    for (int k = 0; k < 2; k++) {
        batch_open(&part[k], rows, device, k == 0 ? rows->T : rows->T - cut, N);
        part[k].T = k == 0 ? cut : rows->T - cut;
        part[k].N = N;
        for (int32_t n = 0; n < N; n++) {
            row[k][n] = malloc(bytes);
            memcpy(row[k][n], rows->row[n], bytes);
            if (k == 1)
                memcpy(row[1][n] + rows->before[INITIAL], row[0][n] + rows->before[FINAL], state);
        }
        batch_forward(&part[k], row[k], rows->length, k * cut);
    }
    for (int k = 1; k >= 0; k--) {
        for (int32_t n = 0; k == 0 && n < N; n++)
            memcpy(row[0][n] + rows->before[DFINAL], row[1][n] + rows->before[DINITIAL], state);
        batch_backward(&part[k], row[k], k * cut);
    }
    for (int32_t n = 0; n < N; n++) { /* row[1]: the results of both parts */
        memcpy(row[1][n] + rows->before[Y], row[0][n] + rows->before[Y],
               rows_elements(rows, Y) / (size_t)rows->T * (size_t)cut * eco_type_bytes(rows->type));
        memcpy(row[1][n] + rows->before[DX], row[0][n] + rows->before[DX],
               rows_elements(rows, DX) / (size_t)rows->T * (size_t)cut *
                   eco_type_bytes(rows->type));
        memcpy(row[1][n] + rows->before[DINITIAL], row[0][n] + rows->before[DINITIAL], state);
        compare(rows, row[1][n], rows->row[n], "cut", n, N);
        free(row[0][n]);
        free(row[1][n]);
    }
    batch_close(&part[0]);
    batch_close(&part[1]);
}

/* Do states pass from one run to the next as they are inside of one? */
static bool can_cut(const struct rows *rows)
{
    const bool narrow = eco_type_narrow(rows->type);
    return !rows->by_place && !rows->ragged && rows->test.desc.save_type == 0 &&
           !(rows->test.desc.flags & (ECORNN_REVERSE | ECORNN_BIDIRECTIONAL)) &&
           !(narrow && (rows->training || rows->states > 1));
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
        for (int32_t cut = 1; cut < rows->T; cut += all ? 1 : rows->T - 2 + (rows->T == 2))
            check_cut(rows, device, (const int[]){1, 4, 19}[i], cut);
}

/* Devices of several threads, and the grids in which these share steps. */
static const struct {
    const char *device, *grid;
} machine[] = {{"cpu:1", NULL}, {"cpu:3", "1x3x1"}, {"cpu:4", "2x1x2"}};

static void check_set(const char *text, const struct eco_isa *isa, bool all)
{
    struct rows rows;
    ecornn_device *device;
    char name[64];
    for (int ragged = 0; ragged < 2; ragged++) {
        rows_make(&rows, text, ragged);
        for (size_t k = 0; k < sizeof machine / sizeof *machine; k++) {
            if (k > 0 && !all && (k + (size_t)ragged) % 2 == 0)
                continue;
            ck_assert_int_eq(setenv("ECORNN_ISA", isa->name, 1), 0);
            if (machine[k].grid)
                setenv("ECORNN_GRID", machine[k].grid, 1);
            ck_assert_int_eq(ecornn_device_open(&device, machine[k].device), ECORNN_OK);
            unsetenv("ECORNN_GRID");
            snprintf(name, sizeof name, "%s %s%s", isa->name, machine[k].device,
                     ragged ? " lengths" : "");
            where = name;
            if (k == 0)
                make_expected(&rows, device);
            check_all_rows(&rows, device, all && k == 0);
            ecornn_device_close(device);
        }
        rows_free(&rows);
    }
}

static void check_problem(const char *text, bool all)
{
    const struct eco_isa *isa;
    const bool doubles = strstr(text, "/f64") != NULL; /* all instruction sets use one kernel */
    differ = compared = 0;
    for (int k = 0; (k == 0 || !doubles) && (isa = eco_isa_supported(k)); k++)
        check_set(text, isa, all);
    if (all)
        printf("%6d of %6d rows differ: %s\n", differ, compared, text);
    else
        ck_assert_msg(differ == 0, "%d of %d rows differ: %s", differ, compared, text);
}

START_TEST(rows_are_alone)
{
    check_problem(problem[_i], false);
}
END_TEST

START_TEST(rows_of_own_cells_are_alone)
{
    char name[64], text[ROWS_TEXT];
    ck_assert(sweep_own_cell(_i / OWN_OPTIONS, name));
    if (!tests_all() && (_i / OWN_OPTIONS + _i) % 3 != 0)
        return;
    snprintf(text, sizeof text, "%s/%s", name, own_option[_i % OWN_OPTIONS]);
    check_problem(text, false);
}
END_TEST

START_TEST(rows_of_the_reference_are_alone)
{
    struct rows rows;
    ecornn_device *device;
    differ = compared = 0;
    where = "reference";
    rows_make(&rows, problem[_i], _i % 2);
    ck_assert_int_eq(ecornn_device_open(&device, "reference"), ECORNN_OK);
    make_expected(&rows, device);
    check_batch(&rows, device, 13, 9, rows.by_place);
    ck_assert_msg(differ == 0, "%d of %d rows differ: %s", differ, compared, problem[_i]);
    ecornn_device_close(device);
    rows_free(&rows);
}
END_TEST

/* ---- infinities ------------------------------------------------------------------------------ */

/* Compares two results of a row. Both must have NaN and infinities in the same places, and all
 * other numbers must be close. */
static bool alike(const struct rows *rows, const char *a, const char *b)
{
    const double most = eco_type_narrow(rows->type) ? 0.1 : 1e-4;
    bool same = true;
    for (int kind = INPUTS; kind < KINDS; kind++)
        for (size_t i = 0; i < rows_elements(rows, kind); i++) {
            const double x = eco_type_get(a + rows->before[kind], i, rows->type),
                         y = eco_type_get(b + rows->before[kind], i, rows->type);
            same &= isfinite(x) ? fabs(x - y) <= most * (1 + fabs(x))
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
    char *expected[ROWS];
    ecornn_device *device;
    const struct eco_isa *isa;
    rows_make(&rows, infinite[_i], false);
    for (int n = 0; n < ROWS; n++)
        if (n % 3 != 0)
            eco_type_set(rows.row[n] + rows.before[rows.test.desc.heads > 1 ? INITIAL : X],
                         (size_t)(n % rows.I), rows.type,
                         n % 3 == 1 ? NAN
                         : n % 2    ? INFINITY
                                    : -INFINITY);
    for (int k = -1; k < 0 || (isa = eco_isa_supported(k)); k++) {
        struct batch b;
        char *row[ROWS];
        if (k >= 0)
            setenv("ECORNN_ISA", isa->name, 1);
        ck_assert_int_eq(ecornn_device_open(&device, k < 0 ? "reference" : "cpu:1"), ECORNN_OK);
        batch_open(&b, &rows, device, rows.T, ROWS);
        b.T = rows.T, b.N = ROWS;
        for (int n = 0; n < ROWS; n++) {
            row[n] = malloc(rows.before[KINDS]);
            memcpy(row[n], rows.row[n], rows.before[KINDS]);
        }
        batch_forward(&b, row, rows.length, 0);
        batch_backward(&b, row, 0);
        for (int n = 0; n < ROWS; n++) {
            ck_assert_msg(k < 0 || alike(&rows, expected[n], row[n]), "%s: %s: row %d", isa->name,
                          infinite[_i], n);
            if (k < 0)
                expected[n] = row[n];
            else
                free(row[n]);
        }
        batch_close(&b);
        ecornn_device_close(device);
    }
    for (int n = 0; n < ROWS; n++)
        free(expected[n]);
    rows_free(&rows);
}
END_TEST

static const char *only; /* the argument, if it is a problem */

START_TEST(look_at_all)
{
    char name[64], text[ROWS_TEXT];
    if (only) {
        check_problem(only, true);
        return;
    }
    for (int i = 0; i < PROBLEMS; i++)
        check_problem(problem[i], true);
    for (int i = 0; i < WIDE_PROBLEMS; i++)
        check_problem(wide_problem[i], true);
    for (int i = 0; sweep_own_cell(i / OWN_OPTIONS, name); i++) {
        snprintf(text, sizeof text, "%s/%s", name, own_option[i % OWN_OPTIONS]);
        check_problem(text, true);
    }
}
END_TEST

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "rows"},
                                      by_hand = {.name = "rows", .one_process = true};
    if (argc > 1) {
        only = strcmp(argv[1], "all") == 0 ? NULL : argv[1];
        return suite_run(&by_hand, SUITE_TESTS({look_at_all, 1}));
    }
    return suite_run(&program,
                     SUITE_TESTS({rows_are_alone, PROBLEMS},
                                 {rows_of_own_cells_are_alone, sweep_own_cells() * OWN_OPTIONS},
                                 {rows_of_the_reference_are_alone, PROBLEMS},
                                 {infinities_are_the_references, 8}));
}
