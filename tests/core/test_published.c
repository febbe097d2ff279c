/*
 * Cells as their authors published them, compared with their equations written by hand. They are
 * the layer-normalised LSTM and GRU of haste, that LSTM of TensorFlow 1 and with a norm for each
 * product, LSTM with root mean squares, the sLSTM of xLSTM, the block GRU of Dreamer with heads,
 * and minLSTM. Outputs are compared for all. Gradients of initial states are compared with
 * differences of the equations, for cells that have a corner there.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cell/cell.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

enum { MOST = 16, GATES = 4 };

/* One row of a layer, and its parameters by name. */
struct row {
    const struct data *inputs;
    int I, H, heads;
    double epsilon;                 /* epsilon of the norms */
    double x[MOST], state[4][MOST]; /* states in the cell's order, the output first */
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

/* Adds W x of one line of the cell to out. */
static void add_input(const struct row *row, const char *line, double *out)
{
    const double *W = param(row, "W", line);
    for (int j = 0; j < row->H; j++)
        for (int k = 0; k < row->I; k++)
            out[j] += W[j * row->I + k] * row->x[k];
}

/* Adds R h to out; unit j reads the H/K units of its head. */
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

/* Layer normalisation of n gates together, without gain and shift. mean: is the mean subtracted? */
static void normalise(const struct row *row, double (*a)[MOST], int n, bool mean)
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
            a[g][j] = (a[g][j] - sum) / sqrt(squares + row->epsilon);
}

/* Multiplies a by the gain p of a line and adds its b. */
static double scaled(const struct row *row, const char *line, double a, int j)
{
    return param(row, "p", line)[j] * a + param(row, "b", line)[j];
}

/* Computes c and h from the gates i f g o. The memory is normalised for the output only (`out`), or
 * itself, or not at all. */
static void lstm(struct row *row, gates a, const char *out, const char *kept)
{
    double c[1][MOST];
    for (int j = 0; j < row->H; j++)
        c[0][j] = sigmoid(a[1][j]) * row->state[1][j] + sigmoid(a[0][j]) * tanh(a[2][j]);
    if (!kept)
        memcpy(row->state[1], c[0], sizeof c[0]);
    if (out || kept)
        normalise(row, c, 1, true);
    for (int j = 0; j < row->H; j++) {
        if (out || kept)
            c[0][j] = scaled(row, out ? out : kept, c[0][j], j);
        row->state[0][j] = sigmoid(a[3][j]) * tanh(c[0][j]);
        if (kept)
            row->state[1][j] = c[0][j];
    }
}

/* An LSTM with norms of W x and of R h, taken over all gates together or over each gate. */
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
        normalise(row, input + g, together ? GATES : 1, true);
        normalise(row, recurrent + g, together ? GATES : 1, true);
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
        normalise(row, a + g, together ? GATES : 1, !together);
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
    normalise(row, input, 3, true);
    normalise(row, recurrent, 3, true);
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
    normalise(row, a, 3, true);
    for (int j = 0; j < row->H; j++) {
        const double r = sigmoid(scaled(row, "r", a[0][j], j));
        const double n = tanh(r * scaled(row, "n", a[1][j], j));
        const double z = sigmoid(scaled(row, "z", a[2][j], j) - 1);
        row->state[0][j] = z * n + (1 - z) * row->state[0][j];
    }
}

/* The paper's equations, with logarithms of the weights of the memory and its norm, so that their
 * scale does not matter. In the first step m is i, as in the authors' program. */
static void slstm(struct row *row)
{
    static const char *const line[] = {"z", "o", "i", "f"};
    gates a;
    sums(row, line, GATES, a);
    for (int j = 0; j < row->H; j++) {
        for (int g = 0; g < GATES; g++)
            a[g][j] += param(row, "b", line[g])[j];
        double *c = &row->state[1][j], *n = &row->state[2][j], *m = &row->state[3][j];
        const double f = fmin(a[3][j], 0) - log1p(exp(-fabs(a[3][j]))), i = a[2][j];
        const double next = *n > 0 ? fmax(f + *m, i) : i;
        const double u = exp(i - next), v = *n == 0 && *c == 0 ? 0 : exp(f + *m - next);
        *m = next;
        *c = v * *c + u * tanh(a[0][j]);
        *n = v * *n + u;
        row->state[0][j] = sigmoid(a[1][j]) * *c / *n;
    }
}

/* log(1 + exp(a)) */
static double softplus(double a)
{
    return fmax(a, 0) + log1p(exp(-fabs(a)));
}

