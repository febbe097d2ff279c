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

static void same(const struct stack *stack, const char *name, const char *is, const char *must,
                 size_t bytes)
{
    for (size_t i = 0; i < bytes / stack->element; i++)
        ck_assert_msg(memcmp(is + i * stack->element, must + i * stack->element, stack->element) ==
                          0,
                      "%s: %s[%zu] is %g, must be %g", stack->text, name, i,
                      eco_type_get(is, i, stack->type), eco_type_get(must, i, stack->type));
}

START_TEST(bits_are_those_of_layers_by_hand)
{
    struct stack stack;
    struct arrays in = {NULL}, is, must;
    ecornn_plan *plan;
    if (suite_lacks(devices[_i % DEVICES]))
        return;
    stack_open(&stack, devices[_i % DEVICES], &list[_i / DEVICES]);
    /* layers in order, as one by one; tests/gpu/test_gpu_net tests concurrent layers */
    setenv("ECORNN_FORCE", "at-once=1", 1);
    check_ok(ecornn_plan_create(&plan, stack.device, stack.text, NULL));
    unsetenv("ECORNN_FORCE");
    stack_arrays(&stack, &in);
    stack_run(&stack, plan, &in, &is);
    stack_by_hand(&stack, &in, &must);
    same(&stack, "y", is.y, must.y, stack.y);
    for (int k = 0; k < stack.layers; k++)
        same(&stack, "final", is.final[k], must.final[k], stack_state_bytes(&stack.layer[k]));
    if (stack.trains) {
        same(&stack, "dx", is.dx, must.dx, stack.x);
        ck_assert_mem_eq(is.dparams, must.dparams, stack.params);
        for (int k = 0; k < stack.layers; k++)
            same(&stack, "dinitial", is.dinitial[k], must.dinitial[k],
                 stack_state_bytes(&stack.layer[k]));
    }
    stack_free(&in), stack_free(&is), stack_free(&must);
    ecornn_plan_free(plan);
    stack_close(&stack);
}
END_TEST

/* ---- differences ----------------------------------------------------------------------------- */

static double product(const char *a, const char *b, size_t bytes)
{
    double sum = 0;
    for (size_t i = 0; i < bytes / sizeof(double); i++)
        sum += ((const double *)(const void *)a)[i] * ((const double *)(const void *)b)[i];
    return sum;
}

/* a += scale * b */
static void add(char *a, double scale, const char *b, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(double); i++)
        ((double *)(void *)a)[i] += scale * ((const double *)(const void *)b)[i];
}

/* The loss <dy, y> + <dfinal, final> after x and the parameters moved this far along a direction.
 */
static double loss(const struct stack *stack, const ecornn_plan *plan, struct arrays *in,
                   const struct arrays *direction, double step)
{
    struct arrays out;
    add(in->x, step, direction->x, stack->x);
    add(in->params, step, direction->params, stack->params);
    stack_run(stack, plan, in, &out);
    double sum = product(in->dy, out.y, stack->y);
    for (int k = 0; k < stack->layers; k++)
        sum += product(in->dfinal[k], out.final[k], stack_state_bytes(&stack->layer[k]));
    add(in->x, -step, direction->x, stack->x);
    add(in->params, -step, direction->params, stack->params);
    stack_free(&out);
    return sum;
}

static const struct stack_case differences[] = {
    {"f64/train", 7, 3, 3, "join:2; gru/H4 + lstm/H3/rev; join:2; lstm/H5; gru/H2", true},
    {"f64/train/mask/resets", 8, 3, 3, "gru/H4/bi; join:2; lstm/H3/rev; join:2; gru/H2", true},
    {"f64/train/mask/batch-major", 8, 3, 3, "join:2; gru/H4; dropout:0.4; lstm/H3; join:3", true}};

