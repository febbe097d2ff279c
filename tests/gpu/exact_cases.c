/*
 * Cases whose results are known without the reference: zeros, the bits of the same run cut into
 * episodes or with a cell compiled otherwise, and F64 on the same device. Also the cells
 * from text.
 */
#include "tests/gpu/comparison.h"
#include "tests/kit/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The product of the factors of many steps overflows, but states that are 0 must stay 0 until an x
 * is not 0. */
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
    ck_assert_int_eq(parse_desc(&desc, "grows/f32/infer/T600/N1/I8/H8", cell), ECORNN_OK);
    setenv("ECORNN_FORCE", "algorithm=scan", 1);
    const ecornn_status status = ecornn_plan_create_desc(&plan, device, &desc);
    unsetenv("ECORNN_FORCE");
    ck_assert_msg(status == ECORNN_OK, "%s", ecornn_error_detail());
    get_sizes(plan, &sizes);
    void *x = ecornn_alloc(device, sizeof host), *y = ecornn_alloc(device, sizeof host),
         *workspace = ecornn_alloc(device, sizes.workspace_bytes);
    host[SIZE - 1] = 1;
    ck_assert_int_eq(ecornn_upload(device, x, host, sizeof host), ECORNN_OK);
    const ecornn_io io = {.size = sizeof io, .x = x, .y = y, .workspace = workspace};
    ck_assert_msg(forward_all(plan, &io) == ECORNN_OK, "%s", ecornn_error_detail());
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

/* Runs with resets that must have the bits of the same run cut into episodes. They have one layer
 * and one input and compute no dx, because large products may add in another order if they have
 * more rows. For the same reason padding is the same in all runs, and operands are not split. */
