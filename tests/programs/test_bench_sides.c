/*
 * The measuring loop of "ecornn bench" with simulated opponents: one in the same process, one in a
 * child, one with wrong results, and one that refuses. A CPU stands for a GPU, so that the ways of
 * GPUs run, too.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/gpu_bound.h"
#include "bench/core/program.h"
#include "bench/core/remote.h"
#include "bench/core/report.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

const char program_name[] = "test_bench_sides";

/* ---- opponents ------------------------------------------------------------------------------- */

/* Its results are ecornn's own, computed on another device handle. */
struct echo {
    float *y;
};

static const char *refuses(const struct problem *problem)
{
    return problem->desc.layers > 1 ? "supports one layer" : NULL;
}

static bool prepare(struct side *side)
{
    side->context = calloc(1, sizeof(struct echo));
    snprintf(side->detail, sizeof side->detail, "way %d, comma", (int)side->way);
    side->workspace = 1 << 20;
    return side->context != NULL;
}

static bool run(struct side *side, int repeats)
{
    side->seconds = side->core_seconds = 1.0 / repeats; /* shows how many repeats there were */
    return true;
}

static bool zero_results(struct side *side)
{
    struct echo *echo = side->context;
    echo->y = calloc(side->problem->y_elements, sizeof *echo->y);
    side->y = echo->y;
    return echo->y != NULL;
}

static void destroy(struct side *side)
{
    struct echo *echo = side->context;
    if (echo)
        free(echo->y);
    free(echo);
}

static const struct opponent local = {
    .name = "local", .refuses = refuses, .prepare = prepare, .run = run, .free = destroy};
static const struct opponent wrong = {
    .name = "wrong", .prepare = prepare, .run = run, .results = zero_results, .free = destroy};
static const struct opponent apart = {
    .name = "apart", .prepare = prepare, .run = run, .free = destroy, .where = IN_CHILD};
static const struct opponent *const opponents[] = {&local, &wrong, &apart, NULL};

static double time_queued(const char *device, bool (*queue)(void *self, void *stream), void *self,
                          int repeats)
{
    (void)device;
    for (int k = 0; k < repeats; k++)
        if (!queue(self, NULL))
            return -1;
    return 1e-3;
}
const struct program program = {.opponents = opponents, .time_queued = time_queued};

/* ---- tests ----------------------------------------------------------------------------------- */

struct seen {
    int n;
    enum way ways[MOST_WAYS];
    bool beside[MOST_WAYS];
    char detail[160];
    double total;
};

static void look(void *context, const struct measurement *list, int n)
{
    struct seen *seen = context;
    seen->n = n;
    for (int k = 0; k < n; k++) {
        seen->ways[k] = list[k].way;
        seen->beside[k] = list[k].opponent != NULL;
        ck_assert_int_ge(list[k].rounds, 5);
    }
    strcpy(seen->detail, list[0].side.detail);
    seen->total = list[0].total.median;
}

static bool measured(struct seen *seen, const char *problem, bool gpu,
                     const struct opponent *opponent)
{
    const struct request request = {.problem = problem,
                                    .device = "cpu:1",
                                    .gpu = gpu,
                                    .seconds = 1e-9,
                                    .bounds = !gpu,
                                    .opponent = opponent};
    *seen = (struct seen){.n = 0};
    return measure(&request, look, seen);
}

START_TEST(a_cpu_has_one_way)
{
    struct seen seen;
    ck_assert(measured(&seen, "lstm/train/T3/N2/I4/H8", false, &local));
    ck_assert_int_eq(seen.n, 1);
    ck_assert_int_eq(seen.ways[0], ON_CPU);
    ck_assert(seen.beside[0]);
    ck_assert_str_eq(seen.detail, "way 0, comma");
}
END_TEST

START_TEST(a_gpu_is_timed_eager_by_graph_and_with_packing)
{
    struct seen seen;
    ck_assert(measured(&seen, "lstm/train/T3/N2/I4/H8", true, &local));
    ck_assert_int_eq(seen.n, 3);
    ck_assert_int_eq(seen.ways[0], EAGER);
    ck_assert_int_eq(seen.ways[1], GRAPH);
    ck_assert_int_eq(seen.ways[2], PACKING);
    ck_assert(seen.beside[0] && seen.beside[1] && !seen.beside[2]);
    ck_assert(seen.total == 1e-3);
    ck_assert(measured(&seen, "gru/infer/T3/N2/I4/H8", true, NULL));
    ck_assert_int_eq(seen.n, 2);
}
END_TEST

