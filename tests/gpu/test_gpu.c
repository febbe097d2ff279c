/*
 * Every case of the sweep, and every cell of tests/cells, on the CUDA device with each algorithm
 * against the reference; forward and backward, queued kernel by kernel and from a graph.  Skipped,
 * with the reason, where there is no device.
 *
 *     test_gpu [CASE]           that case only
 *     ECORNN_ALGORITHM=NAME     that algorithm only
 *     ECORNN_PART=K/N           every N-th case only, from the K-th on (tests/gpu/suite.sh)
 *
 * Cases in F32 run with ECORNN_FAST_MATH, in BF16 and in F16 too; all of them also with rows in
 * whole groups and products of split operands, as the planner takes them where that pays.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const char *only; /* the argument */
static ecornn_device *device;
static int compared; /* cases */

/* Backward runs so often: queued, captured, from the graph. */
enum { BACKWARDS = 3, TYPES = 4 };

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

/* What ECORNN_NVRTC is for plans from now on; NULL: as the user has it. */
static void set_nvrtc(const char *value)
{
    static char users[1024];
    static bool known;
    if (!known)
        snprintf(users, sizeof users, "%s", getenv("ECORNN_NVRTC") ? getenv("ECORNN_NVRTC") : "");
    known = true;
    setenv("ECORNN_NVRTC", value ? value : users, 1);
}

/* The case of an own cell again, interpreted instead of compiled by NVRTC: the same bits, but of
 * the k-th algorithm that refuses to. */
static bool interprets_the_same(const struct test_case *test, int k, const struct data *inputs,
                                const struct data *compiled)
{
    const struct machine machine = {device, test->desc.type, 1, NULL};
    struct data results = {0};
    set_nvrtc("0");
    const bool ok = !algorithm_runs(device, k, test) ||
                    (case_run(test, &machine, inputs, &results) &&
                     results_same(test, device->backend->algos[k]->name, compiled, &results));
    set_nvrtc(NULL);
    data_free(&results);
    return ok;
}

/* Does the user want one algorithm only, which need not run every case? */
static bool restricted;

/* One algorithm, with rows, products and chunks as the planner takes them, or rows filled up,
 * operands split (of some cases states of steps in a launch of their own) and chunks so short that
 * nearly every run has several. */
static bool algorithm_agrees(const struct test_case *test, int k, const char *name,
                             const char *rows, const struct data *inputs,
                             const struct data *expected)
{
    const struct machine machine = {device, test->desc.type, *rows ? 1 : BACKWARDS, NULL};
    struct data results = {0};
    setenv("ECORNN_ROWS", rows, 1);
    setenv("ECORNN_EMULATED_F32", !*rows ? "" : strlen(test->text) % 2 == 0 ? "1" : "2", 1);
    setenv("ECORNN_CHUNK", *rows ? "2" : "", 1);
    const bool ok = case_run(test, &machine, inputs, &results) &&
                    results_agree(test, name, expected, &results) &&
                    (!test->own || interprets_the_same(test, k, inputs, &results));
    data_free(&results);
    if (!ok)
        fprintf(stderr, "%s: rows %s\n", test->text, *rows ? rows : "as planned");
    return ok;
}

static bool algorithms_agree(const struct test_case *test, const struct data *inputs,
                             const struct data *expected)
{
    const char *name;
    int ran = 0;
    bool ok = true;
    for (int k = 0; ok && k < algorithm_count(device->backend); k++)
        if (algorithm_take(device->backend, k, &name) && algorithm_runs(device, k, test)) {
            ok = algorithm_agrees(test, k, name, "", inputs, expected) &&
                 algorithm_agrees(test, k, name, "padded", inputs, expected);
            ran++;
        }
    setenv("ECORNN_ROWS", "", 1);
    setenv("ECORNN_EMULATED_F32", "", 1);
    setenv("ECORNN_CHUNK", "", 1);
    if (ok && ran == 0 && !restricted)
        fprintf(stderr, "%s: no algorithm ran it\n", test->text);
    compared += ran > 0;
    return ok && (ran > 0 || restricted);
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
        if (k == 0 || retype(text, type[k]))
            ck_assert_msg(case_agrees(text, true, algorithms_agree), "%s", text);
    }
}
END_TEST

