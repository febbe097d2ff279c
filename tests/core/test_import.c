/*
 * Import of weights from other systems. Tests small blocks made by hand for every (system, cell),
 * positions inside larger blocks, round trips, and PyTorch's own numbers (data/torch.txt, written
 * by data/make_torch.py).
 */
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "ecornn.h"
#include "tests/kit/calls.h"
#include "tests/kit/planned.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const char *const systems[] = {"torch", "cudnn", "keras", "onnx"};
enum { SYSTEMS = sizeof systems / sizeof *systems, MOST = 4096 };

/* A plan, and memory for its parameters and for the same parameters in a foreign block. */
static struct planned my;
static struct {
    double block[MOST], params[MOST];
} foreign;

static void open_plan(const char *device, const char *problem, const ecornn_cell *cell)
{
    planned_open(&my, device, problem, cell);
    ck_assert_uint_le(my.sizes.param_elements, MOST);
}

static void close_plan(void)
{
    planned_close(&my);
}

static size_t block_size(const char *system)
{
    size_t elements = 0;
    check_ok(ecornn_import_size(my.plan, system, &elements));
    ck_assert_uint_le(elements, MOST);
    return elements;
}

/* Element [row, column] of a parameter in foreign.params. */
static double get_param(const char *name, int row, int column)
{
    ecornn_param param;
    for (int k = 0; k < count_params(my.plan); k++) {
        check_ok(param_at(my.plan, k, &param));
        if (strcmp(param.name, name) == 0)
            return foreign.params[param.offset + (size_t)(row * param.cols + column)];
    }
    ck_abort_msg("no parameter %s", name);
    return 0;
}

/* Cells of one unit and one input. The foreign block is 1 2 3 ...; the table has the parameters
 * that import must give, and the block that export must give. Export writes the sum of two biases
 * to the first, if the equations allow it. */