START_TEST(gradients_are_differences)
{
    const double step = 1e-5;
    struct stack stack;
    struct arrays in = {NULL}, direction = {NULL}, out;
    ecornn_plan *plan;
    stack_open(&stack, "reference", &differences[_i]);
    check_ok(ecornn_plan_create(&plan, stack.device, stack.text, NULL));
    stack_arrays(&stack, &in), stack_arrays(&stack, &direction);
    stack_run(&stack, plan, &in, &out);
    const double slope =
        (loss(&stack, plan, &in, &direction, step) - loss(&stack, plan, &in, &direction, -step)) /
        (2 * step);
    const double gradient = product(direction.x, out.dx, stack.x) +
                            product(direction.params, out.dparams, stack.params);
    ck_assert_double_eq_tol(slope, gradient, 1e-8 * (1 + fabs(gradient)));
    ck_assert_double_gt(fabs(gradient), 0.01);
    stack_free(&in), stack_free(&direction), stack_free(&out);
    ecornn_plan_free(plan);
    stack_close(&stack);
}
END_TEST

/* ---- models ---------------------------------------------------------------------------------- */

/* A net of models, and the same net for one of them at a time. */
static const struct {
    const char *common, *pieces;
    bool shared, lengths, bytes;
} of_models[] = {
    {"f32/train", "lstm/H4/bi; join:2; gru/H3 + lstm/H4; join:2; gru/H2", false, true, false},
    {"f32/train/batch-major", "join:2; gru/H4 + lstm/H3; lstm/H4; join:2", true, true, false},
    {"f32/train/resets/mask", "join:2; lstm/H4; join:2; gru/H3/rev", false, false, true},
    {"f32/train/resets/mask", "gru/H4/rev; lstm/H3; join:3; gru/H3", true, true, true}};
enum {
    MODEL_NETS = sizeof of_models / sizeof *of_models,
    MODELS = 3,
    STEPS = 8,
    ROWS = 3,
    WIDE = 4
};
enum { MOST = 8000, X = STEPS * ROWS * WIDE, BYTES = STEPS * ROWS };

struct model_arrays {
    float x[MODELS * X], params[MOST], dy[MOST], y[MOST], dx[MODELS * X], dparams[MOST];
    int32_t lengths[MODELS * ROWS];
    uint8_t reset[MODELS * BYTES], mask[MODELS * BYTES];
};