/* Backward that computes again what forward did not save. */
START_TEST(replay_agrees_with_reference)
{
    static const char *const type[] = {"f32", "bf16", "f32/fast", "f16"};
    char text[CASE_TEXT], policy[CASE_TEXT];
    sweep_text(only, nth(_i), text);
    const int k = nth(_i) % POLICIES, t = nth(_i) / POLICIES % 4;
    if (!only && t > 0 && !retype(text, type[t]))
        return;
    if (sweep_policy(text, k, only != NULL, policy))
        ck_assert_msg(case_agrees(policy, true, algorithms_agree), "%s", policy);
}
END_TEST

/* Layers so large that blocks keep many k blocks of R, in shared memory too, and clusters pay; of
 * few rows and steps, for the reference's sake, but so many rows that kernels for many k blocks are
 * taken forward, too (H=800, H=2048). */
static const char *const large[] = {"lstm/f32/train/T2/N20/I8/H800/states/lengths:random",
                                    "lstm/f32/train/T2/N3/I8/H1536",
                                    "gru/f32/train/T2/N9/I8/H1024",
                                    "gru/f32/infer/T2/N25/I8/H2048/states",
                                    "rnn-tanh/f32/train/T2/N70/I8/H800",
                                    "gru-reset-first/f32/train/T2/N9/I8/H800",
                                    "norm-lstm-tf1/f32/train/T2/N20/I8/H800/states/lengths:random",
                                    "rms-lstm/f32/train/T2/N70/I8/H520/states"};
enum { LARGE = sizeof large / sizeof *large };

/* A case of a list, in each of the types. */
static void check_in_types(const char *const list[], int i)
{
    static const char *const type[TYPES] = {"f32", "f32/fast", "bf16", "f16"};
    char text[CASE_TEXT];
    snprintf(text, sizeof text, "%s", list[i / TYPES]);
    if (i % TYPES > 0)
        ck_assert(retype(text, type[i % TYPES]));
    ck_assert_msg(case_agrees(text, true, algorithms_agree), "%s", text);
}

START_TEST(agrees_in_large_layers)
{
    check_in_types(large, nth(_i));
}
END_TEST

/* So few rows that those of a group of blocks have all ended many steps before the last one, or
 * begin as many after the first; in clusters, in several groups, with two products, in chunks. */
static const char *const ended[] = {"lstm/f32/train/L2/bi/T23/N2/I8/H40/states/lengths:random",
                                    "lstm/f32/infer/L3/T21/N1/I8/H72/lengths:random",
                                    "lstm/f32/train/bi/T13/N3/I8/H800/states/lengths:random",
                                    "gru/f32/train/bi/T17/N20/I8/H264/states/lengths:short",
                                    "rnn-tanh/f32/train/rev/T30/N1/I8/H96/lengths:random",
                                    "mgu/f32/train/bi/T19/N2/I8/H72/states/lengths:random",
                                    "norm-lstm/f32/train/bi/T19/N20/I8/H264/states/lengths:short"};
enum { ENDED = sizeof ended / sizeof *ended };

START_TEST(agrees_where_groups_end_early)
{
    check_in_types(ended, nth(_i));
}
END_TEST

/* Few steps: of one row and of more than a block takes, of an odd number of units and inputs, with
 * a state that is written where it was read; and few rows of gradients, whose products share
 * launches. */
static const char *const few[] = {"lstm/f32/train/L2/T1/N1/I64/H640/states",
                                  "lstm/f32/infer/L2/T1/N40/I71/H133/states/alias",
                                  "lstm/f32/train/T2/N150/I20/H200/P75/states/lengths:random",
                                  "gru/f32/train/L2/bi/T2/N67/I33/H65/states/lengths:random",
                                  "rnn-relu/f32/infer/T3/N131/I24/H96/P40/batch-major",
                                  "lstm-coupled/f32/infer/L3/T1/N70/I40/H50/states",
                                  "lstm/f32/train/L3/T1/N64/I71/H133",
                                  "lstm/f32/train/L2/T1/N9/I24/H40/P6",
                                  "lstm/f32/train/L2/T1/N31/I64/H200/accumulate",
                                  "gru-reset-first/f32/train/L2/T2/N15/I33/H75/states",
                                  "lstm-peephole/f32/train/L2/T1/N9/I40/H96/batch-major",
                                  "mgu/f32/train/L3/T2/N20/I24/H88/states/dropout:0.5"};
enum { FEW = sizeof few / sizeof *few };

START_TEST(agrees_in_few_steps)
{
    check_in_types(few, nth(_i));
}
END_TEST

/* Rows that may not depend on others: more steps than fused steps are for otherwise, products of
 * few rows of more than 64. */
