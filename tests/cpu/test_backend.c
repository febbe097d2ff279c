/*
 * Runs every case of the sweep, and every cell from text, on the CPU backend and compares it
 * with the reference, forward and backward. It uses each algorithm and each instruction set of this
 * machine, with one thread and with several.
 *
 *     test_backend [CASE]       that case only
 *     ECORNN_ISA=NAME           that instruction set only
 *     ECORNN_ALGORITHM=NAME     that algorithm only
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "cpu/isa/isa.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const char *only; /* the argument */

static const char *const sets[] = {"plain",   "sse2",   "neon",       "neondot",    "avx2",
                                   "avxvnni", "avx512", "avx512vnni", "avx512bf16", "amx"};
enum { SETS = sizeof sets / sizeof *sets };

/* Opens a device with this instruction set; false: the machine lacks it, or the user chose another.
 */
static bool open_set(ecornn_device **device, const char *name, const char *set)
{
    const char *cap = getenv("ECORNN_ISA");
    char saved[32] = "";
    if (cap && strcmp(cap, set) != 0)
        return false;
    snprintf(saved, sizeof saved, "%s", cap ? cap : "");
    setenv("ECORNN_ISA", set, 1);
    ck_assert_msg(ecornn_device_open(device, name) == ECORNN_OK, "%s: %s", name,
                  ecornn_error_detail());
    if (cap)
        setenv("ECORNN_ISA", saved, 1);
    else
        unsetenv("ECORNN_ISA");
    ecornn_device_info info;
    check_ok(query_device(*device, &info));
    if (strcmp(info.variant, set) == 0)
        return true;
    ecornn_device_close(*device);
    return false;
}

/* Numbers of threads, and the grid in which they share steps; "": the planner chooses. */
static const struct {
    const char *device, *grid;
} team[] = {{"cpu:2", ""},       {"cpu:2", "1x1x2"}, {"cpu:3", "1x3x1"}, {"cpu:5", "2x1x2"},
            {"cpu:16", "1x2x8"}, {"cpu:2", "2x1x1"}, {"cpu:7", "2x3x1"}, {"cpu:16", ""}};
enum { TEAMS = sizeof team / sizeof *team };

static unsigned hash_of(const struct test_case *test)
{
    unsigned hash = 0;
    for (const char *c = test->text; *c; c++)
        hash = 31 * hash + (unsigned char)*c;
    return hash;
}

/* Each case has one team; over all cases every team occurs. */
static int team_of(const struct test_case *test)
{
    return (int)(hash_of(test) % TEAMS);
}

/* Checks one algorithm of one instruction set: results are right, and the bits are the same with
 * more threads and in a second backward run. */
static bool devices_agree(const struct test_case *test, const struct machine machine[2],
                          const char *name, const struct data *inputs, const struct data *expected)
{
    struct data alone = {0}, both = {0};
    char who[96];
    ecornn_device_info info;
    query_device(machine[0].device, &info);
    snprintf(who, sizeof who, "%s with %s against the reference", name, info.variant);
    bool ok =
        case_run(test, &machine[0], inputs, &alone) && results_agree(test, who, expected, &alone);
    snprintf(who, sizeof who, "%s with %s, %s in grid %s against one thread", name, info.variant,
             team[team_of(test)].device, team[team_of(test)].grid);
    ok = ok && case_run(test, &machine[1], inputs, &both) && results_same(test, who, &alone, &both);
    data_free(&alone);
    data_free(&both);
    return ok;
}

/* Has the set no kernels of its own for the case's numbers? */
static bool repeats(const struct test_case *test, const char *set)
{
    const bool int8 = (test->desc.flags & ECORNN_INT8) != 0, bf16 = test->desc.type == ECORNN_BF16;
    const bool weights = test->desc.weight_type == ECORNN_BF16; /* in BF16 */
    if (strcmp(set, "avx512vnni") == 0 || strcmp(set, "avxvnni") == 0 ||
        strcmp(set, "neondot") == 0)
        return !int8;
    if (strcmp(set, "avx512bf16") == 0)
        return !bf16;
    return strcmp(set, "amx") == 0 && !int8 && !bf16 && !weights;
}