static const struct {
    const char *system, *cell, *params, *exported;
} small[] = {
    {"torch", "rnn-tanh", "W.h=1 R.h=2 b.h=7", "1 2 7 0"},
    {"torch", "rnn-relu", "W.h=1 R.h=2 b.h=7", "1 2 7 0"},
    {"torch", "lstm", "W.i=1 W.f=2 W.g=3 W.o=4 R.i=5 R.f=6 R.g=7 R.o=8 b.i=22 b.f=24 b.g=26 b.o=28",
     "1 2 3 4 5 6 7 8 22 24 26 28 0 0 0 0"},
    {"torch", "lstm/P1",
     "W.i=1 W.f=2 W.g=3 W.o=4 R.i=5 R.f=6 R.g=7 R.o=8 b.i=22 b.f=24 b.g=26 b.o=28 proj=17",
     "1 2 3 4 5 6 7 8 22 24 26 28 0 0 0 0 17"},
    {"torch", "gru", "W.r=1 W.z=2 W.n=3 R.r=4 R.z=5 R.q=6 b.r=17 b.z=19 b.n=9 b.q=12",
     "1 2 3 4 5 6 17 19 9 0 0 12"},
    {"cudnn", "rnn-tanh", "W.h=1 R.h=2 b.h=7", "1 2 7 0"},
    {"cudnn", "rnn-relu", "W.h=1 R.h=2 b.h=7", "1 2 7 0"},
    {"cudnn", "lstm", "W.i=1 W.f=2 W.g=3 W.o=4 R.i=5 R.f=6 R.g=7 R.o=8 b.i=22 b.f=24 b.g=26 b.o=28",
     "1 2 3 4 5 6 7 8 22 24 26 28 0 0 0 0"},
    {"cudnn", "lstm/P1",
     "W.i=1 W.f=2 W.g=3 W.o=4 R.i=5 R.f=6 R.g=7 R.o=8 proj=9 b.i=24 b.f=26 b.g=28 b.o=30",
     "1 2 3 4 5 6 7 8 9 24 26 28 30 0 0 0 0"},
    {"cudnn", "gru", "W.r=1 W.z=2 W.n=3 R.r=4 R.z=5 R.q=6 b.r=17 b.z=19 b.n=9 b.q=12",
     "1 2 3 4 5 6 17 19 9 0 0 12"},
    {"keras", "rnn-tanh", "W.h=1 R.h=2 b.h=3", "1 2 3"},
    {"keras", "rnn-relu", "W.h=1 R.h=2 b.h=3", "1 2 3"},
    {"keras", "lstm", "W.i=1 W.f=2 W.g=3 W.o=4 R.i=5 R.f=6 R.g=7 R.o=8 b.i=9 b.f=10 b.g=11 b.o=12",
     "1 2 3 4 5 6 7 8 9 10 11 12"},
    {"keras", "lstm-peephole",
     "W.i=1 W.f=2 W.g=3 W.o=4 R.i=5 R.f=6 R.g=7 R.o=8 b.i=9 b.f=10 b.g=11 b.o=12 p.i=13 p.f=14 "
     "p.o=15",
     "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"},
    {"keras", "gru", "W.z=1 W.r=2 W.n=3 R.z=4 R.r=5 R.q=6 b.z=17 b.r=19 b.n=9 b.q=12",
     "1 2 3 4 5 6 17 19 9 0 0 12"},
    {"keras", "gru-reset-first", "W.z=1 W.r=2 W.n=3 R.z=4 R.r=5 R.n=6 b.z=7 b.r=8 b.n=9",
     "1 2 3 4 5 6 7 8 9"},
    {"onnx", "rnn-tanh", "W.h=1 R.h=2 b.h=7", "1 2 7 0"},
    {"onnx", "rnn-relu", "W.h=1 R.h=2 b.h=7", "1 2 7 0"},
    {"onnx", "lstm", "W.i=1 W.o=2 W.f=3 W.g=4 R.i=5 R.o=6 R.f=7 R.g=8 b.i=22 b.o=24 b.f=26 b.g=28",
     "1 2 3 4 5 6 7 8 22 24 26 28 0 0 0 0"},
    {"onnx", "lstm-peephole",
     "W.i=1 W.o=2 W.f=3 W.g=4 R.i=5 R.o=6 R.f=7 R.g=8 b.i=22 b.o=24 b.f=26 b.g=28 p.i=17 p.o=18 "
     "p.f=19",
     "1 2 3 4 5 6 7 8 22 24 26 28 0 0 0 0 17 18 19"},
    {"onnx", "lstm-coupled", "W.i=1 W.o=2 W.g=4 R.i=5 R.o=6 R.g=8 b.i=22 b.o=24 b.g=28",
     "1 2 0 4 5 6 0 8 22 24 0 28 0 0 0 0"},
    {"onnx", "gru", "W.z=1 W.r=2 W.n=3 R.z=4 R.r=5 R.q=6 b.z=17 b.r=19 b.n=9 b.q=12",
     "1 2 3 4 5 6 17 19 9 0 0 12"},
    {"onnx", "gru-reset-first", "W.z=1 W.r=2 W.n=3 R.z=4 R.r=5 R.n=6 b.z=17 b.r=19 b.n=21",
     "1 2 3 4 5 6 17 19 21 0 0 0"},
};
enum { SMALL = sizeof small / sizeof *small };

static int count_numbers(const char *list)
{
    int count = 1;
    for (; *list; list++)
        count += *list == ' ';
    return count;
}

