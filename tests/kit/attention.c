/*
 * Cases of attention, see attention.h.
 *
 * The bound for F64 is 1e-12 of the array's largest magnitude. For other types it is the number of
 * F32 ulps of that magnitude by which sums of H, S and T terms in any order may be off (scores are
 * exponents), plus half an ulp of the array's own type.
 */
#include "tests/kit/attention_calls.h"
#include "tests/kit/attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "tests/kit/guarded.h"

/* ---- strings --------------------------------------------------------------------------------- */

static bool read_suffix(struct attention_case *test, const char *part)
{
    static const char *const lengths[] = {[LENGTHS_RANDOM] = "lengths:random",
                                          [LENGTHS_ZERO] = "lengths:zero",
                                          [LENGTHS_FULL] = "lengths:full",
                                          [LENGTHS_SHORT] = "lengths:short"};
    for (int k = LENGTHS_RANDOM; k <= LENGTHS_SHORT; k++)
        if (strcmp(part, lengths[k]) == 0) {
            test->lengths = (enum lengths)k;
            return true;
        }
    unsigned long long seed;
    if (sscanf(part, "run:%dx%dx%d", &test->T, &test->S, &test->N) == 3 ||
        sscanf(part, "scale-inputs:%lf", &test->inputs) == 1 ||
        sscanf(part, "poison:%lf", &test->poison) == 1)
        return true;
    if (sscanf(part, "seed:%llu", &seed) == 1) {
        test->seed = seed;
        return true;
    }
    if (strncmp(part, "null:", 5) == 0) {
        snprintf(test->null, sizeof test->null, ",%s,", part + 5);
        return true;
    }
    test->accumulate = test->accumulate || strcmp(part, "accumulate") == 0;
    test->noreserve = test->noreserve || strcmp(part, "noreserve") == 0;
    return strcmp(part, "accumulate") == 0 || strcmp(part, "noreserve") == 0;
}

bool attention_parse(struct attention_case *test, const char *text)
{
    char copy[CASE_TEXT], problem[2 * CASE_TEXT] = "";
    struct attention_case suffixes = {.inputs = 1, .seed = 1, .T = -1};
    snprintf(copy, sizeof copy, "%s", text);
    for (char *part = copy, *rest = copy; rest; part = rest) {
        rest = strchr(part, '/');
        if (rest)
            *rest++ = '\0';
        if (!read_suffix(&suffixes, part)) {
            const size_t used = strlen(problem);
            snprintf(problem + used, sizeof problem - used, "%s%s", used ? "/" : "", part);
        }
    }
    *test = suffixes;
    snprintf(test->text, sizeof test->text, "%s", text);
    if (eco_attention_parse(&test->desc, problem) != ECORNN_OK) {
        fprintf(stderr, "%s: %s\n", text, ecornn_error_detail());
        return false;
    }
    if (suffixes.T < 0) {
        test->T = test->desc.steps;
        test->S = test->desc.source;
        test->N = test->desc.batch;
    }
    test->H = test->desc.hidden;
    test->V = test->desc.value ? test->desc.value : test->desc.hidden;
    return true;
}

