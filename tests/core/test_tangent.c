/*
 * Compares tangents with finite differences of the reference in double: tangents of y and the final
 * states, and of the results of backward, along random directions of all inputs. This covers
 * products of the Jacobian with a vector, and double backward. Tested on the reference, the CPU,
 * and a GPU if there is one.
 *
 *     test_tangent [PROBLEM]
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

static const char *only;

/* Every function of the language, and parameters that have no gradient. */
static const char all_words[] = "cell all(h, c)\n"
                                "m  = W x\n"
                                "a  = W x + R h + b\n"
                                "d  = a - mean(a)\n"
                                "s  = p * d / sqrt(mean(d * d) + 0.01) + b\n"
                                "e  = exp(min(s, 1)) + log(1 + abs(a)) - relu(R (c * a))\n"
                                "f  = select(m, max(e, p), -sigmoid(e) / (2 + tanh(c)))\n"
                                "c' = 0.5 * c + f\n"
                                "h' = tanh(c' + R h + bernoulli(0.5))\n";

static const struct {
    const char *problem, *text;
    bool lengths;
} list[] = {
    {"lstm/f64/train/L3/bi/T5/N3/I4/H5", NULL, true},
    {"lstm/f32/train/L2/T5/N3/I4/H9", NULL, false},
    {"gru/f64/train/L2/rev/T4/N2/I3/H6/batch-major", NULL, false},
    {"rnn-tanh/f64/train/T6/N2/I2/H3", NULL, false},
    {"rnn-relu/f64/train/L2/T4/N2/I3/H4", NULL, false},
    {"lstm-peephole/f64/train/L2/T4/N2/I3/H4", NULL, false},
    {"lstm-coupled/f64/train/T4/N2/I3/H4", NULL, false},
    {"gru-reset-first/f32/train/L2/T4/N2/I3/H4", NULL, true},
    {"mgu/f64/train/bi/T4/N2/I3/H4", NULL, false},
    {"all/f64/train/T4/N2/I3/H5", all_words, true},
    {"lstm/f64/train/L2/bi/T6/N3/I4/H5/resets", NULL, true},
    {"gru/f32/train/L2/T6/N3/I3/H4/resets/mask/batch-major", NULL, false},
    {"lstm/f64/train/L2/bi/T6/N3/I3/H4/resets/mask/repeat-padding", NULL, true},
    {"mgu/f64/train/L2/T5/N3/I3/H4/repeat-padding", NULL, true},
    {"lstm/f64/train/L3/bi/T5/N3/I3/H4/dropout:0.4/resets", NULL, true},
    {"gru/f32/train/L2/rev/T5/N3/I3/H6/dropout:0.3/batch-major", NULL, false},
};
enum { PROBLEMS = sizeof list / sizeof *list };

static const char *const devices[] = {"reference", "cpu:2", "cuda"};
enum { DEVICES = sizeof devices / sizeof *devices };

/* ---- numbers --------------------------------------------------------------------------------- */

/* Sizes of a problem's inputs and results, which are arrays of doubles one after the other. */
struct shape {
    ecornn_desc desc;
    int S;
    size_t x, y, state, params;
    size_t inputs, results; /* elements of all arrays */
    int32_t lengths[4];
    bool ragged, resets, masks;
    uint8_t reset[32], mask[32]; /* [T,N] */
};

/* The order of the inputs (x, initial, parameters, dy, dfinal) and of the results (y, final, dx,
 * dinitial, dparams). */
enum { FIRST, STATES, PARAMETERS, SECOND, SECOND_STATES };
static size_t input_at(const struct shape *shape, int part)
{
    const size_t states = (size_t)shape->S * shape->state;
    const size_t at[] = {0, shape->x, shape->x + states, shape->x + states + shape->params,
                         shape->x + states + shape->params + shape->y};
    return at[part];
}
static size_t result_at(const struct shape *shape, int part)
{
    const size_t states = (size_t)shape->S * shape->state;
    const size_t at[] = {0, shape->y, 2 * states + shape->y + shape->x, shape->y + states,
                         shape->y + states + shape->x};
    return at[part];
}

