/*
 * Nets. Forward and backward must have the bits of their layers run one by one, and gradients must
 * agree with finite differences. Tested on the reference, the CPU, and a GPU if there is one.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/kit/calls.h"
#include "tests/kit/models.h"
#include "tests/kit/stack.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const struct stack_case list[] = {
    {"f32/train", 11, 3, 4, "lstm/H5/bi; join:2; gru/H6/rev; join:3; lstm/H7", false},
    {"f32/train", 11, 3, 4, "join:2; lstm/H5/bi; join:2; gru/H6/rev", true},
    {"f64/train/batch-major", 7, 2, 3, "join:3; gru/H4 + lstm/H5/rev; lstm/H3", true},
    {"f64/train", 6, 2, 3, "rnn-tanh/H3; join:2; lstm/H6/P4; mgu/H4/heads:2/rev; join:2", true},
    {"bf16/train", 7, 4, 8, "lstm/H9 + gru/H8/rev + mgu/H7; join:2; gru/H16 + gru/H3", true},
    {"bf16/train", 9, 3, 8, "min-gru/H9 + min-lstm/L2/H8/bi; join:2; min-gru/H16", true},
    {"f32/train/batch-major", 8, 3, 3, "lstm/H4; join:2; join:2; gru/H4; lstm/H4", true},
    {"f32/train/batch-major", 7, 2, 3, "lstm/H4; join:2; gru/H4", false},
    {"f32/train/batch-major/repeat-padding", 6, 3, 3, "gru/H4; join:2; gru/H3 + gru/H5/rev", true},
    {"f32/train", 8, 1, 3, "gru/H4; join:4; gru/H5 + lstm/H2/bi; join:2", false},
    {"f32/train/resets/mask", 5, 3, 4, "lstm/H5; gru/H4/rev + lstm/H3", true},
    {"f32/train/resets", 11, 3, 4, "lstm/H5/bi; join:2; gru/H6/rev; join:3; lstm/H7", true},
    {"f64/train/mask/batch-major", 9, 3, 3, "lstm/H4; join:2; gru/H4 + lstm/H3/rev; join:2", true},
    {"f32/train/resets/mask", 10, 4, 3, "join:3; lstm/L2/H5/bi; join:2; gru/H3", false},
    {"bf16/train/mask/resets/repeat-padding", 8, 3, 4, "gru/H4/rev; join:2; lstm/H4; gru/H3", true},
    {"f32/train", 6, 3, 5, "dropout:0.5; lstm/H6; dropout:0.25; gru/H3 + lstm/H4; join:2", true},
    {"f64/train/batch-major", 7, 2, 3, "gru/H4; join:2; dropout:0.3; lstm/H5; dropout:0.2", true},
    {"f32/infer", 6, 3, 5, "dropout:0.5; lstm/H6; dropout:0.25; gru/H3; dropout:0.1", true},
    {"f32/train/save:states", 6, 3, 4, "lstm/L2/H5/dropout:0.5; join:2; lstm/L2/H4/dropout:0.5",
     true},
    {"f32/infer/batch-major", 12, 3, 4, "lstm/H5; join:2; gru/H6 + mgu/H3; join:2; lstm/H7", true},
};
enum { NETS = sizeof list / sizeof *list };
static const char *const devices[] = {"reference", "cpu:1", "cpu:3", "cuda"};
enum { DEVICES = sizeof devices / sizeof *devices };

/* ---- bits ------------------------------------------------------------------------------------ */

START_TEST(bits_are_those_of_layers_by_hand)
{
    struct stack stack;
    if (suite_lacks(devices[_i % DEVICES]))
        return;
    /* layers in order, as one by one; tests/gpu/test_gpu_net tests concurrent layers */
    stack_open(&stack, devices[_i % DEVICES], &list[_i / DEVICES], "at-once=1");
    stack_check(&stack, 1);
    stack_close(&stack);
}
END_TEST

/* ---- differences ----------------------------------------------------------------------------- */

/* Inputs that are moved along a direction, and their gradients. */
static const int moved[][2] = {{X, DX}, {INITIAL, DINITIAL}, {PARAMS, DPARAMS}};
enum { MOVED = sizeof moved / sizeof *moved };

