/*
 * Cells with a matrix state: texts that are refused, forms that a step does not have, problems that
 * are refused, and sizes drawn at random.  test_backend, test_reference, test_resets and others run
 * those of the library.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cell/cell.h"
#include "tests/kit/calls.h"
#include "tests/kit/planned.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

/* ---- texts ----------------------------------------------------------------------------------- */

static const struct {
    const char *text, *says;
} wrong[] = {
    {"cell a(y[V], S[K,V]; q[K])", "1:9: the first state is y"},
    {"cell a(y, S[K]; q[K])", "1:11: a cell with sizes of states has one for each but the first, "
                              "and one is [K,V]"},
    {"cell a(y, S[K,V], n; q[K])", "1:19: a cell with sizes"},
    {"cell a(y, S[K,V], Z[K,V]; q[K])", "1:20: a cell has one state [K,V], not two"},
    {"cell a(y, S[K,H]; q[K])", "1:15: expected V"},
    {"cell a(y, S[2,V]; q[K])", "1:13: expected K, V or 1"},
    {"cell a(y, S[K,V]; q[H])", "1:21: expected K, V or 1"},
    {"cell a(y, S[K,V]; q[K,V])", "1:21: a part of x is [K], [V] or [1]"},
    {"cell a(y, S[K,V], n[K]; v[V])\nn' = n + 1\nS' = S + outer(n, v)\ny' = S'^T n",
     "1:11: a cell with a matrix state has a part of x of size [K]"},
    {"cell a(h; q[K])\nh' = q", "1:13: expected 1, for a number a row, or H"},
    {"cell a(y, S[K,V]; q[K], v[V])\nS' = S + q * v",
     "2:12: mul does not go with a key [K], a value"},
    {"cell a(y, S[K,V]; q[K], v[V])\nS' = S + outer(v, q)", "2:10: outer does not go with a value"},
    {"cell a(y, S[K,V]; q[K], v[V])\nS' = S + 1",
     "2:8: add does not go with a matrix [K,V], a number"},
    {"cell a(y, S[K,V]; q[K], v[V])\nS' = tanh(S)", "2:6: tanh does not go with a matrix"},
    {"cell a(y, S[K,V]; q[K], v[V])\nS' = S^T q",
     "2:1: S' is a matrix [K,V], but its line gives a value"},
    {"cell a(y, S[K,V]; q[K], v[V])\nS' = S^2", "2:8: expected T after ^"},
    {"cell a(y, S[K,V]; q[K], v[V])\nS' = S^T v",
     "2:7: read does not go with a matrix [K,V], a value"},
    {"cell a(y, S[K,V]; q[K], v[V])\nS' = S + outer(q, W x)",
     "2:19: a cell with a matrix state has no 'W'"},
    {"cell a(y, S[K,V]; q[K], v[V])\nS' = p * S", "2:6: a cell with a matrix state has no 'p'"},
    {"cell a(y, S[K,V]; q[K], v[V])\ndot = v", "2:1: 'dot' is a word of the language"},
};

START_TEST(texts_are_refused)
{
    ecornn_cell *cell;
    ck_assert_int_eq(ecornn_cell_parse(&cell, wrong[_i].text), ECORNN_BAD_CELL);
    ck_assert_msg(strncmp(ecornn_error_detail(), wrong[_i].says, strlen(wrong[_i].says)) == 0,
                  "%s: %s", wrong[_i].text, ecornn_error_detail());
}
END_TEST

/* The words of matrix states are names in all other cells. */
START_TEST(words_are_names_elsewhere)
{
    ecornn_cell *cell;
    check_ok(ecornn_cell_parse(&cell, "cell a(h)\ndot = W x\nouter = dot + R h\nh' = outer"));
    ecornn_cell_free(cell);
}
END_TEST

/* ---- forms ----------------------------------------------------------------------------------- */