static const char *const apart[] = {
    "lstm/f32/row-invariant/train/L2/bi/T19/N5/I7/H40/states/lengths:random",
    "lstm/f32/row-invariant/train/T3/N70/I20/H64/P24/states",
    "gru/f32/row-invariant/train/L2/T18/N3/I33/H65/dropout:0.5",
    "rnn-relu/f32/row-invariant/infer/T20/N40/I24/H96/batch-major"};
enum { APART = sizeof apart / sizeof *apart };

START_TEST(agrees_where_rows_are_apart)
{
    check_in_types(apart, nth(_i));
}
END_TEST

/* Rows that begin anew inside a sequence: in several groups of blocks, in clusters, with two
 * products, in chunks, in layers above; where rows end early; of more rows than a block takes. */
static const char *const anew[] = {
    "lstm/f32/train/L2/bi/T23/N5/I8/H72/states/resets:20/lengths:random",
    "lstm/f32/infer/L3/T21/N3/I8/H72/states/resets:30",
    "lstm/f32/train/T4/N20/I8/H800/states/resets:40/lengths:random",
    "gru/f32/train/rev/T17/N70/I8/H264/states/resets:10",
    "gru/f32/train/bi/T9/N40/I33/H65/resets:30/accumulate/batch-major",
    "gru/f32/infer/L2/rev/T9/N150/I20/H96/states/resets:20/alias",
    "rnn-tanh/f32/train/T30/N2/I8/H96/states/resets:100",
    "gru-reset-first/f32/train/rev/T9/N9/I8/H96/states/resets:30/lengths:random",
    "mgu/f32/train/bi/T9/N20/I8/H72/states/resets:20",
    "gru/f32/train/T9/N5/I8/H72/states/resets:30/scale:8", /* larger than bounded states */
    "norm-gru-haste/f32/train/bi/T9/N40/I8/H72/states/resets:30/lengths:random",
    "lstm/f32/train/L2/T9/N20/I8/H200/P75/states/resets:20/lengths:random",
    "lstm/f32/train/L2/bi/T23/N5/I8/H72/states/mask:30/resets:20/lengths:random",
    "gru/f32/train/rev/T40/N20/I8/H96/mask:40/lengths:random/repeat-padding",
    "lstm/f32/train/L2/bi/T23/N5/I8/H72/states/all-states/resets:20/lengths:random",
    "lstm/f32/infer/L3/T21/N3/I8/H72/states/all-states/lengths:random",
    "gru/f32/train/rev/T40/N20/I8/H96/all-states/mask:30/batch-major",
    "lstm/f32/infer/bi/T9/N150/I20/H96/all-states/batch-major",
    "lstm/f32/train/L2/T5/N20/I8/H72/P32/states/all-states",
    "lstm/f32/train/L2/bi/T5/N20/I8/H72/resets/states"};
enum { ANEW = sizeof anew / sizeof *anew };

START_TEST(agrees_where_rows_begin_anew)
{
    check_in_types(anew, nth(_i));
}
END_TEST

/* Linear cells over many tiles of steps, whole and in part, in chunks; rows that end in an earlier
 * tile or chunk, or begin in a later one. */
static const char *const scanned[] = {
    "min-gru/f32/train/L2/bi/T300/N3/I9/H70/states/lengths:random",
    "min-lstm/f32/train/rev/T130/N2/I8/H33/states/batch-major/save:every:40",
    "sru/f32/train/L2/T200/N5/I40/H40/states/lengths:random/accumulate",
    "qrnn/f32/train/bi/T520/N1/I8/H8/null:dfinal/lengths:random",
    "two-memories/f32/train/rev/T50/N4/I66/H66/states/lengths:random",
    "two-memories/f32/train/bi/T40/N3/I40/H40/states/null:dy,final/mask:20",
    "decay/f32/infer/L3/T257/N2/I5/H129/states/alias"};
enum { SCANNED = sizeof scanned / sizeof *scanned };

START_TEST(agrees_in_scans)
{
    const int chunked = nth(_i) / (SCANNED * TYPES);
    if (chunked)
        setenv("ECORNN_CHUNK", "77", 1);
    check_in_types(scanned, nth(_i) % (SCANNED * TYPES));
    unsetenv("ECORNN_CHUNK");
}
END_TEST