/* Runs models first to first + models - 1; their results go where those of all are. */
static size_t run_models(ecornn_device *device, int net, struct model_arrays *all, int first,
                         int models)
{
    char text[300];
    ecornn_plan *plan;
    ecornn_sizes sizes;
    struct stack up = {.device = device};
    const bool shared = of_models[net].shared;
    const size_t inputs = shared ? 1 : (size_t)models, from = shared ? 0 : (size_t)first;
    snprintf(text, sizeof text, "%s/T%d/N%d/I%d/models:%d%s; %s", of_models[net].common, STEPS,
             ROWS, WIDE, models, shared && models > 1 ? "/shared-x" : "", of_models[net].pieces);
    check_ok(ecornn_plan_create(&plan, device, text, NULL));
    get_sizes(plan, &sizes);
    const size_t y = (size_t)((STEPS + sizes.joined - 1) / sizes.joined * ROWS * sizes.output),
                 each = sizes.param_elements / (size_t)models;
    char *const x = stack_up(&up, all->x + from * X, inputs * X * sizeof(float)),
                *const dx = stack_up(&up, NULL, inputs * X * sizeof(float)),
                *const out = stack_up(&up, NULL, (size_t)models * y * sizeof(float)),
                *const dy =
                    stack_up(&up, all->dy + (size_t)first * y, (size_t)models * y * sizeof(float)),
                *const lengths = stack_up(&up, all->lengths + from * ROWS, inputs * ROWS * 4),
                *const reset = stack_up(&up, all->reset + from * BYTES, inputs * BYTES),
                *const mask = stack_up(&up, all->mask + from * BYTES, inputs * BYTES);
    float *const params = stack_up(&up, NULL, sizes.param_elements * sizeof(float)),
                 *const dparams = stack_up(&up, NULL, sizes.param_elements * sizeof(float));
    void *pointer[200], *dpointer[200];
    size_t done = 0; /* of one model's parameters, layer by layer */
    for (int k = 0; k < sizes.layers; k++) {
        struct net_layer layer;
        ecornn_sizes of_layer;
        check_ok(net_layer_at(plan, k, &layer));
        get_sizes(layer.plan, &of_layer);
        const size_t count = of_layer.param_elements / (size_t)models;
        for (int m = 0; m < models; m++)
            check_ok(ecornn_upload(device, params + layer.sizes.param_offset + (size_t)m * count,
                                   all->params + (size_t)(first + m) * each + done,
                                   count * sizeof(float)));
        for (int i = 0; i < count_params(layer.plan); i++) {
            ecornn_param param;
            check_ok(param_at(layer.plan, i, &param));
            pointer[layer.sizes.first_param + i] = params + layer.sizes.param_offset + param.offset;
            dpointer[layer.sizes.first_param + i] =
                dparams + layer.sizes.param_offset + param.offset;
        }
        done += count;
    }
    void *const weights = stack_up(&up, NULL, sizes.weight_bytes),
                *const dweights = stack_up(&up, NULL, sizes.dweight_bytes),
                *const workspace = stack_scratch(&up, sizes.workspace_bytes),
                *const reserve = stack_scratch(&up, sizes.reserve_bytes);
    const ecornn_io io = {.size = sizeof io,
                          .x = x,
                          .y = out,
                          .lengths =
                              of_models[net].lengths ? (const int32_t *)(void *)lengths : NULL,
                          .resets = of_models[net].bytes ? (const uint8_t *)reset : NULL,
                          .mask = of_models[net].bytes ? (const uint8_t *)mask : NULL,
                          .weights = weights,
                          .workspace = workspace,
                          .reserve = reserve};
    const ecornn_gradient gradient = {
        .size = sizeof gradient, .dy = dy, .dx = dx, .dweights = dweights};
    check_ok(ecornn_pack(plan, (const void *const *)pointer, NULL, weights, NULL));
    check_ok(net_forward_all(plan, &io, NULL));
    check_ok(net_backward_all(plan, &io, &gradient, NULL));
    check_ok(ecornn_unpack(plan, dweights, dpointer, 0, NULL));
    check_ok(ecornn_wait(device, NULL));
    check_ok(ecornn_download(device, all->y + (size_t)first * y, out,
                             (size_t)models * y * sizeof(float)));
    check_ok(ecornn_download(device, all->dx + (size_t)first * X, dx, inputs * X * sizeof(float)));
    done = 0;
    for (int k = 0; k < sizes.layers; k++) {
        struct net_layer layer;
        ecornn_sizes of_layer;
        check_ok(net_layer_at(plan, k, &layer));
        get_sizes(layer.plan, &of_layer);
        const size_t count = of_layer.param_elements / (size_t)models;
        for (int m = 0; m < models; m++)
            check_ok(ecornn_download(device, all->dparams + (size_t)(first + m) * each + done,
                                     dparams + layer.sizes.param_offset + (size_t)m * count,
                                     count * sizeof(float)));
        done += count;
    }
    void *const memory[] = {x,      dx,      out,     dy,       lengths,   reset,  mask,
                            params, dparams, weights, dweights, workspace, reserve};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        ecornn_free(device, memory[i]);
    ecornn_plan_free(plan);
    return (size_t)models * y;
}