#define HEAD "cell a(y, S[K,V]; q[K], k[K], v[V], g[1])\n"
static const struct {
    const char *text, *says; /* NULL: a step has the form */
} form[] = {
    {HEAD "S' = (S + outer(k, v)) / (1 + g * g)\ny' = S'^T q", NULL},
    {HEAD "A = S - outer(k, S^T k)\nS' = g * A + outer(k, v * g)\ny' = 2 * S'^T (q / g)", NULL},
    {HEAD "u = v - S^T k\nS' = S + g * outer(k, u) - outer(q, S^T k)\ny' = S'^T q", NULL},
    {HEAD "S' = g * outer(k, v)\ny' = S'^T q", NULL},
    {HEAD "S' = S + outer(k, v * g)\ny' = S'^T q + S'^T k", "two readings of the next state"},
    {HEAD "S' = S + outer(k, v * g)\ny' = S^T q", "needs a y that reads the next state"},
    {HEAD "S' = S + outer(k, v * g)\ny' = S'^T q + S^T q", "depend on the previous state"},
    {HEAD "S' = S + outer(k, v * g) + outer(q, v)\ny' = S'^T q", "two outer products"},
    {HEAD "S' = S + outer(k, v * g) - outer(k, S^T k) - outer(q, S^T q)\ny' = S'^T q",
     "two different readings"},
    {HEAD "S' = S + outer(k, v * g) - outer(k, tanh(S^T k))\ny' = S'^T q", "numbers only"},
    {HEAD "S' = S + outer(k, v * g) - outer(k, v * S^T k)\ny' = S'^T q", "times a vector"},
    {HEAD "S' = g * S + outer(k, v - S^T k)\nz = g + (v - stop(v))\ny' = S'^T q + z", NULL},
    {HEAD "S' = S + outer(k, g - 0.1 * S^T k)\ny' = S'^T q + v", "needs a value [V]"},
    {HEAD "S' = S + outer(k, v * g + y)\ny' = S'^T q", "reads the previous y"},
    {HEAD "S' = g * S\ny' = S'^T q + dot(k, k) * v", "needs an outer product"},
};

START_TEST(forms_are_found)
{
    ecornn_cell *cell;
    check_ok(ecornn_cell_parse(&cell, form[_i].text));
    const char *const refusal = cell->rule.refusal;
    ck_assert_msg(form[_i].says == NULL ? refusal == NULL
                                        : refusal != NULL && strstr(refusal, form[_i].says) != NULL,
                  "%s: %s", form[_i].text, refusal != NULL ? refusal : "not refused");
    ecornn_cell_free(cell);
}
END_TEST

/* Those that a step has agree with the reference, which knows no forms; the others run there. */
START_TEST(forms_agree)
{
    ecornn_cell *cell;
    double y[2][5 * 2 * 6], dx[2][5 * 2 * 20], x[5 * 2 * 20], dy[5 * 2 * 6];
    check_ok(ecornn_cell_parse(&cell, form[_i].text));
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = 0.3 + 0.4 * (double)(i * 37 % 11) / 11;
    for (size_t i = 0; i < sizeof dy / sizeof *dy; i++)
        dy[i] = (double)(i * 29 % 13) / 13 - 0.4;
    for (int k = 0; k < (form[_i].says == NULL ? 2 : 1); k++) {
        struct planned of;
        planned_open(&of, k == 0 ? "reference" : "cpu:1", "a/f64/train/T5/N2/I20/H6/heads:2/key:3",
                     cell);
        ecornn_io io = planned_io(&of);
        io.x = x, io.y = y[k];
        check_ok(forward_all(of.plan, &io));
        const ecornn_gradient gradient = {.size = sizeof gradient, .dy = dy, .dx = dx[k]};
        check_ok(backward_all(of.plan, &io, &gradient));
        planned_close(&of);
    }
    for (size_t i = 0; form[_i].says == NULL && i < sizeof dy / sizeof *dy; i++)
        ck_assert_double_eq_tol(y[0][i], y[1][i], 1e-12);
    for (size_t i = 0; form[_i].says == NULL && i < 5 * 2 * 20; i++)
        ck_assert_double_eq_tol(dx[0][i], dx[1][i], 1e-11);
    ecornn_cell_free(cell);
}
END_TEST

/* ---- spans ----------------------------------------------------------------------------------- */

enum { T = 75, K = 5, V = 3, MOST = 3 * K + V + 1, NUMBERS = T * (MOST + 2 * V) };

/* One head of one row, I numbers of x a step: y, dx and the last S of a plan with forced choices,
 * one after the other. */
static void run_forced(const char *device, const char *problem, const char *force, int I,
                       const void *x, const void *dy, char *to, size_t bytes)
{
    struct planned of;
    const ecornn_gradient gradient = {.size = sizeof gradient, .dy = dy, .dx = to + bytes * T * V};
    setenv("ECORNN_FORCE", force, 1);
    planned_open(&of, device, problem, NULL);
    unsetenv("ECORNN_FORCE");
    ecornn_io io = planned_io(&of);
    io.x = x, io.y = to, io.final[1] = to + bytes * T * (size_t)(V + I);
    check_ok(forward_all(of.plan, &io));
    check_ok(backward_all(of.plan, &io, &gradient));
    planned_close(&of);
}

static double drawn(int i)
{
    return (double)(i * 37 % 101) / 101 - 0.5;
}

/* Gates of 0 and 1, and so small that their products would leave the range.  A 0 comes to one row
 * after the other. */
static double gate(int t, int row)
{
    static const double some[] = {1, 0.9, 1e-30, 0, 0.5, 1e-9, 1, 0.999, 1, 1, 0.8};
    return t < 40 ? some[t % 11] : t == 50 + row ? 0 : 1 - 0.01 * (t % 3) - 0.1 * row;
}