/* The text of a built-in cell as a cell of another name, with its gates in another order. */
static ecornn_cell *parse_builtin(const char *name)
{
    char inside[100], text[2000] = "";
    ecornn_cell *cell;
    snprintf(inside, sizeof inside, "common/cell/%.*s.cell", (int)strcspn(name, "/"), name);
    ck_assert_msg(source_read(inside, text, sizeof text), "cannot read %s", inside);
    char *head = strstr(text, "cell "), *end = strchr(head, '('), *line = strchr(end, '\n') + 1;
    char own[2000];
    snprintf(own, sizeof own, "cell mine%.*s", (int)(line - end), end);
    /* i, f or r, z: neither uses the other, so their order is free */
    const char *second = strchr(line, '\n') + 1;
    const bool swapped = strstr(text, "\nf  = sig") || strstr(text, "\nz  = sig");
    const int used = swapped ? (int)(strchr(second, '\n') + 1 - second) : 0;
    snprintf(own + strlen(own), sizeof own - strlen(own), "%.*s%.*s%s", used, second,
             (int)(second - line), line, second + used);
    const ecornn_status status = ecornn_cell_parse(&cell, own);
    ck_assert_msg(status == ECORNN_OK, "%s\n%s", ecornn_error_detail(), own);
    return cell;
}

/* Tests every cell as built in and as parsed from its text. */
START_TEST(small_block)
{
    const int _k = _i / 2;
    const char *system = small[_k].system, *list = small[_k].params;
    char problem[64], name[32];
    ecornn_cell *own = _i % 2 ? parse_builtin(small[_k].cell) : NULL;
    snprintf(problem, sizeof problem, "%s/f64/T1/N1/I1/H1", small[_k].cell);
    open_plan("reference", problem, own);
    const size_t size = block_size(system);
    ck_assert_int_eq((int)size, count_numbers(small[_k].exported));
    for (size_t k = 0; k < size; k++)
        foreign.block[k] = (double)(k + 1);
    for (size_t k = 0; k < my.sizes.param_elements + 1; k++)
        foreign.params[k] = NAN;
    check_ok(ecornn_import(my.plan, system, foreign.block, ECORNN_F64, size, foreign.params));
    ck_assert_int_eq(count_numbers(list), (int)my.sizes.param_elements);
    ck_assert(
        isnan(foreign.params[my.sizes.param_elements])); /* nothing was written past the end */
    for (int used; *list; list += used) {
        double value;
        strcpy(name, "0.fwd.");
        ck_assert_int_eq(sscanf(list, "%20[^=]=%lf %n", name + 6, &value, &used), 2);
        ck_assert_msg(get_param(name, 0, 0) == value, "%s: %s is %g, not %g", problem, name,
                      get_param(name, 0, 0), value);
    }
    for (size_t k = 0; k < size + 1; k++)
        foreign.block[k] = NAN;
    check_ok(ecornn_export(my.plan, system, foreign.params, foreign.block, ECORNN_F64, size));
    const char *at = small[_k].exported;
    for (size_t k = 0; k < size; k++) {
        char *end;
        ck_assert_double_eq(foreign.block[k], strtod(at, &end));
        at = end;
    }
    ck_assert(isnan(foreign.block[size]));
    close_plan();
    ecornn_cell_free(own);
}
END_TEST

/* Positions of single elements in the block of a net with I=3, H=2, two layers and two directions.
 * There are two positions if biases are added. */
static const struct {
    const char *system, *cell, *name;
    int row, column, place, second;
} places[] = {
    {"torch", "lstm", "1.rev.W.o", 1, 3, 207, 0},
    {"torch", "lstm", "0.rev.R.g", 0, 1, 89, 0},
    {"cudnn", "lstm", "1.rev.W.o", 1, 3, 159, 0},
    {"cudnn", "lstm", "1.fwd.b.f", 1, 0, 211, 219},
    {"keras", "lstm", "0.rev.W.f", 1, 2, 67, 0},
    {"keras", "lstm", "1.rev.R.o", 0, 1, 198, 0},
    {"keras", "lstm", "1.fwd.b.g", 1, 0, 149, 0},
    {"onnx", "lstm", "0.rev.W.f", 1, 2, 41, 0},
    {"onnx", "lstm", "1.fwd.R.g", 1, 0, 190, 0},
    {"onnx", "lstm", "0.rev.b.o", 0, 0, 98, 106},
    {"onnx", "gru", "0.rev.b.q", 1, 0, 83, 0},
    {"onnx", "gru", "0.rev.b.n", 1, 0, 77, 0},
    {"keras", "gru", "0.rev.b.q", 0, 0, 82, 0},
    {"keras", "gru", "0.fwd.W.r", 1, 2, 15, 0},
    {"onnx", "lstm-peephole", "0.rev.p.o", 1, 0, 121, 0},
};
enum { PLACES = sizeof places / sizeof *places };