/* Computes f / (f + i) in logarithms, as the paper's program does. */
static void min_lstm(struct row *row)
{
    static const char *const line[] = {"f", "i", "n"};
    gates a = {{0}};
    for (int g = 0; g < 3; g++) {
        add_input(row, line[g], a[g]);
        for (int j = 0; j < row->H; j++)
            a[g][j] += param(row, "b", line[g])[j];
    }
    for (int j = 0; j < row->H; j++) {
        const double d = softplus(-a[1][j]) - softplus(-a[0][j]);
        row->state[0][j] = sigmoid(d) * row->state[0][j] + sigmoid(-d) * a[2][j];
    }
}

static const struct published {
    const char *text;
    void (*step)(struct row *);
    double epsilon;
} published[] = {
    {"norm-lstm-haste/f64/infer/T5/N2/I3/H6", haste_lstm, 1e-5},
    {"norm-lstm-gates/f64/infer/T5/N2/I3/H6", gates_lstm, 1e-5},
    {"norm-lstm-tf1/f64/infer/T5/N2/I3/H6", tf1_lstm, 1e-12},
    {"rms-lstm/f64/infer/T5/N2/I3/H6", rms_lstm, 1e-5},
    {"norm-gru-haste/f64/infer/T5/N2/I3/H6", haste_gru, 1e-5},
    {"block-gru/f64/infer/T5/N2/I3/H12/heads:3", block_gru, 1e-3},
    {"slstm/f64/infer/T9/N2/I3/H12/heads:2", slstm, 0},
    {"slstm/f64/infer/T9/N2/I3/H12/scale:400", slstm, 0}, /* exp of the gates overflows */
    {"slstm/f64/infer/T9/N2/I3/H12/states", slstm, 0},    /* n between 0 and 1 */
    {"min-lstm/f64/infer/T9/N2/I3/H6/states", min_lstm, 0},
    {"min-lstm/f64/infer/T9/N2/I3/H6/scale:4000", min_lstm, 0}, /* both gates are 0 in doubles */
};

/* Computes y [T,H] of row n from its initial states by the equations. */
static void run_row(const struct test_case *test, const struct data *inputs, int n,
                    const struct published *by, double *y)
{
    const int H = test->desc.hidden;
    struct row row = {.inputs = inputs,
                      .I = test->desc.input,
                      .H = H,
                      .heads = test->desc.heads > 0 ? test->desc.heads : 1,
                      .epsilon = by->epsilon};
    for (int s = 0; s < test->states; s++) {
        char name[32];
        snprintf(name, sizeof name, "initial%d", s);
        const struct array *initial = data_find(inputs, name);
        if (initial)
            memcpy(row.state[s], initial->value + n * H, (size_t)H * sizeof(double));
    }
    const double *x = data_find(inputs, "x")->value;
    for (int t = 0; t < test->T; t++) {
        memcpy(row.x, x + (t * test->N + n) * row.I, (size_t)row.I * sizeof *x);
        by->step(&row);
        memcpy(y + t * H, row.state[0], (size_t)H * sizeof *y);
    }
}

static void run_case(struct test_case *test, const char *device, struct data *inputs,
                     struct data *results)
{
    struct machine machine = {.type = test->desc.type, .backwards = 1};
    check_ok(ecornn_device_open(&machine.device, device));
    ck_assert(case_run(test, &machine, inputs, results));
    ecornn_device_close(machine.device);
}

START_TEST(is_as_published)
{
    struct test_case test;
    struct data inputs = {0}, results = {0};
    ck_assert(case_parse(&test, published[_i].text));
    case_inputs(&test, &inputs);
    run_case(&test, "reference", &inputs, &results);
    const double *y = data_find(&results, "y")->value;
    const int H = test.desc.hidden;
    for (int n = 0; n < test.N; n++) {
        double should[MOST * MOST];
        run_row(&test, &inputs, n, &published[_i], should);
        for (int t = 0; t < test.T; t++)
            for (int j = 0; j < H; j++)
                ck_assert_msg(fabs(should[t * H + j] - y[(t * test.N + n) * H + j]) <
                                  1e-12 * fmax(1, fabs(should[t * H + j])),
                              "%s: step %d: y is %.15g, must be %.15g", test.text, t,
                              y[(t * test.N + n) * H + j], should[t * H + j]);
    }
    data_free(&inputs);
    data_free(&results);
    case_free(&test);
}
END_TEST

/* ---- gradients where an equation has a corner ------------------------------------------------ */

/* Cells whose states begin at 0, which is the default of slstm's n and where it has a corner. */
static const struct {
    const char *text, *device;
    void (*step)(struct row *);
} corner[] = {{"slstm/f64/train/T3/N2/I3/H12/states/null:dfinal", "reference", slstm},
              {"slstm/f64/train/T3/N2/I3/H12/states/null:dfinal", "cpu:1", slstm},
              {"min-lstm/f64/train/T3/N2/I3/H12/states/null:dfinal", "cpu:1", min_lstm}};