static const struct {
    const char *problem;
    int I, gate, gates; /* numbers of x a step, the first gate among them, and gates */
} span[] = {
    {"gated-delta/f64/train/T75/N1/I15/H3/key:5", 15, 13, 1},
    {"gated-delta/f64/train/T75/N1/I15/H3/key:5/save:every:50", 15, 13, 1},
    {"gated-delta/f64/train/T75/N1/I15/H3/key:5/rev", 15, 13, 1},
    {"gla/f64/train/T75/N1/I18/H3/key:5", 18, 13, 5},
    {"kimi-delta/f64/train/T75/N1/I19/H3/key:5", 19, 13, 5},
    {"kimi-delta/f64/train/T75/N1/I19/H3/key:5/save:every:50", 19, 13, 5},
};

START_TEST(spans_agree)
{
    const int I = span[_i].I;
    const char *const problem = span[_i].problem;
    double x[T * MOST], dy[T * V], of[3][NUMBERS] = {{0}};
    for (int i = 0; i < T * I; i++) {
        const int row = i % I - span[_i].gate;
        x[i] = row >= 0 && row < span[_i].gates ? gate(i / I, row)
               : i % I == I - 1                 ? drawn(i) + 0.6
                                                : drawn(i);
    }
    for (int i = 0; i < T * V; i++)
        dy[i] = drawn(i + 5);
    run_forced("reference", problem, "", I, x, dy, (char *)of[0], sizeof **of);
    run_forced("cpu:1", problem, "products=1", I, x, dy, (char *)of[1], sizeof **of);
    run_forced("cpu:1", problem, "products=0", I, x, dy, (char *)of[2], sizeof **of);
    for (int i = 0; i < T * (V + I) + K * V; i++)
        ck_assert_double_eq_tol(of[0][i], of[1][i], 1e-11);
    ck_assert_int_ne(memcmp(of[1], of[2], sizeof of[1]), 0); /* there were spans */
}
END_TEST

/* Numbers of pairs of steps leave the range, but neither S nor y: q . k, products of gates, or,
 * last, those of gates above 1 and values.  Such steps go one by one.  No sum cancels. */
static float number_in_range(int of, int i)
{
    enum { WIDTH = 2 * K + V + 1 };
    const int t = i / WIDTH, at = i % WIDTH;
    const double some = drawn(i) + 0.6;
    const bool gates = of == T, grows = of == T + 1;
    if (grows && at >= K)
        return at < 2 * K       ? (float)(some * 1e-4)
               : at < WIDTH - 1 ? (float)(some * 5e20)
               : t < 34         ? 3.9F
                                : 0.5F;
    if (at == WIDTH - 1)
        return gates && t == 10 ? 1e-30F : gates && t == 11 ? 1e-15F : 0.9F;
    if (at >= 2 * K)
        return (float)(some * (!gates ? 1e-30 : t == 0 ? 1e30 : 1e-25));
    return (float)(some * (of == t ? 1e25 : 1));
}

START_TEST(spans_keep_the_range)
{
    static const char problem[] = "retnet/f32/train/T75/N1/I14/H3/key:5";
    enum { I = 2 * K + V + 1 };
    float x[T * I], dy[T * V], of[2][NUMBERS] = {{0}};
    for (int i = 0; i < T * I; i++)
        x[i] = number_in_range(_i, i);
    for (int i = 0; i < T * V; i++)
        dy[i] = (float)((drawn(i) + 0.6) * 1e-30);
    for (int k = 0; k < 2; k++)
        run_forced("cpu:1", problem, k ? "products=1" : "products=0", I, x, dy, (char *)of[k],
                   sizeof **of);
    for (int i = 0; i < T * (V + I) + K * V; i++) {
        ck_assert(isfinite(of[0][i]) && isfinite(of[1][i]));
        ck_assert_double_eq_tol(of[0][i], of[1][i], 1e-5 * fabs((double)of[0][i]) + 1e-35);
    }
}
END_TEST

/* Threads share the columns of the only head: the same bits with each number of them. */
START_TEST(threads_share_a_head)
{
    enum { STEPS = 70, KEYS = 64, VALUES = 200, WIDTH = 2 * KEYS + VALUES + 2 };
    static const char *const device[] = {"cpu:1", "cpu:2", "cpu:3", "cpu:8"};
    static const char problem[] = "gated-delta/f32/infer/T70/N1/I330/H200/key:64";
    static float x[STEPS * WIDTH], y[2][STEPS * VALUES], S[2][2][KEYS * VALUES];
    for (int i = 0; i < STEPS * WIDTH; i++)
        x[i] = (float)(i % WIDTH < WIDTH - 2 ? 0.2 * drawn(i) : drawn(i) + 0.5);
    for (int k = 0; k < 4; k++) {
        struct planned of;
        planned_open(&of, device[k], problem, NULL);
        ecornn_io io = planned_io(&of);
        io.x = x, io.y = y[k > 0], io.initial[1] = S[0][0], io.final[1] = S[1][k > 0];
        check_ok(forward_all(of.plan, &io));
        planned_close(&of);
        ck_assert_int_eq(memcmp(y[0], y[k > 0], sizeof *y), 0);
        ck_assert_int_eq(memcmp(S[1][0], S[1][k > 0], sizeof *S[1]), 0);
        memset(y[1], 0, sizeof y[1]);
    }
}
END_TEST