START_TEST(place_in_block)
{
    char problem[64];
    snprintf(problem, sizeof problem, "%s/f64/L2/bi/T1/N1/I3/H2", places[_i].cell);
    open_plan("reference", problem, NULL);
    const size_t size = block_size(places[_i].system);
    for (size_t k = 0; k < size; k++)
        foreign.block[k] = (double)k;
    check_ok(
        ecornn_import(my.plan, places[_i].system, foreign.block, ECORNN_F64, size, foreign.params));
    const double value = get_param(places[_i].name, places[_i].row, places[_i].column);
    ck_assert_double_eq(value, places[_i].place + places[_i].second);
    close_plan();
}
END_TEST

static bool is_known(const char *system, const char *cell)
{
    bool known = false;
    for (int k = 0; k < SMALL; k++)
        known |= strcmp(small[k].system, system) == 0 && strcmp(small[k].cell, cell) == 0;
    return known;
}

/* Export and import give the parameters back, in both types. A cell that a system lacks is refused.
 */
static void round_trip(const char *system, const char *cell, const char *rest, bool single)
{
    static double back[MOST];
    char problem[64];
    snprintf(problem, sizeof problem, "%s/%s%s", cell, single ? "f32" : "f64", rest);
    open_plan("reference", problem, NULL);
    size_t size = MOST;
    if (!is_known(system, cell)) {
        check_refused(ecornn_import_size(my.plan, system, &size), ECORNN_UNSUPPORTED, cell);
        check_refused(ecornn_import(my.plan, system, foreign.block, ECORNN_F64, 1, foreign.params),
                      ECORNN_UNSUPPORTED, system);
        check_refused(ecornn_export(my.plan, system, foreign.params, foreign.block, ECORNN_F64, 1),
                      ECORNN_UNSUPPORTED, system);
    } else {
        const size_t bytes = single ? sizeof(float) : sizeof(double);
        for (size_t k = 0; k < my.sizes.param_elements; k++) {
            const float value = (float)k - 100.5f;
            foreign.params[k] = single ? foreign.params[k] : (double)k - 100.25;
            if (single)
                memcpy((char *)foreign.params + k * bytes, &value, bytes);
        }
        memset(back, 0xff, sizeof back);
        const ecornn_type type = single ? ECORNN_F32 : ECORNN_F64;
        size = block_size(system);
        check_ok(ecornn_export(my.plan, system, foreign.params, foreign.block, type, size));
        check_ok(ecornn_import(my.plan, system, foreign.block, type, size, back));
        ck_assert_mem_eq(back, foreign.params, my.sizes.param_elements * bytes);
    }
    close_plan();
}

START_TEST(round_trips)
{
    const char *cell;
    for (int k = 0; (cell = cell_name(k)); k++)
        for (int single = 0; single < 2; single++) {
            if (strcmp(cell, "sru") == 0) { /* reads x unit by unit */
                round_trip(systems[_i], cell, "/L3/T1/N1/I3/H3", single);
                continue;
            }
            round_trip(systems[_i], cell, "/T1/N1/I3/H2", single);
            round_trip(systems[_i], cell, "/rev/T1/N1/I1/H5", single);
            round_trip(systems[_i], cell, "/L3/bi/T1/N1/I4/H3", single);
        }
    if (_i < 2) /* torch, cudnn */
        round_trip(systems[_i], "lstm", "/L2/bi/T1/N1/I4/H3/P2", false);
}
END_TEST

