/*
 * The recipes of doc/guide/recipes.md. Every activation, as the page and the parser's errors write
 * it, must have the right values and gradients, also for large numbers. Every cell of the pages
 * about the language must run as on the reference.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cell/cell.h"
#include "ecornn.h"
#include "tests/kit/calls.h"
#include "tests/kit/planned.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static char page[1 << 16]; /* doc/guide/recipes.md, or another page with cells */

/* Computes y from x, and dx from dy. */
static void layer_train(const struct planned *layer, const void *const *params, const void *x,
                        void *y, const void *dy, void *dx)
{
    check_ok(ecornn_pack(layer->plan, params, NULL, layer->weights, NULL));
    ecornn_io io = planned_io(layer);
    const ecornn_gradient gradient = {.size = sizeof gradient, .dy = dy, .dx = dx};
    io.x = x, io.y = y;
    check_ok(forward_all(layer->plan, &io));
    check_ok(backward_all(layer->plan, &io, &gradient));
}

static const char recipes[] = "doc/guide/recipes.md";

static void read_page(const char *name)
{
    ck_assert_msg(source_read(name, page, sizeof page), "%s", name);
}

/* ---- activations ----------------------------------------------------------------------------- */

static double softplus(double a)
{
    return fmax(a, 0) + log1p(exp(-fabs(a)));
}

static double logistic(double a)
{
    return 1 / (1 + exp(-a));
}

static double elu(double a, bool slope)
{
    return slope ? (a > 0 ? 1 : exp(a)) : a > 0 ? a : expm1(a);
}

static double selu(double a, bool slope)
{
    const double l = 1.05070098735548, alpha = 1.67326324235437;
    return l * (a > 0 ? (slope ? 1 : a) : alpha * (slope ? exp(a) : expm1(a)));
}

static double softplus_of(double a, bool slope)
{
    return slope ? logistic(a) : softplus(a);
}

static double logsigmoid(double a, bool slope)
{
    return slope ? logistic(-a) : -softplus(-a);
}

static double mish(double a, bool slope)
{
    const double t = tanh(softplus(a));
    return slope ? t + a * (1 - t * t) * logistic(a) : a * t;
}

static double silu(double a, bool slope)
{
    const double s = logistic(a);
    return slope ? s + a * s * (1 - s) : a * s;
}

static double gelu(double a, bool slope)
{
    const double u = sqrt(8 / M_PI) * (a + 0.044715 * a * a * a), s = logistic(u);
    const double du = sqrt(8 / M_PI) * (1 + 3 * 0.044715 * a * a);
    if (fabs(a) > 30)
        return slope ? a > 0 : fmax(a, 0);
    return slope ? s + a * s * (1 - s) * du : a * s;
}

static double hardsigmoid(double a, bool slope)
{
    return slope ? (fabs(a) < 3) / 6.0 : fmin(fmax(a / 6 + 0.5, 0), 1);
}

static double hardswish(double a, bool slope)
{
    return slope ? (fabs(a) < 3 ? a / 3 + 0.5 : a > 0) : a * hardsigmoid(a, false);
}

static double leakyrelu(double a, bool slope)
{
    return (a > 0 ? 1 : 0.01) * (slope ? 1 : a);
}

static double thresholdedrelu(double a, bool slope)
{
    return a > 1 ? (slope ? 1 : a) : 0;
}

static double hardtanh(double a, bool slope)
{
    return slope ? fabs(a) < 1 : fmin(fmax(a, -1), 1);
}

static double relu6(double a, bool slope)
{
    return slope ? a > 0 && a < 6 : fmin(fmax(a, 0), 6);
}

static double softsign(double a, bool slope)
{
    const double b = 1 + fabs(a);
    return slope ? 1 / (b * b) : a / b;
}

static const struct {
    const char *name;
    double (*value)(double a, bool slope);
    bool zero; /* its slope at 0 is tested */
} activation[] = {
    {"Elu", elu, true},
    {"celu", elu, true},
    {"SELU", selu, true},
    {"Softplus", softplus_of, true},
    {"log_sigmoid", logsigmoid, true},
    {"mish", mish, true},
    {"silu", silu, true},
    {"swish", silu, true},
    {"gelu", gelu, true},
    {"HardSigmoid", hardsigmoid, true},
    {"hard_swish", hardswish, true},
    {"LeakyRelu", leakyrelu, true},
    {"ThresholdedRelu", thresholdedrelu, true},
    {"hardtanh", hardtanh, true},
    {"relu6", relu6, true},
    {"softsign", softsign, false}, /* because abs() has slope 0 there */
};
enum { ACTIVATIONS = sizeof activation / sizeof *activation };