/* Factors of many steps overflow, and states that are 0 stay so until an x is none. */
START_TEST(zeros_stay_in_scans)
{
    enum { T = 600, H = 8, SIZE = T * H };
    static float host[SIZE];
    const char *const cell_text = "cell grows(h)\nh' = (1 + 3 * sigmoid(x)) * h + x\n";
    ecornn_cell *cell;
    ecornn_desc desc;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    ck_assert_int_eq(ecornn_cell_parse(&cell, cell_text), ECORNN_OK);
    ck_assert_int_eq(ecornn_desc_parse(&desc, "grows/f32/infer/T600/N1/I8/H8", cell), ECORNN_OK);
    setenv("ECORNN_FORCE", "algorithm=scan", 1);
    const ecornn_status status = ecornn_plan_create(&plan, device, &desc);
    unsetenv("ECORNN_FORCE");
    ck_assert_msg(status == ECORNN_OK, "%s", ecornn_error_detail());
    ecornn_plan_sizes(plan, &sizes);
    void *x = ecornn_alloc(device, sizeof host), *y = ecornn_alloc(device, sizeof host),
         *workspace = ecornn_alloc(device, sizes.workspace);
    host[SIZE - 1] = 1;
    ck_assert_int_eq(ecornn_upload(device, x, host, sizeof host), ECORNN_OK);
    const ecornn_io io = {.size = sizeof io,
                          .steps = ECORNN_ALL,
                          .batch = ECORNN_ALL,
                          .x = x,
                          .y = y,
                          .workspace = workspace};
    ck_assert_msg(ecornn_forward(plan, &io) == ECORNN_OK, "%s", ecornn_error_detail());
    ck_assert_int_eq(ecornn_wait(device, NULL), ECORNN_OK);
    ck_assert_int_eq(ecornn_download(device, host, y, sizeof host), ECORNN_OK);
    for (int i = 0; i < SIZE; i++)
        ck_assert_msg(host[i] == (i == SIZE - 1), "element %d is %g", i, (double)host[i]);
    ecornn_free(device, x);
    ecornn_free(device, y);
    ecornn_free(device, workspace);
    ecornn_plan_free(plan);
    ecornn_cell_free(cell);
}
END_TEST

/* And with the bits of the same run cut into episodes: of one layer and one input, since large
 * products may add up in another order where they have more rows, and without dx.  How rows lie is
 * the same in all, and operands are not split, as they are where rows are many. */
static const char *const episodes[] = {
    "lstm/f32/train/T12/N5/I1/H40/states/resets:25/null:dx",
    "lstm/f32/train/rev/T12/N17/I1/H72/states/resets:25/null:dx/lengths:random",
    "gru/f32/train/T12/N5/I1/H136/states/resets:25/null:dx",
    "rnn-tanh/f32/train/rev/T12/N5/I1/H64/states/resets:25/null:dx",
    "gru-reset-first/f32/train/T12/N5/I1/H64/states/resets:25/null:dx/lengths:random"};
enum { EPISODES = sizeof episodes / sizeof *episodes, EPISODE_TYPES = 3 };

START_TEST(gives_the_bits_of_episodes)
{
    static const char *const type[EPISODE_TYPES] = {"f32/fast", "bf16", "f16"};
    struct test_case test;
    struct data inputs = {0};
    char text[CASE_TEXT];
    const char *name;
    snprintf(text, sizeof text, "%s", episodes[nth(_i) / EPISODE_TYPES]);
    ck_assert(retype(text, type[nth(_i) % EPISODE_TYPES]));
    ck_assert(case_parse(&test, text));
    case_inputs(&test, &inputs);
    const struct machine machine = {device, test.desc.type, 1, NULL};
    for (int k = 0; k < algorithm_count(device->backend); k++)
        if (algorithm_take(device->backend, k, &name) && algorithm_runs(device, k, &test)) {
            setenv("ECORNN_ROWS", k % 2 ? "padded" : "dense", 1);
            setenv("ECORNN_EMULATED_F32", "0", 1);
            ck_assert_msg(episodes_same(&test, &machine, &inputs), "%s: %s", text, name);
        }
    setenv("ECORNN_ROWS", "", 1);
    setenv("ECORNN_EMULATED_F32", "", 1);
    data_free(&inputs);
    case_free(&test);
}
END_TEST

START_TEST(agrees_for_own_cells)
{
    static const char *const type[] = {"f32/fast", "f16"};
    char text[CASE_TEXT];
    sweep_own_text(nth(_i), text);
    ck_assert_msg(case_agrees(text, true, algorithms_agree), "%s", text);
    for (int k = 0; k < 2; k++) {
        sweep_own_text(nth(_i), text);
        if (retype(text, type[k]))
            ck_assert_msg(case_agrees(text, true, algorithms_agree), "%s", text);
    }
}
END_TEST