/* The loss <dy, y> + <dfinal, final> after inputs moved this far along a direction. */
static double loss(struct stack *stack, struct part direction, double step)
{
    const struct part net = {.of = &stack->net};
    for (int i = 0; i < MOVED; i++)
        part_add(net, step, direction, moved[i][0]);
    stack_run(stack);
    for (int i = 0; i < MOVED; i++)
        part_add(net, -step, direction, moved[i][0]);
    return part_product(net, DY, net, Y) + part_product(net, DFINAL, net, FINAL);
}

static const struct stack_case differences[] = {
    {"f64/train", 7, 3, 3, "join:2; gru/H4 + lstm/H3/rev; join:2; lstm/H5; gru/H2", true},
    {"f64/train/mask/resets", 8, 3, 3, "gru/H4/bi; join:2; lstm/H3/rev; join:2; gru/H2", true},
    {"f64/train/mask/batch-major", 8, 3, 3, "join:2; gru/H4; dropout:0.4; lstm/H3; join:3", true}};

START_TEST(gradients_are_differences)
{
    const double step = 1e-5;
    struct stack stack;
    struct trial along;
    const struct part net = {.of = &stack.net}, direction = {.of = &along};
    double gradient = 0;
    stack_open(&stack, "reference", &differences[_i], NULL);
    trial_open_beside(&along, &stack.net);
    trial_fill(&along, 4);
    stack_run(&stack);
    for (int i = 0; i < MOVED; i++)
        gradient += part_product(direction, moved[i][0], net, moved[i][1]);
    const double slope =
        (loss(&stack, direction, step) - loss(&stack, direction, -step)) / (2 * step);
    ck_assert_double_eq_tol(slope, gradient, 1e-8 * (1 + fabs(gradient)));
    ck_assert_double_gt(fabs(gradient), 0.01);
    trial_close(&along);
    stack_close(&stack);
}
END_TEST

/* ---- models ---------------------------------------------------------------------------------- */

static const struct models_case of_models[] = {
    {"f32/train/T8/N3/I4; lstm/H4/bi; join:2; gru/H3 + lstm/H4; join:2; gru/H2", 3, false, true},
    {"f32/train/batch-major/T8/N3/I4; join:2; gru/H4 + lstm/H3; lstm/H4; join:2", 3, true, true},
    {"f32/train/resets/mask/T8/N3/I4; join:2; lstm/H4; join:2; gru/H3/rev", 3, false, false},
    {"f32/train/resets/mask/T8/N3/I4; gru/H4/rev; lstm/H3; join:3; gru/H3", 3, true, true}};
enum { MODEL_NETS = sizeof of_models / sizeof *of_models };

START_TEST(models_are_nets)
{
    if (suite_lacks(devices[_i % DEVICES]))
        return;
    setenv("ECORNN_FORCE", "at-once=1", 1);
    models_check(&of_models[_i / DEVICES], devices[_i % DEVICES]);
}
END_TEST

/* ---- smaller runs ---------------------------------------------------------------------------- */

/* A run in parts of the steps; states pass from one part to the next. Dropout above the join counts
 * joined steps. */