START_TEST(refused)
{
    size_t size;
    open_plan("reference", "lstm/T1/N1/I3/H4/P2", NULL);
    check_refused(ecornn_import_size(my.plan, "keras", &size), ECORNN_UNSUPPORTED, "proj is 2");
    check_refused(ecornn_import_size(my.plan, "onnx", &size), ECORNN_UNSUPPORTED, "proj is 2");
    close_plan();
    open_plan("reference", "rnn-tanh/T1/N1/I3/H4/P2", NULL);
    check_refused(ecornn_import_size(my.plan, "torch", &size), ECORNN_UNSUPPORTED, "proj is 2");
    close_plan();
}
END_TEST

#define GATE(name, function) name " = " function "(W x + R h + b)\n"
#define LSTM                                                                                       \
    GATE("i", "sigmoid")                                                                           \
    GATE("f", "sigmoid") GATE("g", "tanh") GATE("o", "sigmoid") "c' = f * c + i * g\n"
#define GRU(z) GATE("r", "sigmoid") GATE(z, "sigmoid") "q = R h + b\nn = tanh(W x + b + r * q)\n"

/* A cell is recognized by its parameters, not by its name or equations. */
static const struct {
    const char *text, *system, *error; /* NULL: imports */
} by_name[] = {
    {"cell lstm(h)\nh' = tanh(W x + R h + b)\n", "torch", NULL},
    {"cell mine(h, c)\n" LSTM "h' = o * tanh(c')\n", "keras", NULL},
    {"cell relu-lstm(h, c)\n" LSTM "h' = o * relu(c')\n", "onnx", NULL},
    {"cell mine(h, c)\n" LSTM "m = p * c'\nh' = o * tanh(m)\n", "cudnn",
     "cudnn has no cell with the parameters of 'mine': its lstm has no p.m"},
    {"cell mine(h, c)\n" GATE("i", "sigmoid") GATE("f", "sigmoid")
         GATE("g", "tanh") "c' = f * c + i * g\nh' = tanh(c')\n",
     "torch", "torch has no cell with the parameters of 'mine': its lstm also has W.o"},
    {"cell mine(h)\nv = 0.5 * W x\nh' = tanh(v)\n", "torch",
     "torch has no cell with the parameters of 'mine'"},
    {"cell mine(h)\n" GRU("z") "h' = (1 - z) * n + z * h\n", "torch", NULL},
    {"cell mine(h)\n" GRU("z") "h' = n + z * (h - n)\n", "torch", NULL},
    {"cell mine(h)\n" GRU("z") "h' = (1 - z) * h + z * n\n", "torch",
     "z of 'mine' weights the new state, but in torch the old one: name it u"},
    {"cell mine(h)\n" GRU("u") "h' = (1 - u) * h + u * n\n", "torch", NULL},
    {"cell mine(h)\n" GATE("r", "sigmoid") "z = W x\nu = sigmoid(z + R h + b)\nq = R h + b\n"
                                           "n = tanh(W x + b + r * q)\nh' = h + u * (n - h)\n",
     "torch", "torch has no cell with the parameters of 'mine': its gru has no W.z"},
    {"cell mine(h)\n" GRU("u") "h' = h + u * (n - h)\n", "keras", NULL},
    {"cell mine(h)\n" GRU("u") "h' = (1 - u) * n + u * h\n", "onnx",
     "u of 'mine' weights the old state, as z does in onnx: name it z"},
};
enum { BY_NAME = sizeof by_name / sizeof *by_name };

START_TEST(names)
{
    size_t size;
    ecornn_cell *cell;
    check_ok(ecornn_cell_parse(&cell, by_name[_i].text));
    open_plan("reference", "mine/T1/N1/I3/H4", cell);
    if (by_name[_i].error)
        check_refused(ecornn_import_size(my.plan, by_name[_i].system, &size), ECORNN_UNSUPPORTED,
                      by_name[_i].error);
    else
        check_ok(ecornn_import_size(my.plan, by_name[_i].system, &size));
    close_plan();
    ecornn_cell_free(cell);
}
END_TEST