/* Compiled with the module, compiled by NVRTC, interpreted. */
START_TEST(gives_the_same_bits_however_compiled)
{
    static const char *const name[TYPES] = {"f32", "f64", "bf16", "f16"};
    const int type = nth(_i) % TYPES;
    const char *cell = ecornn_cell_name(nth(_i) / TYPES);
    const struct machine machine = {device, (ecornn_type)type, 1, NULL};
    char rest[CASE_TEXT];
    snprintf(rest, sizeof rest, "%s/train/L2/bi/T5/N3/I4/H19/states/lengths:random", name[type]);
    for (int on = 0; on < 2; on++) {
        set_nvrtc(on ? NULL : "0");
        const int ran = interpreted_same(cell, rest, &machine);
        set_nvrtc(NULL);
        ck_assert_msg(ran > 0 || (ran == 0 && restricted), "%s/%s", cell, rest);
    }
}
END_TEST

/* Layers too large for the reference, next to F64 on the device, which has one way for all: sums of
 * products added in pieces, of every kind; divisions that algorithm persistent has for such sizes.
 */
static const struct {
    const char *text;
    double within;
} beside_f64[] = {{"lstm/f32/train/T7/N90/I300/H720/states", 1e-4},
                  {"rnn-tanh/f32/train/T40/N80/I64/H720/states", 1e-4},
                  /* R by four warps: a square of it, two, one in clusters; of some k blocks kept */
                  {"lstm/f32/infer/T6/N64/I24/H512/states", 1e-5},
                  {"lstm/f32/infer/T6/N29/I24/H1020/states/lengths:random", 1e-5},
                  {"lstm/f32/infer/T6/N60/I24/H768/states", 1e-5},
                  {"gru/f32/infer/T6/N50/I24/H650/states", 1e-5},
                  {"lstm/f32/fast/train/T6/N64/I24/H1024/states", 5e-3},
                  {"lstm/f32/fast/infer/T6/N70/I24/H600/states/lengths:random", 5e-3},
                  {"lstm/f32/fast/infer/T6/N16/I24/H2048/states", 5e-3},
                  {"gru/bf16/infer/bi/T6/N75/I24/H590/states", 5e-2},
                  /* scales of k blocks, of a cell from text: not by four warps */
                  {"four-states/f32/fast/infer/T6/N64/I24/H768/states", 5e-3},
                  /* the same, multiplied by the warps that gather them: a k block, two, half of
                   * one; three and six k blocks back */
                  {"rnn-relu/f32/fast/infer/T6/N20/I24/H800/states", 5e-3},
                  {"rnn-relu/f32/infer/T6/N1/I24/H1024/states", 1e-5},
                  {"four-states/f32/fast/infer/T6/N16/I24/H256/states", 5e-3},
                  {"gru/f32/fast/train/T6/N64/I24/H512/states", 5e-3},
                  {"gru/f32/train/T6/N64/I24/H256/states", 1e-4},
                  /* sums where what was multiplied lay */
                  {"lstm/bf16/train/T6/N16/I24/H2048/states", 5e-2}};
enum { BESIDE_F64 = sizeof beside_f64 / sizeof *beside_f64 };

static void check_beside_f64(const char *text, const char *split, double within)
{
    const struct machine wide = {device, ECORNN_F64, 1, NULL};
    struct test_case test;
    struct data inputs = {0}, results = {0}, expected = {0};
    ck_assert(case_parse(&test, text));
    const struct machine machine = {device, test.desc.type, BACKWARDS, NULL};
    case_inputs(&test, &inputs);
    setenv("ECORNN_EMULATED_F32", split, 1);
    ck_assert(case_run(&test, &machine, &inputs, &results));
    setenv("ECORNN_EMULATED_F32", "", 1);
    ck_assert(case_run(&test, &wide, &inputs, &expected));
    ck_assert_msg(results_agree_within(&test, "as planned", &expected, &results, within), "%s",
                  text);
    data_free(&inputs);
    data_free(&results);
    data_free(&expected);
    case_free(&test);
}

START_TEST(agrees_with_f64_of_the_device)
{
    check_beside_f64(beside_f64[nth(_i)].text, "", beside_f64[nth(_i)].within);
}
END_TEST

/* In large products in F16, which has neither a largest zero nor such sizes. */
START_TEST(zeros_meet_large_gradients)
{
    check_beside_f64("lstm/f32/fast/train/T4/N3/I5/H16/scale:0/gradients:1e7/states", "1", 5e-3);
}
END_TEST