static bool set_agrees(const struct test_case *test, const char *set, const struct data *inputs,
                       const struct data *expected, int *ran)
{
    struct machine machine[2] = {{.type = test->desc.type, .backwards = 1},
                                 {.type = test->desc.type, .backwards = 2}};
    if (repeats(test, set))
        return true;
    if (!open_set(&machine[0].device, "cpu:1", set))
        return true;
    setenv("ECORNN_GRID", team[team_of(test)].grid, 1);
    ck_assert(open_set(&machine[1].device, team[team_of(test)].device, set));
    unsetenv("ECORNN_GRID");
    bool ok = true;
    const char *name;
    for (int k = 0; ok && k < algorithm_count(&eco_backend_cpu); k++)
        if (algorithm_take(&eco_backend_cpu, k, &name) &&
            algorithm_runs(machine[0].device, k, test)) {
            ok = devices_agree(test, machine, name, inputs, expected);
            ++*ran;
        }
    ecornn_device_close(machine[0].device);
    ecornn_device_close(machine[1].device);
    return ok;
}

/* Did the user ask for one algorithm or set only? Then a case that it does not support is no
 * failure. */
static bool restricted;

/* A case runs with the best set of this machine and with a fifth of the others, in tests_all() with
 * all. */
static bool is_left_out(const struct test_case *test, int set, int ran)
{
    return !only && !restricted && !tests_all() && ran > 0 &&
           hash_of(test) / TEAMS % 5 != (unsigned)set % 5;
}

static bool all_sets_agree(const struct test_case *test, const struct data *inputs,
                           const struct data *expected)
{
    int ran = 0;
    bool ok = true;
    for (int k = SETS - 1; ok && k >= 0; k--)
        ok = is_left_out(test, k, ran) || set_agrees(test, sets[k], inputs, expected, &ran);
    if (ok && ran == 0 && !restricted)
        fprintf(stderr, "%s: no algorithm ran it\n", test->text);
    return ok && (ran > 0 || restricted);
}

START_TEST(agrees_with_reference)
{
    char text[CASE_TEXT];
    sweep_text(only, _i, text);
    ck_assert_msg(case_agrees(text, false, all_sets_agree), "%s", text);
}
END_TEST

/* ---- cells of users -------------------------------------------------------------------------- */

/* A case of a cell from text runs with every sixth or every second set; over all cases every set
 * occurs. */
static bool some_sets_agree(const struct test_case *test, const struct data *inputs,
                            const struct data *expected)
{
    const int next = tests_all() ? 2 : 6;
    int ran = 0;
    bool ok = true;
    for (int k = (int)(hash_of(test) % (unsigned)next); ok && k < SETS; k += next)
        ok = set_agrees(test, sets[k], inputs, expected, &ran);
    return ok && (ran > 0 || all_sets_agree(test, inputs, expected));
}

START_TEST(agrees_for_own_cells)
{
    char text[CASE_TEXT];
    sweep_own_text(_i, text);
    ck_assert_msg(case_agrees(text, false, some_sets_agree), "%s", text);
}
END_TEST

/* Compares the planned form, and spans of steps where the planner would not choose them. */
static bool forms_agree(const struct test_case *test, const struct data *inputs,
                        const struct data *expected)
{
    enum { LEAST = 8 }; /* steps of a span */
    const bool spans = test->desc.steps >= LEAST && test->desc.cell->rule.other < 0 &&
                       strstr(test->text, "/row-invariant") == NULL;
    bool ok = some_sets_agree(test, inputs, expected);
    if (!ok || !spans)
        return ok;
    setenv("ECORNN_FORCE", "products=1", 1);
    ok = some_sets_agree(test, inputs, expected);
    unsetenv("ECORNN_FORCE");
    return ok;
}

START_TEST(agrees_for_matrix_states)
{
    char text[CASE_TEXT];
    sweep_matrix_text(_i, text);
    ck_assert_msg(case_agrees(text, false, forms_agree), "%s", text);
}
END_TEST

