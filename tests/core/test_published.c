/*
 * Cells as their authors have published them, forward, from the equations by hand: layer-normalised
 * LSTM and GRU of haste, of TensorFlow 1 and with a norm for each product, root mean squares, the
 * sLSTM of xLSTM and the block GRU of Dreamer with heads.  Gradients are test_reference's business.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

enum { MOST = 16, GATES = 4 };

/* One row of a layer, and its parameters by name. */
struct row {
    const struct data *inputs;
    int I, H, heads;
    double x[MOST], state[4][MOST]; /* states as the cell has them, the output first */
};

typedef double gates[GATES][MOST];

static const double *param(const struct row *row, const char *kind, const char *line)
{
    char name[40];
    snprintf(name, sizeof name, "0.fwd.%s.%s", kind, line);
    const struct array *array = data_find(row->inputs, name);
    ck_assert_msg(array != NULL, "%s", name);
    return array->value;
}

static double sigmoid(double a)
{
    return 1 / (1 + exp(-a));
}

/* out += W x of a line. */
static void add_input(const struct row *row, const char *line, double *out)
{
    const double *W = param(row, "W", line);
    for (int j = 0; j < row->H; j++)
        for (int k = 0; k < row->I; k++)
            out[j] += W[j * row->I + k] * row->x[k];
}

/* out += R h: of unit j the H/K units of its head. */
static void add_recurrent(const struct row *row, const char *line, double *out)
{
    const double *R = param(row, "R", line);
    const int n = row->H / row->heads;
    for (int j = 0; j < row->H; j++)
        for (int k = 0; k < n; k++)
            out[j] += R[j * n + k] * row->state[0][j / n * n + k];
}

/* W x + R h of each line. */
static void sums(const struct row *row, const char *const *line, int n, gates out)
{
    memset(out, 0, sizeof(gates));
    for (int g = 0; g < n; g++) {
        add_input(row, line[g], out[g]);
        add_recurrent(row, line[g], out[g]);
    }
}

/* Layer normalisation of n gates together, without gain and shift; mean: is it taken away? */
static void normalise(const struct row *row, double (*a)[MOST], int n, double epsilon, bool mean)
{
    double sum = 0, squares = 0;
    for (int g = 0; g < n; g++)
        for (int j = 0; j < row->H; j++)
            sum += mean ? a[g][j] / (n * row->H) : 0;
    for (int g = 0; g < n; g++)
        for (int j = 0; j < row->H; j++)
            squares += (a[g][j] - sum) * (a[g][j] - sum) / (n * row->H);
    for (int g = 0; g < n; g++)
        for (int j = 0; j < row->H; j++)
            a[g][j] = (a[g][j] - sum) / sqrt(squares + epsilon);
}

/* p of a line times a, plus its b. */
static double scaled(const struct row *row, const char *line, double a, int j)
{
    return param(row, "p", line)[j] * a + param(row, "b", line)[j];
}

/* i f g o to c and h; after: the memory is normalised on its way out, or itself, or neither. */
static void lstm(struct row *row, gates a, const char *out, const char *kept)
{
    double c[1][MOST];
    for (int j = 0; j < row->H; j++)
        c[0][j] = sigmoid(a[1][j]) * row->state[1][j] + sigmoid(a[0][j]) * tanh(a[2][j]);
    if (!kept)
        memcpy(row->state[1], c[0], sizeof c[0]);
    if (out || kept)
        normalise(row, c, 1, 1e-5, true);
    for (int j = 0; j < row->H; j++) {
        if (out || kept)
            c[0][j] = scaled(row, out ? out : kept, c[0][j], j);
        row->state[0][j] = sigmoid(a[3][j]) * tanh(c[0][j]);
        if (kept)
            row->state[1][j] = c[0][j];
    }
}

/* Norms of W x and of R h, of all gates together or each by itself. */
static void norm_lstm(struct row *row, bool together)
{
    static const char *const x[] = {"xi", "xf", "xg", "xo"}, *const r[] = {"ri", "rf", "rg", "ro"};
    static const char *const u[] = {"ui", "uf", "ug", "uo"}, *const to[] = {"i", "f", "g", "o"};
    gates input = {{0}}, recurrent = {{0}}, a;
    for (int g = 0; g < GATES; g++) {
        add_input(row, x[g], input[g]);
        add_recurrent(row, r[g], recurrent[g]);
    }
    for (int g = 0; g < GATES; g += together ? GATES : 1) {
        normalise(row, input + g, together ? GATES : 1, 1e-5, true);
        normalise(row, recurrent + g, together ? GATES : 1, 1e-5, true);
    }
    for (int g = 0; g < GATES; g++)
        for (int j = 0; j < row->H; j++) {
            const double first = together ? recurrent[g][j] : input[g][j];
            const double second = together ? input[g][j] : recurrent[g][j];
            a[g][j] = scaled(row, u[g], first, j) + param(row, "p", to[g])[j] * second;
        }
    lstm(row, a, together ? "m" : NULL, together ? NULL : "c");
}

static void haste_lstm(struct row *row)
{
    norm_lstm(row, true);
}

static void gates_lstm(struct row *row)
{
    norm_lstm(row, false);
}

static void sums_lstm(struct row *row, bool together)
{
    static const char *const line[] = {"ai", "af", "ag", "ao"}, *const to[] = {"i", "f", "g", "o"};
    gates a;
    sums(row, line, GATES, a);
    for (int g = 0; g < GATES; g += together ? GATES : 1)
        normalise(row, a + g, together ? GATES : 1, 1e-5, !together);
    for (int g = 0; g < GATES; g++)
        for (int j = 0; j < row->H; j++)
            a[g][j] = scaled(row, to[g], a[g][j], j) + (!together && g == 1);
    lstm(row, a, NULL, together ? NULL : "c");
}

