/*
 * Runs every kernel of every table of every instruction set of this machine, forward and backward,
 * with odd sizes, and compares the results with the reference. Also tries every choice that
 * ECORNN_FORCE takes from the planner. Counting kernels wrap those of the device; at the end the
 * test prints "n of all" for each table.
 *
 *     CHECK_BEST_SET=1          the best set only
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/isa/isa.h"
#include "tests/kit/calls.h"
#include "tests/kit/counting.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static struct kernel_table table[8]; /* one for each set, by its index in set_number */

/* ---- runs ------------------------------------------------------------------------------------ */

/* The set with this index, without sets whose tiles the system refuses. */
static const struct eco_isa *set_number(int index)
{
    const struct eco_isa *isa;
    if (index > 0 && getenv("CHECK_BEST_SET"))
        return NULL;
    for (int k = 0; (isa = eco_isa_supported(k)) != NULL; k++)
        if (eco_isa_with_tiles(isa) == isa && index-- == 0)
            return isa;
    return NULL;
}

/* The devices and grids with which each set runs a case; grid "": the planner chooses. */
static struct {
    const char *force, *algorithm, *grid, *device;
    bool small; /* the CBLAS multiplies small matrices without packing */
} way;

static bool set_agrees(const struct test_case *test, const struct data *inputs,
                       const struct data *expected, int set)
{
    struct machine machine = {.type = test->desc.type, .backwards = 1};
    struct data results = {0};
    char who[160];
    const struct eco_isa *real = set_number(set);
    setenv("ECORNN_ISA", real->name, 1);
    setenv("ECORNN_GRID", way.grid, 1);
    setenv("ECORNN_FORCE", way.force, 1);
    setenv("ECORNN_ALGORITHM", way.algorithm, 1);
    check_ok(ecornn_device_open(&machine.device, way.device));
    struct eco_cpu *cpu = machine.device->context;
    cpu->isa = counting_set(real, &table[set]);
    cpu->small_products = way.small;
    snprintf(who, sizeof who, "%s, %s in grid \"%s\", %s", real->name, way.device, way.grid,
             way.force);
    const bool ok =
        case_run(test, &machine, inputs, &results) && results_agree(test, who, expected, &results);
    data_free(&results);
    ecornn_device_close(machine.device);
    return ok;
}

static bool sets_agree(const struct test_case *test, const struct data *inputs,
                       const struct data *expected)
{
    bool ok = true;
    for (int set = 0; ok && set_number(set); set++)
        ok = set_agrees(test, inputs, expected, set);
    return ok;
}

static void walk(const char *text, case_check *check)
{
    ck_assert_msg(case_agrees(text, false, check), "%s", text);
}

/* ---- products -------------------------------------------------------------------------------- */

static const char *const product_type[] = {"f32", "f32/bf16-weights/row-invariant",
                                           "f32/bf16-weights", "bf16/row-invariant"};
enum { PRODUCT_TYPES = sizeof product_type / sizeof *product_type };

/* If the units do not fill a vector, a panel has one vector for each of the cell's products: 4, 3,
 * 2 or 1. The planner gives panels of narrow weights 4 vectors for up to a tile of rows, and 2 for
 * more. Both run with all numbers of rows. */