/* ---- problems -------------------------------------------------------------------------------- */

static const struct {
    const char *problem;
    ecornn_status status;
    const char *says;
} refused[] = {
    {"lstm/key:3/T1/N1/I1/H1", ECORNN_BAD_ARGUMENT, "key is 3, but cell lstm has no matrix state"},
    {"gated-delta/T5/N4/I32/H6/heads:2/key:5/L2", ECORNN_UNSUPPORTED, "layers is 2"},
    {"gated-delta/T5/N4/I32/H6/heads:2/key:5/models:2", ECORNN_UNSUPPORTED, "models 2"},
    {"gated-delta/T5/N4/I30/H6/heads:2/key:5/bi", ECORNN_UNSUPPORTED, "goes without"},
    {"gated-delta/T5/N4/I30/H6/heads:2/key:5/int8", ECORNN_UNSUPPORTED, "goes without"},
    {"gated-delta/T5/N4/I30/H6/heads:2/key:5/bf16-weights", ECORNN_UNSUPPORTED, "weight_type"},
    {"gated-delta/T5/N4/I30/H6/heads:2/key:5/tangent", ECORNN_UNSUPPORTED, "goes without"},
    {"gated-delta/train/T5/N4/I30/H6/heads:2/key:5/bf16-save", ECORNN_UNSUPPORTED, "save_type"},
    {"gated-delta/train/T999/N4/I30/H6/heads:2/key:5/save:every:257", ECORNN_UNSUPPORTED,
     "save:every of more than 256 steps"},
    {"gated-delta/train/T999/N4/I30/H6/heads:2/key:5/memory:1K", ECORNN_BAD_ARGUMENT,
     "memory_limit is 1024, must be at least"},
    {"gated-delta/T5/N4/I31/H6/heads:2/key:5", ECORNN_BAD_ARGUMENT, "30 wide"},
    {"T5/N4/I30; gated-delta/H6/heads:2/key:5", ECORNN_UNSUPPORTED,
     "nets do not support cells with a matrix state"},
    {"gated-delta/T5/N4/I34/H6/heads:4/key:5", ECORNN_BAD_ARGUMENT, "heads is 4"},
    {"gated-delta/T5/N4/I32/H16777216/key:16777216", ECORNN_BAD_ARGUMENT, "at most 2147483647"},
};

START_TEST(problems_are_refused)
{
    ecornn_plan *plan;
    check_refused(ecornn_plan_create(&plan, NULL, refused[_i].problem, NULL), refused[_i].status,
                  refused[_i].says);
}
END_TEST

START_TEST(states_have_sizes)
{
    size_t elements = 0;
    ecornn_type type = 0;
    ecornn_plan *const plan = plan_on(NULL, "mlstm/bf16/T2/N1/I30/H6/heads:2/key:5");
    static const size_t should[] = {6, 30, 10, 2};
    for (int s = 0; s < 4; s++) {
        check_ok(ecornn_plan_state(plan, s, &elements, &type));
        ck_assert_uint_eq(elements, should[s]);
        ck_assert_int_eq(type, s == 0 ? ECORNN_BF16 : ECORNN_F32);
    }
    check_refused(ecornn_plan_state(plan, 4, &elements, NULL), ECORNN_BAD_ARGUMENT,
                  "index is 4, must be 0 to 3");
    check_refused(ecornn_plan_state(plan, 0, NULL, NULL), ECORNN_BAD_ARGUMENT, "elements is NULL");
    ecornn_plan_free(plan);
}
END_TEST

int main(void)
{
    static const struct suite_program program = {.name = "matrix"};
    return suite_run(&program, SUITE_TESTS({texts_are_refused, sizeof wrong / sizeof *wrong},
                                           {words_are_names_elsewhere, 1},
                                           {forms_are_found, sizeof form / sizeof *form},
                                           {forms_agree, sizeof form / sizeof *form},
                                           {spans_agree, sizeof span / sizeof *span},
                                           {spans_keep_the_range, T + 2}, {threads_share_a_head, 1},
                                           {problems_are_refused, sizeof refused / sizeof *refused},
                                           {states_have_sizes, 1}));
}
