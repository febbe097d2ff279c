/*
 * Programs of another version of the header.  An older one, each of whose structures ends three
 * fields earlier, gets the same bits; a newer one, whose structures are longer, runs unless it uses
 * what the library does not have.  Devices and cells may be closed before the plans that use them.
 * Numbers at the ends of their ranges, in arguments and structures, are refused or used.
 */
#include <check.h>
#include <stddef.h>
#include <string.h>

#include "ecornn/experimental.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

/* ---- structures of other versions ------------------------------------------------------------ */

enum { RESULT = 1 << 13, AFTER = 24 };

/* A program, and what its calls gave. */
struct program {
    struct net net;
    struct buffers *b;
    ecornn_plan *attention;
    ecornn_attention_io attend;
    ecornn_attention_gradient dattend;
    float query[2 * 8], keys[3 * 8], values[3 * 8], vector[8], context[2 * 8], dquery[2 * 8];
    void *workspace, *reserve;
    ecornn_desc desc;
    ecornn_tuning tuning;
    char result[RESULT];
};

static void run(const ecornn_plan *plan)
{
    static float numbers[1 << 16];
    static _Alignas(64) char blocks[2][1 << 18];
    const void *params[64];
    ecornn_sizes sizes;
    check_ok(get_sizes(plan, &sizes));
    ck_assert_uint_le(sizes.weight_bytes, sizeof blocks[0]);
    ck_assert_uint_le(sizes.workspace_bytes, sizeof blocks[1]);
    ck_assert_int_le(sizes.param_count, 64);
    for (int k = 0; k < sizes.param_count; k++)
        params[k] = numbers;
    check_ok(ecornn_pack(plan, params, NULL, blocks[0], NULL));
    const ecornn_io io = {.size = sizeof io,
                          .x = numbers,
                          .y = numbers + (1 << 15),
                          .weights = blocks[0],
                          .workspace = blocks[1]};
    check_ok(ecornn_forward(plan, sizes.steps, sizes.batch, &io));
}

static ecornn_status call_sizes(struct program *p, void *sizes)
{
    return ecornn_plan_sizes(p->net.plan, sizes);
}

static ecornn_status call_param(struct program *p, void *param)
{
    return ecornn_param_get(p->net.plan, 5, param);
}

static ecornn_status call_info(struct program *p, void *info)
{
    return ecornn_device_query(p->net.device, info);
}

static ecornn_status call_parse(struct program *p, void *desc)
{
    return ecornn_desc_parse(desc, NET_PROBLEM, p->desc.cell);
}

/* Its results are times, and only their place is checked. */
static ecornn_status call_tune(struct program *p, void *tuning)
{
    return ecornn_tune(p->net.device, &p->desc, tuning);
}

static ecornn_status call_desc(struct program *p, void *desc)
{
    ecornn_plan *plan;
    const ecornn_status status = ecornn_plan_create_desc(&plan, p->net.device, desc);
    if (status != ECORNN_OK)
        return status;
    ck_assert_int_gt(ecornn_plan_print(plan, p->result, RESULT), 200);
    run(plan);
    ecornn_plan_free(plan);
    return ECORNN_OK;
}

static ecornn_status call_io(struct program *p, void *io)
{
    const ecornn_status status = ecornn_forward(p->net.plan, T, N, io);
    memcpy(p->result, p->b->y, RESULT);
    return status;
}

static ecornn_status call_gradient(struct program *p, void *gradient)
{
    const ecornn_status status = ecornn_backward(p->net.plan, T, N, &p->b->io, gradient);
    memcpy(p->result, p->b->dinitial, RESULT);
    return status;
}

static ecornn_status call_attend(struct program *p, void *io)
{
    const ecornn_status status = ecornn_attention_forward(p->attention, 2, 3, 1, io);
    memcpy(p->result, p->context, sizeof p->context);
    return status;
}

static ecornn_status call_dattend(struct program *p, void *gradient)
{
    const ecornn_status status =
        ecornn_attention_backward(p->attention, 2, 3, 1, &p->attend, gradient);
    memcpy(p->result, p->dquery, sizeof p->dquery);
    return status;
}