/* The interpreter gives the bits of the compiled cell. */
START_TEST(interprets_the_same_bits)
{
    static const char *const rest[] = {"f32/train/L2/bi/T5/N3/I4/H19/states/lengths:random",
                                       "bf16/train/L2/bi/T5/N5/I4/H37/states/lengths:random"};
    struct machine machine = {.type = _i % 2 ? ECORNN_BF16 : ECORNN_F32, .backwards = 1};
    int all = 0;
    for (int k = 0; k < SETS; k++)
        if (open_set(&machine.device, "cpu:1", sets[k])) {
            const int ran = interpreted_same(cell_name(_i / 2), rest[_i % 2], &machine);
            ck_assert_msg(ran >= 0, "%s: %s", sets[k], cell_name(_i / 2));
            all += ran;
            ecornn_device_close(machine.device);
        }
    ck_assert(all > 0 || restricted);
}
END_TEST

/* ---- what stages hand on --------------------------------------------------------------------- */

/* They cover rows that end one by one, strips of panels, and all types. */
static const char *const carried[] = {"f32/train/T2/N11/I4/H37/states/lengths:random",
                                      "bf16/train/T2/N9/I4/H51/states/resets:30",
                                      "f64/train/T1/N3/I2/H291/states"};
enum { CARRIED = sizeof carried / sizeof *carried };

/* A set gives the same bits whether stages carry values to later ones or each stage computes all
 * that it needs. */
static void carries_the_same(const struct test_case *test, const char *set,
                             const struct data *inputs)
{
    struct machine machine = {.type = test->desc.type, .backwards = 1};
    struct data results[2] = {{0}};
    for (int k = 0; k < 2; k++) {
        setenv("ECORNN_FORCE", k ? "carried=1" : "carried=0", 1);
        if (open_set(&machine.device, "cpu:1", set)) {
            ck_assert(case_run(test, &machine, inputs, &results[k]));
            ecornn_device_close(machine.device);
        }
    }
    unsetenv("ECORNN_FORCE");
    ck_assert(results[0].n == results[1].n);
    ck_assert(results[0].n == 0 || results_same(test, set, &results[0], &results[1]));
    data_free(&results[0]);
    data_free(&results[1]);
}

START_TEST(carries_the_same_bits)
{
    char name[64], text[CASE_TEXT];
    struct test_case test;
    struct data inputs = {0};
    ck_assert(sweep_own_cell(_i / CARRIED, name));
    snprintf(text, sizeof text, "%s/%s", name, carried[_i % CARRIED]);
    if (!case_parse(&test, text))
        ck_abort_msg("%s", text);
    const int *columns = test.desc.cell->lowered.n_columns;
    case_inputs(&test, &inputs);
    unsetenv("ECORNN_ALGORITHM");
    for (int k = 0; k < SETS && columns[0] + columns[1] > 0; k++)
        carries_the_same(&test, sets[k], &inputs);
    data_free(&inputs);
    case_free(&test);
}
END_TEST

static const char *const types[] = {"f32/train", "bf16/train", "f32/bf16-weights/train", "f32/int8",
                                    "f32/int8-weights"};
enum { TYPES = sizeof types / sizeof *types };

/* Algorithm packed computes each number as one chain of multiply-adds. All sets with a fused
 * multiply-add give the same bits, and so do all sets without. Dot products of BF16 and tiles are
 * excepted, because each adds in its own order. */
START_TEST(sets_of_a_kind_give_the_same_bits)
{
    char text[CASE_TEXT];
    struct test_case test;
    struct data inputs = {0}, results[2] = {{0}}, again = {0};
    int packed = 0;
    const char *name = "";
    while (packed < algorithm_count(&eco_backend_cpu) &&
           strcmp(eco_backend_cpu.algos[packed]->name, "packed") != 0)
        packed++;
    snprintf(text, sizeof text, "%s/%s/L2/bi/T9/N7/I5/H37/states/lengths:random",
             cell_name(_i / TYPES), types[_i % TYPES]);
    ck_assert(case_parse(&test, text));
    case_inputs(&test, &inputs);
    const struct eco_isa *isa;
    for (int k = 0; algorithm_take(&eco_backend_cpu, packed, &name) && (isa = eco_isa_supported(k));
         k++) {
        struct machine machine = {.type = test.desc.type, .backwards = 1};
        struct data *first = &results[isa->fused];
        const bool dots = (isa->dot || isa->amx) && test.desc.type == ECORNN_BF16;
        const bool tiles = isa->amx && test.desc.weight_type == ECORNN_BF16;
        if (dots || tiles || !open_set(&machine.device, "cpu:2", isa->name))
            continue;
        ck_assert(case_run(&test, &machine, &inputs, first->n ? &again : first));
        ck_assert(!again.n || results_same(&test, isa->name, first, &again));
        data_free(&again);
        ecornn_device_close(machine.device);
    }
    data_free(&results[0]);
    data_free(&results[1]);
    data_free(&inputs);
}
END_TEST

