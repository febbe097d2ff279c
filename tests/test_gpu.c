/*
 * Every case of the sweep, and every cell of tests/cells, on the CUDA device with each algorithm
 * against the reference; forward and backward, queued kernel by kernel and from a graph.  Skipped,
 * with the reason, where there is no device.
 *
 *     test_gpu [CASE]           that case only
 *     ECORNN_ALGORITHM=NAME     that algorithm only
 *     ECORNN_PART=K/N           every N-th case only, from the K-th on (tests/gpu.sh)
 *
 * Cases in F32 run with ECORNN_FAST_MATH, in BF16 and in F16 too.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "tests/testing.h"

static const char *only; /* the argument */
static ecornn_device *device;
static int compared; /* cases */

/* Backward runs so often: queued, captured, from the graph. */
enum { BACKWARDS = 3 };

/* Every part.of-th case, from part.first on. */
static struct part {
    int first, of;
} part = {0, 1};

static void read_part(void)
{
    const char *text = getenv("ECORNN_PART");
    if (text && !only && sscanf(text, "%d/%d", &part.first, &part.of) != 2)
        fprintf(stderr, "ECORNN_PART is %s, must be K/N\n", text);
}

/* How many of so many cases belong to the part. */
static int share(int cases)
{
    return cases > part.first ? (cases - part.first + part.of - 1) / part.of : 0;
}

static int nth(int i)
{
    return part.first + i * part.of;
}

/* Makes plans take algorithm number k; false: there is none, or the user wants another. */
static bool take_algorithm(int k, const char **name)
{
    static char wanted[32];
    static bool asked;
    if (!asked && getenv("ECORNN_ALGORITHM"))
        snprintf(wanted, sizeof wanted, "%s", getenv("ECORNN_ALGORITHM"));
    asked = true;
    if (!device->backend->algos[k])
        return false;
    *name = device->backend->algos[k]->name;
    setenv("ECORNN_ALGORITHM", *name, 1);
    return !wanted[0] || strcmp(wanted, *name) == 0;
}

static int algorithms(void)
{
    int n = 0;
    while (device->backend->algos[n])
        n++;
    return n;
}

static bool can_run(int k, const struct test_case *test)
{
    struct eco_problem problem;
    ck_assert_int_eq(eco_problem_build(&problem, &test->desc), ECORNN_OK);
    return !device->backend->algos[k]->refuses(&problem, &device->caps);
}

static bool case_agrees(const char *text)
{
    struct test_case test;
    struct data inputs = {0}, expected = {0};
    if (!case_parse(&test, text))
        return false;
    case_inputs(&test, &inputs);
    bool ok = case_expect(&test, &inputs, &expected);
    const char *name;
    for (int k = 0; ok && k < algorithms(); k++) {
        const struct machine machine = {device, test.desc.type, BACKWARDS};
        struct data results = {0};
        if (take_algorithm(k, &name) && can_run(k, &test))
            ok = case_run(&test, &machine, &inputs, &results) &&
                 results_agree(&test, name, &expected, &results);
        data_free(&results);
    }
    data_free(&inputs);
    data_free(&expected);
    case_free(&test);
    return ok;
}

/* The case in another type; false: it is not one in F32 throughout. */
static bool retype(char text[CASE_TEXT], const char *type)
{
    char *at = strstr(text, "/f32/");
    char rest[CASE_TEXT];
    if (!at || strstr(text, "-weights"))
        return false;
    snprintf(rest, sizeof rest, "%s", at + 5);
    snprintf(at, (size_t)(text + CASE_TEXT - at), "/%s/%s", type, rest);
    return true;
}

START_TEST(agrees_with_reference)
{
    static const char *const type[] = {"f32", "f32/fast", "bf16", "f16"};
    char text[CASE_TEXT];
    for (int k = 0; k < (only ? 1 : 4); k++) {
        sweep_text(only, nth(_i), text);
        if (k == 0 || retype(text, type[k])) {
            ck_assert_msg(case_agrees(text), "%s", text);
            compared++;
        }
    }
}
END_TEST

static const char *const own_option[] = {
    "f32/train/T5/N4/I3/H6/states",
    "f32/train/L2/bi/T6/N5/I7/H17/states/lengths:random/accumulate/dropout:0.3",
    "f64/train/L2/rev/T4/N3/I2/H5/states/lengths:random/batch-major",
    "f32/infer/L2/bi/T5/N3/I4/H19/states/alias/lengths:random",
    "f32/train/T3/N9/I4/H291/states/lengths:random", /* more units than a block has threads */
};
enum { OWN_OPTIONS = sizeof own_option / sizeof *own_option };