static void shape_of(struct shape *shape, const ecornn_desc *desc, ecornn_device *device)
{
    ecornn_plan *plan;
    ecornn_sizes sizes;
    const size_t T = (size_t)desc->steps, N = (size_t)desc->batch, H = (size_t)desc->hidden;
    const size_t D = (desc->flags & ECORNN_BIDIRECTIONAL) ? 2 : 1;
    const size_t L = desc->layers > 0 ? (size_t)desc->layers : 1;
    check_ok(ecornn_plan_create_desc(&plan, device, desc));
    get_sizes(plan, &sizes);
    ecornn_plan_free(plan);
    shape->desc = *desc;
    shape->resets = (desc->flags & ECORNN_RESETS) != 0;
    shape->masks = (desc->flags & ECORNN_MASK) != 0;
    uint64_t seed = 12;
    ck_assert_uint_le(T * N, sizeof shape->mask);
    for (size_t i = 0; i < sizeof shape->mask; i++) {
        shape->reset[i] = uniform(&seed) < 0.3;
        shape->mask[i] = uniform(&seed) < 0.7;
    }
    shape->S = count_states(desc->cell);
    shape->x = T * N * (size_t)desc->input;
    shape->y = T * N * D * H;
    shape->state = L * D * N * H;
    shape->params = sizes.param_elements;
    const size_t states = (size_t)shape->S * shape->state;
    shape->inputs = shape->x + shape->y + shape->params + 2 * states;
    shape->results = shape->inputs;
}

/* Draws numbers in (-1, 1) that a float can hold. */
static double *numbers(size_t n, uint64_t seed)
{
    double *value = malloc(n * sizeof *value);
    for (size_t i = 0; i < n; i++)
        value[i] = (floor(uniform(&seed) * 4096) - 2047.5) / 2048;
    return value;
}

static double *sum(const double *a, double scale, const double *b, size_t n)
{
    double *value = malloc(n * sizeof *value);
    for (size_t i = 0; i < n; i++)
        value[i] = a[i] + scale * b[i];
    return value;
}

/* ---- the reference --------------------------------------------------------------------------- */

/* Makes pointers to the parameters of a block. */
static void **pointers(const ecornn_plan *plan, char *block, size_t bytes)
{
    const int count = count_params(plan);
    void **pointer = malloc((size_t)(count + 1) * sizeof *pointer);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        check_ok(param_at(plan, k, &param));
        pointer[k] = block + param.offset * bytes;
    }
    return pointer;
}

