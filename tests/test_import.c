/*
 * Weights of other systems: small blocks by hand for every (system, cell), places inside larger
 * ones, round trips, and PyTorch's own numbers (data/torch.txt, written by data/make_torch.py).
 */
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ecornn.h"
#include "tests/net.h"
#include "tests/suite.h"

static const char *const systems[] = {"torch", "cudnn", "keras", "onnx"};
enum { SYSTEMS = sizeof systems / sizeof *systems, MOST = 4096 };

/* A plan of the problem, and room for its parameters and a foreign block of them. */
static struct {
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    double block[MOST], params[MOST];
} my;

static void open_plan(const char *device, const char *problem, const ecornn_cell *cell)
{
    ecornn_desc desc;
    check_ok(ecornn_device_open(&my.device, device));
    check_ok(ecornn_desc_parse(&desc, problem, cell));
    check_ok(ecornn_plan_create(&my.plan, my.device, &desc));
    ecornn_plan_sizes(my.plan, &my.sizes);
    ck_assert_uint_le(my.sizes.params, MOST);
}

static void close_plan(void)
{
    ecornn_plan_free(my.plan);
    ecornn_device_close(my.device);
}

static size_t block_size(const char *system)
{
    size_t elements = 0;
    check_ok(ecornn_import_size(my.plan, system, &elements));
    ck_assert_uint_le(elements, MOST);
    return elements;
}

/* Element [row, column] of a parameter in my.params. */
static double get_param(const char *name, int row, int column)
{
    ecornn_param param;
    for (int k = 0; k < ecornn_param_count(my.plan); k++) {
        check_ok(ecornn_param_get(my.plan, k, &param));
        if (strcmp(param.name, name) == 0)
            return my.params[param.offset + (size_t)(row * param.cols + column)];
    }
    ck_abort_msg("no parameter %s", name);
    return 0;
}

/* One unit, one input: the block 1 2 3 ..., what the parameters must then be, and what export
 * makes of them: both biases in the first, where the equations allow it. */
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

START_TEST(small_block)
{
    const char *system = small[_i].system, *list = small[_i].params;
    char problem[64], name[32];
    snprintf(problem, sizeof problem, "%s/f64/T1/N1/I1/H1", small[_i].cell);
    open_plan("reference", problem, NULL);
    const size_t size = block_size(system);
    ck_assert_int_eq((int)size, count_numbers(small[_i].exported));
    for (size_t k = 0; k < size; k++)
        my.block[k] = (double)(k + 1);
    for (size_t k = 0; k < my.sizes.params + 1; k++)
        my.params[k] = NAN;
    check_ok(ecornn_import(my.plan, system, my.block, my.params));
    ck_assert_int_eq(count_numbers(list), (int)my.sizes.params);
    ck_assert(isnan(my.params[my.sizes.params])); /* the end was respected */
    for (int used; *list; list += used) {
        double value;
        strcpy(name, "0.fwd.");
        ck_assert_int_eq(sscanf(list, "%20[^=]=%lf %n", name + 6, &value, &used), 2);
        ck_assert_msg(get_param(name, 0, 0) == value, "%s: %s is %g, not %g", problem, name,
                      get_param(name, 0, 0), value);
    }
    for (size_t k = 0; k < size + 1; k++)
        my.block[k] = NAN;
    check_ok(ecornn_export(my.plan, system, my.params, my.block));
    const char *at = small[_i].exported;
    for (size_t k = 0; k < size; k++) {
        char *end;
        ck_assert_double_eq(my.block[k], strtod(at, &end));
        at = end;
    }
    ck_assert(isnan(my.block[size]));
    close_plan();
}
END_TEST

/* I 3, H 2, two layers of two directions: where one element stands in the block; two places where
 * biases are added. */
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
        my.block[k] = (double)k;
    check_ok(ecornn_import(my.plan, places[_i].system, my.block, my.params));
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