static bool is_null(const struct attention_case *test, const char *name)
{
    char word[80];
    snprintf(word, sizeof word, ",%s,", name);
    return strstr(test->null, word) != NULL;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Adds an array [steps,N,width], or [N,steps,width] if batch-major. */
static struct array *add(const struct attention_case *test, struct data *data, const char *name,
                         int32_t steps, int32_t width)
{
    const bool batch_major = (test->desc.flags & ECORNN_BATCH_MAJOR) != 0;
    const int32_t extent[] = {batch_major ? test->N : steps, batch_major ? steps : test->N, width};
    return data_add(data, name, 3, extent);
}

/* The type of an array; vectors and their gradients have another than rows. */
static ecornn_type type_of(ecornn_type type, const char *name)
{
    return strstr(name, "vector") || strcmp(name, "before") == 0 ? eco_type_sum(type) : type;
}

static void draw(const struct attention_case *test, struct array *array, double most,
                 uint64_t *state)
{
    for (size_t i = 0; i < array->count; i++)
        array->value[i] =
            eco_type_round(most * (2 * uniform(state) - 1), type_of(test->desc.type, array->name));
}

static int32_t draw_length(const struct attention_case *test, uint64_t *state)
{
    const double some = uniform(state);
    switch (test->lengths) {
    case LENGTHS_ZERO:
        return 0;
    case LENGTHS_SHORT:
        return some < 0.5 || test->S == 0 ? 0 : 1;
    case LENGTHS_RANDOM:
        return (int32_t)(some * (test->S + 1));
    default:
        return test->S;
    }
}

/* Puts the poison into a number of the first row and one of the last, in the middle of the steps.
 */
static void poison(const struct attention_case *test, struct data *inputs)
{
    struct array *query = data_find(inputs, "query"), *keys = data_find(inputs, "keys");
    if (test->poison == 0 || query->count == 0 || keys->count == 0)
        return;
    query->value[test->H / 2] = test->poison;
    keys->value[keys->count - 1] = test->poison;
}

void attention_inputs(const struct attention_case *test, struct data *inputs)
{
    uint64_t state = test->seed;
    draw(test, add(test, inputs, "query", test->T, test->H), test->inputs, &state);
    draw(test, add(test, inputs, "keys", test->S, test->H), test->inputs, &state);
    draw(test, add(test, inputs, "values", test->S, test->V), 1, &state);
    draw(test, data_add(inputs, "vector", 1, &test->H), 4 / sqrt(test->H), &state);
    if (!is_null(test, "dcontext"))
        draw(test, add(test, inputs, "dcontext", test->T, test->V), 1, &state);
    if (!is_null(test, "dweights"))
        draw(test, add(test, inputs, "dweights", test->T, test->S), 1, &state);
    if (test->accumulate)
        draw(test, data_add(inputs, "before", 1, &test->H), 1, &state);
    poison(test, inputs);
    if (test->lengths == LENGTHS_NULL)
        return;
    struct array *lengths = data_add(inputs, "lengths", 1, &test->N);
    for (int32_t n = 0; n < test->N; n++)
        lengths->value[n] = draw_length(test, &state);
}

/* ---- a run ----------------------------------------------------------------------------------- */

enum { QUERY, KEYS, VALUES, VECTOR, DCONTEXT, DWEIGHTS, INPUTS };
enum { CONTEXT, WEIGHTS, DQUERY, DKEYS, DVALUES, DVECTOR, RESULTS };
static const char *const input_name[INPUTS] = {"query",  "keys",     "values",
                                               "vector", "dcontext", "dweights"};
static const char *const result_name[RESULTS] = {"context", "weights", "dquery",
                                                 "dkeys",   "dvalues", "dvector"};

struct session {
    const struct attention_case *test;
    const struct data *inputs;
    ecornn_type type;
    struct memory memory;
    ecornn_plan *plan;
    struct buffer input[INPUTS], result[RESULTS], lengths, workspace, reserve;
    ecornn_attention_io io;
    ecornn_attention_gradient gradient;
};

/* The row of the batch to which element i of a [steps,N,width] array belongs, and its step. */
static int32_t place(const struct session *session, const struct array *array, size_t i,
                     int32_t *step)
{
    const size_t row = i / (size_t)array->extent[2], second = (size_t)array->extent[1];
    const bool batch_major = (session->test->desc.flags & ECORNN_BATCH_MAJOR) != 0;
    *step = (int32_t)(batch_major ? row % second : row / second);
    return (int32_t)(batch_major ? row / second : row % second);
}

/* Is the element past the length of its source? */
static bool is_padding(const struct session *session, const struct array *array, size_t i)
{
    const struct array *lengths = data_find(session->inputs, "lengths");
    const bool of_source = strstr("keys values dkeys dvalues", array->name) != NULL;
    const bool weights = strstr("weights dweights", array->name) != NULL;
    int32_t step;
    if (!lengths || (!of_source && !weights))
        return false;
    const int32_t n = place(session, array, i, &step);
    const int32_t s = weights ? (int32_t)(i % (size_t)array->extent[2]) : step;
    return s >= lengths->value[n];
}

static void make_inputs(struct session *session)
{
    for (int k = 0; k < INPUTS; k++) {
        const struct array *array = data_find(session->inputs, input_name[k]);
        struct buffer *buffer = &session->input[k];
        const ecornn_type type = type_of(session->type, input_name[k]);
        if (!array || array->count == 0)
            continue;
        buffer_make(&session->memory, buffer, array->name, array->count * eco_type_bytes(type));
        for (size_t i = 0; !session->memory.failed && i < array->count; i++)
            if (!is_padding(session, array, i))
                eco_type_set(buffer->image + GUARD, i, type, array->value[i]);
        buffer_upload(&session->memory, buffer);
    }
    const struct array *lengths = data_find(session->inputs, "lengths");
    if (!lengths)
        return;
    buffer_make(&session->memory, &session->lengths, "lengths", lengths->count * sizeof(int32_t));
    for (size_t n = 0; !session->memory.failed && n < lengths->count; n++)
        ((int32_t *)(void *)(session->lengths.image + GUARD))[n] = (int32_t)lengths->value[n];
    buffer_upload(&session->memory, &session->lengths);
}

/* A result's shape; count 0: it is not requested, or has no elements. */
static struct array *shape_of(const struct session *session, int k, struct data *shapes)
{
    const struct attention_case *test = session->test;
    const int32_t steps[] = {test->T, test->T, test->T, test->S, test->S};
    const int32_t width[] = {test->V, test->S, test->H, test->H, test->V};
    const bool trains = (test->desc.flags & ECORNN_TRAINING) && !test->noreserve;
    if (is_null(test, result_name[k]) || (k >= DQUERY && !trains))
        return NULL;
    return k == DVECTOR ? data_add(shapes, result_name[k], 1, &test->H)
                        : add(test, shapes, result_name[k], steps[k], width[k]);
}

static void make_results(struct session *session, struct data *shapes)
{
    const struct array *before = data_find(session->inputs, "before");
    for (int k = 0; k < RESULTS; k++) {
        const struct array *shape = shape_of(session, k, shapes);
        struct buffer *buffer = &session->result[k];
        const ecornn_type type = type_of(session->type, result_name[k]);
        if (!shape || shape->count == 0)
            continue;
        buffer_make(&session->memory, buffer, result_name[k], shape->count * eco_type_bytes(type));
        for (size_t i = 0; k == DVECTOR && before && i < before->count; i++)
            eco_type_set(buffer->image + GUARD, i, type, before->value[i]);
        buffer_upload(&session->memory, buffer);
    }
}

static bool open_session(struct session *session, struct data *shapes)
{
    const struct attention_case *test = session->test;
    struct memory *memory = &session->memory;
    struct eco_attention_desc desc = test->desc;
    ecornn_sizes sizes;
    desc.type = session->type;
    if (!memory_succeeded(memory, attention_create(&session->plan, memory->device, &desc),
                          "plan_create"))
        return false;
    get_sizes(session->plan, &sizes);
    if (sizes.workspace_bytes > 0)
        buffer_make(memory, &session->workspace, "workspace", sizes.workspace_bytes);
    if (sizes.reserve_bytes > 0 && !test->noreserve)
        buffer_make(memory, &session->reserve, "reserve", sizes.reserve_bytes);
    make_inputs(session);
    make_results(session, shapes);
    void *in[INPUTS], *out[RESULTS];
    for (int k = 0; k < INPUTS; k++)
        in[k] = buffer_inside(&session->input[k]);
    for (int k = 0; k < RESULTS; k++)
        out[k] = buffer_inside(&session->result[k]);
    session->io = (ecornn_attention_io){.size = sizeof session->io,
                                        .lengths = buffer_inside(&session->lengths),
                                        .query = in[QUERY],
                                        .keys = in[KEYS],
                                        .values = in[VALUES],
                                        .vector = in[VECTOR],
                                        .context = out[CONTEXT],
                                        .probs = out[WEIGHTS],
                                        .workspace = buffer_inside(&session->workspace),
                                        .reserve = buffer_inside(&session->reserve),
                                        .workspace_bytes = sizes.workspace_bytes,
                                        .reserve_bytes = sizes.reserve_bytes};
    session->gradient = (ecornn_attention_gradient){.size = sizeof session->gradient,
                                                    .dcontext = in[DCONTEXT],
                                                    .dprobs = in[DWEIGHTS],
                                                    .dquery = out[DQUERY],
                                                    .dkeys = out[DKEYS],
                                                    .dvalues = out[DVALUES],
                                                    .dvector = out[DVECTOR],
                                                    .add = test->accumulate};
    return !memory->failed;
}

static void check_after_run(struct session *session, bool backward)
{
    for (int k = 0; k < INPUTS; k++)
        buffer_check(&session->memory, &session->input[k], true);
    buffer_check(&session->memory, &session->lengths, true);
    buffer_check(&session->memory, &session->workspace, false);
    buffer_check(&session->memory, &session->reserve, backward);
}

static bool run(struct session *session, bool backward)
{
    const struct attention_case *const test = session->test;
    struct memory *memory = &session->memory;
    buffer_refill(memory, &session->workspace);
    const ecornn_status status =
        backward ? ecornn_attention_backward(session->plan, test->T, test->S, test->N, &session->io,
                                             &session->gradient)
                 : ecornn_attention_forward(session->plan, test->T, test->S, test->N, &session->io);
    bool ok = memory_succeeded(memory, status, backward ? "backward" : "forward") &&
              memory_succeeded(memory, ecornn_wait(memory->device, NULL), "wait");
    if (ok)
        check_after_run(session, backward);
    return ok && !memory->failed;
}

/* Keeps a copy of the reserve, which backward must not change. */
static void keep_reserve(struct session *session)
{
    unsigned char *now = buffer_fetch(&session->memory, &session->reserve, false);
    if (now)
        memcpy(session->reserve.image, now, session->reserve.bytes + 2 * GUARD);
    free(now);
}

static void fetch_results(struct session *session, const struct data *shapes, struct data *results)
{
    for (int k = 0; k < RESULTS; k++) {
        const struct array *shape = data_find(shapes, result_name[k]);
        unsigned char *now = buffer_fetch(&session->memory, &session->result[k], false);
        if (!now)
            continue;
        struct array *array = data_add(results, shape->name, shape->rank, shape->extent);
        for (size_t i = 0; i < array->count; i++) {
            array->value[i] = eco_type_get(now + GUARD, i, type_of(session->type, array->name));
            if (array->value[i] != 0 && is_padding(session, array, i))
                memory_complain(&session->memory, "not 0 past a length", array->name);
        }
        free(now);
    }
}

static bool run_all(struct session *session, int backwards, const struct data *shapes,
                    struct data *results)
{
    const bool trains = (session->test->desc.flags & ECORNN_TRAINING) && !session->test->noreserve;
    bool ok = run(session, false);
    for (int k = 0; ok && trains && k < backwards; k++) {
        struct data again = {0};
        keep_reserve(session);
        if (k > 0)
            buffer_upload(&session->memory, &session->result[DVECTOR]);
        ok = run(session, true);
        if (ok)
            fetch_results(session, shapes, &again);
        if (k > 0)
            ok = ok && attention_same(session->test, "again", results, &again);
        if (k == 0)
            *results = again;
        else
            data_free(&again);
    }
    if (ok && !trains)
        fetch_results(session, shapes, results);
    return ok && !session->memory.failed;
}

bool attention_run(const struct attention_case *test, ecornn_device *device, ecornn_type type,
                   int backwards, const struct data *inputs, struct data *results)
{
    struct session session = {.test = test,
                              .inputs = inputs,
                              .type = type,
                              .memory = {.device = device, .text = test->text}};
    struct data shapes = {0};
    const bool ok =
        open_session(&session, &shapes) && run_all(&session, backwards, &shapes, results);
    for (int k = 0; k < INPUTS; k++)
        buffer_drop(&session.memory, &session.input[k]);
    for (int k = 0; k < RESULTS; k++)
        buffer_drop(&session.memory, &session.result[k]);
    buffer_drop(&session.memory, &session.lengths);
    buffer_drop(&session.memory, &session.workspace);
    buffer_drop(&session.memory, &session.reserve);
    ecornn_plan_free(session.plan);
    data_free(&shapes);
    return ok;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double bound_of(const struct attention_case *test, const struct array *array)
{
    const ecornn_type type = test->desc.type;
    const double terms = 4 * (sqrt(test->H) + sqrt(test->S) + sqrt(test->T) + 8);
    if (type == ECORNN_F64)
        return 1e-12 * array_largest(array);
    const double own = eco_type_narrow(type_of(type, array->name))
                           ? ldexp(1, -eco_type_form[type].bits) + ldexp(1, -24)
                           : 0;
    const double least = ldexp(1, eco_type_form[type_of(type, array->name)].least);
    return array_largest(array) * (own + terms * ldexp(1, -24)) + least;
}

bool attention_expect(const struct attention_case *test, const struct data *inputs,
                      struct data *expected)
{
    ecornn_device *reference;
    if (ecornn_device_open(&reference, "reference") != ECORNN_OK)
        return false;
    const bool ok = attention_run(test, reference, ECORNN_F64, 1, inputs, expected);
    for (int i = 0; i < expected->n; i++)
        expected->array[i].bound = bound_of(test, &expected->array[i]);
    ecornn_device_close(reference);
    return ok;
}

/* Wraps the case, because the functions that compare arrays take a case of layers. */
static struct test_case named(const struct attention_case *test)
{
    struct test_case other = {0};
    snprintf(other.text, sizeof other.text, "%s", test->text);
    return other;
}

bool attention_agrees(const struct attention_case *test, const char *who,
                      const struct data *expected, const struct data *results)
{
    const struct test_case other = named(test);
    return results_agree(&other, who, expected, results);
}

bool attention_same(const struct attention_case *test, const char *who, const struct data *expected,
                    const struct data *results)
{
    const struct test_case other = named(test);
    return results_same(&other, who, expected, results);
}

/* ---- the list -------------------------------------------------------------------------------- */

/* %s: the type. */
static const char *const list[] = {
    "attention/additive/%s/train/T5/S7/N3/H20",
    "attention/additive/%s/train/T1/S1/N1/H1",
    "attention/additive/%s/train/T1/S9/N4/H33/V17/lengths:random",
    "attention/additive/%s/train/T6/S1/N2/H16",
    "attention/additive/%s/train/T13/S37/N5/H71/V45/lengths:random/batch-major/accumulate",
    "attention/additive/%s/train/T33/S50/N2/H128/V64/lengths:random",
    "attention/additive/%s/train/T50/S19/N3/H300/V520/batch-major",
    "attention/additive/%s/train/T19/S23/N3/H640/lengths:short",
    "attention/additive/%s/train/T4/S5/N3/H24/lengths:zero",
    "attention/additive/%s/train/T4/S5/N3/H24/V8/lengths:full/seed:7",
    "attention/additive/%s/train/T9/S12/N6/H40/run:4x7x3/lengths:random/accumulate",
    "attention/additive/%s/train/T9/S12/N6/H40/run:0x7x3/accumulate",
    "attention/additive/%s/train/T9/S12/N6/H40/run:4x0x3",
    "attention/additive/%s/train/T9/S12/N6/H40/run:4x7x0",
    "attention/additive/%s/train/T7/S9/N2/H36/scale-inputs:12",
    "attention/additive/%s/train/T7/S9/N2/H36/scale-inputs:300/batch-major",
    "attention/additive/%s/train/T7/S9/N2/H36/null:weights,dweights",
    "attention/additive/%s/train/T7/S9/N2/H36/null:context,dcontext/lengths:random",
    "attention/additive/%s/train/T7/S9/N2/H36/null:dquery,dvector",
    "attention/additive/%s/train/T7/S9/N2/H36/null:dkeys,dvalues,dvector",
    "attention/additive/%s/train/T7/S9/N2/H36/null:dquery,dkeys,dvalues",
    "attention/additive/%s/train/T20/S9/N3/H36/V20/poison:nan",
    "attention/additive/%s/train/T20/S9/N3/H36/V20/poison:inf/batch-major",
    "attention/additive/%s/train/T2/S30/N3/H136/V20/poison:-inf",
    "attention/additive/%s/train/T3/S300/N2/H40/V24/lengths:random",
    "attention/additive/%s/train/T300/S5/N2/H40/V24",
    "attention/additive/%s/train/T8/S9/N2/H1100/V48",
    "attention/additive/%s/infer/T7/S9/N2/H36/V20/lengths:random",
    "attention/additive/%s/train/T7/S9/N2/H36/noreserve",
};
enum { CASES = sizeof list / sizeof *list };
static const char *const type_name[] = {"f32", "bf16", "f16", "f64"};
enum { NAMES = sizeof type_name / sizeof *type_name };

int attention_count(void)
{
    return getenv("ECORNN_CASE") ? 1 : CASES * NAMES;
}

void attention_text(int index, char text[CASE_TEXT])
{
    const char *only = getenv("ECORNN_CASE"), *form = list[index / NAMES];
    const char *at = strstr(form, "%s");
    if (only)
        snprintf(text, CASE_TEXT, "%s", only);
    else
        snprintf(text, CASE_TEXT, "%.*s%s%s", (int)(at - form), form, type_name[index % NAMES],
                 at + 2);
}

bool attention_case_passes(const char *text, ecornn_device *device, int backwards)
{
    struct attention_case test;
    struct data inputs = {0}, expected = {0}, results = {0};
    if (!attention_parse(&test, text))
        return false;
    attention_inputs(&test, &inputs);
    const bool ok = attention_expect(&test, &inputs, &expected) &&
                    attention_run(&test, device, test.desc.type, backwards, &inputs, &results) &&
                    attention_agrees(&test, "attention", &expected, &results);
    data_free(&inputs);
    data_free(&expected);
    data_free(&results);
    return ok;
}