START_TEST(models_are_nets)
{
    static struct model_arrays all, one;
    const int net = _i / DEVICES;
    const char *const name = devices[_i % DEVICES];
    ecornn_device *device;
    uint64_t seed = 9;
    if (suite_lacks(name))
        return;
    check_ok(ecornn_device_open(&device, name));
    setenv("ECORNN_FORCE", "at-once=1", 1);
    for (size_t i = 0; i < MOST; i++)
        all.params[i] = (float)(uniform(&seed) - 0.5), all.dy[i] = (float)(uniform(&seed) - 0.5);
    for (size_t i = 0; i < MODELS * X; i++)
        all.x[i] = (float)(uniform(&seed) - 0.5);
    for (int i = 0; i < MODELS * ROWS; i++)
        all.lengths[i] = (int32_t)(uniform(&seed) * (STEPS + 1));
    for (int i = 0; i < MODELS * BYTES; i++)
        all.reset[i] = uniform(&seed) < 0.3, all.mask[i] = uniform(&seed) < 0.7;
    one = all;
    const size_t y = run_models(device, net, &all, 0, MODELS);
    for (int m = 0; m < MODELS; m++)
        run_models(device, net, &one, m, 1);
    unsetenv("ECORNN_FORCE");
    ck_assert_mem_eq(all.y, one.y, y * sizeof(float));
    ck_assert_mem_eq(all.dparams, one.dparams, sizeof one.dparams);
    double size = 0;
    for (size_t i = 0; i < X; i++) {
        const float sum = one.dx[i] + one.dx[X + i] + one.dx[2 * X + i];
        size += fabs((double)all.dx[i]);
        ck_assert_float_eq_tol(all.dx[i], of_models[net].shared ? sum : one.dx[i], 1e-5);
    }
    ck_assert_double_gt(size, 0.01);
    ecornn_device_close(device);
}
END_TEST

/* ---- smaller runs ---------------------------------------------------------------------------- */

enum { T = 12, N = 3, I = 4, H = 5, FIRST = 8 };

/* A run in parts of the steps; states pass from one part to the next. */
struct stream {
    ecornn_plan *plan;
    float x[T * N * I], y[T / 2 * N * H], h[2][2][N * 2 * H];
    float final[2][2][N * 2 * H], dfinal[2][2][N * 2 * H], dinitial[2][2][N * 2 * H];
    void *weights, *workspace, *reserve;
};

static void run_part(struct stream *stream, int32_t from, int32_t to)
{
    struct net_states states[2];
    const ecornn_io io = {.size = sizeof io,
                          .x = stream->x + from * N * I,
                          .y = stream->y + from / 2 * N * H,
                          .weights = stream->weights,
                          .workspace = stream->workspace,
                          .reserve = stream->reserve,
                          .first_step = (uint32_t)from};
    for (int k = 0; k < 2; k++) {
        states[k] = (struct net_states){.initial = {NULL}};
        for (int s = 0; s < 2 - k; s++) {
            states[k].initial[s] = stream->h[k][s];
            states[k].final[s] = stream->final[k][s];
            states[k].dfinal[s] = stream->dfinal[k][s];
            states[k].dinitial[s] = stream->dinitial[k][s];
        }
    }
    if (to == from) {
        const ecornn_gradient none = {.size = sizeof none};
        check_ok(run_of_net(stream->plan, 0, N, &io, &none, states));
        for (int k = 0; k < 3; k++)
            ck_assert_mem_eq(stream->dinitial[k / 2][k % 2], stream->dfinal[k / 2][k % 2],
                             (size_t)(N * (k < 2 ? 2 * H : H)) * sizeof(float));
    }
    check_ok(run_of_net(stream->plan, to - from, N, &io, NULL, states));
    memcpy(stream->h, stream->final, sizeof stream->h);
}

