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

#include "common/util.h"
#include "tests/kit/calls.h"
#include "tests/kit/stack.h"
#include "tests/kit/suite.h"

static const char *const tested = "cuda";

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

/* Can partitions be forced? Algorithm persistent needs a device with clusters for that. */
static bool has_parts(ecornn_device *device)
{
    ecornn_device_info info;
    check_ok(query_device(device, &info));
    return strncmp(info.variant, "sm_9", 4) == 0;
}

static ecornn_plan *plan_of(ecornn_device *device, const char *text, bool forced)
{
    static char printed[1 << 16];
    ecornn_plan *plan;
    if (forced)
        setenv("ECORNN_FORCE", at_once, 1);
    check_ok(ecornn_plan_create(&plan, device, text, NULL));
    unsetenv("ECORNN_FORCE");
    ck_assert_int_lt(ecornn_plan_print(plan, printed, sizeof printed), (int)sizeof printed);
    ck_assert_msg(!forced || strstr(printed, "at once, each in a part"), "%s", printed);
    return plan;
}

static void same(const struct stack *stack, const char *name, const char *is, const char *must,
                 size_t bytes)
{
    ck_assert_msg(memcmp(is, must, bytes) == 0, "%s: other %s", stack->text, name);
}

/* A second run with the same memory is launched from graphs. */
static void check_bits(const struct stack_case *is, bool forced)
{
    struct stack stack;
    struct arrays in = {NULL}, out, must;
    stack_open(&stack, tested, is);
    if (forced && !has_parts(stack.device)) {
        stack_close(&stack);
        return;
    }
    ecornn_plan *const plan = plan_of(stack.device, stack.text, forced);
    stack_take_choices(&stack, plan);
    stack_arrays(&stack, &in);
    stack_by_hand(&stack, &in, &must);
    for (int runs = 0; runs < (forced ? 3 : 1); runs++) {
        stack_run(&stack, plan, &in, &out);
        same(&stack, "y", out.y, must.y, stack.y);
        for (int k = 0; k < stack.layers; k++)
            same(&stack, "final", out.final[k], must.final[k], stack_state_bytes(&stack.layer[k]));
        if (stack.trains) {
            same(&stack, "dx", out.dx, must.dx, stack.x);
            same(&stack, "dparams", out.dparams, must.dparams, stack.params);
        }
        stack_free(&out);
    }
    stack_free(&in), stack_free(&must);
    ecornn_plan_free(plan);
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
    ecornn_device *device;
    check_ok(ecornn_device_open(&device, tested));
    for (size_t i = 0; has_parts(device) && i < sizeof all / sizeof *all; i++) {
        ecornn_plan *const plan = plan_of(device, all[i].text, false);
        ecornn_plan_print(plan, printed, sizeof printed);
        ck_assert_msg((strstr(printed, "at once, each in a part") != NULL) == all[i].at_once, "%s",
                      printed);
        ecornn_plan_free(plan);
    }
    ecornn_device_close(device);
}
END_TEST

START_TEST(refuses_what_at_once_cannot_be)
{
    ecornn_device *device;
    ecornn_plan *plan;
    check_ok(ecornn_device_open(&device, tested));
    setenv("ECORNN_FORCE", "at-once=0", 1);
    ck_assert_int_eq(
        ecornn_plan_create(&plan, device, "f32/train/T4/N2/I4; lstm/H8 + gru/H8", NULL),
        ECORNN_UNSUPPORTED);
    unsetenv("ECORNN_FORCE");
    ck_assert_msg(strstr(ecornn_error_detail(), "at-once=0 is none of the values") != NULL, "%s",
                  ecornn_error_detail());
    ecornn_device_close(device);
}
END_TEST

/* The largest difference relative to the largest number. */
static double distance(const char *is, const char *must, size_t bytes, ecornn_type type)
{
    double most = 0, apart = 0;
    for (size_t i = 0; i < bytes / eco_type_bytes(type); i++) {
        most = fmax(most, fabs(eco_type_get(must, i, type)));
        const double d = fabs(eco_type_get(is, i, type) - eco_type_get(must, i, type));
        apart = d <= apart ? apart : d; /* a NaN counts as infinitely different */
    }
    return apart / most;
}

/* The reference adds in another order and does not round to the type between layers. The bound
 * allows for this; a wrong join would give a difference as large as the numbers. */
