/*
 * Tuning. Tests the candidates of a table, that the best one becomes wisdom and makes plans, that
 * the plan of wisdom can be measured, that plans with wrong results do not win, wrong calls, and
 * lack of memory. The clock is the test's own (tests/kit/clock.h): every reading of it takes MS.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/choice.h"
#include "common/util.h"
#include "lib/tune.h"
#include "tests/kit/calls.h"
#include "tests/kit/clock.h"
#include "tests/kit/problems.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

enum { MS = 1000000 };

static ecornn_device *device;

static void open_cpu(void)
{
    clock_step = MS;
    ck_assert_int_eq(setenv("ECORNN_WISDOM", "0", 1), 0);
    check_ok(ecornn_device_open(&device, "cpu:2"));
}

static void close_cpu(void)
{
    ecornn_wisdom_forget();
    ecornn_device_close(device);
}

static ecornn_plan *plan_of(const char *problem)
{
    ecornn_desc desc;
    ecornn_plan *plan;
    check_ok(parse_desc(&desc, problem, NULL));
    check_ok(ecornn_plan_create_desc(&plan, device, &desc));
    return plan;
}

static const char *print_of(const char *problem)
{
    static char print[1 << 14];
    ecornn_plan *plan = plan_of(problem);
    ecornn_plan_print(plan, print, sizeof print);
    ecornn_plan_free(plan);
    return print;
}

/* ---- candidates ------------------------------------------------------------------------------ */

enum { TRAINING = ECO_CHOICE_TRAINING };

START_TEST(candidates)
{
    static char texts[ECO_MAX_CANDIDATES][ECO_MAX_FORCE];
    static const struct eco_choice factors = {"cpu", "chunk", "packed", "/4 *2 *1 9", .flags = 0},
                                   added = {"cpu", "cached", NULL, "0 1", .flags = 0},
                                   grids = {"cpu", "grid", "blas packed", "GRIDS", .flags = 0},
                                   alone = {"cpu", "algorithm", NULL, "packed blas", .flags = 0},
                                   back = {"cpu", "chunk-back", NULL, "1", .flags = TRAINING},
                                   other = {"cpu", "chunk", "pack packed-not", "1", .flags = 0},
                                   elsewhere = {"cuda", "chunk", NULL, "1", .flags = 0};
    ck_assert_int_eq(setenv("ECORNN_FORCE", "chunk=8", 1), 0);
    ecornn_plan *plan = plan_of("lstm/T33/N4/I8/H40");
    ck_assert_int_eq(unsetenv("ECORNN_FORCE"), 0);
    ck_assert_int_eq(eco_candidates(&factors, plan, texts), 3); /* *1 is the plan's own choice */
    ck_assert(strstr(texts[0], "algorithm=packed,") == texts[0]);
    ck_assert(strstr(texts[0], ",chunk=2") != NULL && strstr(texts[0], "chunk=8") == NULL);
    ck_assert(strstr(texts[1], ",chunk=16") != NULL && strstr(texts[2], ",chunk=9") != NULL);
    ck_assert_int_eq(eco_candidates(&added, plan, texts), 2);
    ck_assert(strstr(texts[1], ",chunk=8,") != NULL && strstr(texts[1], ",cached=1") != NULL);
    ck_assert_int_eq(eco_candidates(&grids, plan, texts), 3);
    ck_assert(strstr(texts[2], ",grid=1x2x1") != NULL);
    ck_assert_int_eq(eco_candidates(&alone, plan, texts), 1);
    ck_assert_str_eq(texts[0], "algorithm=blas");
    ck_assert(eco_choice_applies(&factors, plan) && eco_choice_applies(&grids, plan));
    ck_assert(!eco_choice_applies(&back, plan) && !eco_choice_applies(&other, plan) &&
              !eco_choice_applies(&elsewhere, plan));
    ecornn_plan_free(plan);
}
END_TEST