START_TEST(parts_are_the_whole)
{
    enum { T = 12, N = 3, I = 4, H = 5, FIRST = 8 };
    struct trial all, some;
    const struct part part = {.of = &some};
    trial_open_on(&all, "cpu:2",
                  "f32/train/T12/N3/I4; lstm/H10; dropout:0.2; join:2; dropout:0.4; gru/H5");
    ck_assert_int_eq(all.sizes.joined, 2);
    ck_assert_int_eq(all.sizes.output, H);
    ck_assert(all.sizes.steps == T && all.sizes.batch == N && all.sizes.input == I);
    ck_assert_int_eq(all.sizes.layers, 2);
    for (int k = 0; k < all.sizes.layers; k++) {
        struct net_layer layer;
        check_ok(net_layer_at(all.plan, k, &layer));
        ck_assert_int_eq(layer.sizes.input, k == 0 ? I : 4 * H);
        ck_assert_int_eq(layer.sizes.steps, k == 0 ? T : T / 2);
    }
    trial_fill(&all, 1);
    trial_open_beside(&some, &all);
    trial_run(&all);
    trial_size(&some, 0, N, 0);
    trial_run(&some);
    ck_assert(part_same(part, DINITIAL, part, DFINAL) && part_same(part, FINAL, part, INITIAL));
    for (int32_t from = 0, to = FIRST; from < T; from = to, to = T) {
        const struct part whole = {.of = &all, .step = from};
        trial_size(&some, to - from, N, 0);
        part_copy_inputs(part, whole);
        if (from > 0)
            part_copy(part, INITIAL, part, FINAL);
        some.io.first_step = (uint32_t)from;
        trial_run(&some);
        part_check(part, whole, Y, to == T ? FINAL : Y, "a part");
    }
    trial_close(&some), trial_close(&all);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

START_TEST(wrong_texts_are_refused)
{
    static const struct {
        const char *text, *word;
        ecornn_status status;
    } wrong[] = {
        {";", "the first piece of a net has no T", 0},
        {"f32/T5/N2; lstm/H4", "has no I: it must say what all layers have in common", 0},
        {"f32/T5/N2/I3/T6; lstm/H4", "\"T6\" in a net: T was 5 before", 0},
        {"f32/T0/N2/I3; lstm/H4", "\"T0\" in a net: must be 1 to 16777216", 0},
        {"f32/T99999999999/N2/I3; lstm/H4", "must be 1 to 16777216", 0},
        {"f32/T5/N2/I3; join:2", "a net has no layers", 0},
        {"f32/T5/N2/I3; lstm/H4;", "layer 1 of a net is empty", 0},
        {"f32/T5/N2/I3; lstm/H4 + ; gru/H3", "layer 1 of a net is empty", 0},
        {"f32/T5/N2/I3; lstm/H4; join:1", "\"join:1\" in a net: must be join:2 to join:16777216",
         0},
        {"f32/T5/N2/I3; lstm/H4; join:x", "\"join:x\" in a net", 0},
        {"f32/T5/N2/I3; lstm/H8192; join:16777216", "gives 137438953472 columns, at most", 0},
        {"f32/T5/N2/I3; lstm/H4; nix/H4", "layer 1 of a net: no built-in cell is called \"nix\"",
         0},
        {"f32/T5/N2/I3; lstm", "layer 0 of a net: hidden is 0", 0},
        {"f32/T5/I3; lstm/H3", "layer 0 of a net: batch is 0", 0},
        {"f32/T5/N2/I3; lstm/H4/T9", "\"T9\" contradicts \"T5\"", 0},
        {"f32/T5/N2/I3; lstm/H4/f64", "\"f64\" contradicts \"f32\"", 0},
        {"lstm/T5/N2/I3; lstm/H4", "\"lstm\" is not a valid part of problem string", 0},
        {"T5/N2/I3; lstm/H4; lstm/H4/bf16", "layer 1 of a net: its type is 3, but that of layer 0",
         0},
        {"T5/I3; lstm/H4/N2 + gru/H4/N3", "its batch is 3, but that of layer 0 2", 0},
        {"f32/T5/N2/I3; lstm/H4/train; gru/H4", "its train is 0", 0},
        {"f32/train/T5/N2/I3; lstm/H4/dropout:0.5", "goes between layers of one plan", 0},
        {"f32/T5/N2/I3; lstm/H4; gru/H4/models:2", "its models is 2, but that of layer 0 1", 0},
        {"f32/T5/N2/I3; lstm/L1/H4/dropout:0.5", "goes between layers of one plan", 0},
        {"f32/train/T5/N2/I3; lstm/H4; dropout:1", "must be above 0 and below 1", 0},
        {"f32/train/T5/N2/I3; dropout:half; lstm/H4", "\"dropout:half\" in a net", 0},
        {"f64/T16777216/N16777216/I1; gru/H4096; gru/H1", "more bytes than can be counted",
         ECORNN_UNSUPPORTED},
        {"streams/T5/N2/I3; lstm/H4", "layer 0 of a net: nets have no streams", ECORNN_UNSUPPORTED},
        {"f64/train/T16777216/N16777216/I16777216; join:2; join:2; lstm/H4", "columns", 0},
    };
    ecornn_plan *plan = NULL;
    char text[6000];
    ecornn_device *const device = device_on("cpu:1");
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        const ecornn_status status = wrong[k].status ? wrong[k].status : ECORNN_BAD_ARGUMENT;
        check_refused(ecornn_plan_create(&plan, device, wrong[k].text, NULL), status,
                      wrong[k].word);
        ck_assert_ptr_null(plan);
    }
    memset(text, ';', sizeof text), text[sizeof text - 1] = '\0';
    REFUSES(ecornn_plan_create(&plan, device, text, NULL), "has 5999 characters, at most 4095");
    strcpy(text, "T4/N2/I2");
    for (int k = 0; k < 65; k++)
        strcat(text, k % 2 ? "+gru/H2" : ";gru/H2");
    REFUSES(ecornn_plan_create(&plan, device, text, NULL), "a net has more than 64 layers");
    ecornn_device_close(device);
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    static const char own[] = "cell own(h)\nh' = tanh(W x + R h)\n";
    ecornn_cell *cell;
    ecornn_plan *plan = NULL;
    struct net_layer layer;
    ecornn_sizes sizes;
    char text[4000];
    float x[64] = {0};
    ecornn_device *const device = device_on("cpu:1");
    check_ok(ecornn_cell_parse(&cell, own));
    const ecornn_cell *const cells[] = {cell, NULL};
    REFUSES(ecornn_plan_create(NULL, device, "", NULL), "plan is NULL");
    REFUSES(ecornn_plan_create(&plan, device, NULL, NULL), "text is NULL");
    check_ok(ecornn_plan_create(&plan, device, "train/T4/N2/I3;own/H3;join:2;gru/H2", cells));
    ck_assert_int_gt(ecornn_plan_print(plan, text, sizeof text), 200);
    ck_assert_ptr_nonnull(strstr(text, "2 layers, 2 steps of x to one of y, which is 2 wide"));
    ck_assert_ptr_nonnull(strstr(text, "layer 1: gru/f32/train/T2/N2/I6/H2"));
    ck_assert_int_eq(ecornn_plan_print(plan, NULL, 0), (int)strlen(text));
    ck_assert_int_eq(ecornn_plan_print(NULL, NULL, 0), -1);
    ck_assert_int_eq(ecornn_plan_print(plan, NULL, 9), -1);
    REFUSES(ecornn_plan_sizes(plan, NULL), "sizes is NULL");
    REFUSES(get_sizes(NULL, &sizes), "plan is NULL");
    get_sizes(plan, &sizes);
    REFUSES(net_layer_at(NULL, 0, &layer), "plan is NULL");
    REFUSES(ecornn_plan_layer(plan, 0, NULL), "layer is NULL");
    REFUSES(net_layer_at(plan, 2, &layer), "index is 2, must be 0 to 1");
    void *const weights = ecornn_alloc(device, sizes.weight_bytes);
    void *const workspace = ecornn_alloc(device, sizes.workspace_bytes);
    const void *none[20] = {NULL};
    void *dnone[20] = {NULL};
    REFUSES(ecornn_pack(NULL, none, NULL, weights, NULL), "plan is NULL");
    REFUSES(ecornn_pack(plan, NULL, NULL, weights, NULL), "params is NULL");
    REFUSES(ecornn_pack(plan, none, NULL, NULL, NULL), "weights is NULL");
    REFUSES(ecornn_pack(plan, none, NULL, weights, NULL), "layer 0 of a net: params[0] is NULL");
    REFUSES(ecornn_unpack(NULL, weights, NULL, 0, NULL), "plan is NULL");
    REFUSES(ecornn_unpack(plan, weights, NULL, 0, NULL), "dparams is NULL");
    REFUSES(ecornn_unpack(plan, NULL, dnone, 0, NULL), "dweights is NULL");

    const ecornn_io given = {.size = sizeof given, .initial = {NULL, x}};
    ecornn_gradient gradient = {.size = sizeof gradient};
    const ecornn_io good = {
        .size = sizeof good, .x = x, .weights = weights, .workspace = workspace};
    const int32_t lengths[] = {4, 5};
    ecornn_io io = good;
    REFUSES(forward_all(NULL, &io), "plan is NULL");
    REFUSES(forward_all(plan, NULL), "io is NULL");
    REFUSES(backward_all(plan, &io, NULL), "gradient is NULL");
    REFUSES(backward_all(NULL, &io, &gradient), "plan is NULL");
    REFUSES(backward_all(plan, &io, &gradient), "io.reserve is NULL");
    gradient.size = 1;
    REFUSES(backward_all(plan, &io, &gradient), "gradient.size is 1");
    gradient.size = sizeof gradient, gradient.dfinal[1] = x;
    REFUSES(backward_all(plan, &io, &gradient), "gradient.dfinal is");
    io.size = 3;
    REFUSES(forward_all(plan, &io), "io.size is 3");
    io = good;
    REFUSES(ecornn_forward(plan, 5, 2, &io), "steps is 5, must be 0 to 4");
    REFUSES(ecornn_forward(plan, 4, -1, &io), "batch is -1, must be 0 to 2");
    io = good, io.x = NULL;
    REFUSES(forward_all(plan, &io), "io.x is NULL");
    io = good, io.lengths = (const int32_t *)((const char *)lengths + 2);
    REFUSES(forward_all(plan, &io), "io.lengths is");
    io = good, io.lengths = lengths;
    REFUSES(forward_all(plan, &io), "io.lengths[1] is 5, must be 0 to 4");
    io = good, io.workspace_bytes = 1;
    REFUSES(forward_all(plan, &io), "io.workspace_bytes is 1");
    io = good, io.initial[0] = x;
    REFUSES(forward_all(plan, &io), "io.initial is");
    io = good, io.first_step = 3;
    REFUSES(forward_all(plan, &io), "must be a multiple of the 2 steps");
    io = good, io.layers = (const ecornn_io *[]){NULL, &given};
    REFUSES(forward_all(plan, &io), "layer 1 of a net: io.initial[1] is");
    ecornn_io of = {.size = sizeof of, .lengths = lengths};
    io = good, io.layers = (const ecornn_io *[]){&of, NULL};
    REFUSES(ecornn_forward(plan, 4, 2, &io), "io.layers[0] sets byte 8, but may only have initial");
    io = good, io.rows = lengths, io.streams = 8;
    check_refused(forward_all(plan, &io), ECORNN_UNSUPPORTED, "needs a plan of layers");
    io = good, io.streams = 8;
    REFUSES(forward_all(plan, &io), "io.streams is 8, must be 0 without io.rows");
    ecornn_free(device, weights), ecornn_free(device, workspace);
    ecornn_plan_free(plan), ecornn_plan_free(NULL);
    ecornn_cell_free(cell);
    ecornn_device_close(device);
}
END_TEST