/* A plan that has one algorithm to choose from, or ("") all, whatever the environment says. */
static ecornn_status create_with(const char *algorithm, const ecornn_desc *desc, ecornn_plan **plan)
{
    const char *const value = getenv("ECORNN_ALGORITHM");
    char before[32];
    snprintf(before, sizeof before, "%s", value ? value : "");
    setenv("ECORNN_ALGORITHM", algorithm, 1);
    const ecornn_status status = ecornn_plan_create(plan, device, desc);
    setenv("ECORNN_ALGORITHM", before, 1);
    return status;
}

/* The plan says how its cell runs, and a line here which it was. */
START_TEST(says_how_a_cell_runs)
{
    ecornn_cell *cell;
    ecornn_desc desc;
    ecornn_plan *plan;
    char text[4000];
    ck_assert_int_eq(ecornn_cell_parse(&cell, "cell own(h)\nh' = tanh(W x + R h + b)"), ECORNN_OK);
    ck_assert_int_eq(ecornn_desc_parse(&desc, "own/f32/infer/T2/N2/I4/H4", cell), ECORNN_OK);
    for (int on = 0; on < 2; on++) {
        set_nvrtc(on ? NULL : "0");
        ck_assert_int_eq(create_with("", &desc, &plan), ECORNN_OK);
        set_nvrtc(NULL);
        ecornn_plan_print(plan, text, sizeof text);
        char *line = strstr(text, "\ncell: ");
        ck_assert_msg(line != NULL, "%s", text);
        if (on)
            printf("# %.*s\n", (int)strcspn(line + 1, "\n"), line + 1);
        else
            ck_assert_msg(
                strstr(line, "interpreted (ECORNN_NVRTC is 0)") != NULL &&
                    strstr(text, "refuses: kernels compiled at run time where there is no NVRTC"),
                "%s", text);
        ecornn_plan_free(plan);
    }
    ecornn_cell_free(cell);
}
END_TEST

/* Cells of one product, of two and with means, built in (no text) and not. */
static const struct {
    const char *name, *text;
} persistent[] = {
    {"own", "cell own(h)\nh' = R h + tanh(W x + b)"},
    {"own", "cell own(h, c)\ne = tanh(W x + R h)\nc' = c + R e\nh' = c' + b"},
    {"own",
     "cell own(h)\nu = W x + R h\nd = u - mean(u)\nh' = tanh(d / sqrt(mean(d * d) + 1e-5) + b)"},
    {"gru-reset-first", NULL},
    {"mgu", NULL},
};
enum { PERSISTENT = sizeof persistent / sizeof *persistent };

/* Where the algorithm takes the problem its plan says so, and that no step is another's. */
static void check_plan(const char *algorithm, const ecornn_desc *desc, const char *says)
{
    char text[4000];
    ecornn_plan *plan;
    if (create_with(algorithm, desc, &plan) == ECORNN_OK) {
        ecornn_plan_print(plan, text, sizeof text);
        ck_assert_msg(strstr(text, says) && !strstr(text, "as algorithm step") &&
                          !strstr(text, "as of algorithm step"),
                      "%s", text);
        ecornn_plan_free(plan);
    } else {
        ck_assert_msg(strstr(ecornn_error_detail(), "a device without what it needs") ||
                          strstr(ecornn_error_detail(), "where there is no NVRTC"),
                      "%s", ecornn_error_detail());
    }
}

/* Where algorithm persistent takes a cell it has kernels both ways, from text by NVRTC: else the
 * cases above would be those of step. */
START_TEST(runs_all_steps_at_once)
{
    static const char *const type[] = {"f32", "f32/fast", "bf16", "f16"};
    char name[64];
    ecornn_cell *cell = NULL;
    ecornn_desc desc;
    const int which = nth(_i) % PERSISTENT;
    if (persistent[which].text)
        ck_assert_int_eq(ecornn_cell_parse(&cell, persistent[which].text), ECORNN_OK);
    snprintf(name, sizeof name, "%s/%s/train/bi/T2/N2/I4/H64", persistent[which].name,
             type[nth(_i) / PERSISTENT]);
    ck_assert_int_eq(ecornn_desc_parse(&desc, name, cell), ECORNN_OK);
    check_plan("persistent", &desc, "persistent backward: ");
    ecornn_cell_free(cell);
}
END_TEST