/* ---- rows ------------------------------------------------------------------------------------ */

enum { ROWS = 6, BAD_ROW = 2 };

/* Every element of the array [*,ROWS,*] outside the bad row must have the same bits. */
static void check_other_rows(const char *set, const struct data *clean, const struct data *poisoned,
                             const char *name)
{
    const struct array *a = data_find(clean, name), *b = data_find(poisoned, name);
    for (size_t i = 0; i < a->count; i++)
        if (i / (size_t)a->extent[2] % ROWS != BAD_ROW)
            ck_assert_msg(memcmp(&a->value[i], &b->value[i], sizeof(double)) == 0,
                          "%s: %s[%zu] is %.9g, without the NaN %.9g", set, name, i, b->value[i],
                          a->value[i]);
}

/* A NaN in the input of one row stays in that row. */
START_TEST(keeps_rows_independent)
{
    char text[CASE_TEXT];
    struct test_case test;
    struct data inputs = {0}, clean = {0}, poisoned = {0};
    struct machine machine = {.backwards = 1};
    const char *name_of_algorithm;
    const int algorithm = _i / SETS / TYPES;
    snprintf(text, sizeof text, "lstm/%s/L2/bi/T5/N6/I4/H19/states", types[_i / SETS % TYPES]);
    ck_assert(case_parse(&test, text));
    machine.type = test.desc.type;
    if (!algorithm_take(&eco_backend_cpu, algorithm, &name_of_algorithm) ||
        !open_set(&machine.device, "cpu:2", sets[_i % SETS]))
        return;
    if (!algorithm_runs(machine.device, algorithm, &test)) {
        ecornn_device_close(machine.device);
        return;
    }
    case_inputs(&test, &inputs);
    ck_assert(case_run(&test, &machine, &inputs, &clean));
    struct array *x = data_find(&inputs, "x");
    x->value[(2 * ROWS + BAD_ROW) * x->extent[2]] = NAN;
    ck_assert(case_run(&test, &machine, &inputs, &poisoned));
    static const char *const name[] = {"y", "final0", "final1", "dx", "dinitial0", "dinitial1"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (data_find(&clean, name[i])) /* inference has no gradients */
            check_other_rows(sets[_i % SETS], &clean, &poisoned, name[i]);
    const struct array *y = data_find(&poisoned, "y"); /* [5,6,38] */
    ck_assert(isnan(y->value[(2 * ROWS + BAD_ROW) * y->extent[2]]));
    data_free(&inputs);
    data_free(&clean);
    data_free(&poisoned);
    ecornn_device_close(machine.device);
}
END_TEST

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "backend"};
    only = argc > 1 ? argv[1] : getenv("ECORNN_CASE");
    restricted = getenv("ECORNN_ALGORITHM") || getenv("ECORNN_ISA");
    const int all = only == NULL, own = all ? sweep_own_count() : 0;
    const int carried_tests = getenv("ECORNN_ALGORITHM") ? 0 : CARRIED * sweep_own_cells();
    const int status = suite_run(
        &program,
        SUITE_TESTS(
            {agrees_with_reference, sweep_count(only)}, {agrees_for_own_cells, own},
            {agrees_for_matrix_states, all * sweep_matrix_count()},
            {carries_the_same_bits, all * carried_tests},
            {interprets_the_same_bits, all * 2 * builtin_count()},
            {sets_of_a_kind_give_the_same_bits, all * TYPES * builtin_count()},
            {keeps_rows_independent, all * SETS * TYPES * algorithm_count(&eco_backend_cpu)}));
    printf("# cases: %d\n", sweep_count(only) + own); /* a comment for readers of TAP */
    return status;
}