START_TEST(all_blocks_of_rows)
{
    static const char *const cell[] = {"lstm", "gru", "mgu", "rnn-tanh"};
    char text[CASE_TEXT];
    const int rows = 1 + _i;
    way.algorithm = "packed", way.grid = "", way.device = "cpu:1";
    if (suite_skips(rows > 12 && !set_number(0)->amx, "no AMX")) /* tiles have this many rows */
        return;
    for (int k = 0; k < 4 * PRODUCT_TYPES; k++) {
        way.force =
            k < 8 || rows > ECO_NARROW_TALL ? "vectors=4,strips=0,wide=0" : "strips=0,wide=0";
        snprintf(text, sizeof text, "%s/%s/train/T2/N%d/I%d/H%d/states", cell[k % 4],
                 product_type[k / 4], rows, 3 + k, 3);
        if (rows <= 12 || k >= 8)
            walk(text, sets_agree);
    }
    for (int k = 0; k < PRODUCT_TYPES; k++) { /* full vectors, and panels by the planner */
        way.force = k >= 1 ? "vectors=2,strips=0,wide=0" : "strips=0,wide=0";
        snprintf(text, sizeof text, "lstm/%s/train/T2/N%d/I5/H%d/states", product_type[k], rows,
                 37 + 4 * k);
        walk(text, sets_agree);
    }
}
END_TEST

/* One row times several adjacent panels, in sets of 16, 8 and 4 lanes. */
START_TEST(all_strips)
{
    static const struct {
        const char *cell;
        int most, block; /* panels in a strip, and in a block of units */
    } with[] = {{"rnn-tanh", 1, 0}, {"gru-reset-first", 8, 8}, {"gru", 5, 6}, {"lstm", 4, 4}};
    char text[CASE_TEXT];
    way.algorithm = "packed", way.grid = "", way.device = "cpu:1", way.force = "wide=0,cached=1";
    for (int k = 0; k < 4; k++)
        for (int lanes = 4; lanes <= 16 && _i < with[k].most; lanes *= 2)
            for (int type = 0; type < PRODUCT_TYPES; type++) { /* wide rows follow a full block */
                const int panels = (lanes == 16 ? with[k].block : 0) + _i + 1;
                snprintf(text, sizeof text, "%s/%s/T2/N1/I3/H%d/states", with[k].cell,
                         product_type[type], panels * lanes - 1);
                walk(text, sets_agree);
            }
}
END_TEST

/* Forces larger blocks of rows. */
START_TEST(blocks_by_force)
{
    char text[CASE_TEXT], force[32];
    const int rows = (const int[]){1, 3, 5, 8, 11}[_i];
    snprintf(force, sizeof force, "block=%d,wide=0", rows);
    way.algorithm = "packed", way.grid = "", way.device = "cpu:1", way.force = force;
    for (int k = 0; k < PRODUCT_TYPES; k++) {
        snprintf(text, sizeof text, "gru/%s/train/T3/N25/I5/H37/states/lengths:random",
                 product_type[k]);
        walk(text, sets_agree);
    }
}
END_TEST

/* ---- passes ---------------------------------------------------------------------------------- */

static const char *const pass_type[PASSES] = {"f32", "f64", "bf16"};

START_TEST(all_stages)
{
    char text[CASE_TEXT];
    const char *name = cell_name(_i / PASSES), *type = pass_type[_i % PASSES];
    way.algorithm = _i % PASSES == F64 ? "blas" : "packed";
    way.grid = "", way.device = "cpu:1", way.force = "";
    snprintf(text, sizeof text, "%s/%s/train/bi/T3/N5/I6/H37/states/lengths:random", name, type);
    walk(text, sets_agree);
    snprintf(text, sizeof text, "%s/%s/train/bi/T2/N3/I6/H21", name, type);
    walk(text, sets_agree);
    snprintf(text, sizeof text, "own-%s/%s/train/T3/N3/I5/H19/states/batch-major", name, type);
    walk(text, sets_agree);
}
END_TEST

/* ---- choices --------------------------------------------------------------------------------- */