/* Runs forward and backward in double. */
static double *evaluate(const struct shape *shape, ecornn_device *device, double *in)
{
    ecornn_desc desc = shape->desc;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    double *out = calloc(shape->results, sizeof *out);
    desc.type = ECORNN_F64;
    check_ok(ecornn_plan_create_desc(&plan, device, &desc));
    get_sizes(plan, &sizes);
    void *weights = ecornn_alloc(device, sizes.weight_bytes);
    void *dweights = ecornn_alloc(device, sizes.dweight_bytes);
    void *reserve = ecornn_alloc(device, sizes.reserve_bytes);
    void **params = pointers(plan, (char *)(in + input_at(shape, PARAMETERS)), sizeof *in);
    void **dparams = pointers(plan, (char *)(out + result_at(shape, PARAMETERS)), sizeof *out);
    ecornn_io io = {.size = sizeof io,
                    .lengths = shape->ragged ? shape->lengths : NULL,
                    .x = in,
                    .y = out,
                    .weights = weights,
                    .reserve = reserve,
                    .resets = shape->resets ? shape->reset : NULL,
                    .mask = shape->masks ? shape->mask : NULL,
                    .first_step = 3,
                    .first_row = 2,
                    .seed = 7};
    ecornn_gradient gradient = {.size = sizeof gradient,
                                .dy = in + input_at(shape, SECOND),
                                .dx = out + result_at(shape, SECOND),
                                .dweights = dweights};
    for (int s = 0; s < shape->S; s++) {
        const size_t at = (size_t)s * shape->state;
        io.initial[s] = in + input_at(shape, STATES) + at;
        io.final[s] = out + result_at(shape, STATES) + at;
        gradient.dfinal[s] = in + input_at(shape, SECOND_STATES) + at;
        gradient.dinitial[s] = out + result_at(shape, SECOND_STATES) + at;
    }
    /* states begin again where they began, so dinitial gets both gradients */
    double *dreset = calloc((size_t)shape->S * shape->state, sizeof *dreset);
    for (int s = 0; shape->resets && s < shape->S; s++) {
        io.reset_state[s] = io.initial[s];
        gradient.dreset_state[s] = dreset + (size_t)s * shape->state;
    }
    check_ok(ecornn_pack(plan, (const void *const *)params, NULL, weights, NULL));
    check_ok(forward_all(plan, &io));
    check_ok(backward_all(plan, &io, &gradient));
    for (size_t i = 0; i < (size_t)shape->S * shape->state; i++)
        out[result_at(shape, SECOND_STATES) + i] += dreset[i];
    free(dreset);
    check_ok(ecornn_unpack(plan, dweights, dparams, 0, NULL));
    void *const all[] = {params, dparams};
    for (int k = 0; k < 2; k++)
        free(all[k]);
    ecornn_free(device, weights);
    ecornn_free(device, dweights);
    ecornn_free(device, reserve);
    ecornn_plan_free(plan);
    return out;
}

/* ---- tangents -------------------------------------------------------------------------------- */

/* All arrays of a run; NULL: zeros, or not needed. */
struct tangent_io {
    const int32_t *lengths;
    const void *x, *x_tangent;
    const void *initial[ECORNN_MAX_STATES], *initial_tangent[ECORNN_MAX_STATES];
    const void *const *params, *const *param_tangents;
    void *y, *y_tangent;
    void *final[ECORNN_MAX_STATES], *final_tangent[ECORNN_MAX_STATES];
    const void *dy, *dy_tangent;
    const void *dfinal[ECORNN_MAX_STATES], *dfinal_tangent[ECORNN_MAX_STATES];
    void *dx, *dinitial[ECORNN_MAX_STATES];
    void *const *dparams;
    void *workspace;
    uint64_t seed;
    const uint8_t *resets, *mask;
    const void *reset_state[ECORNN_MAX_STATES], *reset_state_tangent[ECORNN_MAX_STATES];
    void *dreset_state[ECORNN_MAX_STATES];
    uint32_t first_step, first_row;
};

static ecornn_status tangent_create(ecornn_plan **plan, ecornn_device *device,
                                    const ecornn_desc *desc)
{
    ecornn_desc with = *desc;
    with.flags |= ECORNN_TANGENT;
    return ecornn_plan_create_desc(plan, device, &with);
}

/* Backward if a gradient is asked for. */
static ecornn_status tangent_run(const ecornn_plan *plan, const struct tangent_io *run)
{
    ecornn_io tangent = {.size = sizeof tangent,
                         .x = run->x_tangent,
                         .params = run->param_tangents,
                         .y = run->y_tangent};
    ecornn_io io = {.size = sizeof io,
                    .lengths = run->lengths,
                    .x = run->x,
                    .params = run->params,
                    .y = run->y,
                    .workspace = run->workspace,
                    .seed = run->seed,
                    .resets = run->resets,
                    .mask = run->mask,
                    .first_step = run->first_step,
                    .first_row = run->first_row,
                    .tangent = &tangent};
    ecornn_gradient dtangent = {.size = sizeof dtangent, .dy = run->dy_tangent};
    ecornn_gradient gradient = {.size = sizeof gradient,
                                .dy = run->dy,
                                .dx = run->dx,
                                .dparams = run->dparams,
                                .tangent = &dtangent};
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        io.initial[s] = run->initial[s];
        tangent.initial[s] = run->initial_tangent[s];
        io.final[s] = run->final[s];
        tangent.final[s] = run->final_tangent[s];
        io.reset_state[s] = run->reset_state[s];
        tangent.reset_state[s] = run->reset_state_tangent[s];
        gradient.dfinal[s] = run->dfinal[s];
        dtangent.dfinal[s] = run->dfinal_tangent[s];
        gradient.dinitial[s] = run->dinitial[s];
        gradient.dreset_state[s] = run->dreset_state[s];
    }
    return run->dx || run->dparams ? backward_all(plan, &io, &gradient) : forward_all(plan, &io);
}