static const char *const episodes[] = {
    "lstm/f32/train/T70/N5/I1/H40/states/resets:25/null:dx",
    "lstm/f32/train/rev/T70/N17/I1/H72/states/resets:25/null:dx/lengths:random",
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

/* The only step of a run has the bits that it has among others. */
static const char *const steps[] = {
    "gated-delta/f32/infer/T3/N4/I3/H70/heads:1/key:70/states/all-states",
    "rwkv-7/bf16/infer/T3/N4/I3/H36/states/all-states",
    "normed-read/f64/infer/T3/N4/I3/H40/heads:1/key:20/states/all-states",
    "mlstm/f32/infer/T3/N3/I3/H80/heads:1/key:200/states/all-states/resets:30"};
enum { STEPS = sizeof steps / sizeof *steps };

START_TEST(gives_the_bits_of_steps)
{
    struct test_case test;
    struct data inputs = {0};
    ck_assert(case_parse(&test, steps[nth(_i)]));
    case_inputs(&test, &inputs);
    const struct machine machine = {device, test.desc.type, 1, NULL};
    ck_assert_msg(pieces_same(&test, &machine, &inputs, 1, test.N), "%s", test.text);
    data_free(&inputs);
    case_free(&test);
}
END_TEST

/* Long runs go by chunks and short ones by steps, with other arrays: no run needs more memory than
 * its plan says. */
static const char *const shorter[] = {
    "gated-delta/f32/train/T64/N2/I1540/H1024/heads:2/key:128",
    "gated-delta/f16/train/T130/N2/I228/H24/heads:3/key:33/save:every:128",
    "linear-attention/f32/train/T33/N2/I24/H8/heads:1/key:8/save:every:32"};
enum { SHORTER = sizeof shorter / sizeof *shorter };

START_TEST(shorter_runs_fit)
{
    ecornn_plan *plan;
    ecornn_sizes all, run = {.size = sizeof run};
    ck_assert_msg(ecornn_plan_create(&plan, device, shorter[nth(_i)], NULL) == ECORNN_OK, "%s",
                  ecornn_error_detail());
    get_sizes(plan, &all);
    const int32_t T = (int32_t)strtol(strstr(shorter[nth(_i)], "/T") + 2, NULL, 10);
    for (int32_t t = 1; t <= T; t++) {
        ck_assert_int_eq(ecornn_run_sizes(plan, t, 2, &run), ECORNN_OK);
        ck_assert_msg(run.workspace_bytes <= all.workspace_bytes &&
                          run.reserve_bytes <= all.reserve_bytes,
                      "%s: T%d needs more than the plan", shorter[nth(_i)], (int)t);
    }
    ecornn_plan_free(plan);
}
END_TEST

START_TEST(agrees_for_own_cells)
{
    static const char *const type[] = {"f32/fast", "f16"};
    char text[CASE_TEXT];
    sweep_own_text(nth(_i), text);
    ck_assert_msg(case_agrees(text, true, algorithms_agree), "%s", text);
    /* and in one other type, because the compiler takes seconds for each; F16 holds half of the
     * largest gradient */
    strcat(text, "/gradients:0.5");
    if (retype(text, type[nth(_i) % 2]))
        ck_assert_msg(case_agrees(text, true, algorithms_agree), "%s", text);
}
END_TEST

/* A cell gives the same bits whether it is compiled with the module, compiled by NVRTC, or
 * interpreted. */
START_TEST(gives_the_same_bits_however_compiled)
{
    static const char *const name[TYPES] = {"f32", "f64", "bf16", "f16"};
    const int type = nth(_i) % TYPES;
    const char *cell = cell_name(nth(_i) / TYPES);
    const struct machine machine = {device, (ecornn_type)(ECORNN_F32 + type), 1, NULL};
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

/* Layers that are too large for the reference are compared with F64 on the device, which computes
 * all sizes in one way. They have sums of products that are added in pieces, of every kind, and the
 * divisions that algorithm persistent uses for such sizes.
 */
static const struct {
    const char *text;
    double within;
} beside_f64[] = {{"lstm/f32/train/T7/N90/I300/H720/states", 1e-4},
                  {"rnn-tanh/f32/train/T40/N80/I64/H720/states", 1e-4},
                  /* R multiplied by four warps together (WGMMA): one square of it, two, and one in
                     clusters; in some, a few k blocks are kept */
                  {"lstm/f32/infer/T6/N64/I24/H512/states", 1e-5},
                  {"lstm/f32/infer/T6/N29/I24/H1020/states/lengths:random", 1e-5},
                  {"lstm/f32/infer/T6/N60/I24/H768/states", 1e-5},
                  {"gru/f32/infer/T6/N50/I24/H650/states", 1e-5},
                  {"lstm/f32/fast/train/T6/N64/I24/H1024/states", 5e-3},
                  {"lstm/f32/fast/infer/T6/N70/I24/H600/states/lengths:random", 5e-3},
                  {"lstm/f32/fast/infer/T6/N16/I24/H2048/states", 5e-3},
                  {"gru/bf16/infer/bi/T6/N75/I24/H590/states", 5e-2},
                  /* k blocks with scales, for a cell from text; not by four warps together */
                  {"four-states/f32/fast/infer/T6/N64/I24/H768/states", 5e-3},
                  /* k blocks with scales, and each warp multiplies what it gathers: one k block,
                     two, or half of one; backward three and six */
                  {"rnn-relu/f32/fast/infer/T6/N20/I24/H800/states", 5e-3},
                  {"rnn-relu/f32/infer/T6/N1/I24/H1024/states", 1e-5},
                  {"four-states/f32/fast/infer/T6/N16/I24/H256/states", 5e-3},
                  {"gru/f32/fast/train/T6/N64/I24/H512/states", 5e-3},
                  {"gru/f32/train/T6/N64/I24/H256/states", 1e-4},
                  /* sums reuse the memory of the operands */
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

/* Large products in F16 scale operands by their largest number. Here that of x is zero, and the
 * gradients of 1e7 are beyond F16. */
START_TEST(zeros_meet_large_gradients)
{
    check_beside_f64("lstm/f32/fast/train/T4/N3/I5/H16/scale:0/gradients:1e7/states", "1", 5e-3);
}
END_TEST

void add_exact_cases(TCase *tests, TCase *own, bool first)
{
    tcase_add_loop_test(own, gives_the_bits_of_episodes, 0, share(EPISODE_TYPES * EPISODES));
    tcase_add_loop_test(own, gives_the_bits_of_steps, 0, share(STEPS));
    tcase_add_loop_test(own, shorter_runs_fit, 0, share(SHORTER));
    tcase_add_loop_test(own, agrees_for_own_cells, 0, share(sweep_own_count()));
    tcase_add_loop_test(own, gives_the_same_bits_however_compiled, 0,
                        share(TYPES * builtin_count()));
    tcase_add_loop_test(tests, agrees_with_f64_of_the_device, 0, share(BESIDE_F64));
    if (!first)
        return;
    tcase_add_test(own, zeros_stay_in_scans);
    tcase_add_test(tests, zeros_meet_large_gradients);
}