/* Values of ECORNN_FORCE, one or several in a line, and a case for which they matter. */
static const struct {
    const char *force, *text;
} choice[] = {
    {"chunk=1", "lstm/f32/train/L2/bi/T5/N3/I7/H33/states/lengths:random"},
    {"chunk-back=1", "gru/bf16/train/L2/T5/N3/I7/H33/states"},
    {"chunk=3,chunk-back=2", "lstm/f64/train/L2/T7/N3/I7/H19/states/dropout:0.3"},
    {"pack-rows=1", "lstm/f32/train/T3/N5/I7/H33/states/lengths:random"},
    {"pack-rows=7", "lstm/bf16/train/T7/N11/I7/H33/states"},
    {"fuse=0", "lstm/f32/train/T4/N21/I9/H37/states"},
    {"fuse=0", "lstm/bf16/train/T4/N21/I9/H37/states"},
    {"fuse=1", "lstm/f32/train/L2/bi/T4/N3/I9/H37/states/lengths:random"},
    {"fuse=1", "gru-reset-first/bf16/train/T4/N2/I9/H37/states"},
    {"fuse=1,vectors=4", "six-sums/f32/train/T3/N6/I5/H19/states"},
    {"copy=0", "lstm/f32/train/T2/N6/I1024/H129/states"},
    {"copy=1", "lstm/f32/train/T2/N6/I1024/H129/states"},
    {"own-units=0", "lstm/f32/train/L2/T4/N20/I9/H67/states/lengths:random"},
    {"own-units=0", "gru/bf16/train/T4/N6/I9/H67/states"},
    {"own-units=1", "lstm/f32/train/T4/N3/I9/H67/states"},
    {"whole-rows=0", "lstm/f32/train/T4/N13/I9/H67/states"},
    {"whole-rows=1", "lstm/f32/train/T4/N13/I9/H67/states"},
    {"pass-after=0", "own-lstm/f32/train/T4/N5/I9/H67/states"},
    {"pass-after=0", "lstm/bf16/train/T4/N9/I9/H67/states"},
    {"pass-after=1", "gru/f32/train/T4/N5/I9/H67/states"},
    {"vectors=4", "lstm/f32/train/T3/N26/I9/H67/states"},
    {"vectors=2,wide=0", "lstm/f32/bf16-weights/train/T3/N3/I9/H67/states"},
    {"vectors=4", "gru/bf16/train/T3/N26/I9/H67/states"},
    {"cached=0", "lstm/f32/train/T4/N7/I9/H67/states"},
    {"cached=1", "lstm/f32/train/T4/N7/I9/H300/states"},
    {"cached=0,vectors=2,wide=0", "lstm/f32/bf16-weights/train/T4/N1/I9/H67/states"},
    {"strips=0", "lstm/f32/train/T4/N1/I9/H67/states"},
    {"wide=0", "lstm/f32/bf16-weights/train/T3/N3/I9/H19/states"},
    {"grid=1x1x1", "lstm/f32/train/T3/N3/I9/H67/states"},
    {"grid=1x3x1", "lstm/f64/train/T3/N3/I9/H67/states"},
    {"wide=1", "gru/f32/bf16-weights/train/L2/T3/N3/I9/H67/states"},
    {"help=1", "lstm/f32/train/L2/T4/N13/I9/H67/states/lengths:random"},
    {"help=1,fuse=1", "gru/f32/train/bi/T4/N6/I9/H67/states"},
    {"help=1,block=2", "gru-reset-first/bf16/train/T4/N7/I9/H131/states"},
    {"help=1", "gru/f32/infer/T9/N1/I8/H20/states"},
    {"help=1,own-units=0", "lstm/bf16/train/T4/N9/I9/H67/states"},
    {"help=1,block=3,wide=0", "lstm/f32/bf16-weights/train/T4/N9/I9/H67/P5/states"},
    {"carried=0", "norm-lstm-haste/f32/train/T3/N9/I5/H67/states"},
    {"carried=1", "norm-lstm-torch/bf16/train/T3/N9/I5/H67/states"},
    {"chunk-back=70", "norm-lstm-torch/f32/train/bi/T67/N5/I3/H17/states/lengths:random"},
    {"chunk-back=40", "norm-lstm-gates/f64/train/rev/T35/N3/I3/H5/states/lengths:random"},
    {"help=1,block=2,pass-after=0", "own-lstm/f32/train/T4/N5/I9/H131/states"},
    {"block-steps=4", "min-gru/f32/train/L2/bi/T19/N2/I5/H19/states"},
    {"block-steps=9", "min-gru/f64/train/rev/T19/N2/I5/H19"},
    {"block-steps=4,chunk=12", "min-gru/bf16/train/T19/N1/I5/H33/states"},
    {"block-steps=3", "min-lstm/f32/train/T20/N4/I8/H35/states"},
    {"block-steps=3", "min-lstm/f64/train/T10/N1/I8/H20/states"},
    {"block-steps=3", "min-lstm/bf16/train/rev/T20/N1/I8/H70/states/batch-major"},
    {"block-steps=5", "sru/f32/train/rev/T11/N3/I33/H33/states"},
    {"block-steps=5,chunk=7,chunk-back=9", "sru/f64/train/bi/T23/N3/I16/H16/states/batch-major"},
    {"block-steps=2,chunk=8", "sru/bf16/train/L2/T17/N2/I16/H16/states"},
    {"block-steps=1", "qrnn/bf16/train/bi/T6/N5/I5/H19/states"},
    {"block-steps=2", "qrnn/f64/train/T9/N2/I5/H18/states"},
    {"block-steps=6", "qrnn/f32/train/T25/N2/I5/H33/states"},
    {"block-steps=4", "qrnn/f32/infer/L2/rev/T25/N2/I5/H33/states"},
    {"block-steps=8", "two-memories/f32/train/bi/T21/N2/I9/H21/states"},
    {"block-steps=3", "decay/bf16/train/L2/T10/N3/I9/H40/states"},
    {"block-steps=4", "rotation/f32/train/L2/bi/T19/N2/I5/H19/states"},
    {"block-steps=3", "rotation/f64/train/rev/T20/N3/I5/H18/states"},
    {"block-steps=5", "rotation/bf16/train/T23/N1/I5/H33/states/batch-major"},
    {"block-steps=5,chunk=10", "tanks/f32/train/bi/T23/N2/I5/H35/states"},
    {"block-steps=4", "tanks/f64/train/T18/N1/I5/H9/states"},
    {"block-steps=4,chunk-back=8", "oscillators/f32/train/rev/T21/N2/I9/H21/states"},
    {"block-steps=7", "oscillators/f64/train/bi/T16/N2/I4/H11/states"},
    {"block-steps=2", "oscillators/bf16/train/T9/N3/I4/H20/states"},
};
enum { CHOICES = sizeof choice / sizeof *choice };