/* An older version ended before the third field from the end, at a whole number of words. */
#define KIND(type, third, call, passed)                                                            \
    {                                                                                              \
        sizeof(type), offsetof(type, third) / sizeof(size_t) * sizeof(size_t), call, passed        \
    }
static const struct kind {
    size_t size, older;
    ecornn_status (*call)(struct program *p, void *structure);
    bool passed; /* in; else it is returned */
} kinds[] = {KIND(ecornn_io, rows, call_io, true),
             KIND(ecornn_gradient, layers, call_gradient, true),
             KIND(ecornn_desc, heads, call_desc, true),
             KIND(ecornn_attention_io, stream, call_attend, true),
             KIND(ecornn_attention_gradient, dvector, call_dattend, true),
             KIND(ecornn_tuning, by_wisdom, call_tune, true),
             KIND(ecornn_sizes, param_offset, call_sizes, false),
             KIND(ecornn_param, offset, call_param, false),
             KIND(ecornn_device_info, variant, call_info, false),
             KIND(ecornn_desc, heads, call_parse, false)};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const void *full(const struct program *p, int kind)
{
    const void *const all[] = {&p->b->io,  &p->b->gradient, &p->desc,
                               &p->attend, &p->dattend,     &p->tuning};
    return kinds[kind].passed ? all[kind] : NULL;
}

static void program_open(struct program *p, const char *device)
{
    memset(p, 0, sizeof *p);
    net_open(&p->net, device, NET_PROBLEM);
    p->b = buffers_open(&p->net);
    check_ok(parse_desc(&p->desc, "gru/T2/N2/I3/H4", NULL));
    check_ok(ecornn_plan_create(&p->attention, p->net.device,
                                "attention/additive/train/T2/S3/N1/H8", NULL));
    ecornn_sizes sizes;
    check_ok(get_sizes(p->attention, &sizes));
    p->workspace = ecornn_alloc(p->net.device, sizes.workspace_bytes);
    p->reserve = ecornn_alloc(p->net.device, sizes.reserve_bytes);
    for (int k = 0; k < 24; k++)
        p->keys[k] = p->values[k] = p->query[k % 16] = p->vector[k % 8] = (float)k / 24;
    p->attend = (ecornn_attention_io){.size = sizeof p->attend,
                                      .query = p->query,
                                      .keys = p->keys,
                                      .values = p->values,
                                      .vector = p->vector,
                                      .context = p->context,
                                      .workspace = p->workspace,
                                      .reserve = p->reserve};
    p->dattend = (ecornn_attention_gradient){
        .size = sizeof p->dattend, .dcontext = p->values, .dquery = p->dquery};
    p->tuning = (ecornn_tuning){.size = sizeof p->tuning, .limit_seconds = 1e-6, .forget = 1};
    net_train(&p->net, p->b);
    check_ok(ecornn_attention_forward(p->attention, 2, 3, 1, &p->attend));
}

static void program_close(struct program *p)
{
    ecornn_free(p->net.device, p->workspace), ecornn_free(p->net.device, p->reserve);
    ecornn_plan_free(p->attention);
    buffers_close(&p->net, p->b);
    net_close(&p->net);
}

/* The call with a structure of `size` bytes, the first of which are those of the full one; tail:
 * the byte after what the library knows.  Bytes that are not the structure's must stay. */
static ecornn_status call_with(struct program *p, int kind, size_t size, char tail, char *structure)
{
    const struct kind *const is = &kinds[kind];
    memset(structure, 0, size);
    if (is->passed)
        memcpy(structure, full(p, kind), size < is->size ? size : is->size);
    memcpy(structure, &size, sizeof size);
    memset(structure + size, 7, AFTER);
    if (size > is->size)
        structure[size - 1] = tail;
    memset(p->result, 0, RESULT);
    const ecornn_status status = is->call(p, structure);
    for (int i = 0; i < AFTER; i++)
        ck_assert_int_eq(structure[size + (size_t)i], 7);
    for (size_t i = is->size; i < size; i++)
        ck_assert_int_eq(structure[i], i == size - 1 ? tail : 0);
    ck_assert_int_eq(memcmp(structure, &size, sizeof size), 0);
    return status;
}