/* Finds the form that the parser's error suggests. clipped: in it, c stands for a clipped a. */
static void find_form(const char *name, char form[160], bool *clipped)
{
    char text[100];
    ecornn_cell *cell;
    snprintf(text, sizeof text, "cell t(h)\na = W x\nh' = %s(a)\n", name);
    check_refused(ecornn_cell_parse(&cell, text), ECORNN_BAD_CELL, "3:6: there is no function");
    const char *at = strstr(ecornn_error_detail(), "write ");
    ck_assert_msg(at != NULL, "%s", ecornn_error_detail());
    snprintf(form, 160, "%s", at + strlen("write "));
    *clipped = strstr(form, " with c =") != NULL;
    for (const char *const *end = (const char *const[]){" with ", ", in ", NULL}; *end; end++)
        if (strstr(form, *end))
            *strstr(form, *end) = 0;
}

static const float point[] = {0,   1e-30f, -1e-30f, 1e-3f, -1e-3f, 0.5f, -0.5f, 1.5f,  -1.5f, 2,
                              -2,  2.75f,  -2.75f,  5,     -5,     20,   -20,   60,    -60,   89,
                              -89, 200,    -200,    1e4f,  -1e4f,  1e9f, -1e9f, 1e20f, -1e20f};
enum { POINTS = sizeof point / sizeof *point };

static void expect(const char *who, double value, double wanted)
{
    ck_assert_msg(fabs(value - wanted) <= 1e-6 + 4e-6 * fabs(wanted), "%s is %.9g, must be %.9g",
                  who, value, wanted);
}

START_TEST(activations)
{
    static const char *const devices[] = {"reference", "cpu:1"};
    const char *name = activation[_i / 2].name;
    char form[160], text[400], who[100];
    bool clipped;
    find_form(name, form, &clipped);
    read_page(recipes);
    snprintf(text, sizeof text, "`%s`", form);
    ck_assert_msg(strstr(page, text) != NULL, "%s has no %s", recipes, text);
    snprintf(text, sizeof text, "cell t(h)\na = W x\n%sh' = %s\n",
             clipped ? "c = min(max(a, -20), 20)\n" : "", form);
    ecornn_cell *cell;
    check_ok(ecornn_cell_parse(&cell, text));
    char problem[60];
    float y[POINTS], dy[POINTS], dx[POINTS], one = 1;
    snprintf(problem, sizeof problem, "t/train/T1/N%d/I1/H1", POINTS);
    struct planned layer;
    planned_open(&layer, devices[_i % 2], problem, cell);
    for (int k = 0; k < POINTS; k++)
        dy[k] = 1;
    layer_train(&layer, (const void *[]){&one}, point, y, dy, dx);
    for (int k = 0; k < POINTS; k++) {
        const double a = (double)point[k];
        snprintf(who, sizeof who, "%s(%g)", name, a);
        expect(who, (double)y[k], activation[_i / 2].value(a, false));
        snprintf(who, sizeof who, "the slope of %s at %g", name, a);
        if (a != 0 || activation[_i / 2].zero)
            expect(who, (double)dx[k], activation[_i / 2].value(a, true));
        ck_assert(isfinite(y[k]) && isfinite(dx[k]));
    }
    planned_close(&layer);
    ecornn_cell_free(cell);
}
END_TEST

/* ---- cells ----------------------------------------------------------------------------------- */

/* Copies the lines of cell k from the page. */
static bool find_cell(int k, char text[2000])
{
    static const char head[] = "\n    cell ";
    const char *at = strstr(page, head);
    for (; at != NULL && k > 0; k--)
        at = strstr(at + 1, head);
    text[0] = 0;
    for (; at != NULL && strncmp(at, "\n    ", 5) == 0; at = strchr(at + 1, '\n')) {
        const char *end = strchr(at + 1, '\n');
        snprintf(text + strlen(text), 2000 - strlen(text), "%.*s\n", (int)(end - at - 5), at + 5);
    }
    return text[0] != 0;
}

enum { MOST_PARAMS = 24 };
enum { RUN = 10, I_RUN = 2, H_RUN = 3, I_MATRIX = 11 }; /* RUN: T * N */