/* Grids in which threads share steps, and the devices that have as many threads. */
static const struct {
    const char *device, *grid;
} team[] = {{"cpu:1", ""},      {"cpu:2", "2x1x1"}, {"cpu:3", "1x3x1"},
            {"cpu:3", "1x1x3"}, {"cpu:8", "2x2x2"}, {"cpu:7", ""}};
enum { TEAMS = sizeof team / sizeof *team };
static bool done[CHOICES], joined[TEAMS];
static int turn; /* the next team */

/* Runs all sets with one thread, and with one of the teams in turn, because kernels do not depend
 * on the team. */
static bool teams_agree(const struct test_case *test, const struct data *inputs,
                        const struct data *expected)
{
    const int each[] = {0, 1 + turn % (TEAMS - 1)};
    bool ok = true;
    for (int k = 0; ok && k < 2; k++) {
        way.device = team[each[k]].device, way.grid = team[each[k]].grid;
        for (int set = 0; ok && (set == 0 || k == 0) && set_number(set); set++)
            ok = set_agrees(test, inputs, expected, set);
        joined[each[k]] |= ok;
    }
    return ok;
}

START_TEST(all_choices)
{
    way.force = choice[_i].force;
    way.algorithm = strncmp(choice[_i].force, "block-steps", 11) == 0 ? "scan"
                    : strstr(choice[_i].text, "/f64")                 ? "blas"
                                                                      : "packed";
    turn = _i;
    walk(choice[_i].text, teams_agree);
    done[_i] = true;
}
END_TEST