/* Every structure: shorter by three fields, and longer by three. */
START_TEST(other_versions_run)
{
    static struct program p;
    static char now[2048], other[2048], result[RESULT];
    const struct kind *const is = &kinds[_i];
    const size_t longer = is->size + AFTER, word = sizeof(size_t);
    program_open(&p, "cpu:1");
    check_ok(call_with(&p, _i, is->size, 0, now));
    memcpy(result, p.result, RESULT);
    const size_t sizes[] = {is->older, longer};
    for (int k = 0; k < 2; k++) {
        check_ok(call_with(&p, _i, sizes[k], 0, other));
        ck_assert_mem_eq(p.result, result, RESULT);
        const size_t both = sizes[k] < is->size ? sizes[k] : is->size;
        if (!is->passed)
            ck_assert_mem_eq(other + word, now + word, both - word);
    }
    if (is->passed)
        REFUSES(call_with(&p, _i, longer, 1, other), "needs a later version");
    program_close(&p);
}
END_TEST

/* ---- the ends of ranges ---------------------------------------------------------------------- */

/* Numbers of 32 and 64 bits, the last six as floats and doubles: NaN, infinity and the largest. */
/* clang-format off */
static const uint64_t ends[] = {
    0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, UINT64_MAX, UINT64_MAX - 7, 0x8000000000000000,
    0x7FC00000, 0x7F800000, 0x7F7FFFFF, 0x7FF8000000000000, 0x7FF0000000000000, 0x7FEFFFFFFFFFFFFF};
/* clang-format on */

/* Where structures that are passed have their numbers. */
static const struct range {
    int kind;
    size_t from, to;
} ranges[] = {{0, offsetof(ecornn_io, seed), offsetof(ecornn_io, stream)},
              {0, offsetof(ecornn_io, workspace_bytes), offsetof(ecornn_io, resets)},
              {0, offsetof(ecornn_io, first_step), offsetof(ecornn_io, params)},
              {0, offsetof(ecornn_io, streams), sizeof(ecornn_io)},
              {1, offsetof(ecornn_gradient, add), offsetof(ecornn_gradient, dreset_state)},
              {2, offsetof(ecornn_desc, memory_limit), sizeof(ecornn_desc)},
              {3, offsetof(ecornn_attention_io, workspace_bytes), sizeof(ecornn_attention_io)},
              {4, offsetof(ecornn_attention_gradient, add), sizeof(ecornn_attention_gradient)},
              {5, offsetof(ecornn_tuning, limit_seconds), offsetof(ecornn_tuning, report)}};
enum { RANGES = sizeof ranges / sizeof *ranges, ENDS = sizeof ends / sizeof *ends };

/* The call with one number of its structure replaced.  A plan that is made must run (call_desc);
 * a run that succeeds has the same results. */
static void call_with_end(struct program *p, const struct range *range, size_t at, size_t width,
                          uint64_t end, const char *result)
{
    static _Alignas(8) char structure[1024];
    const struct kind *const is = &kinds[range->kind];
    memset(structure, 0, sizeof structure);
    memcpy(structure, is->passed ? full(p, range->kind) : &is->size, is->passed ? is->size : 8);
    memcpy(structure + at, &end, width); /* its low bytes, on all our machines */
    const double limit = ((const ecornn_tuning *)(const void *)structure)->limit_seconds;
    if (is->call == call_tune && limit >= 0 && limit < 1e6)
        return; /* tuning takes a second */
    const ecornn_status status = is->call(p, structure);
    ck_assert_msg(status != ECORNN_OK || is->call == call_desc ||
                      memcmp(p->result, result, RESULT) == 0,
                  "structure %d, byte %zu: %llx", range->kind, at, (unsigned long long)end);
    ck_assert(status >= ECORNN_OK && status <= ECORNN_FAILED);
    ck_assert(status == ECORNN_OK || *ecornn_error_detail() != '\0');
}

START_TEST(fields_at_their_ends)
{
    static struct program p;
    static char structure[1024], result[RESULT];
    program_open(&p, "cpu:2");
    for (int r = 0; r < RANGES + KINDS; r++) {
        const struct range size = {r - RANGES, 0, 8}, *range = r < RANGES ? &ranges[r] : &size;
        check_ok(call_with(&p, range->kind, kinds[range->kind].size, 0, structure));
        memcpy(result, p.result, RESULT);
        for (int e = 0; e < ENDS; e++)
            for (size_t at = range->from; at < range->to; at += 4) {
                call_with_end(&p, range, at, 4, ends[e], result);
                if (at % 8 == 0 && at + 8 <= range->to)
                    call_with_end(&p, range, at, 8, ends[e], result);
            }
    }
    program_close(&p);
}
END_TEST

