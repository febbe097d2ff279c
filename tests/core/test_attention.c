/*
 * Tests attention by its public functions. The reference is compared with finite differences and
 * with results that are known in advance. Also tests plans and problem strings, and passes each
 * argument wrongly once.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/attention_calls.h"
#include "tests/kit/attention.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

static const char *const device_name[] = {"reference", "cpu:1", "cpu:2"};
enum { DEVICES = sizeof device_name / sizeof *device_name };

/* ---- the reference --------------------------------------------------------------------------- */

/* The sum of the results, each times its gradient in the inputs. */
static double objective(const struct attention_case *test, ecornn_device *device,
                        const struct data *inputs)
{
    struct data results = {0};
    double sum = 0;
    ck_assert(attention_run(test, device, ECORNN_F64, 1, inputs, &results));
    for (int k = 0; k < 2; k++) {
        const struct array *y = data_find(&results, k ? "weights" : "context");
        const struct array *dy = data_find(inputs, k ? "dweights" : "dcontext");
        for (size_t i = 0; y && dy && i < y->count; i++)
            sum += y->value[i] * dy->value[i];
    }
    data_free(&results);
    return sum;
}

static const char *const differentiated[] = {
    "attention/additive/f64/train/T3/S4/N2/H5/V3/lengths:random/seed:3",
    "attention/additive/f64/train/T2/S3/N2/H4/batch-major/null:dweights",
    "attention/additive/f64/train/T2/S3/N2/H4/null:dcontext"};
enum { DIFFERENTIATED = sizeof differentiated / sizeof *differentiated };

START_TEST(gradient_by_differences)
{
    static const char *const name[] = {"query", "keys", "values", "vector"};
    const double step = 1e-5;
    struct attention_case test;
    struct data inputs = {0}, results = {0};
    ecornn_device *device = device_on("reference");
    ck_assert(attention_parse(&test, differentiated[_i]));
    attention_inputs(&test, &inputs);
    ck_assert(attention_run(&test, device, ECORNN_F64, 2, &inputs, &results));
    for (int k = 0; k < 4; k++) {
        struct array *array = data_find(&inputs, name[k]);
        char gradient[64];
        snprintf(gradient, sizeof gradient, "d%s", name[k]);
        const struct array *is = data_find(&results, gradient);
        ck_assert(!array == !is);
        for (size_t i = 0; array && i < array->count; i++) {
            const double before = array->value[i];
            array->value[i] = before + step;
            const double above = objective(&test, device, &inputs);
            array->value[i] = before - step;
            const double below = objective(&test, device, &inputs);
            array->value[i] = before;
            ck_assert_double_eq_tol(is->value[i], (above - below) / (2 * step), 1e-8);
        }
    }
    data_free(&inputs);
    data_free(&results);
    ecornn_device_close(device);
}
END_TEST

/* Known scores: with a vector of zeros they are 0, so all weights are equal; two more are computed
 * by hand. */
START_TEST(known_weights)
{
    ecornn_device *device = device_on("reference");
    ecornn_plan *plan;
    struct eco_attention_desc desc;
    check_ok(eco_attention_parse(&desc, "attention/additive/f64/T1/S3/N1/H2/V1"));
    check_ok(attention_create(&plan, device, &desc));
    const double query[] = {0.5, -1}, keys[] = {1, 2, -0.5, 0.25, 7, 7}, values[] = {3, 5, 9};
    double vector[] = {0, 0}, context, weights[3];
    const int32_t lengths[] = {2};
    ecornn_attention_io io = {.size = sizeof io,
                              .lengths = lengths,
                              .query = query,
                              .keys = keys,
                              .values = values,
                              .vector = vector,
                              .context = &context,
                              .probs = weights};
    check_ok(attention_forward_all(plan, &io));
    ck_assert_double_eq_tol(weights[0], 0.5, 1e-15);
    ck_assert_double_eq_tol(context, 4, 1e-15);
    ck_assert_double_eq(weights[2], 0);
    vector[0] = 2;
    vector[1] = -1;
    check_ok(attention_forward_all(plan, &io));
    const double e0 = 2 * tanh(1.5) - tanh(1), e1 = 2 * tanh(0) - tanh(-0.75);
    const double w0 = exp(e0) / (exp(e0) + exp(e1));
    ck_assert_double_eq_tol(weights[0], w0, 1e-15);
    ck_assert_double_eq_tol(context, 3 * w0 + 5 * (1 - w0), 1e-14);
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}
END_TEST