/* Products of the CBLAS in pieces, for cores that multiply small matrices without packing and for
 * others. With the row-invariance flag, ecornn's own products. */
START_TEST(all_large_products)
{
    static const char *const text[] = {"lstm/f64/train/T3/N5/I70/H131/states",
                                       "lstm/f64/row-invariant/train/T3/N7/I70/H131/states",
                                       "gru/f32/train/T3/N5/I70/H131/states",
                                       "gru-reset-first/f64/row-invariant/train/bi/T3/N6/I5/H37/"
                                       "states/lengths:random"};
    way.force = "", way.algorithm = "blas", way.small = _i % 2;
    turn = _i;
    walk(text[_i / 2], teams_agree);
    way.small = false;
}
END_TEST

/* ---- what cannot be -------------------------------------------------------------------------- */

static const struct {
    const char *force, *problem, *words;
} refused[] = {
    {"chunk=0", "lstm/T3/N3/I3/H3", "is none of the values of that key: 1 to 16777216"},
    {"vectors=2", "lstm/f64/T3/N3/I3/H3", "no choice of it"},
    {"vectors=1", "lstm/T3/N3/I3/H3", "less than the instruction set"},
    {"vectors=3", "lstm/bf16/T3/N3/I3/H3", "not 2 or 4"},
    {"fuse=1", "lstm/T3/N3/I3/H3/P2", "threads do not own units"},
    {"fuse=1,own-units=0", "lstm/T3/N3/I3/H3", "threads do not own units"},
    {"own-units=1", "lstm/T3/N3/I3/H3/P2", "has means or a projection"},
    {"grid=1x2", "lstm/T3/N3/I3/H3", "is none of the values of that key: OPSxROWSxUNITS"},
    {"grid=8x9x1", "lstm/f64/T3/N3/I3/H3", "is none of the values of that key: OPSxROWSxUNITS"},
    {"carried=1", "lstm/T3/N3/I3/H3", "no stage of the cell carries"},
    {"block-steps=4", "lstm/T3/N3/I3/H3", "not linear in its states"},
    {"algorithm=nothing", "lstm/T3/N3/I3/H3", "algorithm is \"nothing\", must be one of packed"},
    {"groups=2,tile=2", "lstm/T3/N3/I3/H3", "\"tile=2\" is not KEY=VALUE with one of these keys: "},
    {"graph=1,chunk", "lstm/T3/N3/I3/H3", "\"chunk\" is not KEY=VALUE"},
    {"=1", "lstm/T3/N3/I3/H3", "grid, vectors, own-units, "},
    {"chunk=1,fuse=0,chunk=2", "lstm/T3/N3/I3/H3", "has chunk twice"},
    {"algorithm=blas", "lstm/row-invariant/T3/N3/I3/H3", "another order"},
};

START_TEST(refuses_in_words)
{
    ecornn_plan *plan;
    ecornn_desc desc;
    unsetenv("ECORNN_ALGORITHM");
    unsetenv("ECORNN_GRID");
    setenv("ECORNN_FORCE", refused[_i].force, 1);
    ecornn_device *const device = device_on("cpu:2");
    check_ok(parse_desc(&desc, refused[_i].problem, NULL));
    ck_assert_int_eq(ecornn_plan_create_desc(&plan, device, &desc), ECORNN_UNSUPPORTED);
    ck_assert_msg(strstr(ecornn_error_detail(), refused[_i].words) != NULL, "%s: %s",
                  refused[_i].force, ecornn_error_detail());
    ecornn_device_close(device);
    unsetenv("ECORNN_FORCE");
}
END_TEST