static size_t import_sequence(const char *system)
{
    const size_t size = block_size(system);
    for (size_t k = 0; k < size; k++)
        foreign.block[k] = sin((double)k);
    check_ok(ecornn_import(my.plan, system, foreign.block, ECORNN_F64, size, foreign.params));
    return size;
}

static void run_plan(const double *x, double *result)
{
    planned_pack(&my, foreign.params, my.weights);
    ecornn_io io = planned_io(&my);
    io.x = x, io.y = result;
    check_ok(forward_all(my.plan, &io));
}

static void compare_run(const double *x, const double *y, size_t n)
{
    double result[64];
    run_plan(x, result);
    for (size_t k = 0; k < n; k++)
        ck_assert_double_eq_tol(result[k], y[k], 1e-13 * (1 + fabs(y[k])));
}

/* A gate u that equals 1 - z has negated parameters; the net computes the same. */
START_TEST(the_other_share)
{
    static double block[MOST];
    double x[12], y[12] = {0};
    ecornn_cell *cell[2];
    check_ok(ecornn_cell_parse(&cell[0], "cell a(h)\n" GRU("z") "h' = (1 - z) * n + z * h\n"));
    check_ok(ecornn_cell_parse(&cell[1], "cell a(h)\n" GRU("u") "h' = (1 - u) * h + u * n\n"));
    for (int k = 0; k < 12; k++)
        x[k] = cos(k);
    for (int k = 0; k < 2; k++) {
        open_plan("reference", "a/f64/T4/N1/I3/H3", cell[k]);
        const size_t size = import_sequence(systems[_i]);
        const double sign = k ? -1 : 1, bias = get_param(k ? "0.fwd.b.u" : "0.fwd.b.z", 1, 0);
        if (k == 0)
            run_plan(x, y);
        else
            compare_run(x, y, 12);
        ck_assert_double_eq(sign * get_param(k ? "0.fwd.W.u" : "0.fwd.W.z", 0, 0),
                            systems[_i][0] == 't' || systems[_i][0] == 'c' ? sin(9) : sin(0));
        ck_assert(bias != 0);
        check_ok(
            ecornn_export(my.plan, systems[_i], foreign.params, foreign.block, ECORNN_F64, size));
        if (k == 0)
            memcpy(block, foreign.block, sizeof block);
        ck_assert_mem_eq(block, foreign.block, size * sizeof *block);
        close_plan();
        ecornn_cell_free(cell[k]);
    }
}
END_TEST

/* Refuses a block of the wrong size, and an unknown type. */
START_TEST(sizes)
{
    open_plan("reference", "lstm/f64/T1/N1/I3/H4", NULL);
    static const size_t wrong[] = {0, 1, 143, 145, SIZE_MAX};
    char words[64];
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        snprintf(words, sizeof words, "elements is %zu, but a block of torch for", wrong[k]);
        REFUSES(
            ecornn_import(my.plan, "torch", foreign.block, ECORNN_F64, wrong[k], foreign.params),
            words);
        ck_assert(strstr(ecornn_error_detail(), "has 144") != NULL);
        REFUSES(
            ecornn_export(my.plan, "torch", foreign.params, foreign.block, ECORNN_F64, wrong[k]),
            words);
    }
    REFUSES(ecornn_import(my.plan, "torch", foreign.block, (ecornn_type)5, 144, foreign.params),
            "type is 5");
    REFUSES(ecornn_export(my.plan, "torch", foreign.params, foreign.block, (ecornn_type)-1, 144),
            "type is -1");
    close_plan();
}
END_TEST

/* Blocks and parameters of every type. A number that both types can hold is unchanged, half
 * precision is widened, and a number that is narrowed is rounded once, after the two biases were
 * added. */