/* Export and import give the parameters back, in both types; what a system lacks is refused. */
static void round_trip(const char *system, const char *cell, const char *rest, bool single)
{
    static double back[MOST];
    char problem[64];
    snprintf(problem, sizeof problem, "%s/%s%s", cell, single ? "f32" : "f64", rest);
    open_plan("reference", problem, NULL);
    size_t size = MOST;
    if (!is_known(system, cell)) {
        check_refused(ecornn_import_size(my.plan, system, &size), ECORNN_UNSUPPORTED, cell);
        check_refused(ecornn_import(my.plan, system, my.block, my.params), ECORNN_UNSUPPORTED,
                      system);
        check_refused(ecornn_export(my.plan, system, my.params, my.block), ECORNN_UNSUPPORTED,
                      system);
    } else {
        const size_t bytes = single ? sizeof(float) : sizeof(double);
        for (size_t k = 0; k < my.sizes.params; k++) {
            const float value = (float)k - 100.5f;
            my.params[k] = single ? my.params[k] : (double)k - 100.25;
            if (single)
                memcpy((char *)my.params + k * bytes, &value, bytes);
        }
        memset(back, 0xff, sizeof back);
        check_ok(ecornn_export(my.plan, system, my.params, my.block));
        check_ok(ecornn_import(my.plan, system, my.block, back));
        ck_assert_mem_eq(back, my.params, my.sizes.params * bytes);
    }
    close_plan();
}

START_TEST(round_trips)
{
    const char *cell;
    for (int k = 0; (cell = ecornn_cell_name(k)); k++)
        for (int single = 0; single < 2; single++) {
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
    ecornn_cell *cell; /* not torch's, whatever its name */
    check_ok(ecornn_cell_parse(&cell, "cell lstm(h)\nh' = tanh(W x + R h + b)\n"));
    open_plan("reference", "lstm/T1/N1/I3/H4", cell);
    check_refused(ecornn_import_size(my.plan, "torch", &size), ECORNN_UNSUPPORTED, "your own");
    close_plan();
    ecornn_cell_free(cell);
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

static void compare_run(const double *x, const double *y, size_t n)
{
    const void *params[256];
    double result[64];
    const int count = ecornn_param_count(my.plan);
    ck_assert_int_le(count, 256);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        check_ok(ecornn_param_get(my.plan, k, &param));
        params[k] = my.params + param.offset;
    }
    void *weights = ecornn_alloc(my.device, my.sizes.weights);
    void *workspace = ecornn_alloc(my.device, my.sizes.workspace);
    check_ok(ecornn_pack(my.plan, params, weights, NULL));
    const ecornn_io io = {.size = sizeof io,
                          .steps = ECORNN_ALL,
                          .batch = ECORNN_ALL,
                          .x = x,
                          .y = result,
                          .weights = weights,
                          .workspace = workspace};
    check_ok(ecornn_forward(my.plan, &io));
    for (size_t k = 0; k < n; k++)
        ck_assert_double_eq_tol(result[k], y[k], 1e-13 * (1 + fabs(y[k])));
    ecornn_free(my.device, weights);
    ecornn_free(my.device, workspace);
}

START_TEST(torch_numbers)
{
    static const char *const device[] = {"reference", "cpu:1"};
    const char *folder = getenv("srcdir");
    char path[512], problem[64];
    double x[64], y[64];
    snprintf(path, sizeof path, "%s/tests/data/torch.txt", folder ? folder : ".");
    FILE *file = fopen(path, "r");
    ck_assert_msg(file, "cannot read %s", path);
    int cases = 0;
    for (; fscanf(file, " case %63s", problem) == 1; cases++) {
        open_plan(device[_i], problem, NULL);
        const size_t size = read_numbers(file, "block", my.block, MOST);
        ck_assert_uint_eq(size, block_size("torch"));
        read_numbers(file, "x", x, 64);
        const size_t n = read_numbers(file, "y", y, 64);
        check_ok(ecornn_import(my.plan, "torch", my.block, my.params));
        compare_run(x, y, n);
        close_plan();
    }
    ck_assert_int_eq(cases, 5);
    fclose(file);
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("cases");
    tcase_add_loop_test(cases, small_block, 0, SMALL);
    tcase_add_loop_test(cases, place_in_block, 0, PLACES);
    tcase_add_loop_test(cases, round_trips, 0, SYSTEMS);
    tcase_add_test(cases, refused);
    tcase_add_loop_test(cases, torch_numbers, 0, 2);
    Suite *suite = suite_create("import");
    suite_add_tcase(suite, cases);
    return suite_run(suite, true);
}