static void tf1_lstm(struct row *row)
{
    sums_lstm(row, false);
}

static void rms_lstm(struct row *row)
{
    sums_lstm(row, true);
}

static void haste_gru(struct row *row)
{
    static const char *const x[] = {"xz", "xr", "xn"}, *const r[] = {"rz", "rr", "rn"};
    gates input = {{0}}, recurrent = {{0}};
    for (int g = 0; g < 3; g++) {
        add_input(row, x[g], input[g]);
        add_recurrent(row, r[g], recurrent[g]);
    }
    normalise(row, input, 3, 1e-5, true);
    normalise(row, recurrent, 3, 1e-5, true);
    for (int j = 0; j < row->H; j++) {
        const double z =
            sigmoid(scaled(row, "uz", input[0][j], j) + param(row, "p", "z")[j] * recurrent[0][j]);
        const double reset =
            sigmoid(scaled(row, "ur", input[1][j], j) + param(row, "p", "r")[j] * recurrent[1][j]);
        const double n =
            tanh(scaled(row, "un", input[2][j], j) + reset * scaled(row, "v", recurrent[2][j], j));
        row->state[0][j] = z * row->state[0][j] + (1 - z) * n;
    }
}

static void block_gru(struct row *row)
{
    static const char *const line[] = {"ar", "an", "az"};
    gates a;
    sums(row, line, 3, a);
    normalise(row, a, 3, 1e-3, true);
    for (int j = 0; j < row->H; j++) {
        const double r = sigmoid(scaled(row, "r", a[0][j], j));
        const double n = tanh(r * scaled(row, "n", a[1][j], j));
        const double z = sigmoid(scaled(row, "z", a[2][j], j) - 1);
        row->state[0][j] = z * n + (1 - z) * row->state[0][j];
    }
}

/* As the authors' program has it: m of the first step is i; gates are at most 1. */
static void slstm(struct row *row)
{
    static const char *const line[] = {"z", "o", "i", "f"};
    gates a;
    sums(row, line, GATES, a);
    for (int j = 0; j < row->H; j++) {
        for (int g = 0; g < GATES; g++)
            a[g][j] += param(row, "b", line[g])[j];
        double *c = &row->state[1][j], *n = &row->state[2][j], *m = &row->state[3][j];
        const double l = *m - log1p(exp(-a[3][j])), i = a[2][j];
        const double next = *n == 0 ? i : fmax(l, i);
        const double u = fmin(exp(i - next), 1), v = fmin(exp(l - next), 1);
        *m = next;
        *c = v * *c + u * tanh(a[0][j]);
        *n = v * *n + u;
        row->state[0][j] = sigmoid(a[1][j]) * *c / *n;
    }
}

static const struct {
    const char *text;
    void (*step)(struct row *);
} published[] = {
    {"norm-lstm-haste/f64/infer/T5/N2/I3/H6", haste_lstm},
    {"norm-lstm-gates/f64/infer/T5/N2/I3/H6", gates_lstm},
    {"norm-lstm-tf1/f64/infer/T5/N2/I3/H6", tf1_lstm},
    {"rms-lstm/f64/infer/T5/N2/I3/H6", rms_lstm},
    {"norm-gru-haste/f64/infer/T5/N2/I3/H6", haste_gru},
    {"block-gru/f64/infer/T5/N2/I3/H12/heads:3", block_gru},
    {"slstm/f64/infer/T9/N2/I3/H12/heads:2", slstm},
    {"slstm/f64/infer/T9/N2/I3/H12/scale:400", slstm}, /* gates far beyond what exp can be */
};

START_TEST(is_as_published)
{
    struct test_case test;
    struct machine machine = {.type = ECORNN_F64};
    struct data inputs = {0}, results = {0};
    ck_assert_int_eq(ecornn_device_open(&machine.device, "reference"), ECORNN_OK);
    ck_assert(case_parse(&test, published[_i].text));
    case_inputs(&test, &inputs);
    ck_assert(case_run(&test, &machine, &inputs, &results));
    const double *x = data_find(&inputs, "x")->value, *y = data_find(&results, "y")->value;
    const int heads = test.desc.heads > 0 ? test.desc.heads : 1;
    for (int n = 0; n < test.N; n++) {
        struct row row = {
            .inputs = &inputs, .I = test.desc.input, .H = test.desc.hidden, .heads = heads};
        for (int t = 0; t < test.T; t++) {
            memcpy(row.x, x + (t * test.N + n) * row.I, (size_t)row.I * sizeof *x);
            published[_i].step(&row);
            for (int j = 0; j < row.H; j++)
                ck_assert_msg(fabs(row.state[0][j] - y[(t * test.N + n) * row.H + j]) < 1e-12,
                              "%s: step %d: y is %.15g, must be %.15g", test.text, t,
                              y[(t * test.N + n) * row.H + j], row.state[0][j]);
        }
    }
    data_free(&inputs);
    data_free(&results);
    case_free(&test);
    ecornn_device_close(machine.device);
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("cases");
    tcase_add_loop_test(cases, is_as_published, 0, sizeof published / sizeof *published);
    Suite *suite = suite_create("published");
    suite_add_tcase(suite, cases);
    return suite_run(suite, true);
}