START_TEST(numbers_are_the_references)
{
    static const double bound[] = {
        [ECORNN_F32] = 2e-5, [ECORNN_F64] = 1e-12, [ECORNN_BF16] = 0.03, [ECORNN_F16] = 0.005};
    const struct stack_case *const is = &list[_i];
    struct stack here, there;
    struct arrays in = {NULL}, out, must;
    ecornn_plan *plan, *exact;
    stack_open(&here, tested, is), stack_open(&there, "reference", is);
    check_ok(ecornn_plan_create(&plan, here.device, here.text, NULL));
    check_ok(ecornn_plan_create(&exact, there.device, there.text, NULL));
    stack_arrays(&here, &in);
    stack_run(&here, plan, &in, &out);
    stack_run(&there, exact, &in, &must);
    const double most = strstr(is->common, "fast") ? 0.01 : bound[here.type];
    const ecornn_type param = here.type == ECORNN_F64 ? ECORNN_F64 : ECORNN_F32;
    ck_assert_double_lt(distance(out.y, must.y, here.y, here.type), most);
    if (here.trains) {
        ck_assert_double_lt(distance(out.dx, must.dx, here.x, here.type), most);
        ck_assert_double_lt(distance(out.dparams, must.dparams, here.params, param), most);
    }
    stack_free(&in), stack_free(&out), stack_free(&must);
    ecornn_plan_free(plan), ecornn_plan_free(exact);
    stack_close(&here), stack_close(&there);
}
END_TEST

/* ---- calls that fail ------------------------------------------------------------------------- */

static void *memory_of(ecornn_device *device, size_t bytes)
{
    void *const zeros = calloc(1, bytes + 1), *const memory = ecornn_alloc(device, bytes);
    if (bytes > 0)
        check_ok(ecornn_upload(device, memory, zeros, bytes));
    free(zeros);
    return memory;
}

/* Runs forward and backward while call k fails. False: there are fewer calls, and all succeeded. */
static bool run_fails(const ecornn_plan *plan, ecornn_device *device, const ecornn_io *io,
                      const ecornn_gradient *gradient, int k)
{
    eco_call_fail_at(k);
    ecornn_status status = net_forward_all(plan, io, NULL);
    if (status == ECORNN_OK)
        status = net_backward_all(plan, io, gradient, NULL);
    const bool failed = !eco_call_fail_at(0);
    ck_assert_int_eq(status == ECORNN_OK, !failed);
    check_ok(ecornn_wait(device, NULL));
    return failed;
}

/* Runs layers in order, and concurrently. */
START_TEST(calls_that_fail_are_said)
{
    enum { T = 7, N = 3, I = 4, U = 4, MOST_CALLS = 4000 };
    static const char *const text[] = {"train/T7/N3/I4; gru/H4 + lstm/H5/rev; join:2",
                                       "train/T7/N3/I4; gru/H64 + lstm/H64/rev; join:2"};
    ecornn_device *device;
    ecornn_sizes sizes;
    int k = 1;
    setenv("ECORNN_FORCE", "graph=0", 1); /* with graphs, a run survives the failure of a capture */
    check_ok(ecornn_device_open(&device, tested));
    unsetenv("ECORNN_FORCE");
    ecornn_plan *const plan = plan_of(device, text[_i], _i == 1 && has_parts(device));
    get_sizes(plan, &sizes);
    ck_assert_int_eq(sizes.joined, 2);
    const size_t y = (size_t)U * N * (size_t)sizes.output * 4;
    void *const blocks[] = {memory_of(device, sizes.weight_bytes),
                            memory_of(device, sizes.dweight_bytes),
                            memory_of(device, sizes.workspace_bytes),
                            memory_of(device, sizes.reserve_bytes),
                            memory_of(device, T * N * I * 4),
                            memory_of(device, T * N * I * 4),
                            memory_of(device, y),
                            memory_of(device, y),
                            memory_of(device, N * 4)};
    const ecornn_io io = {.size = sizeof io,
                          .weights = blocks[0],
                          .workspace = blocks[2],
                          .reserve = blocks[3],
                          .x = blocks[4],
                          .y = blocks[6],
                          .lengths = blocks[8]};
    const ecornn_gradient gradient = {
        .size = sizeof gradient, .dweights = blocks[1], .dx = blocks[5], .dy = blocks[7]};
    while (k < MOST_CALLS && run_fails(plan, device, &io, &gradient, k))
        k++;
    ck_assert_int_lt(k, MOST_CALLS);
    printf("# a step of a net makes %d calls\n", k - 1);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        ecornn_free(device, blocks[i]);
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}
END_TEST

static ecornn_device *device;
GPU_TEST_MAIN("gpu nets", &device, {bits_are_those_of_layers_by_hand, NETS},
              {numbers_are_the_references, NETS}, {bits_are_those_by_hand_at_once, BESIDE},
              {small_ones_run_at_once, 1}, {refuses_what_at_once_cannot_be, 1},
              {calls_that_fail_are_said, 2})
