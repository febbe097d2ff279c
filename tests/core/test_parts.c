/*
 * Parts of x: a cell with both kinds of parts, computed by hand, shows which columns of x and dx
 * they are; parts through nets; and what is refused.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/kit/calls.h"
#include "tests/kit/planned.h"
#include "tests/kit/suite.h"

enum { T = 4, N = 3, H = 3, REST = 2, A = REST, U = REST + 1, I = REST + 1 + H };

static const char text[] = "cell hand(h; a[1], u[H])\n"
                           "n  = tanh(W x + R h + b)\n"
                           "h' = a * n + (1 - a) * (h * u)\n";

static double uniform_at(size_t i)
{
    return sin(1.7 * (double)i + 0.3);
}

static void fill(double *to, size_t n, size_t seed)
{
    for (size_t i = 0; i < n; i++)
        to[i] = uniform_at(i + seed);
}

/* ---- by hand --------------------------------------------------------------------------------- */

/* W [H,REST], R [H,H] and b [H], in the order of the block. */
struct weights {
    double W[H][REST], R[H][H], b[H];
};

struct run {
    double x[T][N][I], n[T][N][H], y[T][N][H], dy[T][N][H], dx[T][N][I];
};

static double before(const struct run *run, int t, int n, int j)
{
    return t == 0 ? 0 : run->y[t - 1][n][j];
}

static void forward(const struct weights *w, struct run *run)
{
    for (int t = 0; t < T; t++)
        for (int n = 0; n < N; n++)
            for (int j = 0; j < H; j++) {
                const double *x = run->x[t][n];
                double sum = w->b[j];
                for (int k = 0; k < REST; k++)
                    sum += w->W[j][k] * x[k];
                for (int k = 0; k < H; k++)
                    sum += w->R[j][k] * before(run, t, n, k);
                run->n[t][n][j] = tanh(sum);
                run->y[t][n][j] =
                    x[A] * run->n[t][n][j] + (1 - x[A]) * before(run, t, n, j) * x[U + j];
            }
}

static void backward(const struct weights *w, struct run *run)
{
    double carry[N][H] = {{0}};
    memset(run->dx, 0, sizeof run->dx);
    for (int t = T; t-- > 0;)
        for (int n = 0; n < N; n++) {
            double dsum[H], *dx = run->dx[t][n];
            const double *x = run->x[t][n];
            for (int j = 0; j < H; j++) {
                const double dh = run->dy[t][n][j] + carry[n][j], h = before(run, t, n, j),
                             value = run->n[t][n][j];
                dx[A] += dh * (value - h * x[U + j]);
                dx[U + j] = dh * (1 - x[A]) * h;
                carry[n][j] = dh * (1 - x[A]) * x[U + j];
                dsum[j] = dh * x[A] * (1 - value * value);
            }
            for (int j = 0; j < H; j++) {
                for (int k = 0; k < REST; k++)
                    dx[k] += w->W[j][k] * dsum[j];
                for (int k = 0; k < H; k++)
                    carry[n][k] += w->R[j][k] * dsum[j];
            }
        }
}

static void expect_close(const char *what, const double *got, const double *expected, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - expected[i]) <= 1e-13, "%s[%zu] is %.15g, must be %.15g", what,
                      i, got[i], expected[i]);
}

static const char *const devices[] = {"reference", "cpu:1", "cpu:2"};

START_TEST(columns_are_those_of_the_head)
{
    static struct run run;
    struct planned of;
    struct weights w;
    ecornn_cell *cell;
    double y[T][N][H], dx[T][N][I];
    check_ok(ecornn_cell_parse(&cell, text));
    planned_open(&of, devices[_i], "hand/f64/train/T4/N3/I6/H3", cell);
    fill((double *)&w, sizeof w / sizeof(double), 0);
    fill((double *)run.x, sizeof run.x / sizeof(double), 100);
    fill((double *)run.dy, sizeof run.dy / sizeof(double), 500);
    forward(&w, &run);
    backward(&w, &run);
    planned_pack(&of, &w, of.weights);
    ecornn_io io = planned_io(&of);
    io.x = run.x, io.y = y;
    check_ok(forward_all(of.plan, &io));
    expect_close("y", (double *)y, (double *)run.y, sizeof y / sizeof(double));
    const ecornn_gradient gradient = {.size = sizeof gradient, .dy = run.dy, .dx = dx};
    check_ok(backward_all(of.plan, &io, &gradient));
    expect_close("dx", (double *)dx, (double *)run.dx, sizeof dx / sizeof(double));
    planned_close(&of);
    ecornn_cell_free(cell);
}
END_TEST

/* ---- nets and layers ------------------------------------------------------------------------- */

static const char copy[] = "cell copy(h; u[H], a[1])\nh' = u + a * h\n";