/* The last layer needs y. Its absence is reported before the first layer has run. */
START_TEST(nothing_runs_of_a_wrong_call)
{
    static float numbers[64], final[3 * 2] = {5};
    ecornn_plan *plan = NULL;
    ecornn_sizes sizes;
    const void *params[20];
    ecornn_device *const device = device_on("cpu:1");
    check_ok(ecornn_plan_create(&plan, device,
                                "train/T4/N2/I3; rnn-tanh/H3; rnn-tanh/H2/save:states", NULL));
    get_sizes(plan, &sizes);
    for (int k = 0; k < sizes.param_count; k++)
        params[k] = numbers;
    void *const weights = ecornn_alloc(device, sizes.weight_bytes),
                *const workspace = ecornn_alloc(device, sizes.workspace_bytes),
                *const reserve = ecornn_alloc(device, sizes.reserve_bytes);
    check_ok(ecornn_pack(plan, params, NULL, weights, NULL));
    const ecornn_io first = {.size = sizeof first, .final = {final}};
    const ecornn_io io = {.size = sizeof io,
                          .x = numbers,
                          .weights = weights,
                          .workspace = workspace,
                          .reserve = reserve,
                          .layers = (const ecornn_io *[]){&first, NULL}};
    REFUSES(forward_all(plan, &io), "layer 1 of a net: io.y is NULL");
    ck_assert_float_eq(final[0], 5);
    ecornn_free(device, weights), ecornn_free(device, workspace), ecornn_free(device, reserve);
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}
END_TEST

/* Each allocation of a plan fails once, and nothing leaks (AddressSanitizer would report it). */
START_TEST(memory_may_be_short)
{
    ecornn_plan *plan = NULL;
    ecornn_status status = ECORNN_NO_MEMORY;
    int k = 0;
    ecornn_device *const device = device_on("cpu:1");
    while (status != ECORNN_OK) {
        eco_alloc_fail_at(++k);
        status = ecornn_plan_create(&plan, device, "T4/N2/I3; gru/H3; lstm/H2", NULL);
        eco_alloc_fail_at(0);
        ck_assert(status == ECORNN_OK || (status == ECORNN_NO_MEMORY && plan == NULL));
    }
    ck_assert_int_gt(k, 3);
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}
END_TEST

TEST_MAIN("net", {bits_are_those_of_layers_by_hand, NETS *DEVICES},
          {gradients_are_differences, sizeof differences / sizeof *differences},
          {models_are_nets, MODEL_NETS *DEVICES}, {parts_are_the_whole, 1},
          {wrong_texts_are_refused, 1}, {wrong_calls_are_refused, 1},
          {nothing_runs_of_a_wrong_call, 1}, {memory_may_be_short, 1})