/* Row-invariant plans do not take choices that change the order of sums. */
START_TEST(rows_keep_their_bits)
{
    static const char all[] = "algorithm=packed,chunk=7,grid=1x1x1,chunk-back=3,pack-rows=132",
                      kept[] = "algorithm=packed,grid=1x1x1";
    char text[ECO_MAX_FORCE];
    ecornn_plan *plan = plan_of("lstm/train/row-invariant/T33/N4/I8/H40"),
                *free_plan = plan_of("lstm/train/T33/N4/I8/H40");
    int sums = 0;
    for (const struct eco_choice *row = eco_choices; row->key != NULL; row++) {
        const bool changes = (row->flags & ECO_CHOICE_SUMS) != 0;
        ck_assert(!changes || !eco_choice_applies(row, plan));
        sums += changes && eco_choice_applies(row, free_plan);
    }
    ck_assert_int_eq(sums, 3);
    for (int rows = 0; rows < 2; rows++) {
        struct eco_text taken = {text, sizeof text, 0};
        eco_choices_take(&taken, all, device->backend, rows == 1);
        ck_assert_str_eq(text, rows == 1 ? kept : all);
    }
    ecornn_plan_free(plan);
    ecornn_plan_free(free_plan);
}
END_TEST

/* ---- results --------------------------------------------------------------------------------- */

START_TEST(other_results)
{
    double right[] = {1, -2, 3}, near[] = {1, -2, 3.0001}, wrong[] = {1, -2, 3.5},
           none[] = {1, -2, 0.0 / 0.0 * device->caps.threads};
    double *const tried[] = {right, near, wrong, none};
    static const bool good[] = {true, true, false, false};
    char text[128];
    struct eco_tune_bounds bounds;
    ecornn_plan *plan = plan_of("lstm/train/T4/N2/I3/H5");
    check_ok(eco_tune_bounds_find(&bounds, &plan->problem));
    for (int k = 0; k < 4; k++) {
        const struct eco_tune_results a = {{right}, {3}, {ECORNN_F64}},
                                      b = {{tried[k]}, {3}, {ECORNN_F64}};
        const char *words = eco_tune_difference(&a, &b, &bounds, text);
        ck_assert_msg((words == NULL) == good[k], "%d", k);
        ck_assert(good[k] || strstr(words, "other results: y differ by") != NULL);
    }
    ecornn_plan_free(plan);
}
END_TEST

/* A trial is faster only if chance cannot explain the difference, whatever load other programs
 * cause. */
START_TEST(faster_trials)
{
    enum { ROUNDS = 7 };
    static const struct {
        double seconds[ROUNDS], other[ROUNDS], ratio; /* ratio 0: it is not faster */
    } rows[] = {{{1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1}, 0},
                {{.97, .97, .97, .97, .97, .97, .97}, {1, 1, 1, 1, 1, 1, 1}, .97},
                {{.99, .99, .99, .99, .99, .99, .99}, {1, 1, 1, 1, 1, 1, 1}, 0},
                {{.97, 5, .97, .97, 5, .97, .97}, {1, 1, 1, 1, 1, 1, 1}, 0},
                {{.5, 5, .5, .5, 5, .5, .5}, {1, 1, 1, 1, 1, 1, 1}, .5},
                {{1, 5, 1, 1, 5, 1, 1}, {5, 1, 5, 5, 1, 5, 1}, 0}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct eco_trial trial = {.rounds = ROUNDS}, other = {.rounds = ROUNDS};
        double ratio;
        memcpy(trial.seconds, rows[k].seconds, sizeof rows[k].seconds);
        memcpy(other.seconds, rows[k].other, sizeof rows[k].other);
        ck_assert_msg(eco_trial_is_faster(&trial, &other, &ratio) == (rows[k].ratio > 0), "%zu", k);
        ck_assert(rows[k].ratio <= 0 || ratio == rows[k].ratio);
    }
}
END_TEST