static const int32_t numbers[] = {INT32_MIN, -1, 0, 1, INT32_MAX};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static void expect(ecornn_status status, bool good)
{
    ck_assert_msg((status == ECORNN_OK) == good, "%s", ecornn_error_detail());
}

static bool within(int32_t value, int32_t most)
{
    return value >= 0 && value <= most;
}

static void call_runs(struct program *p, int32_t a, int32_t b, int32_t c)
{
    ecornn_sizes sizes = {.size = sizeof sizes};
    const bool attends = within(a, 2) && within(b, 3) && within(c, 1);
    const bool runs = within(a, T) && within(b, N);
    expect(ecornn_run_sizes(p->net.plan, a, b, &sizes), runs);
    expect(ecornn_forward(p->net.plan, a, b, &p->b->io), runs);
    expect(ecornn_backward(p->net.plan, a, b, &p->b->io, &p->b->gradient), runs);
    expect(ecornn_attention_forward(p->attention, a, b, c, &p->attend), attends);
    expect(ecornn_attention_backward(p->attention, a, b, c, &p->attend, &p->dattend), attends);
}

static void call_numbered(struct program *p, int32_t a)
{
    void *dparams[PARAMS] = {NULL};
    const ecornn_plan *layer;
    const char *name;
    ecornn_param param = {.size = sizeof param};
    expect(ecornn_param_get(p->net.plan, a, &param), within(a, PARAMS - 1));
    expect(ecornn_plan_layer(p->net.plan, a, &layer), a == 0);
    expect(ecornn_cell_name(a, &name), within(a, 12));
    expect(ecornn_unpack(p->net.plan, p->b->dweights, dparams, a, NULL), true);
    ck_assert_int_eq(ecornn_bucket(a), a);
    ck_assert_ptr_nonnull(ecornn_status_name((ecornn_status)a));
}

static void call_sized(struct program *p, int32_t a, size_t z)
{
    static char text[1 << 16];
    static float block[1 << 19], params[1 << 19];
    const ecornn_cell *const cell = p->desc.cell;
    const int lengths[] = {ecornn_info(text, z), ecornn_cell_print(cell, text, z),
                           ecornn_plan_print(p->net.plan, text, z), ecornn_wisdom_to_text(text, z)};
    size_t elements;
    for (int k = 0; k < 4; k++)
        ck_assert_int_gt(lengths[k], 0);
    void *const memory = ecornn_alloc(p->net.device, z);
    ck_assert_int_eq(memory != NULL, z == 1);
    ecornn_free(p->net.device, memory);
    expect(ecornn_upload(p->net.device, block, text, z), z <= 1);
    expect(ecornn_download(p->net.device, text, block, z), z <= 1);
    check_ok(ecornn_import_size(p->net.plan, "torch", &elements));
    ck_assert_uint_le(elements, sizeof block / sizeof *block);
    z = z == 1 ? elements : z;
    expect(ecornn_import(p->net.plan, "torch", block, (ecornn_type)a, z, params),
           a == 1 && z == elements);
    expect(ecornn_export(p->net.plan, "torch", params, block, (ecornn_type)a, z),
           a == 1 && z == elements);
}

START_TEST(arguments_at_their_ends)
{
    static struct program p;
    program_open(&p, net_device[_i]);
    for (int a = 0; a < NUMBERS; a++) {
        call_numbered(&p, numbers[a]);
        for (int b = 0; b < NUMBERS; b++)
            for (int c = 0; c < NUMBERS; c++)
                call_runs(&p, numbers[a], numbers[b], numbers[c]);
        for (int e = 0; e < 8; e++) /* of which some are sizes that no memory has */
            if (ends[e] <= 1 || ends[e] > PTRDIFF_MAX)
                call_sized(&p, numbers[a], (size_t)ends[e]);
    }
    program_close(&p);
}
END_TEST

/* ---- lifetimes ------------------------------------------------------------------------------- */