static double loss_of(const struct test_case *test, const struct data *inputs, int n,
                      void (*step)(struct row *))
{
    const double *dy = data_find(inputs, "dy")->value;
    const int H = test->desc.hidden;
    double y[MOST * MOST], loss = 0;
    run_row(test, inputs, n, &(struct published){.step = step}, y);
    for (int t = 0; t < test->T; t++)
        for (int j = 0; j < H; j++)
            loss += dy[(t * test->N + n) * H + j] * y[t * H + j];
    return loss;
}

static void check_state(const struct test_case *test, int which, const struct data *inputs,
                        const struct data *results, int s)
{
    const double off = 1e-6;
    char name[32], dname[32];
    snprintf(name, sizeof name, "initial%d", s);
    snprintf(dname, sizeof dname, "dinitial%d", s);
    const struct array *initial = data_find(inputs, name), *d = data_find(results, dname);
    for (int i = 0; i < test->N * test->desc.hidden; i++) {
        const int n = i / test->desc.hidden;
        const double here = initial->value[i];
        initial->value[i] = here + off;
        const double above = loss_of(test, inputs, n, corner[which].step);
        initial->value[i] = here - off;
        const double difference =
            (above - loss_of(test, inputs, n, corner[which].step)) / (2 * off);
        initial->value[i] = here;
        ck_assert_msg(fabs(d->value[i] - difference) < 1e-7 * fmax(1, fabs(difference)),
                      "%s: %s: %s[%d] is %.12g, must be %.12g", test->text, corner[which].device,
                      dname, i, d->value[i], difference);
    }
}

START_TEST(has_the_gradient_of_its_start)
{
    struct test_case test;
    struct data inputs = {0}, results = {0};
    ck_assert(case_parse(&test, corner[_i].text));
    case_inputs(&test, &inputs);
    for (int s = 0; s < test.states; s++) {
        char name[32];
        snprintf(name, sizeof name, "initial%d", s);
        struct array *initial = data_find(&inputs, name);
        memset(initial->value, 0, initial->count * sizeof(double));
    }
    run_case(&test, corner[_i].device, &inputs, &results);
    for (int s = 0; s < test.states; s++)
        check_state(&test, _i, &inputs, &results, s);
    data_free(&inputs);
    data_free(&results);
    case_free(&test);
}
END_TEST

/* ---- gates beyond what exp can be ------------------------------------------------------------ */

/* Inputs are scaled so far that gates saturate. No result may overflow. */
static const char *const far_off[] = {
    "min-lstm/f32/train/T5/N3/I4/H40/scale:500",     "min-lstm/f64/train/T5/N3/I4/H40/scale:4000",
    "min-lstm/bf16/train/T5/N3/I4/H40/scale:500",    "min-gru/f32/train/T5/N3/I4/H40/scale:500",
    "qrnn/f32/train/T5/N3/I4/H40/scale:500",         "sru/f32/train/T5/N3/I40/H40/scale:500",
    "slstm/f32/train/T5/N3/I4/H40/scale:500",        "slstm/bf16/train/T5/N3/I4/H40/scale:500",
    "slstm/f64/train/T5/N3/I4/H40/scale:4000",       "lstm/f32/train/T5/N3/I4/H40/scale:500",
    "lstm-coupled/f32/train/T5/N3/I4/H40/scale:500", "gru/f32/train/T5/N3/I4/H40/scale:500",
};

START_TEST(stays_finite)
{
    static const char *const algorithm[] = {"", "scan", "packed"};
    for (int a = 0; a < 3; a++) {
        struct test_case test;
        struct data inputs = {0}, results = {0};
        ck_assert(case_parse(&test, far_off[_i]));
        const bool linear = test.desc.cell->lowered.linear.scans;
        if (a > 0 && linear && test.desc.type != ECORNN_F64)
            setenv("ECORNN_ALGORITHM", algorithm[a], 1);
        case_inputs(&test, &inputs);
        run_case(&test, "cpu:1", &inputs, &results);
        unsetenv("ECORNN_ALGORITHM");
        for (int i = 0; i < results.n; i++)
            for (size_t j = 0; j < results.array[i].count; j++)
                ck_assert_msg(isfinite(results.array[i].value[j]), "%s: %s[%d] is %g", test.text,
                              results.array[i].name, (int)j, results.array[i].value[j]);
        data_free(&inputs);
        data_free(&results);
        case_free(&test);
    }
}
END_TEST

TEST_MAIN("published", {is_as_published, sizeof published / sizeof *published},
          {has_the_gradient_of_its_start, sizeof corner / sizeof *corner},
          {stays_finite, sizeof far_off / sizeof *far_off})