/* Bounds of 16-bit types allow as much as the reference rounds. An error of a tenth is wrong. */
START_TEST(bounds_of_narrow_types)
{
    static const struct {
        const char *problem;
        double least, most; /* of y */
    } rows[] = {{"lstm/bf16/train/T100/N4/I40/H64", 0x1p-9, 0.06},
                {"gru/bf16/infer/T8/N4/I40/H64", 0x1p-9, 0.06},
                {"lstm/f16/train/L2/bi/T100/N4/I40/H64", 0x1p-12, 0.01},
                {"lstm/f32/bf16-weights/infer/T30/N4/I40/H64", 0x1p-10, 0.06},
                {"lstm/f32/fast/train/T100/N4/I40/H64", 0x1p-12, 0.01},
                {"lstm/f32/train/T100/N4/I40/H64", 0, 0x1p-12}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct eco_tune_bounds bounds;
        struct eco_problem problem;
        problem_of(&problem, rows[k].problem);
        check_ok(eco_tune_bounds_find(&bounds, &problem));
        ck_assert_msg(bounds.most[0] >= rows[k].least && bounds.most[0] <= rows[k].most,
                      "%s: %g, %g, %g", rows[k].problem, bounds.most[0], bounds.most[1],
                      bounds.most[2]);
        ck_assert_double_le(bounds.most[2], 0.2);
    }
}
END_TEST

/* ---- tuning ---------------------------------------------------------------------------------- */

struct seen {
    int timed, refused;
    double estimate;
    char last[ECO_MAX_FORCE];
};

static void see(void *own, const char *choices, const char *refusal, const double seconds[4])
{
    struct seen *seen = own;
    if (refusal != NULL) {
        seen->refused++;
        return;
    }
    seen->timed++;
    seen->estimate = seconds[3];
    ck_assert(0 < seconds[1] && seconds[1] <= seconds[0] && seconds[0] <= seconds[2]);
    snprintf(seen->last, sizeof seen->last, "%s", choices);
}

static const char *const tuned_problem[] = {
    "lstm/f32/train/T9/N5/I12/H24", "gru/f32/infer/L2/bi/T4/N1/I8/H16",
    "lstm/f64/train/T5/N3/I8/H9/P4", "mgu/bf16/train/T6/N17/I8/H16/save:states",
    "lstm/bf16/train/T2/N2/I4/H48/heads:3"};
enum { TUNED = sizeof tuned_problem / sizeof *tuned_problem };

static void know(const char *name, const char *choices)
{
    struct eco_problem problem;
    problem_of(&problem, name);
    check_ok(eco_wisdom_learn(device, &problem, choices, 1e-6, 1e-8));
}

/* Tunes with so little time that only the required candidates are measured. */
static ecornn_tuning measure(const char *problem, bool wisdom)
{
    ecornn_desc desc;
    ecornn_tuning tuned;
    const ecornn_tuning tuning = {
        .size = sizeof tuning, .limit_seconds = 1e-3, .forget = 1, .wisdom = wisdom};
    check_ok(parse_desc(&desc, problem, NULL));
    check_ok(tune_into(device, &desc, &tuning, &tuned));
    return tuned;
}

START_TEST(becomes_wisdom)
{
    char line[400];
    struct seen seen = {0};
    ecornn_desc desc;
    ecornn_tuning tuned;
    const ecornn_tuning tuning = {
        .size = sizeof tuning, .limit_seconds = 3, .report = see, .own = &seen};
    check_ok(parse_desc(&desc, tuned_problem[_i], NULL));
    check_ok(tune_into(device, &desc, &tuning, &tuned));
    ck_assert_int_gt(tuned.candidates, 0);
    ck_assert_int_eq(tuned.wrong, 0);
    ck_assert_int_eq(tuned.refused, seen.refused);
    ck_assert_str_eq(ecornn_error_detail(), ""); /* the caller sees no error */
    ck_assert_int_ge(seen.timed, tuned.candidates);
    ck_assert(tuned.regret >= 0 && tuned.planned_seconds > 0 && tuned.best_seconds > 0);
    const char *print = print_of(tuned_problem[_i]);
    snprintf(line, sizeof line, "\nECORNN_FORCE=%s\n", tuned.best);
    ck_assert_msg(strstr(print, line) != NULL, "%s: %s", tuned.best, print);
    snprintf(line, sizeof line, "\nwisdom: %s, ", tuned_problem[_i]);
    ck_assert_msg(strstr(print, line) != NULL, "%s", print);
    const ecornn_tuning again = measure(tuned_problem[_i], true);
    ck_assert_int_eq(again.by_wisdom, 1);
    ck_assert_str_eq(again.planned, tuned.best);
}
END_TEST