/* The same for algorithm fused, of which steps would be those of step. */
START_TEST(runs_a_step_at_once)
{
    static const char *const type[] = {"f32", "f32/fast", "bf16", "f16"};
    char name[64];
    ecornn_cell *cell;
    ecornn_desc desc;
    ck_assert_int_eq(ecornn_cell_parse(&cell, persistent[0].text), ECORNN_OK);
    snprintf(name, sizeof name, "own/%s/infer/T1/N2/I4/H64", type[nth(_i)]);
    ck_assert_int_eq(ecornn_desc_parse(&desc, name, cell), ECORNN_OK);
    check_plan("fused", &desc, "step: one launch");
    ecornn_cell_free(cell);
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
    const ecornn_io io = {.size = sizeof io,
                          .steps = ECORNN_ALL,
                          .batch = ECORNN_ALL,
                          .x = x,
                          .weights = weights,
                          .workspace = workspace};
    ck_assert_int_eq(ecornn_forward(plan, &io), ECORNN_BAD_ARGUMENT);
    ck_assert_msg(strstr(ecornn_error_detail(), "io.x"), "%s", ecornn_error_detail());
    ck_assert_int_eq(ecornn_wait(device, NULL), ECORNN_OK);
    ecornn_free(device, weights);
    ecornn_free(device, workspace);
    ecornn_plan_free(plan);
}
END_TEST

/* The reserve has no second copy of y. */
START_TEST(needs_y_to_train)
{
    ecornn_desc desc;
    ecornn_plan *plan;
    ck_assert_int_eq(ecornn_desc_parse(&desc, "gru/f32/train/T2/N2/I4/H4", NULL), ECORNN_OK);
    ck_assert_int_eq(ecornn_plan_create(&plan, device, &desc), ECORNN_OK);
    ecornn_sizes sizes;
    ecornn_plan_sizes(plan, &sizes);
    const size_t bytes = sizes.weights + sizes.workspace + sizes.reserve + 4096;
    void *memory = ecornn_alloc(device, bytes); /* nothing is read or written */
    const ecornn_io io = {.size = sizeof io,
                          .steps = ECORNN_ALL,
                          .batch = ECORNN_ALL,
                          .x = memory,
                          .weights = memory,
                          .workspace = memory,
                          .reserve = memory};
    const ecornn_gradient gradient = {.size = sizeof gradient};
    ck_assert_int_eq(ecornn_forward(plan, &io), ECORNN_BAD_ARGUMENT);
    ck_assert_msg(strstr(ecornn_error_detail(), "io.y is NULL"), "%s", ecornn_error_detail());
    ck_assert_int_eq(ecornn_backward(plan, &io, &gradient), ECORNN_BAD_ARGUMENT);
    ck_assert_msg(strstr(ecornn_error_detail(), "io.y is NULL"), "%s", ecornn_error_detail());
    ecornn_free(device, memory);
    ecornn_plan_free(plan);
}
END_TEST

/* What is forced and cannot be is an error of the plan that says it; what can be is in its print.
 */
