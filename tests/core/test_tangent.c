/*
 * Compares tangents with finite differences of the reference in double: tangents of y and the final
 * states, and of the results of backward, along random directions of all inputs. This covers
 * products of the Jacobian with a vector, and double backward. The differences hold what is under
 * stop(). Tested on the reference, the CPU, and a GPU if there is one.
 *
 *     test_tangent [PROBLEM]
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ref/ref.h"
#include "common/type.h"
#include "tests/kit/calls.h"
#include "tests/kit/suite.h"
#include "tests/kit/trial.h"

static const char *only;

/* Every function of the language, and parameters that have no gradient. */
static const char all_words[] = "cell all(h, c)\n"
                                "m  = W x\n"
                                "a  = W x + R h + b\n"
                                "d  = a - mean(a)\n"
                                "s  = p * d / sqrt(mean(d * d) + 0.01) + b\n"
                                "e  = exp(min(s, 1)) + log(1 + abs(a)) - relu(R (c * a))\n"
                                "f  = select(m, max(e, p), -sigmoid(e) / (2 + tanh(c)))\n"
                                "c' = 0.5 * c + f + stop(f * s) * a + tanh(c) * (a - stop(a))\n"
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

/* ---- runs ------------------------------------------------------------------------------------ */

static ecornn_status tangent_create(ecornn_plan **plan, ecornn_device *device,
                                    const ecornn_desc *desc)
{
    ecornn_desc with = *desc;
    with.flags |= ECORNN_TANGENT;
    return ecornn_plan_create_desc(plan, device, &with);
}

static void open_trial(struct trial *trial, ecornn_device *device, const ecornn_desc *desc,
                       bool ragged)
{
    static const int32_t lengths[] = {2, 4, 0, 3};
    ecornn_plan *plan;
    check_ok(ecornn_plan_create_desc(&plan, device, desc));
    trial_open_plan(trial, device, plan);
    trial->owns_plan = true;
    trial->ragged = ragged;
    trial_point(trial);
    memcpy(trial->array[0][LENGTHS][0].host, lengths, trial->array[0][LENGTHS][0].bytes);
    trial->io.seed = 7, trial->io.first_step = 3, trial->io.first_row = 2;
}

/* Rounds to numbers that a float can hold. */
static bool coarse(struct part_row a, struct part_row b, void *context)
{
    (void)b, (void)context;
    for (size_t i = 0; a.array->type != 0 && i < a.array->row / sizeof(double); i++)
        ((double *)(void *)a.at)[i] = rint(((double *)(void *)a.at)[i] * 8192) / 8192;
    return true;
}

/* Fills the inputs along which results are differentiated, but not the lengths. */
static void fill(struct trial *trial, uint64_t seed)
{
    const struct part part = {.of = trial};
    struct trial was;
    trial_open_beside(&was, trial);
    trial_fill(trial, seed);
    part_copy(part, LENGTHS, (struct part){.of = &was}, LENGTHS);
    for (int role = 0; role <= PARAMS; role++)
        part_each(part, role, part, role, coarse, NULL);
    trial_close(&was);
}

/* Runs the trial with all inputs moved along a direction; `moved` gets the results. */
static void run_moved(struct trial *moved, struct trial *trial, struct trial *direction,
                      double step)
{
    trial_open_beside(moved, trial);
    for (int role = 0; role <= PARAMS; role++)
        part_add((struct part){.of = moved}, step, (struct part){.of = direction}, role);
    trial_run(moved);
}

/* Runs the tangent plan: `at` gets y and the final states, `along`, whose inputs are the direction,
 * the tangents of all results. */
static void differentiate(struct trial *at, struct trial *along, const ecornn_desc *desc)
{
    ecornn_plan *plan;
    ecornn_sizes sizes;
    check_ok(tangent_create(&plan, at->device, desc));
    get_sizes(plan, &sizes);
    ck_assert_int_eq(sizes.param_count, at->sizes.param_count);
    trial_send(at), trial_send(along);
    void *const workspace = ecornn_alloc(at->device, sizes.workspace_bytes);
    ecornn_io io = at->io, slope = {.size = sizeof slope,
                                    .x = along->io.x,
                                    .y = along->io.y,
                                    .params = along->params};
    ecornn_gradient gradient = along->gradient,
                    second = {.size = sizeof second, .dy = at->gradient.dy};
    for (int s = 0; s < TRIAL_STATES; s++) {
        slope.initial[s] = along->io.initial[s];
        slope.final[s] = along->io.final[s];
        slope.reset_state[s] = along->io.reset_state[s];
        second.dfinal[s] = at->gradient.dfinal[s];
    }
    io.params = at->params, io.workspace = workspace, io.tangent = &slope;
    io.weights = io.reserve = NULL, io.workspace_bytes = io.reserve_bytes = 0;
    gradient.dweights = NULL, gradient.dparams = along->dparams, gradient.tangent = &second;
    check_ok(backward_all(plan, &io, &gradient));
    trial_download(at), trial_download(along);
    ecornn_free(at->device, workspace);
    ecornn_plan_free(plan);
}

/* ---- comparing ------------------------------------------------------------------------------- */

struct comparison {
    const char *device, *of;
    int role;
    double scale; /* of the expected numbers */
    double largest, bound;
};

