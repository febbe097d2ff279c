/*
 * Nets on a GPU. Their bits must be those of their layers run one by one on the GPU, and their
 * numbers close to those of the reference. Also, calls of CUDA fail.  Skipped, with the reason,
 * where there is no device.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "common/util.h"
#include "tests/kit/calls.h"
#include "tests/kit/stack.h"
#include "tests/kit/suite.h"

static const char *const tested = "cuda";
static ecornn_device *device;

/* They cover every type, rows that are multiples of 16 bytes and others, persistent kernels, fused
 * steps and single steps. */
static const struct stack_case list[] = {
    {"f32/train", 40, 32, 40, "lstm/H64/bi; join:2; lstm/H64/bi; join:2; gru/H96", true},
    {"f32/train/batch-major", 37, 16, 24, "join:3; gru/H32 + lstm/H48/rev; join:2; gru/H33", true},
    {"bf16/train", 33, 32, 64, "lstm/H128; gru/H128/rev + lstm/H64; join:4; lstm/H128", true},
    {"bf16/train/batch-major", 32, 8, 16, "gru/H64; join:2; gru/H64; join:2; gru/H17", true},
    {"f16/train", 20, 64, 40, "join:2; lstm/H96/rev; lstm/H96; lstm/H96/rev", false},
    {"f16/train", 9, 5, 7, "gru/H9 + gru/H11 + lstm/H5/rev; join:2", true},
    {"f64/train", 11, 4, 6, "lstm/H8/P6; join:2; mgu/H10 + gru/H6/rev", true},
    {"f32/fast/train/repeat-padding", 12, 8, 16, "gru/H32; join:5; gru/H32", true},
    {"f32/train/resets/mask", 24, 16, 16, "lstm/H32; gru/H32/rev + lstm/H16", true},
    {"f32/infer", 50, 1, 32, "lstm/H64; join:2; lstm/H64; join:5; lstm/H64 + gru/H32", false},
};
enum { NETS = sizeof list / sizeof *list };

/* Layers side by side run concurrently. The cases have two or three of them, of different sizes,
 * cells and directions, with two directions, with several layers, between joins, and with resets
 * and masks. */
static const char *const at_once = "at-once=2,algorithm=persistent";
static const struct stack_case beside[] = {
    {"f32/train", 40, 32, 40, "lstm/H64 + gru/H96/rev", true},
    {"bf16/train/batch-major", 33, 32, 64,
     "gru/H128 + lstm/H64/bi; join:3; lstm/H128 + gru/H128 + lstm/H64/rev", true},
    {"f16/train/resets/mask", 24, 16, 16, "lstm/H64; gru/H64/rev + lstm/H128/rev", true},
    {"f32/fast/train", 30, 20, 48, "lstm/H96/L2/dropout:0.5 + lstm/H96; join:2; gru/H64", false},
    {"bf16/infer", 50, 8, 32, "lstm/H64 + lstm/H128; join:2; lstm/H64", false},
};
enum { BESIDE = sizeof beside / sizeof *beside };

#define AT_ONCE "at once, each in a part"
/* Can partitions be forced? Algorithm persistent needs a device with clusters for that. */
static bool has_parts(void)
{
    ecornn_device_info info;
    check_ok(query_device(device, &info));
    return strncmp(info.variant, "sm_9", 4) == 0;
}

/* A second run with the same memory is launched from graphs. */
static void check_bits(const struct stack_case *is, bool forced)
{
    static char printed[1 << 16];
    struct stack stack;
    if (forced && !has_parts())
        return;
    stack_open(&stack, tested, is, forced ? at_once : NULL);
    ecornn_plan_print(stack.net.plan, printed, sizeof printed);
    ck_assert_msg(!forced || strstr(printed, AT_ONCE), "%s", printed);
    stack_check(&stack, forced ? 3 : 1);
    stack_close(&stack);
}

START_TEST(bits_are_those_of_layers_by_hand)
{
    check_bits(&list[_i], false);
}
END_TEST

START_TEST(bits_are_those_by_hand_at_once)
{
    check_bits(&beside[_i], true);
}
END_TEST

/* The planner runs small layers of many steps concurrently, but in order if one of them fills the
 * device. */