/* The reference in every type agrees with the reference in F64. */
START_TEST(reference_in_types)
{
    char text[CASE_TEXT];
    ecornn_device *device = device_on("reference");
    attention_text(_i, text);
    ck_assert_msg(attention_case_passes(text, device, 2), "%s", text);
    ecornn_device_close(device);
}
END_TEST

/* ---- plans ----------------------------------------------------------------------------------- */

START_TEST(strings)
{
    static const char *const good[] = {"attention/additive/f32/train/T50/S50/N128/H512",
                                       "attention/additive/bf16/infer/T1/S2/N3/H4/V5/batch-major"};
    static const struct {
        const char *text, *word;
    } bad[] = {{"", "must begin with attention/additive/"},
               {"lstm/T1", "must begin"},
               {"attention/additive", "must begin"},
               {"attention/additive/", "\"\" is not a valid part"},
               {"attention/T1/S1/N1/H1", "must begin with attention/additive/"},
               {"attention/additive/f32/f32/T1/S1/N1/H1", "repeats"},
               {"attention/additive/T1/S1/N1/H1/T2", "contradicts"},
               {"attention/additive/T1/S1/N1", "hidden is 0, must be 1 to 16777216"},
               {"attention/additive/T0/S1/N1/H1", "T is 0, must be 1 to"},
               {"attention/additive/T1/S99999999/N1/H1", "S is 99999999, must be"},
               {"attention/additive/T1/S1/N1/H1/Q4", "\"Q4\" is not a valid part"},
               {"attention/additive/T1/S1/N1/H1/V", "\"V\" is not a valid part"},
               {"attention/additive/T1/S1/N1/H1/scale:2", "\"scale:2\" is not a valid part"},
               {"attention/dot/T1/S1/N1/H1", "only additive scores are supported"}};
    ecornn_device *device = device_on("reference");
    struct eco_attention_desc desc;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ecornn_plan *plan;
        char text[1024];
        check_ok(eco_attention_parse(&desc, good[i]));
        check_ok(attention_create(&plan, device, &desc));
        const int length = ecornn_plan_print(plan, text, sizeof text);
        ck_assert_int_eq(length, (int)strlen(text));
        ck_assert_msg(strncmp(text, good[i], strlen(good[i])) == 0, "%s", text);
        ck_assert_int_eq(ecornn_plan_print(plan, NULL, 0), length);
        ecornn_plan_free(plan);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSES(eco_attention_parse(&desc, bad[i].text), bad[i].word);
    ecornn_device_close(device);
}
END_TEST

START_TEST(descriptions)
{
    const struct eco_attention_desc good = {.steps = 1, .source = 1, .batch = 1, .hidden = 1};
    ecornn_device *device = device_on(device_name[_i]);
    ecornn_plan *plan = NULL;
    struct eco_attention_desc desc = good;
#define BAD(change, word)                                                                          \
    desc = good;                                                                                   \
    desc.change;                                                                                   \
    REFUSES(attention_create(&plan, device, &desc), word)
    BAD(steps = 0, "steps is 0, must be 1 to 16777216");
    BAD(source = -1, "source is -1");
    BAD(batch = (1 << 24) + 1, "batch is 16777217");
    BAD(hidden = INT32_MIN, "hidden is");
    BAD(value = -1, "value is -1, must be 0");
    BAD(type = (ecornn_type)5, "type is 5");
    BAD(flags = ECORNN_FAST_MATH, "flags is 0x2, known are 0x801");
#undef BAD
    /* Sizes beyond any memory are refused, whichever of them overflows. */
    desc = (struct eco_attention_desc){.steps = 1 << 24,
                                       .source = 1 << 24,
                                       .batch = 1 << 24,
                                       .hidden = 1 << 24,
                                       .flags = ECORNN_TRAINING};
    REFUSES(attention_create(&plan, device, &desc), "in one block");
    desc.hidden = 1;
    REFUSES(attention_create(&plan, device, &desc), "in one block");
    desc.source = 1;
    desc.hidden = 1 << 24;
    REFUSES(attention_create(&plan, device, &desc), "in one block");
    ck_assert_ptr_null(plan);
    ecornn_device_close(device);
}
END_TEST

/* ---- runs called wrongly --------------------------------------------------------------------- */