START_TEST(says_what_cannot_be_forced)
{
    static const struct {
        const char *force, *says; /* NULL: it can */
    } of[] = {
        {"algorithm=persistent,forward=mma:16x1", NULL},
        {"algorithm=persistent,backward=step,groups=1", NULL},
        {"algorithm=fused,fused=16,projection=8", NULL},
        {"algorithm=step,grouped=16,stream-k=1,scaled-f16=1,wavefront=1,rows=dense,chunk=1", NULL},
        {"algorithm=persistent,forward=mma-many:16x1", "the forced division does not fit"},
        {"algorithm=persistent,backward=wgmma:64x1", "the forced division back does not fit"},
        {"algorithm=persistent,forward=thin:16x1", "is none of"},
        {"algorithm=persistent,forward=mma:17x1", "is none of"},
        {"algorithm=persistent,forward=mma:16", "is none of"},
        {"algorithm=persistent,forward=mma:x", "is none of"},
        {"algorithm=persistent,backward=mma", "is none of"},
        {"algorithm=persistent,groups=0", "groups=0 is none of"},
        {"algorithm=persistent,groups=x", "groups=x is none of"},
        {"algorithm=step,groups=1", "wants algorithm persistent"},
        {"algorithm=step,forward=mma:16x1", "wants algorithm persistent"},
        {"algorithm=fused,fused=9", "has room for"},
        {"algorithm=step,fused=8", "wants algorithm fused"},
        {"algorithm=step,projection=8", "wants algorithm fused"},
        {"algorithm=step,grouped=9", "grouped=9 is none of"},
        {"algorithm=step,scaled-f16=2", "scaled-f16=2 is none of"},
        {"algorithm=step,stream-k=2", "stream-k=2 is none of"},
        {"algorithm=step,chunk=-1", "chunk=-1 is none of"},
        {"algorithm=step,wavefront=2", "wavefront=2 is none of"},
        {"algorithm=step,rows=thin", "rows=thin is none of"},
        {"algorithm=step,at-once=99", "at-once=99 is none of the values of that key: 1 to 16"},
        {"algorithm=step,step-tile=splitting:64x32x4", "such products of steps"},
        {"algorithm=step,step-tile=thin:64x32x4", "is none of"},
        {"algorithm=step,step-tile=splitting:63x32x4", "is none of"},
        {"algorithm=step,step-tile=splitting:64x32x9", "is none of"},
        {"algorithm=step,emulated-f32=1,step-tile=splitting:64x32", "is none of"}};
    ecornn_desc desc;
    ck_assert_int_eq(ecornn_desc_parse(&desc, "lstm/f32/train/T2/N2/I4/H24", NULL), ECORNN_OK);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        ecornn_plan *plan;
        char text[4000];
        setenv("ECORNN_FORCE", of[i].force, 1);
        const ecornn_status status = ecornn_plan_create(&plan, device, &desc);
        unsetenv("ECORNN_FORCE");
        if (of[i].says != NULL) {
            ck_assert_msg(
                status == ECORNN_UNSUPPORTED && strstr(ecornn_error_detail(), of[i].says) != NULL,
                "%s: %s", of[i].force, status == ECORNN_OK ? "no error" : ecornn_error_detail());
            continue;
        }
        ck_assert_msg(status == ECORNN_OK, "%s: %s", of[i].force, ecornn_error_detail());
        ecornn_plan_print(plan, text, sizeof text);
        ck_assert_msg(strstr(text, "forced: ") != NULL, "%s", text);
        ecornn_plan_free(plan);
    }
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
    setvbuf(stdout, NULL, _IOLBF, 0); /* what failed is seen even if all takes too long */
    only = argc > 1 ? argv[1] : getenv("ECORNN_CASE");
    restricted = getenv("ECORNN_ALGORITHM") != NULL;
    if (ecornn_device_open(&device, "cuda") != ECORNN_OK) {
        printf("1..0 # SKIP %s\n", ecornn_error_detail());
        return EXIT_SUCCESS;
    }
    Suite *suite = suite_create("gpu");
    TCase *tests = tcase_create("cuda"), *own = tcase_create("own cells"),
          *replay = tcase_create("replay");
    read_part();
    tcase_add_loop_test(replay, replay_agrees_with_reference, 0, share(sweep_count(only)));
    tcase_add_loop_test(tests, agrees_with_reference, 0, share(sweep_count(only)));
    if (!only) {
        tcase_add_loop_test(tests, agrees_in_large_layers, 0, share(TYPES * LARGE));
        tcase_add_loop_test(tests, agrees_where_groups_end_early, 0, share(TYPES * ENDED));
        tcase_add_loop_test(tests, agrees_in_few_steps, 0, share(TYPES * FEW));
        tcase_add_loop_test(tests, agrees_where_rows_are_apart, 0, share(TYPES * APART));
        tcase_add_loop_test(own, agrees_where_rows_begin_anew, 0, share(TYPES * ANEW));
        tcase_add_loop_test(own, agrees_in_scans, 0, share(2 * TYPES * SCANNED));
        tcase_add_loop_test(own, gives_the_bits_of_episodes, 0, share(EPISODE_TYPES * EPISODES));
        tcase_add_loop_test(own, agrees_for_own_cells, 0, share(sweep_own_count()));
        tcase_add_loop_test(own, gives_the_same_bits_however_compiled, 0,
                            share(TYPES * builtin_count()));
        tcase_add_loop_test(own, runs_all_steps_at_once, 0, share(TYPES * PERSISTENT));
        tcase_add_loop_test(own, runs_a_step_at_once, 0, share(TYPES));
        tcase_add_loop_test(tests, agrees_with_f64_of_the_device, 0, share(BESIDE_F64));
    }
    if (!only && part.first == 0) {
        tcase_add_test(own, says_how_a_cell_runs);
        tcase_add_test(own, zeros_stay_in_scans);
        tcase_add_test(tests, refuses_memory_of_the_host);
        tcase_add_test(tests, zeros_meet_large_gradients);
        tcase_add_test(tests, needs_y_to_train);
        tcase_add_test(tests, says_when_memory_is_out);
        tcase_add_test(tests, says_what_cannot_be_forced);
    }
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, replay);
    suite_add_tcase(suite, own);
    const int status = suite_run(suite, false); /* CUDA does not outlive a fork */
    printf("# cases: %d\n", compared);
    ecornn_device_close(device);
    return status;
}