static const struct {
    const char *problem;
    ecornn_type type;
} params_of[] = {{"rnn-tanh/f32/T1/N1/I1/H1", ECORNN_F32},
                 {"rnn-tanh/f64/T1/N1/I1/H1", ECORNN_F64},
                 {"rnn-tanh/bf16/bf16-params/T1/N1/I1/H1", ECORNN_BF16},
                 {"rnn-tanh/f16/f16-params/T1/N1/I1/H1", ECORNN_F16}};

START_TEST(block_types)
{
    static const ecornn_type types[] = {ECORNN_F32, ECORNN_F64, ECORNN_BF16, ECORNN_F16};
    const ecornn_type of = params_of[_i].type;
    const double value[4] = {0.75, -3, 1 + 0x1p-8, 0x1p-9};
    open_plan("reference", params_of[_i].problem, NULL);
    for (int k = 0; k < 4; k++) {
        double room[8] = {0}, params[8] = {0};
        for (size_t j = 0; j < 4; j++)
            eco_type_set(room, j, types[k], value[j]);
        const double sum = eco_type_get(room, 2, types[k]) + eco_type_get(room, 3, types[k]);
        check_ok(ecornn_import(my.plan, "torch", room, types[k], 4, params));
        ck_assert_double_eq(eco_type_get(params, 0, of), 0.75);
        ck_assert_double_eq(eco_type_get(params, 1, of), -3);
        ck_assert_double_eq(eco_type_get(params, 2, of), eco_type_round(sum, of));
        memset(room, 0xff, sizeof room);
        check_ok(ecornn_export(my.plan, "torch", params, room, types[k], 4));
        ck_assert_double_eq(eco_type_get(room, 2, types[k]),
                            eco_type_round(eco_type_round(sum, of), types[k]));
        ck_assert_double_eq(eco_type_get(room, 3, types[k]), 0);
        unsigned char end[4] = {0xff, 0xff, 0xff, 0xff};
        ck_assert_mem_eq((char *)room + 4 * eco_type_bytes(types[k]), end, 4);
    }
    close_plan();
}
END_TEST

/* ---- PyTorch's own numbers ------------------------------------------------------------------- */

/* Reads the rest of a line "name value value ..." and returns how many values there were. */
static size_t read_numbers(FILE *file, const char *name, double *values, size_t most)
{
    char word[32], end = ' ';
    size_t n = 0;
    ck_assert_int_eq(fscanf(file, "%31s", word), 1);
    ck_assert_str_eq(word, name);
    for (; end == ' '; n++) {
        ck_assert_uint_lt(n, most);
        ck_assert_int_eq(fscanf(file, "%lf%c", &values[n], &end), 2);
    }
    return n;
}

START_TEST(torch_numbers)
{
    static const char *const device[] = {"reference", "cpu:1"};
    char path[1024], problem[64];
    double x[64], y[64];
    source_path(path, "tests/data/torch.txt");
    FILE *file = fopen(path, "r");
    ck_assert_msg(file, "cannot read %s", path);
    int cases = 0;
    for (; fscanf(file, " case %63s", problem) == 1; cases++) {
        open_plan(device[_i], problem, NULL);
        const size_t size = read_numbers(file, "block", foreign.block, MOST);
        ck_assert_uint_eq(size, block_size("torch"));
        read_numbers(file, "x", x, 64);
        const size_t n = read_numbers(file, "y", y, 64);
        check_ok(ecornn_import(my.plan, "torch", foreign.block, ECORNN_F64, size, foreign.params));
        compare_run(x, y, n);
        close_plan();
    }
    ck_assert_int_eq(cases, 5);
    fclose(file);
}
END_TEST

TEST_MAIN("import", {small_block, 2 * SMALL}, {place_in_block, PLACES}, {round_trips, SYSTEMS},
          {refused, 1}, {names, BY_NAME}, {the_other_share, SYSTEMS}, {sizes, 1}, {block_types, 4},
          {torch_numbers, 2})