/* A layer, a net, and a layer on a device of the plan's own, each of an own cell. */
START_TEST(closes_in_any_order)
{
    static const char text[] = "cell own(h)\nh' = tanh(W x + R h)\n";
    static const char *const problem[] = {"own/T3/N2/I4/H5", "T4/N2/I3; own/H4; join:2; gru/H5",
                                          "own/T3/N2/I4/H5"};
    ecornn_device *device = NULL;
    ecornn_cell *cell;
    ecornn_plan *plan;
    if (_i < 2)
        check_ok(ecornn_device_open(&device, "cpu:2"));
    check_ok(ecornn_cell_parse(&cell, text));
    check_ok(ecornn_plan_create(&plan, device, problem[_i], (const ecornn_cell *[]){cell, NULL}));
    void *const memory = device != NULL ? ecornn_alloc(device, 1 << 16) : NULL;
    ecornn_cell_free(cell);
    ecornn_device_close(device);
    if (device != NULL) {
        ecornn_plan *other = NULL;
        REFUSES(ecornn_plan_create(&other, device, "gru/T3/N2/I4/H5", NULL),
                "device cpu is closed");
        ck_assert_ptr_null(ecornn_alloc(device, 8));
        ecornn_device_close(device); /* for the second time: nothing happens */
    }
    run(plan);
    ecornn_plan_free(plan);
    ecornn_free(device, memory); /* the last that holds the device */
}
END_TEST

/* What the library keeps of a plan's kinds. */
START_TEST(each_kind_has_its_functions)
{
    static char text[1 << 14];
    ecornn_plan *layer, *net, *tangent, *attention;
    const ecornn_io io = {.size = sizeof io};
    const ecornn_attention_io attend = {.size = sizeof attend};
    check_ok(ecornn_plan_create(&layer, NULL, "gru/T3/N2/I4/H5", NULL));
    check_ok(ecornn_plan_create(&net, NULL, "T4/N2/I3; gru/H4; gru/H5", NULL));
    check_ok(ecornn_plan_create(&tangent, NULL, "gru/T3/N2/I4/H5/tangent", NULL));
    check_ok(ecornn_plan_create(&attention, NULL, "attention/additive/T3/S4/N2/H8", NULL));
    ecornn_plan *all[] = {layer, net, tangent, attention};
    for (int k = 0; k < 4; k++)
        ck_assert_int_gt(ecornn_plan_print(all[k], text, sizeof text), 20);
    ck_assert_int_gt(ecornn_plan_print(tangent, text, sizeof text), 20);
    *strchr(text, ':') = '\0';
    ecornn_plan_free(tangent);
    check_ok(ecornn_plan_create(&tangent, NULL, text, NULL)); /* the string is complete */
    all[2] = tangent;
    REFUSES(ecornn_forward(attention, 3, 2, &io), "ecornn_attention_forward");
    REFUSES(ecornn_attention_forward(layer, 3, 4, 2, &attend), "not of attention");
    const ecornn_io with_tangent = {.size = sizeof io, .tangent = &io};
    REFUSES(ecornn_forward(layer, 3, 2, &with_tangent), "io.tangent is");
    const ecornn_io *const layers[2] = {NULL};
    const ecornn_io with_layers = {.size = sizeof io, .layers = layers};
    REFUSES(ecornn_forward(layer, 3, 2, &with_layers), "the plan is not a net");
    check_refused(ecornn_weights_fit(net, layer), ECORNN_UNSUPPORTED, "compare the layers of nets");
    const ecornn_plan *part = NULL;
    check_ok(ecornn_plan_layer(net, 1, &part));
    ecornn_plan_free((ecornn_plan *)(uintptr_t)part);
    ck_assert_str_eq(ecornn_error_detail(), "the plan is a layer of a net, which frees it");
    ecornn_sizes sizes;
    check_ok(get_sizes(part, &sizes));
    ck_assert_int_eq(sizes.first_param, count_params(net) - sizes.param_count);
    for (int k = 0; k < 4; k++)
        ecornn_plan_free(all[k]);
}
END_TEST

TEST_MAIN("growth", {other_versions_run, KINDS}, {fields_at_their_ends, 1},
          {arguments_at_their_ends, NET_DEVICES}, {closes_in_any_order, 3},
          {each_kind_has_its_functions, 1})