enum { WIDTH = 8, ROWS = 15 };

/* A run of T5 S4 N3 H8. */
struct attention {
    ecornn_plan *plan;
    ecornn_sizes sizes;
    float in[4][ROWS * WIDTH], out[6][ROWS * WIDTH];
    int32_t lengths[3];
    void *workspace, *reserve;
    ecornn_attention_io io;
    ecornn_attention_gradient gradient;
};

static struct attention *open_attention(ecornn_device *device, const char *problem)
{
    struct attention *a = calloc(1, sizeof *a);
    struct eco_attention_desc desc;
    uint64_t state = 1;
    check_ok(eco_attention_parse(&desc, problem));
    check_ok(attention_create(&a->plan, device, &desc));
    get_sizes(a->plan, &a->sizes);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < ROWS * WIDTH; i++)
            a->in[k][i] = (float)uniform(&state);
    a->workspace = ecornn_alloc(device, a->sizes.workspace_bytes);
    a->reserve = ecornn_alloc(device, a->sizes.reserve_bytes);
    a->io = (ecornn_attention_io){.size = sizeof a->io,
                                  .query = a->in[0],
                                  .keys = a->in[1],
                                  .values = a->in[2],
                                  .vector = a->in[3],
                                  .context = a->out[0],
                                  .probs = a->out[1],
                                  .workspace = a->workspace,
                                  .reserve = a->reserve};
    a->gradient = (ecornn_attention_gradient){.size = sizeof a->gradient,
                                              .dcontext = a->in[0],
                                              .dquery = a->out[2],
                                              .dkeys = a->out[3],
                                              .dvalues = a->out[4],
                                              .dvector = a->out[5]};
    return a;
}

static void close_attention(ecornn_device *device, struct attention *a)
{
    ecornn_free(device, a->workspace);
    ecornn_free(device, a->reserve);
    ecornn_plan_free(a->plan);
    free(a);
}

#define PROBLEM "attention/additive/f32/train/T5/S4/N3/H8"
/* change: an assignment to a copy's arguments. Forward and backward must refuse it. */
#define BAD_BACKWARD(change, word)                                                                 \
    do {                                                                                           \
        ecornn_attention_io io = a->io;                                                            \
        ecornn_attention_gradient gradient = a->gradient;                                          \
        change;                                                                                    \
        REFUSES(attention_backward_all(a->plan, &io, &gradient), word);                            \
        (void)gradient;                                                                            \
    } while (0)
#define BAD_RUN(change, word)                                                                      \
    do {                                                                                           \
        {                                                                                          \
            ecornn_attention_io io = a->io;                                                        \
            change;                                                                                \
            REFUSES(attention_forward_all(a->plan, &io), word);                                    \
        }                                                                                          \
        BAD_BACKWARD(change, word);                                                                \
    } while (0)