static bool find_largest(struct part_row is, struct part_row expected, void *context)
{
    struct comparison *const c = context;
    (void)is;
    for (size_t i = 0; i < expected.array->row / sizeof(double); i++)
        c->largest = fmax(c->largest, fabs(c->scale * ((double *)(void *)expected.at)[i]));
    return true;
}

static bool agree(struct part_row is, struct part_row expected, void *context)
{
    const struct comparison *const c = context;
    for (size_t i = 0; i < is.array->row / is.array->element; i++) {
        const double x = eco_type_get(is.at, i, is.array->type);
        const double y = c->scale * ((double *)(void *)expected.at)[i];
        ck_assert_msg(fabs(x - y) <= c->bound * (1 + c->largest),
                      "%s: %s of %s is %.12g, must be %.12g", c->device, c->of, trial_role(c->role),
                      x, y);
    }
    return true;
}

/* Compares each array separately, so that an error in an array of small numbers shows. */
static void agree_all(struct trial *is, struct trial *expected, int last,
                      const struct comparison *how)
{
    for (int role = Y; role <= last; role++) {
        const struct part a = {.of = is}, b = {.of = expected};
        struct comparison c = *how;
        c.role = role;
        part_each(a, role, b, role, find_largest, &c);
        part_each(a, role, b, role, agree, &c);
    }
}

START_TEST(tangents_are_differences)
{
    static double stopped[1 << 16];
    const double step = 1e-5;
    static struct trial point, direction, up, down, at, along;
    ecornn_device *device = device_on("reference");
    ecornn_cell *cell = NULL;
    ecornn_desc desc, exact;
    if (list[_i].text != NULL)
        check_ok(ecornn_cell_parse(&cell, list[_i].text));
    check_ok(parse_desc(&desc, only ? only : list[_i].problem, cell));
    exact = desc, exact.type = ECORNN_F64;
    const bool wide = desc.type == ECORNN_F64;
    open_trial(&point, device, &exact, list[_i].lengths);
    open_trial(&direction, device, &exact, list[_i].lengths);
    fill(&point, 1), fill(&direction, 2);
    eco_reference_stopped(device, stopped, false);
    trial_run(&point);
    eco_reference_stopped(device, stopped, true);
    run_moved(&up, &point, &direction, step), run_moved(&down, &point, &direction, -step);
    for (int role = Y; role < ROLES; role++)
        part_add((struct part){.of = &up}, -1, (struct part){.of = &down}, role);
    for (int d = 0; d < DEVICES; d++) {
        if (suite_lacks(devices[d]))
            continue;
        ecornn_device *const on = device_on(devices[d]);
        open_trial(&at, on, &desc, list[_i].lengths), open_trial(&along, on, &desc, false);
        part_copy_inputs((struct part){.of = &at}, (struct part){.of = &point});
        part_copy_inputs((struct part){.of = &along}, (struct part){.of = &direction});
        differentiate(&at, &along, &desc);
        agree_all(&along, &up, DPARAMS,
                  &(struct comparison){.device = devices[d],
                                       .of = "tangent",
                                       .scale = 1 / (2 * step),
                                       .bound = wide ? 1e-8 : 2e-5});
        agree_all(
            &at, &point, FINAL,
            &(struct comparison){
                .device = devices[d], .of = "value", .scale = 1, .bound = wide ? 1e-12 : 1e-5});
        trial_close(&along), trial_close(&at);
        ecornn_device_close(on);
    }
    trial_close(&down), trial_close(&up), trial_close(&direction), trial_close(&point);
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
    ecornn_device *device = device_on("reference");
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
    ecornn_device *device = device_on("reference");
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
    const ecornn_io none = {.size = sizeof none};
    ecornn_io slope = none;
    const ecornn_io good = {.size = sizeof good,
                            .x = number,
                            .params = params,
                            .workspace = workspace,
                            .tangent = &slope};
    const ecornn_gradient gradient = {.size = sizeof gradient, .dparams = dparams};
    ecornn_io io = good;
    check_ok(forward_all(plan, &io)); /* no result is requested */
    const ecornn_io wrong = {
        .size = sizeof wrong, .x = number, .params = params, .weights = number};
    REFUSES(ecornn_forward(plan, 1, 1, &wrong), "io.weights is");
    REFUSES(ecornn_forward(plan, 2, 1, &wrong), "steps is 2, must be 0 to 1");
    REFUSES(ecornn_forward(plan, 0, 1, &wrong), "steps is 0: an empty run has no tangents");
    REFUSES(ecornn_pack(plan, params, NULL, number, NULL), "no packed weights");
    REFUSES(backward_all(plan, &io, &gradient), "is without ECORNN_TRAINING");
#define REFUSED(change, word) io = good, slope = none, change, REFUSES(forward_all(plan, &io), word)
    REFUSED(io.x = NULL, "io.x is NULL");
    REFUSED(slope.y = (char *)number + 1, "io.tangent->y is");
    REFUSED(io.lengths = (const int32_t *)((char *)number + 1), "io.lengths is");
    REFUSED(slope.initial[2] = number, "io.tangent->initial[2] is");
    REFUSED(io.params = NULL, "io.params is NULL");
    REFUSED(io.workspace = NULL, "io.workspace is NULL");
    REFUSED(io.reset_state[1] = number, "io.reset_state[1] is");
    REFUSED(slope.reset_state[0] = number, "without ECORNN_RESETS");
    REFUSED(slope.lengths = (const int32_t *)number, "io.tangent sets byte 8, but may only have x");
    REFUSED(io.streams = 1, "io.streams is 1");
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