/* However short the time is, three candidates are measured and the result is not complete, or all
 * are measured. */
START_TEST(measures_three_in_no_time)
{
    static const char *const problem[] = {"lstm/f32/train/T40/N64/I64/H64",
                                          "gru/f32/infer/T3/N200/I40/H72",
                                          "lstm/bf16/infer/L2/T2/N33/I16/H32"};
    struct seen seen = {0};
    ecornn_desc desc;
    ecornn_tuning tuned;
    const ecornn_tuning tuning = {
        .size = sizeof tuning, .limit_seconds = 1e-9, .forget = 1, .report = see, .own = &seen};
    check_ok(parse_desc(&desc, problem[_i], NULL));
    check_ok(tune_into(device, &desc, &tuning, &tuned));
    ck_assert_int_eq(tuned.candidates, 3);
    ck_assert_int_ge(seen.timed, 4); /* with the starting plan */
    ck_assert_int_eq(tuned.measured, 1);
    ck_assert_int_eq(tuned.complete, 0);
    ck_assert_double_gt(seen.estimate, 0);
}
END_TEST

static ecornn_tuning tune_by(const struct eco_choice *choices, const char *name)
{
    static const ecornn_tuning tuning = {.size = sizeof tuning, .limit_seconds = 1e-3, .forget = 1};
    ecornn_tuning tuned = {0};
    struct eco_problem problem;
    problem_of(&problem, name);
    check_ok(eco_tune(device, &problem, choices, &tuning, &tuned));
    return tuned;
}

/* If there are no other plans, nothing is compared. If there are only two, both are measured. */
START_TEST(says_what_was_not_measured)
{
    static const struct eco_choice none[] = {{.key = NULL}},
                                   two[] = {{"cpu", "chunk", NULL, "1 3", .flags = 0},
                                            {.key = NULL}};
    for (int k = 0; k < 2; k++) {
        const ecornn_tuning tuned = tune_by(k == 0 ? none : two, "lstm/f32/infer/T9/N5/I12/H24");
        const bool own = /* the planner may have one of the two */
            strstr(tuned.planned, "chunk=1,") || strstr(tuned.planned, "chunk=3,");
        ck_assert_int_eq(tuned.candidates, k == 0 ? 0 : 2 - own);
        ck_assert_int_eq(tuned.measured, k);
        ck_assert_int_eq(tuned.complete, 1);
        ck_assert_int_eq(ecornn_wisdom_to_text(NULL, 0), strlen("ecornn-wisdom 1\n"));
    }
}
END_TEST

static ecornn_status run_nothing(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                 const struct eco_layout *layout, const struct eco_args *args)
{
    (void)plan, (void)tape, (void)layout, (void)args;
    return ECORNN_OK;
}

/* A plan that writes nothing is the fastest, and must not pass with the results of another. */
START_TEST(nothing_is_a_wrong_result)
{
    static const struct eco_choice choices[] = {
        {"cpu", "algorithm", NULL, "packed nothing", .flags = 0}, {.key = NULL}};
    const struct eco_backend *const own = device->backend;
    struct eco_backend backend = *own;
    struct eco_algo nothing = *own->algos[0];
    const struct eco_algo *const algos[] = {own->algos[0], &nothing, NULL};
    ck_assert_str_eq(nothing.name, "packed");
    nothing.name = "nothing";
    nothing.run = run_nothing;
    backend.algos = algos;
    device->backend = &backend;
    const ecornn_tuning tuned =
        tune_by(choices, _i == 0 ? "lstm/f32/infer/T9/N5/I12/H24" : "lstm/f32/train/T9/N5/I12/H24");
    device->backend = own;
    ck_assert_int_eq(tuned.wrong, 1);
    ck_assert_str_eq(tuned.best, tuned.planned);
}
END_TEST