static int own_count(void)
{
    char name[64];
    int n = 0;
    while (sweep_own_cell(n, name))
        n++;
    return n * OWN_OPTIONS;
}

START_TEST(agrees_for_own_cells)
{
    char name[64], text[CASE_TEXT];
    const int i = nth(_i);
    ck_assert(sweep_own_cell(i / OWN_OPTIONS, name));
    snprintf(text, sizeof text, "%s/%s", name, own_option[i % OWN_OPTIONS]);
    ck_assert_msg(case_agrees(text), "%s", text);
    compared++;
}
END_TEST

static int builtin_count(void)
{
    int n = 0;
    while (ecornn_cell_name(n))
        n++;
    return n;
}

/* The interpreter executes what was compiled: the same bits. */
START_TEST(interprets_the_same_bits)
{
    static const char *const rest = "/f32/train/L2/bi/T5/N3/I4/H19/states/lengths:random";
    const struct machine machine = {device, ECORNN_F32, 1};
    char text[CASE_TEXT];
    struct test_case compiled, parsed;
    struct data inputs = {0}, results[2] = {{0}};
    const char *name;
    snprintf(text, sizeof text, "%s%s", ecornn_cell_name(_i), rest);
    ck_assert(case_parse(&compiled, text));
    snprintf(text, sizeof text, "own-%s%s", ecornn_cell_name(_i), rest);
    ck_assert(case_parse(&parsed, text));
    case_inputs(&compiled, &inputs);
    for (int k = 0; k < algorithms(); k++) {
        if (!take_algorithm(k, &name) || !can_run(k, &compiled) || !can_run(k, &parsed))
            continue;
        ck_assert(case_run(&compiled, &machine, &inputs, &results[0]));
        ck_assert(case_run(&parsed, &machine, &inputs, &results[1]));
        ck_assert(results_same(&parsed, name, &results[0], &results[1]));
        data_free(&results[0]);
        data_free(&results[1]);
    }
    data_free(&inputs);
    case_free(&parsed);
}
END_TEST

/* Memory that the device cannot reach is an error, and the device goes on. */
START_TEST(refuses_memory_of_the_host)
{
    static float x[64];
    ecornn_desc desc;
    ecornn_plan *plan;
    ck_assert_int_eq(ecornn_desc_parse(&desc, "gru/f32/infer/T2/N2/I4/H4", NULL), ECORNN_OK);
    ck_assert_int_eq(ecornn_plan_create(&plan, device, &desc), ECORNN_OK);
    ecornn_sizes sizes;
    ecornn_plan_sizes(plan, &sizes);
    void *weights = ecornn_alloc(device, sizes.weights);
    void *workspace = ecornn_alloc(device, sizes.workspace);
    const ecornn_io io = {.size = sizeof io, .x = x, .weights = weights, .workspace = workspace};
    ck_assert_int_eq(ecornn_forward(plan, &io), ECORNN_BAD_ARGUMENT);
    ck_assert_msg(strstr(ecornn_error_detail(), "io.x"), "%s", ecornn_error_detail());
    ck_assert_int_eq(ecornn_wait(device, NULL), ECORNN_OK);
    ecornn_free(device, weights);
    ecornn_free(device, workspace);
    ecornn_plan_free(plan);
}
END_TEST

START_TEST(says_when_memory_is_out)
{
    ck_assert_ptr_null(ecornn_alloc(device, (size_t)1 << 50));
    ck_assert_msg(strstr(ecornn_error_detail(), "no memory"), "%s", ecornn_error_detail());
    void *some = ecornn_alloc(device, 1 << 20);
    ck_assert_ptr_nonnull(some);
    ecornn_free(device, some);
}
END_TEST

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : getenv("ECORNN_CASE");
    if (ecornn_device_open(&device, "cuda") != ECORNN_OK) {
        printf("1..0 # SKIP %s\n", ecornn_error_detail());
        return EXIT_SUCCESS;
    }
    Suite *suite = suite_create("gpu");
    TCase *tests = tcase_create("cuda");
    read_part();
    tcase_add_loop_test(tests, agrees_with_reference, 0, share(sweep_count(only)));
    if (!only)
        tcase_add_loop_test(tests, agrees_for_own_cells, 0, share(own_count()));
    if (!only && part.first == 0) {
        tcase_add_loop_test(tests, interprets_the_same_bits, 0, builtin_count());
        tcase_add_test(tests, refuses_memory_of_the_host);
        tcase_add_test(tests, says_when_memory_is_out);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK); /* CUDA does not outlive a fork */
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    printf("# cases: %d\n", compared);
    srunner_free(runner);
    ecornn_device_close(device);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