static const char *const no_grid[] = {"65536x16777216x16777216",
                                      "0",
                                      "1x2",
                                      "1x2x",
                                      "0x1x1",
                                      "-1x1x1",
                                      "1x1x1x1",
                                      "65x1x1",
                                      "5x13x1",
                                      "1,1,2",
                                      " 1x1x1",
                                      "4294967297x1x1",
                                      "1x1x18446744073709551617"};

START_TEST(no_such_grid)
{
    ecornn_device *device = NULL;
    setenv("ECORNN_GRID", no_grid[_i], 1);
    ck_assert_int_eq(ecornn_device_open(&device, "cpu:2"), ECORNN_BAD_ARGUMENT);
    ck_assert_msg(strstr(ecornn_error_detail(), no_grid[_i]) != NULL &&
                      strstr(ecornn_error_detail(), "64 threads") != NULL,
                  "%s", ecornn_error_detail());
    ck_assert_ptr_null(device);
    unsetenv("ECORNN_GRID");
}
END_TEST

/* ---- n of all -------------------------------------------------------------------------------- */

static bool say(const char *set, const char *what, struct count c)
{
    printf("%-11s %-28s %3d of %d\n", set, what, c.n, c.all);
    return c.n == c.all && c.all > 0;
}

/* Prints the sets for quickstart's summary. Other tests use the best set, unless the environment
 * names another. */
static void say_sets(void)
{
    const struct eco_isa *isa;
    printf("# sets natively: %s\n# sets by ECORNN_ISA, on a processor that has more:",
           set_number(0)->name);
    for (int set = 1; (isa = set_number(set)); set++)
        printf(" %s", isa->name);
    printf("\n# sets NOT tested, no such machine:");
    for (int rank = 0; eco_isa_name(rank); rank++) {
        bool here = false;
        for (int set = 0; (isa = set_number(set)); set++)
            here |= strcmp(isa->name, eco_isa_name(rank)) == 0;
        if (!here)
            printf(" %s", eco_isa_name(rank));
    }
    printf("\n");
}

START_TEST(all_ran)
{
    static const char *const product_name[PRODUCTS] = {"products F32", "products BF16 weights",
                                                       "products of pairs", "products in tiles",
                                                       "products in split tiles"};
    static const char *const pass_name[PASSES] = {"passes F32", "passes F64", "passes BF16"};
    bool all = true;
    const struct eco_isa *isa;
    struct count choices = {0}, teams = {0};
    for (int set = 0; (isa = set_number(set)); set++) {
        const struct kernel_table *t = &table[set];
        for (int k = 0; k < PRODUCTS; k++)
            if (t->has[k])
                all &= say(isa->name, product_name[k], products_counted(t, isa, k));
        for (int k = 0; k < PASSES; k++)
            all &= say(isa->name, pass_name[k], passes_counted(t, k));
        all &= say(isa->name, "copies of rows", rows_counted(t));
    }
    for (int i = 0; i < CHOICES; i++)
        count_one(&choices, done[i]);
    for (int k = 0; k < TEAMS; k++)
        count_one(&teams, joined[k]);
    all &= say("all sets", "choices by force", choices);
    all &= say("all sets", "grids of teams", teams);
    say_sets();
    ck_assert(all);
}
END_TEST

/* All tests run in one process, because it holds the counts. */
int main(void)
{
    static const struct suite_program program = {.name = "walk",
                                                 .one_process = true}; /* counts kernels */
    return suite_run(&program,
                     SUITE_TESTS({all_blocks_of_rows, COUNTED_ROWS}, {all_strips, 8},
                                 {blocks_by_force, 5}, {all_stages, builtin_count() * PASSES},
                                 {all_choices, CHOICES}, {all_large_products, 8},
                                 {refuses_in_words, sizeof refused / sizeof *refused},
                                 {no_such_grid, sizeof no_grid / sizeof *no_grid}, {all_ran, 1}));
}