/* Large results are compared in pieces, which include the first and the last element. */
START_TEST(fetches_pieces)
{
    enum { ALL = 5000011 };
    float *const y = malloc(ALL * sizeof *y);
    const struct eco_problem problem = {.type = ECORNN_F32, .param_type = ECORNN_F32};
    const struct eco_tune_data data = {
        .device = device, .problem = &problem, .y = y, .y_elements = ALL};
    struct eco_tune_results results;
    ck_assert_ptr_nonnull(y);
    for (int i = 0; i < ALL; i++)
        y[i] = (float)i;
    check_ok(eco_tune_results_fetch(&results, &data));
    const float *const got = results.value[0];
    const size_t n = results.count[0];
    ck_assert_uint_lt(n, ALL);
    ck_assert(got[0] <= 0 && got[n - 1] >= ALL - 1);
    for (size_t i = 1; i < n; i++)
        ck_assert_float_gt(got[i], got[i - 1]);
    eco_tune_results_free(&results);
    free(y);
}
END_TEST

/* ---- with wisdom ----------------------------------------------------------------------------- */

#define LSTM "lstm/f32/infer/T20/N20/I64/H64"

/* Tuning measures the plan that a program gets. */
static const struct {
    const char *problem, *choices, *chosen; /* chosen NULL: the plan ignores the choices */
} known[] = {{LSTM, "algorithm=packed,chunk=7", ",chunk=7,"},
             {"lstm/f32/infer/T24/N19/I64/H64", "algorithm=packed,chunk=9", ",chunk=9,"},
             {"lstm/f32/infer/T20/N32/I64/H64", "algorithm=packed,chunk=9", NULL},
             {LSTM, "algorithm=packed,vectors=9", NULL},
             {LSTM, "algorithm=none", NULL}};
enum { KNOWN = sizeof known / sizeof *known };

START_TEST(measures_what_wisdom_chose)
{
    char line[400];
    const ecornn_tuning without = measure(LSTM, true);
    ck_assert_int_eq(without.by_wisdom, 0);
    know(known[_i].problem, known[_i].choices);
    const ecornn_tuning with = measure(LSTM, true), planner = measure(LSTM, false);
    const char *print = print_of(LSTM);
    snprintf(line, sizeof line, "\nECORNN_FORCE=%s\n", with.planned);
    ck_assert_msg(strstr(print, line) != NULL, "%s: %s", with.planned, print);
    ck_assert_int_eq(with.by_wisdom, known[_i].chosen != NULL);
    ck_assert_int_ge(with.candidates, 3); /* the planner's own is the first */
    if (known[_i].chosen != NULL)
        ck_assert_ptr_nonnull(strstr(with.planned, known[_i].chosen));
    ck_assert(strcmp(with.planned, with.best) != 0 || with.regret <= 0);
    ck_assert_int_eq(planner.by_wisdom, 0);
    ck_assert_str_eq(planner.planned, without.planned);
}
END_TEST

static const struct eco_algo *packed;
static bool slow_if_planned; /* otherwise: one row at a time */
static int64_t usual_time;   /* of a run, besides that of reading the clock */

static ecornn_status run_slowly(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                const struct eco_layout *layout, const struct eco_args *args)
{
    const bool rows = eco_forced(&plan->problem, ECO_FORCE_BLOCK, 0) == 1;
    clock_now += usual_time + ((slow_if_planned ? plan->problem.force.keys == 0 : rows) ? MS : 0);
    return packed->run(plan, tape, layout, args);
}

/* Opens a device on which some plans take twice as long. Runs of one thread do not read the clock.
 */
static void open_slow(bool if_planned)
{
    static struct eco_backend backend;
    static struct eco_algo slow;
    static const struct eco_algo *const algos[] = {&slow, NULL};
    ecornn_device_close(device);
    check_ok(ecornn_device_open(&device, "cpu:1"));
    backend = *device->backend;
    packed = backend.algos[0];
    slow = *packed;
    ck_assert_str_eq(slow.name, "packed");
    slow_if_planned = if_planned;
    slow.run = run_slowly;
    backend.algos = algos;
    device->backend = &backend;
}