/* Converts doubles to the type and copies them to the device. */
static char *to_device(ecornn_device *device, const double *value, size_t n, ecornn_type type)
{
    const size_t bytes = type == ECORNN_F64 ? sizeof(double) : sizeof(float);
    char *memory = ecornn_alloc(device, n * bytes);
    double *copy = malloc(n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        if (type == ECORNN_F64)
            copy[i] = value[i];
        else
            ((float *)copy)[i] = (float)value[i];
    check_ok(ecornn_upload(device, memory, copy, n * bytes));
    free(copy);
    return memory;
}

static double *from_device(ecornn_device *device, char *memory, size_t n, ecornn_type type)
{
    const size_t bytes = type == ECORNN_F64 ? sizeof(double) : sizeof(float);
    double *copy = malloc(n * sizeof *copy), *value = malloc(n * sizeof *value);
    check_ok(ecornn_download(device, copy, memory, n * bytes));
    for (size_t i = 0; i < n; i++)
        value[i] = type == ECORNN_F64 ? copy[i] : (double)((float *)copy)[i];
    free(copy);
    return value;
}

/* Blocks in the device's memory, and pointers into them. */
struct run {
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_plan *places; /* gives the positions of parameters */
    char *in, *direction, *plain, *out, *lengths, *workspace, *reset, *mask, *dreset;
    void **params, **slopes, **dparams;
};

static struct tangent_io io_of(const struct run *run, const struct shape *shape, size_t bytes)
{
    struct tangent_io io = {.lengths = shape->ragged ? (const int32_t *)run->lengths : NULL,
                            .x = run->in,
                            .x_tangent = run->direction,
                            .params = (const void *const *)run->params,
                            .param_tangents = (const void *const *)run->slopes,
                            .y = run->plain,
                            .y_tangent = run->out,
                            .dy = run->direction + input_at(shape, SECOND) * bytes,
                            .dy_tangent = run->in + input_at(shape, SECOND) * bytes,
                            .dx = run->out + result_at(shape, SECOND) * bytes,
                            .dparams = run->dparams,
                            .workspace = run->workspace,
                            .resets = shape->resets ? (const uint8_t *)run->reset : NULL,
                            .mask = shape->masks ? (const uint8_t *)run->mask : NULL,
                            .first_step = 3,
                            .first_row = 2,
                            .seed = 7};
    for (int s = 0; s < shape->S; s++) {
        const size_t at = (size_t)s * shape->state;
        const size_t in = (input_at(shape, STATES) + at) * bytes;
        const size_t second = (input_at(shape, SECOND_STATES) + at) * bytes;
        const size_t out = (result_at(shape, STATES) + at) * bytes;
        io.initial[s] = run->in + in;
        io.initial_tangent[s] = run->direction + in;
        io.final[s] = run->plain + out;
        io.final_tangent[s] = run->out + out;
        io.dfinal[s] = run->direction + second;
        io.dfinal_tangent[s] = run->in + second;
        io.dinitial[s] = run->out + (result_at(shape, SECOND_STATES) + at) * bytes;
        if (!shape->resets)
            continue;
        io.reset_state[s] = io.initial[s];
        io.reset_state_tangent[s] = io.initial_tangent[s];
        io.dreset_state[s] = run->dreset + at * bytes;
    }
    return io;
}

/* Computes the tangents of all results; `plain` gets y and the final states. */
static double *differentiate(const struct shape *shape, const char *name, const double *in,
                             const double *direction, double **plain)
{
    struct run run = {.device = NULL};
    ecornn_sizes sizes;
    const ecornn_type type = shape->desc.type;
    const size_t bytes = type == ECORNN_F64 ? sizeof(double) : sizeof(float), n = shape->inputs;
    double *nothing = calloc(n, sizeof *nothing);
    check_ok(ecornn_device_open(&run.device, name));
    check_ok(tangent_create(&run.plan, run.device, &shape->desc));
    check_ok(ecornn_plan_create_desc(&run.places, run.device, &shape->desc));
    get_sizes(run.plan, &sizes);
    ck_assert_int_eq(sizes.param_count, count_params(run.places));
    run.in = to_device(run.device, in, n, type);
    run.direction = to_device(run.device, direction, n, type);
    run.plain = to_device(run.device, nothing, n, type);
    run.out = to_device(run.device, nothing, n, type);
    run.dreset = to_device(run.device, nothing, (size_t)shape->S * shape->state, type);
    run.lengths = ecornn_alloc(run.device, sizeof shape->lengths);
    check_ok(ecornn_upload(run.device, run.lengths, shape->lengths, sizeof shape->lengths));
    run.reset = ecornn_alloc(run.device, sizeof shape->reset);
    run.mask = ecornn_alloc(run.device, sizeof shape->mask);
    check_ok(ecornn_upload(run.device, run.reset, shape->reset, sizeof shape->reset));
    check_ok(ecornn_upload(run.device, run.mask, shape->mask, sizeof shape->mask));
    run.workspace = ecornn_alloc(run.device, sizes.workspace_bytes);
    const size_t at = input_at(shape, PARAMETERS) * bytes;
    run.params = pointers(run.places, run.in + at, bytes);
    run.slopes = pointers(run.places, run.direction + at, bytes);
    run.dparams = pointers(run.places, run.out + result_at(shape, PARAMETERS) * bytes, bytes);
    const struct tangent_io io = io_of(&run, shape, bytes);
    check_ok(tangent_run(run.plan, &io));
    check_ok(ecornn_wait(run.device, NULL));
    *plain = from_device(run.device, run.plain, n, type);
    double *out = from_device(run.device, run.out, n, type);
    double *dreset = from_device(run.device, run.dreset, (size_t)shape->S * shape->state, type);
    for (size_t i = 0; i < (size_t)shape->S * shape->state; i++)
        out[result_at(shape, SECOND_STATES) + i] += dreset[i];
    free(dreset);
    void *const memory[] = {run.in,        run.direction, run.plain, run.out,   run.lengths,
                            run.workspace, run.reset,     run.mask,  run.dreset};
    for (size_t k = 0; k < sizeof memory / sizeof *memory; k++)
        ecornn_free(run.device, memory[k]);
    free(run.params), free(run.slopes), free(run.dparams), free(nothing);
    ecornn_plan_free(run.places);
    ecornn_plan_free(run.plan);
    ecornn_device_close(run.device);
    return out;
}

static void agree(const char *what, const double *is, const double *expected, size_t n,
                  double bound)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fabs(expected[i]) > largest ? fabs(expected[i]) : largest;
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs(is[i] - expected[i]) <= bound * (1 + largest),
                      "%s: number %zu is %.12g, must be %.12g", what, i, is[i], expected[i]);
}