START_TEST(run_misuse)
{
    ecornn_device *device = device_on(device_name[_i]);
    struct attention *a = open_attention(device, PROBLEM), *before = malloc(sizeof *before);
    const int32_t below[] = {4, -1, 0}, above[] = {0, 1, 5};
    void *odd = (char *)a->in[0] + 1;
    memcpy(before, a, sizeof *a);
    REFUSES(attention_forward_all(NULL, &a->io), "plan is NULL");
    REFUSES(attention_forward_all(a->plan, NULL), "io is NULL");
    REFUSES(attention_backward_all(a->plan, NULL, &a->gradient), "io is NULL");
    REFUSES(attention_backward_all(a->plan, &a->io, NULL), "gradient is NULL");
    BAD_RUN(io.size--, "io.size is");
    REFUSES(ecornn_attention_forward(a->plan, -2, 4, 3, &a->io), "steps is -2, must be 0 to 5");
    REFUSES(ecornn_attention_forward(a->plan, 5, 5, 3, &a->io), "source is 5, must be 0 to 4");
    REFUSES(ecornn_attention_backward(a->plan, 5, 4, 4, &a->io, &a->gradient),
            "batch is 4, must be 0 to 3");
    BAD_RUN(io.lengths = below, "io.lengths[1] is -1, must be 0 to 4");
    BAD_RUN(io.lengths = above, "io.lengths[2] is 5, must be 0 to 4");
    BAD_RUN(io.lengths = odd, "io.lengths is");
    BAD_RUN(io.query = NULL, "io.query is NULL");
    BAD_RUN(io.keys = odd, "io.keys is");
    BAD_RUN(io.values = NULL, "io.values is NULL");
    BAD_RUN(io.vector = NULL, "io.vector is NULL");
    BAD_RUN(io.context = odd, "io.context");
    BAD_RUN(io.probs = odd, "4 bytes");
    BAD_RUN(io.reserve = (char *)a->reserve + 4, "64 bytes");
    BAD_RUN(io.reserve_bytes = a->sizes.reserve_bytes - 1, "io.reserve_bytes is");
    if (a->sizes.workspace_bytes > 0) {
        BAD_RUN(io.workspace = NULL, "io.workspace is NULL");
        BAD_RUN(io.workspace_bytes = 1, "io.workspace_bytes is 1, must be at least");
    }
    BAD_BACKWARD(io.reserve = NULL, "io.reserve is NULL");
    BAD_BACKWARD(gradient.size = 0, "gradient.size is 0");
    BAD_BACKWARD(gradient.dcontext = odd, "gradient.dcontext");
    BAD_BACKWARD(gradient.dvalues = gradient.dkeys, "gradient.dvalues");
    BAD_BACKWARD(gradient.dprobs = odd, "gradient.dprobs");
    BAD_BACKWARD(gradient.dquery = odd, "gradient.dquery");
    BAD_BACKWARD(gradient.dkeys = odd, "gradient.dkeys");
    BAD_BACKWARD(gradient.dvalues = odd, "gradient.dvalues");
    BAD_BACKWARD(gradient.dvector = odd, "gradient.dvector");
    ck_assert_mem_eq(a->out, before->out, sizeof a->out);
    check_ok(attention_forward_all(a->plan, &a->io));
    check_ok(attention_backward_all(a->plan, &a->io, &a->gradient));
    ck_assert_mem_ne(a->out, before->out, sizeof a->out);
    free(before);
    close_attention(device, a);
    ecornn_device_close(device);
}
END_TEST

START_TEST(other_plans)
{
    ecornn_device *device = device_on(device_name[_i]);
    struct attention *a = open_attention(device, "attention/additive/f32/infer/T5/S4/N3/H8");
    ck_assert_uint_eq(a->sizes.reserve_bytes, 0);
    check_ok(attention_forward_all(a->plan, &a->io));
    REFUSES(attention_backward_all(a->plan, &a->io, &a->gradient), "without ECORNN_TRAINING");
    a->io.reserve = a->workspace ? a->workspace : (void *)((uintptr_t)a->out & ~(uintptr_t)63);
    REFUSES(attention_forward_all(a->plan, &a->io), "io.reserve");
    close_attention(device, a);
    ecornn_device_close(device);
}
END_TEST

/* Refuses a backward run with the reserve of another forward run. */
START_TEST(backward_of_another_run)
{
    ecornn_device *device = device_on(device_name[_i]);
    struct attention *a = open_attention(device, PROBLEM);
    struct attention *other = open_attention(device, PROBLEM "/V7");
    const int32_t lengths[] = {4, 0, 3}, others[] = {3, 0, 4};
    memset(a->reserve, 0xFF, a->sizes.reserve_bytes);
    BAD_BACKWARD(io.stream = NULL, "no forward run");
    check_ok(attention_forward_all(a->plan, &a->io));
    REFUSES(ecornn_attention_backward(a->plan, 4, 4, 3, &a->io, &a->gradient),
            "are 4, 4 and 3, but 5, 4");
    BAD_BACKWARD(io.lengths = lengths, "io.lengths is given");
    REFUSES(attention_backward_all(other->plan, &a->io, &a->gradient), "another plan");
    a->io.lengths = lengths;
    check_ok(attention_forward_all(a->plan, &a->io));
    BAD_BACKWARD(io.lengths = NULL, "io.lengths is NULL");
    BAD_BACKWARD(io.lengths = others, "other values");
    check_ok(attention_backward_all(a->plan, &a->io, &a->gradient));
    close_attention(device, other);
    close_attention(device, a);
    ecornn_device_close(device);
}
END_TEST

TEST_MAIN("attention", {gradient_by_differences, DIFFERENTIATED}, {known_weights, 1},
          {reference_in_types, attention_count()}, {strings, 1}, {descriptions, DEVICES},
          {run_misuse, DEVICES}, {other_plans, DEVICES}, {backward_of_another_run, DEVICES})