/* Wisdom has a choice that takes twice as long. */
START_TEST(wrong_wisdom_has_regret)
{
    open_slow(false);
    know(LSTM, "algorithm=packed,block=1");
    const ecornn_tuning tuned = measure(LSTM, true);
    ck_assert_ptr_nonnull(strstr(tuned.planned, ",block=1"));
    ck_assert_ptr_null(strstr(tuned.best, ",block=1"));
    ck_assert_double_eq_tol(tuned.regret, 1, 1e-6);
    ck_assert_double_eq_tol(tuned.best_seconds, 1e-3, 1e-9);
    ck_assert_double_eq_tol(tuned.planned_seconds, 2e-3, 1e-9);
}
END_TEST

/* ---- measuring ------------------------------------------------------------------------------- */

static const char *word_of(const char *print, const char *word)
{
    const char *at = strstr(print, word);
    ck_assert_msg(at != NULL, "no %s: %s", word, print);
    return at + strlen(word);
}

/* The winner is wisdom of its bucket; a row-invariant plan keeps what has bits. */
START_TEST(plans_are_measured)
{
    static const char *const kind[] = {"lstm", "lstm/row-invariant/train", "lstm/models:2"};
    char plain[80], measured[100];
    int plans;
    open_slow(true);
    snprintf(plain, sizeof plain, "%s/T20/N20/I64/H64", kind[_i]);
    snprintf(measured, sizeof measured, "%s/measure:0.2", plain);
    const long chunk = strtol(word_of(print_of(plain), ",chunk="), NULL, 10);
    const char *print = print_of(measured);
    ck_assert_int_eq(sscanf(word_of(print, "; measured "), "%d plans in", &plans), 1);
    ck_assert_int_eq(plans, 5);
    word_of(print, ", by wisdom of");
    ck_assert(_i != 1 || strtol(word_of(print, ",chunk="), NULL, 10) == chunk);
    const int64_t before = clock_now;
    strstr(measured, "T20")[2] = '4';
    ck_assert_ptr_null(strstr(print_of(measured), "measured "));
    ck_assert_int_eq(clock_now, before);
}
END_TEST

/* Measuring keeps any limit, except that it finds out how long a run takes: here 2 ms. */
START_TEST(measuring_keeps_the_limit)
{
    char problem[80];
    int measured = 0;
    open_slow(true);
    usual_time = MS;
    clock_step = MS / 100;
    for (int limit = 1; limit < 150; limit += 7) {
        snprintf(problem, sizeof problem, "lstm/T20/N20/I64/H64/measure:0.%03d", limit);
        const int64_t before = clock_now;
        measured += strstr(print_of(problem), "; measured ") != NULL;
        ck_assert_int_le(clock_now - before, (limit < 10 ? 10 : limit) * MS + MS / 10);
        ecornn_wisdom_forget();
    }
    ck_assert_int_gt(measured, 10);
}
END_TEST