/* The parts of an upper layer of a net are columns of what the layer below gives. */
START_TEST(nets_have_parts_between_layers)
{
    struct planned net, below;
    ecornn_cell *cell;
    double x[2 * 2 * 3], y[2 * 2 * 3], h[2 * 2 * 4], weights[200];
    check_ok(ecornn_cell_parse(&cell, copy));
    const ecornn_cell *const cells[] = {cell, NULL};
    planned_open(&below, "cpu:1", "gru/f64/infer/T2/N2/I3/H4", NULL);
    fill(weights, 200, 7);
    fill(x, 12, 70);
    planned_pack(&below, weights, below.weights);
    ecornn_io io = planned_io(&below);
    io.x = x, io.y = h;
    check_ok(forward_all(below.plan, &io));
    net.device = below.device;
    check_ok(ecornn_plan_create(&net.plan, net.device, "f64/T2/N2/I3; gru/H4; copy/H3", cells));
    get_sizes(net.plan, &net.sizes);
    const void *params[32] = {NULL};
    for (int k = 0; k < net.sizes.param_count; k++) {
        ecornn_param param;
        check_ok(param_at(below.plan, k, &param)); /* the cell above has none */
        params[k] = weights + param.offset;
    }
    net.weights = ecornn_alloc(net.device, net.sizes.weight_bytes);
    net.workspace = ecornn_alloc(net.device, net.sizes.workspace_bytes);
    check_ok(ecornn_pack(net.plan, params, NULL, net.weights, NULL));
    const ecornn_io all = {
        .size = sizeof all, .weights = net.weights, .workspace = net.workspace, .x = x, .y = y};
    check_ok(forward_all(net.plan, &all));
    for (int n = 0; n < 2; n++)
        for (int j = 0; j < 3; j++) {
            const double first = h[n * 4 + j], second = h[8 + n * 4 + j];
            ck_assert_double_eq_tol(y[n * 3 + j], first, 1e-15);
            ck_assert_double_eq_tol(y[6 + n * 3 + j], second + h[8 + n * 4 + 3] * first, 1e-15);
        }
    ecornn_free(net.device, net.weights);
    ecornn_free(net.device, net.workspace);
    ecornn_plan_free(net.plan);
    planned_close(&below);
    ecornn_cell_free(cell);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static const struct {
    const char *text, *problem, *word;
    ecornn_status status;
} wrong[] = {
    {text, "hand/T2/N2/I6/H3", NULL, ECORNN_OK},
    {text, "hand/T2/N2/I5/H3", NULL, ECORNN_OK},
    {text, "hand/T2/N2/I4/H3",
     "input is 4, but the parts of x of cell hand, 'a' and others, are 4 wide: must be larger, "
     "because its text reads the rest of x too",
     ECORNN_BAD_ARGUMENT},
    {text, "hand/T2/N2/I3/H3", "input is 3, but the parts of x of cell hand", ECORNN_BAD_ARGUMENT},
    {text, "hand/L2/T2/N2/I6/H3",
     "layers is 2, but cell hand has part 'a' of x, which layers above the first lack: must be 1",
     ECORNN_UNSUPPORTED},
    {text, "hand/T2/N2/I9/H4/heads:2/grouped-input", NULL, ECORNN_OK},
    {text, "hand/T2/N2/I8/H4/heads:2/grouped-input",
     "divide input without the parts of x, which is 3", ECORNN_BAD_ARGUMENT},
    {copy, "copy/T2/N2/I4/H3", NULL, ECORNN_OK},
    {copy, "copy/T2/N2/I5/H3",
     "are 4 wide: must be that, because its text does not read the rest of x", ECORNN_BAD_ARGUMENT},
    {"cell own(h; a[1])\nh' = a * x + h\n", "own/T2/N2/I4/H3", NULL, ECORNN_OK},
    {"cell own(h; a[1])\nh' = a * x + h\n", "own/T2/N2/I5/H3",
     "input is 5, but cell own reads x unit by unit: must be hidden, 3, and the parts of x",
     ECORNN_UNSUPPORTED},
    {copy, "copy/T2/N2/I4/H3/tangent", "it has part 'u' of x", ECORNN_UNSUPPORTED},
};

START_TEST(what_is_wrong_is_said)
{
    ecornn_device *device;
    ecornn_cell *cell;
    ecornn_plan *plan = NULL;
    check_ok(ecornn_device_open(&device, "cpu:1"));
    check_ok(ecornn_cell_parse(&cell, wrong[_i].text));
    const ecornn_cell *const cells[] = {cell, NULL};
    const ecornn_status status = ecornn_plan_create(&plan, device, wrong[_i].problem, cells);
    if (wrong[_i].word == NULL)
        check_ok(status);
    else
        check_refused(status, wrong[_i].status, wrong[_i].word);
    ecornn_plan_free(plan);
    ecornn_cell_free(cell);
    ecornn_device_close(device);
}
END_TEST

TEST_MAIN("parts", {columns_are_those_of_the_head, sizeof devices / sizeof *devices},
          {nets_have_parts_between_layers, 1},
          {what_is_wrong_is_said, sizeof wrong / sizeof *wrong})
