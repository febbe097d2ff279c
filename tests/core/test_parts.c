/*
 * Parts of x: a cell with both kinds of parts, computed by hand, shows which columns of x and dx
 * they are; parts through nets; and what is refused.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/plan.h"
#include "common/type.h"
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

/* Bounds of tuning are those of a small problem, whose parts and y are smaller, too. */
static const char *const tuned[] = {
    text, "cell hand(h, g) -> h, g\nh' = p * h - g + W x\ng' = sigmoid(W x) * g\n"};

START_TEST(plans_are_tuned)
{
    struct planned of;
    ecornn_cell *cell;
    check_ok(ecornn_cell_parse(&cell, tuned[_i]));
    planned_open(&of, "cpu:1", "hand/bf16/train/T3/N2/I45/H40", cell);
    ecornn_tuning tuning = {.size = sizeof tuning, .limit_seconds = 0.05};
    check_ok(ecornn_tune(of.device, &of.desc, &tuning));
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

/* ---- parts that are arrays of their own ------------------------------------------------------ */

enum { MOST = 1 << 17, PARAMS = MOST / 8 };

static const char mixed[] = "cell mixed(h, c; a[1], u[H], e[1], v[H])\n"
                            "i  = sigmoid(u + R h + b)\n"
                            "c' = a * c + i * tanh(W x + R h + e)\n"
                            "h' = c' * i + v\n";
static const char *const apart[] = {
    "mixed/f64/train/T6/N5/I11/H3",
    "mixed/train/bi/T6/N5/I21/H8",
    "mixed/bf16/train/rev/T6/N5/I23/H9",
    "mixed/bf16/train/bi/T6/N5/I23/H9",
    "mixed/train/bi/batch-major/T6/N5/I21/H8/save:every:2",
    "mixed/f32/int8/infer/T6/N5/I21/H8",
    "mixed/f64/train/T6/N1/batch-major/I11/H3",
    "copy/train/bi/T6/N5/I8/H7",
    "gated-delta/train/T6/N5/I22/H6/heads:2/key:3/batch-major",
    "rwkv-7/bf16/train/rev/T6/N5/I26/H8/key:3",
    "mixed/f16/train/T6/N5/I26/H8",
    "mixed/bf16/train/resets/T12/N16/I146/H64",
    "copy/bf16/train/T40/N16/I65/H64",
};
static const char *const apart_on[] = {"reference", "cpu:2", "cuda"};
enum { APART_ON = sizeof apart_on / sizeof *apart_on };

/* A row (t, n) of the caller's arrays. */
static size_t row_of(const ecornn_desc *desc, int t, int n)
{
    return desc->flags & ECORNN_BATCH_MAJOR ? (size_t)n * (size_t)desc->steps + (size_t)t
                                            : (size_t)t * (size_t)desc->batch + (size_t)n;
}

/* Copies between columns of a packed array and an array with a row of its own, which gets NaNs
 * where rows have ended: nothing may read them. */
static void move_columns(const ecornn_desc *desc, char *packed, size_t column, char *own,
                         size_t row, size_t width, const int32_t *lengths, bool back)
{
    const size_t element = eco_type_bytes(desc->type ? desc->type : ECORNN_F32);
    for (int t = 0; t < desc->steps; t++)
        for (int n = 0; n < desc->batch; n++) {
            const size_t at = row_of(desc, t, n);
            char *const one = packed + (at * (size_t)desc->input + column) * element,
                        *const other = own + at * row * element;
            memcpy(back ? one : other, back ? other : one, width * element);
            if (lengths != NULL && t >= lengths[n])
                memset(other, 0xff, width * element);
        }
}

/* The arrays of a run: in one array, and apart with gaps.  The device has a copy. */
struct apart {
    char x[MOST], dx[MOST], joined[MOST], rest[MOST], drest[MOST], y[2][MOST], dy[MOST];
    char part[ECO_MAX_PARTS][MOST], dpart[ECO_MAX_PARTS][MOST], params[MOST];
    int32_t lengths[16];
    bool ragged;
    const void *inputs[ECO_MAX_PARTS];
    void *dinputs[ECO_MAX_PARTS];
    size_t rows[ECO_MAX_PARTS], drows[ECO_MAX_PARTS], columns[5];
};

static void put_random(const ecornn_desc *desc, char *to, size_t n, size_t seed)
{
    for (size_t i = 0; i < n; i++)
        eco_type_set(to, i, desc->type ? desc->type : ECORNN_F32, uniform_at(i + seed));
}

/* `there` is the device's copy of the arrays. */
static void run_once(const struct planned *of, struct apart *all, struct apart *there, bool own)
{
    const bool trains = of->desc.flags & ECORNN_TRAINING, rest = all->columns[0] > 0;
    ecornn_io io = planned_io(of);
    for (int k = 0; k < ECO_MAX_PARTS; k++)
        all->inputs[k] = there->part[k], all->dinputs[k] = there->dpart[k];
    io.x = own ? (rest ? there->rest : NULL) : there->x;
    io.y = there->y[own], io.lengths = all->ragged ? there->lengths : NULL;
    io.inputs = own ? all->inputs : NULL, io.input_rows = own ? all->rows : NULL;
    check_ok(forward_all(of->plan, &io));
    const ecornn_gradient gradient = {.size = sizeof gradient,
                                      .dy = there->dy,
                                      .dx = !own   ? there->dx
                                            : rest ? there->drest
                                                   : NULL,
                                      .dinputs = own ? all->dinputs : NULL,
                                      .dinput_rows = own ? all->drows : NULL};
    if (trains)
        check_ok(backward_all(of->plan, &io, &gradient));
}

/* On a GPU the third run of a kind is a graph's.  Other rows of parts make another kind; other
 * addresses, in the last run, are set in the graph. */
static void run_all(const struct planned *of, struct apart *all, bool gpu)
{
    enum { SIZE = sizeof *all };
    struct apart *const there[2] = {ecornn_alloc(of->device, SIZE), ecornn_alloc(of->device, SIZE)};
    for (int k = 0; k < 2; k++)
        check_ok(ecornn_upload(of->device, there[k], all, SIZE));
    planned_pack(of, there[0]->params, of->weights);
    run_once(of, all, there[1], false);
    for (int turn = gpu ? 0 : 6; turn < 7; turn++) {
        const size_t other = turn < 3 ? 5 : 0;
        all->rows[0] += other, all->drows[0] += other;
        run_once(of, all, there[turn == 6], true);
        all->rows[0] -= other, all->drows[0] -= other;
    }
    check_ok(ecornn_wait(of->device, NULL));
    check_ok(ecornn_download(of->device, all, there[1], SIZE));
    for (int k = 0; k < 2; k++)
        ecornn_free(of->device, there[k]);
}

/* The bits are those of a run in which the parts are columns of x. */
START_TEST(arrays_of_their_own)
{
    static struct apart all;
    const char *const problem = apart[_i / 2 / APART_ON];
    const char *const device = apart_on[_i / 2 % APART_ON];
    const bool gpu = strcmp(device, "cuda") == 0;
    const size_t element = strstr(problem, "f64") ? 8 : strstr(problem, "f16") ? 2 : 4;
    struct planned of;
    ecornn_cell *cell;
    char name[64];
    if (suite_lacks(device) || strstr(problem, gpu ? "/int8/" : "/f16/") != NULL)
        return;
    memset(&all, 0x55, sizeof all);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(problem, "/"), problem);
    const char *const of_name = strcmp(name, "mixed") == 0  ? mixed
                                : strcmp(name, "copy") == 0 ? copy
                                                            : name;
    if (gpu && of_name == name)
        return; /* a matrix state */
    check_ok(ecornn_cell_parse(&cell, of_name));
    planned_open(&of, device, problem, cell);
    const size_t h = (size_t)of.desc.hidden, rows = (size_t)of.desc.steps * (size_t)of.desc.batch,
                 D = of.desc.flags & ECORNN_BIDIRECTIONAL ? 2 : 1;
    const int parts = of.desc.cell->recipe.n_parts;
    size_t width[ECO_MAX_PARTS] = {0};
    for (int k = 0; k < parts; k++)
        width[k] = (size_t)eco_problem_part(&of.plan->problem, k);
    size_t column = (size_t)of.desc.input;
    for (size_t i = 0; i < PARAMS; i++)
        eco_type_set(all.params, i, param_type_of(&of.desc), uniform_at(i));
    all.ragged = _i % 2;
    for (int32_t n = 0; n < of.desc.batch; n++)
        all.lengths[n] = !all.ragged ? of.desc.steps : (5 * n + 6) % (of.desc.steps + 1);
    put_random(&of.desc, all.x, rows * (size_t)of.desc.input, 50);
    put_random(&of.desc, all.dy, rows * D * h, 90);
    for (int k = parts - 1; k >= 0; k--) {
        column -= width[k];
        all.rows[k] = k == 1 ? 0 : width[k] + (size_t)k, all.drows[k] = k == 2 ? 0 : width[k] + 2;
        move_columns(&of.desc, all.x, column, all.part[k], k == 1 ? width[k] : all.rows[k],
                     width[k], all.lengths, false);
    }
    all.columns[0] = column;
    move_columns(&of.desc, all.x, 0, all.rest, column, column, all.lengths, false);
    run_all(&of, &all, gpu);
    ck_assert_mem_eq(all.y[0], all.y[1], sizeof all.y[0]);
    memset(all.joined, 0x55, sizeof all.joined);
    if (of.desc.flags & ECORNN_TRAINING) {
        move_columns(&of.desc, all.joined, 0, all.drest, column, column, NULL, true);
        for (int k = 0; k < parts; column += width[k++])
            move_columns(&of.desc, all.joined, column, all.dpart[k],
                         k == 2 ? width[k] : all.drows[k], width[k], NULL, true);
        ck_assert_mem_eq(all.joined, all.dx, sizeof all.dx);
        /* the gaps between rows stay */
        ck_assert_int_eq(all.dpart[0][width[0] * element], 0x55);
    }
    planned_close(&of);
    ecornn_cell_free(cell);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static void check_not_for(ecornn_device *device, const char *problem, const ecornn_cell *cell,
                          const ecornn_io *given, ecornn_status status, const char *word)
{
    ecornn_plan *plan;
    ecornn_sizes sizes;
    const ecornn_cell *const cells[] = {cell, NULL};
    ecornn_io io = *given;
    check_ok(ecornn_plan_create(&plan, device, problem, cells));
    get_sizes(plan, &sizes);
    io.weights = ecornn_alloc(device, sizes.weight_bytes + 1);
    io.workspace = ecornn_alloc(device, sizes.workspace_bytes);
    check_refused(forward_all(plan, &io), status, word);
    ecornn_free(device, (void *)(uintptr_t)io.weights);
    ecornn_free(device, io.workspace);
    ecornn_plan_free(plan);
}

START_TEST(wrong_inputs_are_refused)
{
    struct planned of, plain;
    ecornn_cell *cell;
    double x[24], y[12];
    const void *inputs[] = {x, NULL};
    size_t rows[] = {2, 0};
    check_ok(ecornn_cell_parse(&cell, copy));
    planned_open(&of, "cpu:1", "copy/f64/train/T2/N2/I4/H3/mask", cell);
    planned_open(&plain, "cpu:1", "gru/f64/T2/N2/I4/H3", NULL);
    fill(x, 24, 3);
    memset(plain.weights, 0, plain.sizes.weight_bytes);
    ecornn_io io = planned_io(&of);
    ecornn_gradient gradient = {.size = sizeof gradient};
    io.y = y, io.inputs = inputs;
    REFUSES(forward_all(of.plan, &io), "io.inputs[1] is NULL");
    inputs[1] = (const char *)x + 1;
    REFUSES(forward_all(of.plan, &io), "io.inputs[1] is ");
    inputs[1] = x;
    io.input_rows = rows;
    REFUSES(forward_all(of.plan, &io),
            "the rows of io.inputs[0] are 2 apart, must be 0, or 3, the width of part 'u', to ");
    rows[0] = SIZE_MAX;
    REFUSES(forward_all(of.plan, &io), "the rows of io.inputs[0] are 18446744073709551615 apart");
    io.input_rows = (const size_t *)((const char *)rows + 1);
    REFUSES(forward_all(of.plan, &io), "io.input_rows is ");
    io.input_rows = NULL, io.x = x;
    REFUSES(forward_all(of.plan, &io), "must be NULL: all of x is in io.inputs");
    io.x = NULL, io.y = x;
    REFUSES(forward_all(of.plan, &io), "the memory of io.y");
    io.y = y;
    io.mask = (const uint8_t *)"\1\1\1\1";
    check_refused(forward_all(of.plan, &io), ECORNN_UNSUPPORTED,
                  "io.inputs is set, which needs a run without a mask");
    io.mask = NULL;
    check_ok(forward_all(of.plan, &io));
    io.inputs = NULL, io.x = x;
    void *dinputs[] = {y, y};
    gradient.dinputs = dinputs;
    REFUSES(backward_all(of.plan, &io, &gradient), "must be NULL without io.inputs");
    io.input_rows = rows;
    REFUSES(forward_all(of.plan, &io), "without io.inputs");
    io = planned_io(&plain);
    io.x = x, io.y = y, io.inputs = inputs;
    REFUSES(forward_all(plain.plan, &io), "but cell gru has no parts of x");
    check_not_for(of.device, "copy/f64/T2/N2/I4/H3/models:2", cell, &io, ECORNN_UNSUPPORTED,
                  "needs one model");
    check_not_for(of.device, "f64/T2/N2/I4; copy/H3", cell, &io, ECORNN_BAD_ARGUMENT,
                  "the plan is not of layers");
    check_not_for(of.device, "gru/f64/T2/N2/I4/H3/tangent", cell, &io, ECORNN_BAD_ARGUMENT,
                  "the plan is not of layers");
    planned_close(&plain);
    planned_close(&of);
    ecornn_cell_free(cell);
}
END_TEST

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
    ecornn_cell *cell;
    ecornn_plan *plan = NULL;
    ecornn_device *const device = device_on("cpu:1");
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
          {plans_are_tuned, 2}, {nets_have_parts_between_layers, 1},
          {arrays_of_their_own, 2 * APART_ON * sizeof apart / sizeof *apart},
          {wrong_inputs_are_refused, 1}, {what_is_wrong_is_said, sizeof wrong / sizeof *wrong})