/* Without memory, in too little time, and where choices are fixed, plans are as usual. */
START_TEST(plans_that_are_not_measured)
{
    static const struct {
        const char *problem, *why;
    } rows[] = {{"lstm/T20/N20/I64/H64/measure:0.0001", "12 runs take about"},
                {"lstm/T2/N2/I6/H6/measure:0.003", "3 ms are too few for a second plan"},
                {"lstm/T2/N2/I6/H6/memory:9M/measure", "there is a memory_limit"},
                {"lstm/T2/N2/I6/H6/models:2/measure", "it runs next to others"},
                {"lstm/T2/N2/I6/H6/measure", "the environment makes the choices"}};
    enum { ROWS = sizeof rows / sizeof *rows };
    for (int k = 0; k < ROWS; k++) {
        char text[64], why[64];
        if (k == ROWS - 1)
            ck_assert_int_eq(setenv("ECORNN_FORCE", "chunk=2", 1), 0);
        snprintf(why, sizeof why, "wisdom: not measured: %s", rows[k].why);
        word_of(print_of(rows[k].problem), why);
        ecornn_wisdom_to_text(text, sizeof text);
        ck_assert_str_eq(text, "ecornn-wisdom 1\n");
    }
    ck_assert_int_eq(unsetenv("ECORNN_FORCE"), 0);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

START_TEST(wrong_calls)
{
    ecornn_desc desc;
    ecornn_tuning tuned;
    const ecornn_tuning size = {.size = 1}, seconds = {.size = sizeof seconds, .limit_seconds = -1};
    check_ok(parse_desc(&desc, tuned_problem[0], NULL));
    ck_assert_int_eq(tune_into(NULL, &desc, NULL, &tuned), ECORNN_BAD_ARGUMENT);
    ck_assert_int_eq(tune_into(device, NULL, NULL, &tuned), ECORNN_BAD_ARGUMENT);
    ck_assert_int_eq(tune_into(device, &desc, &size, &tuned), ECORNN_BAD_ARGUMENT);
    ck_assert_int_eq(tune_into(device, &desc, &seconds, &tuned), ECORNN_BAD_ARGUMENT);
    ck_assert_int_eq(setenv("ECORNN_FORCE", "chunk=2", 1), 0);
    check_refused(tune_into(device, &desc, NULL, &tuned), ECORNN_BAD_ARGUMENT,
                  "unset ECORNN_FORCE before tuning");
    ck_assert_int_eq(unsetenv("ECORNN_FORCE"), 0);
    ecornn_desc limited = desc;
    limited.memory_limit = 123456789;
    check_refused(tune_into(device, &limited, NULL, &tuned), ECORNN_UNSUPPORTED,
                  "memory_limit is 123456789, must be 0");
    ecornn_device *const reference = device_on("reference");
    ck_assert_int_eq(tune_into(reference, &desc, NULL, &tuned), ECORNN_UNSUPPORTED);
    ecornn_device_close(reference);
    desc.steps = 0;
    ck_assert_int_eq(tune_into(device, &desc, NULL, &tuned), ECORNN_BAD_ARGUMENT);
    desc.steps = 2, desc.type = ECORNN_F16, desc.param_type = ECORNN_F32;
    ck_assert_int_eq(tune_into(device, &desc, NULL, &tuned), ECORNN_UNSUPPORTED);
}
END_TEST

/* Without memory, tuning fails or leaves out a candidate. Nothing leaks (AddressSanitizer would
 * report it). */
START_TEST(no_memory)
{
    ecornn_desc desc;
    ecornn_tuning tuned;
    const ecornn_tuning tuning = {.size = sizeof tuning, .limit_seconds = 0.005, .wisdom = 1};
    check_ok(parse_desc(&desc, "lstm/train/T2/N1/I2/H2", NULL));
    know("lstm/f32/train/T2/N1/I2/H2", "algorithm=packed,chunk=1");
    int failed = 0;
    for (int k = 1; k < 40; k++) {
        eco_alloc_fail_at(k);
        const ecornn_status status = tune_into(device, &desc, &tuning, &tuned);
        ecornn_plan *plan = NULL;
        eco_alloc_fail_at(k);
        const ecornn_status planned =
            ecornn_plan_create(&plan, device, "gru/T2/N1/I2/H2/measure", NULL);
        eco_alloc_fail_at(0);
        ecornn_plan_free(plan);
        ck_assert(planned == ECORNN_OK || planned == ECORNN_NO_MEMORY);
        ck_assert(status == ECORNN_OK || status == ECORNN_NO_MEMORY);
        failed += status != ECORNN_OK;
    }
    ck_assert_int_gt(failed, 15);
}
END_TEST

TEST_MAIN_AROUND("tune", open_cpu, close_cpu, {candidates, 1}, {rows_keep_their_bits, 1},
                 {other_results, 1}, {faster_trials, 1}, {bounds_of_narrow_types, 1},
                 {becomes_wisdom, TUNED}, {measures_three_in_no_time, 3},
                 {says_what_was_not_measured, 1}, {nothing_is_a_wrong_result, 2},
                 {fetches_pieces, 1}, {measures_what_wisdom_chose, KNOWN},
                 {wrong_wisdom_has_regret, 1}, {plans_are_measured, 3},
                 {measuring_keeps_the_limit, 1}, {plans_that_are_not_measured, 1}, {wrong_calls, 1},
                 {no_memory, 1})