START_TEST(what_is_refused_is_measured_alone)
{
    struct seen seen;
    ck_assert(!measured(&seen, "lstm/L2/T3/N2/I4/H8", true, &local));
    ck_assert_int_eq(seen.n, 2);
    ck_assert(!seen.beside[0] && !seen.beside[1]);
}
END_TEST

START_TEST(what_differs_is_not_timed)
{
    struct seen seen;
    ck_assert(!measured(&seen, "lstm/T3/N2/I4/H8", false, &wrong));
    ck_assert_int_eq(seen.n, 0);
}
END_TEST

START_TEST(a_child_serves_one_problem_after_the_other)
{
    struct seen seen;
    const struct opponent *remote = remote_start(&apart, NULL);
    ck_assert_ptr_nonnull(remote);
    for (int k = 0; k < 3; k++) {
        ck_assert(measured(&seen, "gru/train/T3/N2/I4/H8/resets:3", true, remote));
        ck_assert_int_eq(seen.n, 3);
        ck_assert_str_eq(seen.detail, "way 1, comma");
        ck_assert(seen.beside[1]);
    }
    ck_assert(!measured(&seen, "nothing/T3", true, remote));
    remote_stop();
}
END_TEST

static void keep_row(void *context, const struct measurement *list, int n)
{
    struct field *fields = context;
    ck_assert_int_eq(n, 1);
    ck_assert_int_lt(report_fields(list, fields), MOST_FIELDS);
}

START_TEST(a_row_has_no_comma)
{
    struct field fields[MOST_FIELDS];
    const struct request request = {
        .problem = "lstm/T3/N2/I4/H8", .device = "cpu:1", .seconds = 1e-9, .opponent = &local};
    ck_assert(measure(&request, keep_row, fields));
    ck_assert_str_eq(fields[0].name, "problem");
    ck_assert_str_eq(fields[0].value, "lstm/T3/N2/I4/H8");
    ck_assert_str_eq(fields[17].name, "versus");
    ck_assert_str_eq(fields[17].value, "local");
    ck_assert_str_eq(fields[18].value, "way 0  comma");
    ck_assert_str_eq(fields[4].value, ""); /* the peak was not measured */
}
END_TEST

/* Many rows are bound by products at the rate of their type, one row by the bytes of the matrices,
 * and a large R is read in each step. */
START_TEST(a_gpu_has_a_bound)
{
    static const struct {
        const char *problem;
        double floor, bound; /* seconds */
    } all[] = {{"lstm/bf16/T1/N512/I512/H512", 2 * 512 * 8 * 512. * 512 / 850e12, 0},
               {"lstm/fast/T1/N512/I512/H512", 2 * 512 * 8 * 512. * 512 / 425e12, 0},
               {"lstm/T1/N1/I256/H256", 2 * 8 * 256. * 256 / (850e12 / 6),
                4 * (8 * 256. * 256 + 4 * 256 + 2 * 256) / 3e12},
               {"gru/f64/T3/N1/I8/H2048", 2 * 3 * 3 * 2048. * 2056 / 57e12,
                8 * (3 * 2048. * 2056 + 6 * 2048 + 3 * (2048 + 8) + 2 * (3 * 2048. * 2048)) / 3e12 -
                    2 * 96e6 / 3e12}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        struct problem problem;
        ecornn_plan *plan;
        ck_assert(problem_parse(&problem, all[k].problem, NULL));
        ecornn_device *const device = device_on("cpu:1");
        check_ok(ecornn_plan_create_desc(&plan, device, &problem.desc));
        ck_assert(problem_fill(&problem, plan, 1));
        const struct bound bound = gpu_bound_of(&problem, plan);
        problem_free(&problem);
        ecornn_plan_free(plan);
        ecornn_device_close(device);
        const double should = all[k].bound > 0 ? all[k].bound : bound.bound;
        ck_assert_double_eq_tol(bound.floor, all[k].floor, 1e-9 * all[k].floor);
        ck_assert_double_eq_tol(bound.bound, should, 1e-3 * should);
        ck_assert_double_ge(bound.bound, bound.floor);
    }
}
END_TEST

/* Not TEST_MAIN, whose variable would hide `program`. */
int main(void)
{
    const struct suite_program suite = {.name = "bench-sides"};
    return suite_run(&suite, SUITE_TESTS({a_cpu_has_one_way, 1},
                                         {a_gpu_is_timed_eager_by_graph_and_with_packing, 1},
                                         {what_is_refused_is_measured_alone, 1},
                                         {what_differs_is_not_timed, 1},
                                         {a_child_serves_one_problem_after_the_other, 1},
                                         {a_row_has_no_comma, 1}, {a_gpu_has_a_bound, 1}));
}