/* Compares each array separately, so that an error in an array of small numbers shows. */
static void agree_all(const struct shape *shape, const char *device, const double *is,
                      const double *expected, double bound)
{
    static const char *const name[] = {"y", "final", "dx", "dinitial", "dparams"};
    static const int part[] = {FIRST, STATES, SECOND, SECOND_STATES, PARAMETERS};
    for (int k = 0; k < 5; k++) {
        const size_t at = result_at(shape, part[k]);
        const size_t end = k < 4 ? result_at(shape, part[k + 1]) : shape->results;
        char what[80];
        snprintf(what, sizeof what, "%s: tangent of %s", device, name[k]);
        agree(what, is + at, expected + at, end - at, bound);
    }
}

static ecornn_device *reference(void)
{
    ecornn_device *device;
    check_ok(ecornn_device_open(&device, "reference"));
    return device;
}

START_TEST(tangents_are_differences)
{
    const double step = 1e-5;
    ecornn_device *device = reference();
    ecornn_cell *cell = NULL;
    ecornn_desc desc;
    struct shape shape = {.lengths = {2, 4, 0, 3}, .ragged = list[_i].lengths};
    if (list[_i].text != NULL)
        check_ok(ecornn_cell_parse(&cell, list[_i].text));
    check_ok(parse_desc(&desc, only ? only : list[_i].problem, cell));
    shape_of(&shape, &desc, device);
    double *in = numbers(shape.inputs, 1), *direction = numbers(shape.inputs, 2), *plain;
    double *up = sum(in, step, direction, shape.inputs);
    double *down = sum(in, -step, direction, shape.inputs);
    double *above = evaluate(&shape, device, up), *below = evaluate(&shape, device, down);
    double *expected = sum(above, -1, below, shape.results);
    double *value = evaluate(&shape, device, in);
    for (size_t i = 0; i < shape.results; i++)
        expected[i] /= 2 * step;
    for (int d = 0; d < DEVICES; d++) {
        if (suite_lacks(devices[d]))
            continue;
        double *is = differentiate(&shape, devices[d], in, direction, &plain);
        const bool wide = desc.type == ECORNN_F64;
        agree_all(&shape, devices[d], is, expected, wide ? 1e-8 : 2e-5);
        agree(devices[d], plain, value, result_at(&shape, SECOND), wide ? 1e-12 : 1e-5);
        free(is), free(plain);
    }
    double *const all[] = {in, direction, up, down, above, below, expected, value};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        free(all[k]);
    ecornn_cell_free(cell);
    ecornn_device_close(device);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

START_TEST(what_it_does_not_do_is_said)
{
    static const char three[] = "cell three(h, c, d)\nd' = d + W x\nc' = c * d'\nh' = c'\n";
    static const char raw[] = "cell raw(h)\nh' = tanh(R h + x)\n";
    static const char noisy[] = "cell noisy(h)\nh' = tanh(W x + R h) * bernoulli(0.5)\n";
    static const struct {
        const char *problem, *text, *word;
    } wrong[] = {
        {"lstm/bf16/T2/N2/I2/H2", NULL, "lstm/bf16/infer/T2/N2/I2/H2: the type must be f32 or f64"},
        {"lstm/T2/N2/I2/H4/P2", NULL, "there is a projection"},
        {"lstm/T2/N2/I2/H4/all-states", NULL, "states of every step"},
        {"lstm/T2/N2/I2/H4/streams", NULL, "there are streams"},
        {"lstm/T2/N2/I2/H4/models:2", NULL, "there are several models"},
        {"lstm/train/L2/T2/N2/I2/H4/mask/dropout:0.5", NULL, "there are dropout and a mask"},
        {"lstm/train/T2/N2/I2/H4/save:states", NULL, "a run saves all"},
        {"three/T2/N2/I2/H4", three, "it has 3 states, at most 2"},
        {"raw/T2/N2/I4/H4", raw, "x stands in its text without W"},
        {"noisy/L2/T2/N2/I2/H4", noisy, "bernoulli() in more than one layer"},
    };
    ecornn_device *device = reference();
    ecornn_plan *plan = NULL;
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        ecornn_cell *cell = NULL;
        ecornn_desc desc;
        if (wrong[k].text != NULL)
            check_ok(ecornn_cell_parse(&cell, wrong[k].text));
        check_ok(parse_desc(&desc, wrong[k].problem, cell));
        check_refused(tangent_create(&plan, device, &desc), ECORNN_UNSUPPORTED, wrong[k].word);
        ck_assert_ptr_null(plan);
        ecornn_cell_free(cell);
    }
    ecornn_device_close(device);
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    ecornn_device *device = reference();
    ecornn_plan *plan;
    ecornn_sizes sizes;
    ecornn_desc desc;
    char text[1];
    double number[64] = {0};
    const void *params[12];
    void *dparams[12] = {NULL};
    check_ok(parse_desc(&desc, "lstm/f64/T1/N1/I1/H1", NULL));
    check_ok(tangent_create(&plan, device, &desc));
    get_sizes(plan, &sizes);
    ck_assert_int_eq(sizes.param_count, 12);
    ck_assert_int_eq(ecornn_plan_print(NULL, text, 1), -1);
    ck_assert_int_gt(ecornn_plan_print(plan, text, 1), 200);
    void *workspace = ecornn_alloc(device, sizes.workspace_bytes);
    for (int k = 0; k < 12; k++)
        params[k] = number;
    const struct tangent_io good = {.x = number, .params = params, .workspace = workspace};
    struct tangent_io io = good;
    check_ok(tangent_run(plan, &io)); /* no result is requested */
    const ecornn_io wrong = {
        .size = sizeof wrong, .x = number, .params = params, .weights = number};
    REFUSES(ecornn_forward(plan, 1, 1, &wrong), "io.weights is");
    REFUSES(ecornn_forward(plan, 2, 1, &wrong), "steps is 2, must be 0 to 1");
    REFUSES(ecornn_forward(plan, 0, 1, &wrong), "steps is 0: an empty run has no tangents");
    REFUSES(ecornn_pack(plan, params, NULL, number, NULL), "no packed weights");
#define REFUSED(change, word) io = good, change, REFUSES(tangent_run(plan, &io), word)
    REFUSED(io.x = NULL, "io.x is NULL");
    REFUSED(io.y_tangent = (char *)number + 1, "io.tangent->y is");
    REFUSED(io.lengths = (const int32_t *)((char *)number + 1), "io.lengths is");
    REFUSED(io.initial_tangent[2] = number, "io.tangent->initial[2] is");
    REFUSED(io.params = NULL, "io.params is NULL");
    REFUSED(io.dparams = dparams, "is without ECORNN_TRAINING");
    REFUSED(io.workspace = NULL, "io.workspace is NULL");
    REFUSED(io.reset_state[1] = number, "io.reset_state[1] is");
    REFUSED(io.reset_state_tangent[0] = number, "without ECORNN_RESETS");
    ecornn_io other = {.size = sizeof other}, with = {.size = sizeof with, .tangent = &other};
    with.x = number, with.params = params, with.workspace = workspace;
    other.lengths = (const int32_t *)number;
    REFUSES(ecornn_forward(plan, 1, 1, &with), "io.tangent sets byte 8, but may only have x, y");
    other.lengths = NULL, with.streams = 1;
    REFUSES(ecornn_forward(plan, 1, 1, &with), "io.streams is 1");
    params[3] = NULL;
    REFUSED(io.seed = 0, "io.params[3] is NULL, all 12 are needed");
    ecornn_free(device, workspace);
    ecornn_plan_free(plan);
    ecornn_plan_free(NULL);
    ecornn_device_close(device);
}
END_TEST

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "tangent"};
    only = argc > 1 ? argv[1] : NULL;
    return suite_run(&program,
                     SUITE_TESTS({tangents_are_differences, only ? 1 : PROBLEMS},
                                 {what_it_does_not_do_is_said, 1}, {wrong_calls_are_refused, 1}));
}