/* Dropout above the join counts joined steps. */
START_TEST(parts_are_the_whole)
{
    static float y[T / 2 * N * H], params[2000];
    ecornn_device *device;
    ecornn_sizes sizes;
    struct stream stream = {.plan = NULL};
    const void *pointer[40];
    uint64_t seed = 1;
    check_ok(ecornn_device_open(&device, "cpu:2"));
    check_ok(ecornn_plan_create(&stream.plan, device,
                                "f32/train/T12/N3/I4; lstm/H10; dropout:0.2; join:2; dropout:0.4; "
                                "gru/H5",
                                NULL));
    get_sizes(stream.plan, &sizes);
    ck_assert_int_eq(sizes.joined, 2);
    ck_assert_int_eq(sizes.output, H);
    ck_assert(sizes.steps == T && sizes.batch == N && sizes.input == I);
    ck_assert_int_eq(sizes.layers, 2);
    ck_assert_uint_le(sizes.param_elements, sizeof params / sizeof *params);
    stream.weights = ecornn_alloc(device, sizes.weight_bytes);
    stream.workspace = ecornn_alloc(device, sizes.workspace_bytes);
    stream.reserve = ecornn_alloc(device, sizes.reserve_bytes);
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        params[i] = (float)(uniform(&seed) - 0.5);
    for (int i = 0; i < T * N * I; i++)
        stream.x[i] = (float)(uniform(&seed) - 0.5);
    for (int k = 0; k < sizes.layers; k++) {
        struct net_layer layer;
        ecornn_param param;
        check_ok(net_layer_at(stream.plan, k, &layer));
        ck_assert_int_eq(layer.sizes.input, k == 0 ? I : 4 * H);
        ck_assert_int_eq(layer.sizes.steps, k == 0 ? T : T / 2);
        for (int i = 0; i < count_params(layer.plan); i++) {
            check_ok(param_at(layer.plan, i, &param));
            pointer[layer.sizes.first_param + i] = params + layer.sizes.param_offset + param.offset;
        }
    }
    check_ok(ecornn_pack(stream.plan, pointer, NULL, stream.weights, NULL));
    for (size_t i = 0; i < sizeof stream.dfinal / sizeof(float); i++)
        ((float *)stream.dfinal)[i] = (float)(uniform(&seed) - 0.5);
    memset(stream.dinitial, 0xFF, sizeof stream.dinitial);
    run_part(&stream, 0, T);
    memcpy(y, stream.y, sizeof y);
    memset(stream.h, 0, sizeof stream.h), memset(stream.y, 0xFF, sizeof stream.y);
    run_part(&stream, 0, 0);
    run_part(&stream, 0, FIRST);
    run_part(&stream, FIRST, T);
    ck_assert_mem_eq(y, stream.y, sizeof y);
    ecornn_free(device, stream.weights), ecornn_free(device, stream.workspace);
    ecornn_free(device, stream.reserve);
    ecornn_plan_free(stream.plan);
    ecornn_device_close(device);
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
    ecornn_device *device;
    ecornn_plan *plan = NULL;
    char text[6000];
    check_ok(ecornn_device_open(&device, "cpu:1"));
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
    ecornn_device *device;
    ecornn_cell *cell;
    ecornn_plan *plan = NULL;
    struct net_layer layer;
    ecornn_sizes sizes;
    char text[4000];
    float x[64] = {0};
    check_ok(ecornn_device_open(&device, "cpu:1"));
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

    struct net_states states[2] = {{.initial = {NULL}}, {.initial = {NULL}}};
    ecornn_gradient gradient = {.size = sizeof gradient};
    const ecornn_io good = {
        .size = sizeof good, .x = x, .weights = weights, .workspace = workspace};
    const int32_t lengths[] = {4, 5};
    ecornn_io io = good;
    REFUSES(net_forward_all(NULL, &io, NULL), "plan is NULL");
    REFUSES(net_forward_all(plan, NULL, NULL), "io is NULL");
    REFUSES(net_backward_all(plan, &io, NULL, NULL), "gradient is NULL");
    REFUSES(net_backward_all(NULL, &io, &gradient, NULL), "plan is NULL");
    REFUSES(net_backward_all(plan, &io, &gradient, NULL), "io.reserve is NULL");
    gradient.size = 1;
    REFUSES(net_backward_all(plan, &io, &gradient, NULL), "gradient.size is 1");
    gradient.size = sizeof gradient, gradient.dfinal[1] = x;
    REFUSES(net_backward_all(plan, &io, &gradient, NULL), "gradient.dfinal is");
    io.size = 3;
    REFUSES(net_forward_all(plan, &io, NULL), "io.size is 3");
    io = good;
    REFUSES(ecornn_forward(plan, 5, 2, &io), "steps is 5, must be 0 to 4");
    REFUSES(ecornn_forward(plan, 4, -1, &io), "batch is -1, must be 0 to 2");
    io = good, io.x = NULL;
    REFUSES(net_forward_all(plan, &io, NULL), "io.x is NULL");
    io = good, io.lengths = (const int32_t *)((const char *)lengths + 2);
    REFUSES(net_forward_all(plan, &io, NULL), "io.lengths is");
    io = good, io.lengths = lengths;
    REFUSES(net_forward_all(plan, &io, NULL), "io.lengths[1] is 5, must be 0 to 4");
    io = good, io.workspace_bytes = 1;
    REFUSES(net_forward_all(plan, &io, NULL), "io.workspace_bytes is 1");
    io = good, io.initial[0] = x;
    REFUSES(net_forward_all(plan, &io, NULL), "io.initial is");
    io = good, io.first_step = 3;
    REFUSES(net_forward_all(plan, &io, NULL), "must be a multiple of the 2 steps");
    io = good, states[1].initial[1] = x;
    REFUSES(net_forward_all(plan, &io, states), "layer 1 of a net: io.initial[1] is");
    ecornn_io of = {.size = sizeof of, .lengths = lengths};
    io = good, io.layers = (const ecornn_io *[]){&of, NULL};
    REFUSES(ecornn_forward(plan, 4, 2, &io), "io.layers[0] sets byte 8, but may only have initial");
    io = good, io.rows = lengths, io.streams = 8;
    check_refused(net_forward_all(plan, &io, NULL), ECORNN_UNSUPPORTED, "needs a plan of layers");
    io = good, io.streams = 8;
    REFUSES(net_forward_all(plan, &io, NULL), "io.streams is 8, must be 0 without io.rows");
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
    ecornn_device *device;
    ecornn_plan *plan = NULL;
    ecornn_sizes sizes;
    const void *params[20];
    check_ok(ecornn_device_open(&device, "cpu:1"));
    check_ok(ecornn_plan_create(&plan, device,
                                "train/T4/N2/I3; rnn-tanh/H3; rnn-tanh/H2/save:states", NULL));
    get_sizes(plan, &sizes);
    for (int k = 0; k < sizes.param_count; k++)
        params[k] = numbers;
    void *const weights = ecornn_alloc(device, sizes.weight_bytes),
                *const workspace = ecornn_alloc(device, sizes.workspace_bytes),
                *const reserve = ecornn_alloc(device, sizes.reserve_bytes);
    check_ok(ecornn_pack(plan, params, NULL, weights, NULL));
    const struct net_states states[2] = {{.final = {final}}};
    const ecornn_io io = {.size = sizeof io,
                          .x = numbers,
                          .weights = weights,
                          .workspace = workspace,
                          .reserve = reserve};
    REFUSES(net_forward_all(plan, &io, states), "layer 1 of a net: io.y is NULL");
    ck_assert_float_eq(final[0], 5);
    ecornn_free(device, weights), ecornn_free(device, workspace), ecornn_free(device, reserve);
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}
END_TEST

/* Each allocation of a plan fails once, and nothing leaks (AddressSanitizer would report it). */
START_TEST(memory_may_be_short)
{
    ecornn_device *device;
    ecornn_plan *plan = NULL;
    ecornn_status status = ECORNN_NO_MEMORY;
    int k = 0;
    check_ok(ecornn_device_open(&device, "cpu:1"));
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