START_TEST(small_ones_run_at_once)
{
    static char printed[1 << 16];
    static const struct {
        const char *text;
        bool at_once;
    } all[] = {{"bf16/train/T400/N32/I128; lstm/H256 + lstm/H256/rev", true},
               {"bf16/train/T200/N64/I64; gru/H128; join:2; lstm/H128 + gru/H128/rev", true},
               {"bf16/train/T100/N512/I1024; lstm/H1024 + lstm/H1024/rev", false}};
    for (size_t i = 0; has_parts() && i < sizeof all / sizeof *all; i++) {
        ecornn_plan *const plan = plan_on(device, all[i].text);
        ecornn_plan_print(plan, printed, sizeof printed);
        ck_assert_msg((strstr(printed, AT_ONCE) != NULL) == all[i].at_once, "%s", printed);
        ecornn_plan_free(plan);
    }
}
END_TEST

START_TEST(refuses_what_at_once_cannot_be)
{
    ecornn_plan *plan;
    setenv("ECORNN_FORCE", "at-once=0", 1);
    check_refused(ecornn_plan_create(&plan, device, "f32/train/T4/N2/I4; lstm/H8 + gru/H8", NULL),
                  ECORNN_UNSUPPORTED, "at-once=0 is none of the values");
    unsetenv("ECORNN_FORCE");
}
END_TEST

/* The largest difference relative to the largest number, in all layers. */
static double distance(const struct trial *is, const struct trial *must, int role)
{
    double most = 0, apart = 0;
    for (int k = 0; k < is->layers; k++) {
        const struct trial_array *const a = &is->array[k][role][0], *const b =
                                                                        &must->array[k][role][0];
        for (size_t i = 0; a->host != NULL && i < a->bytes / a->element; i++) {
            const double value = eco_type_get(b->host, i, b->type);
            const double d = fabs(eco_type_get(a->host, i, a->type) - value);
            most = fmax(most, fabs(value));
            apart = d <= apart ? apart : d; /* a NaN counts as infinitely different */
        }
    }
    return apart / most;
}

/* The reference adds in another order and does not round to the type between layers. The bound
 * allows for this; a wrong join would give a difference as large as the numbers. */
START_TEST(numbers_are_the_references)
{
    static const double bound[] = {
        [ECORNN_F32] = 2e-5, [ECORNN_F64] = 1e-12, [ECORNN_BF16] = 0.03, [ECORNN_F16] = 0.005};
    static const int roles[] = {Y, DX, DPARAMS};
    const struct stack_case *const is = &list[_i];
    struct stack here, there;
    stack_open(&here, tested, is, NULL), stack_open(&there, "reference", is, NULL);
    stack_run(&here), stack_run(&there);
    const double most = strstr(is->common, "fast") ? 0.01 : bound[here.type];
    for (size_t i = 0; i < (here.net.trains ? sizeof roles / sizeof *roles : 1); i++)
        ck_assert_double_lt(distance(&here.net, &there.net, roles[i]), most);
    stack_close(&here), stack_close(&there);
}
END_TEST

/* ---- calls that fail ------------------------------------------------------------------------- */

/* Runs layers in order, and concurrently. Each call fails once in a run, until all succeed. */
START_TEST(calls_that_fail_are_said)
{
    enum { MOST_CALLS = 4000 };
    static const struct stack_case cases[] = {
        {"f32/train", 7, 3, 4, "gru/H4 + lstm/H5/rev; join:2", true},
        {"f32/train", 7, 3, 4, "gru/H64 + lstm/H64/rev; join:2", true}};
    struct stack stack;
    bool failed = true;
    int k = 1;
    /* with graphs, a run survives the failure of a capture */
    stack_open(&stack, tested, &cases[_i],
               _i == 1 && has_parts() ? "graph=0,at-once=2,algorithm=persistent" : "graph=0");
    ck_assert_int_eq(stack.net.sizes.joined, 2);
    for (; failed && k < MOST_CALLS; k++) {
        trial_send(&stack.net);
        eco_call_fail_at(k);
        const ecornn_status status = trial_queue(&stack.net);
        failed = !eco_call_fail_at(0);
        ck_assert_int_eq(status == ECORNN_OK, !failed);
        check_ok(ecornn_wait(stack.net.device, NULL));
    }
    ck_assert_int_lt(k, MOST_CALLS);
    printf("# a step of a net makes %d calls\n", k - 2);
    stack_close(&stack);
}
END_TEST

GPU_TEST_MAIN("gpu nets", &device, {bits_are_those_of_layers_by_hand, NETS},
              {numbers_are_the_references, NETS}, {bits_are_those_by_hand_at_once, BESIDE},
              {small_ones_run_at_once, 1}, {refuses_what_at_once_cannot_be, 1},
              {calls_that_fail_are_said, 2})