/* I; with a matrix state that of the parts of the page's cell, three keys or values or a number. */
static int inputs_of(const ecornn_cell *cell)
{
    return cell->recipe.matrix ? I_MATRIX : I_RUN;
}

static double number(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(*seed >> 8) / (1 << 24) - 0.5;
}

/* Computes y and dx of all steps on a device. */
static void run_cell(const char *device, const ecornn_cell *cell, double y[RUN][H_RUN],
                     double dx[RUN * I_MATRIX])
{
    static double data[MOST_PARAMS][H_RUN * H_RUN];
    const void *params[MOST_PARAMS];
    double x[RUN * I_MATRIX], dy[RUN][H_RUN];
    char problem[64];
    unsigned seed = 3;
    struct planned layer;
    snprintf(problem, sizeof problem, "r/f64/train/T5/N2/I%d/H3", inputs_of(cell));
    planned_open(&layer, device, problem, cell);
    for (int k = 0; k < count_params(layer.plan); k++) {
        for (int i = 0; i < H_RUN * H_RUN; i++)
            data[k][i] = 2 * number(&seed);
        params[k] = data[k];
    }
    for (int i = 0; i < RUN; i++) {
        for (int j = 0; j < inputs_of(cell); j++)
            x[i * inputs_of(cell) + j] = 4 * number(&seed);
        for (int j = 0; j < H_RUN; j++)
            dy[i][j] = number(&seed);
    }
    layer_train(&layer, params, x, y, dy, dx);
    planned_close(&layer);
}

static void check_cell(const char *text)
{
    double y[2][RUN][H_RUN], dx[2][RUN * I_MATRIX];
    ecornn_cell *cell;
    const ecornn_status status = ecornn_cell_parse(&cell, text);
    ck_assert_msg(status == ECORNN_OK, "%s\n%s", ecornn_error_detail(), text);
    run_cell("reference", cell, y[0], dx[0]);
    run_cell("cpu:1", cell, y[1], dx[1]);
    for (int i = 0; i < RUN; i++)
        for (int j = 0; j < H_RUN; j++)
            ck_assert_msg(fabs(y[0][i][j] - y[1][i][j]) < 1e-11, "y of %s", text);
    for (int i = 0; i < RUN * inputs_of(cell); i++)
        ck_assert_msg(fabs(dx[0][i] - dx[1][i]) < 1e-10, "dx of %s", text);
    ecornn_cell_free(cell);
}

START_TEST(cells_of_the_page)
{
    static const struct {
        const char *name;
        int cells;
    } pages[] = {{"doc/cells.md", 2}, {"doc/guide/tutorial-cell.md", 4}};
    char text[2000];
    int n = 0;
    read_page(pages[_i].name);
    for (; find_cell(n, text); n++)
        check_cell(text);
    ck_assert_int_ge(n, pages[_i].cells);
}
END_TEST

/* A mask that is drawn once is the same in all steps, and each direction has its own. */
START_TEST(drawn_once)
{
    enum { STEPS = 4, ROWS = 40 };
    double x[STEPS][ROWS] = {{0}}, y[STEPS][ROWS][2], dy[STEPS][ROWS][2] = {{{0}}}, dx[STEPS][ROWS];
    const double zero = 0;
    ecornn_cell *cell;
    check_ok(ecornn_cell_parse(&cell, "cell v(h)\nh' = W x + bernoulli(0.75, once)\n"));
    struct planned layer;
    planned_open(&layer, "cpu:1", "v/f64/train/bi/T4/N40/I1/H1", cell);
    layer_train(&layer, (const void *[]){&zero, &zero}, x, y, dy, dx);
    planned_close(&layer);
    ecornn_cell_free(cell);
    int dropped = 0, differ = 0;
    for (int n = 0; n < ROWS; n++) {
        ck_assert(y[0][n][0] == 0 || y[0][n][0] == 1);
        for (int t = 1; t < STEPS; t++)
            ck_assert_mem_eq(y[t][n], y[0][n], sizeof y[0][n]);
        dropped += y[0][n][0] == 0;
        differ += y[0][n][0] != y[0][n][1];
    }
    ck_assert(dropped > 0 && dropped < ROWS / 2 && differ > 0);
}
END_TEST

TEST_MAIN("recipes", {activations, 2 * ACTIVATIONS}, {cells_of_the_page, 2}, {drawn_once, 1})
