/*
 * A second bias. Adding it to packed weights with ecornn_pack must give the bits of packing
 * the sum, on every device of the machine.  A run that is given parameters must give the bits of a
 * run with packed ones.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/quantise.h"
#include "common/type.h"
#include "ecornn.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"
#include "tests/kit/testing.h"

enum { MOST = 1 << 16, MOST_PARAMS = 128 };

/* A block of parameters in the device's memory, with pointers to each parameter. */
struct block {
    char *memory;
    const void *param[MOST_PARAMS];
};

struct side {
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    ecornn_desc desc;
    ecornn_type type; /* type of the parameters */
};

static bool is_vector(const ecornn_param *param)
{
    return param->cols == 1 && strchr("bp", *(strchr(strchr(param->name, '.') + 1, '.') + 1));
}

/* Fills a block with multiples of 1/8, whose sums are exact in every type. Vectors are multiplied
 * by `vectors`, matrices are not. */
static void block_open(const struct side *side, struct block *block, double vectors)
{
    static char host[MOST * sizeof(double)];
    const int count = count_params(side->plan);
    const size_t element = eco_type_bytes(side->type);
    ck_assert_int_le(count, MOST_PARAMS);
    ck_assert_uint_le(side->sizes.param_elements, MOST);
    block->memory = ecornn_alloc(side->device, side->sizes.param_elements * element);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        check_ok(param_at(side->plan, k, &param));
        const double factor = is_vector(&param) ? vectors : 1;
        for (size_t i = 0; i < (size_t)param.rows * (size_t)param.cols; i++)
            eco_type_set(host, param.offset + i, side->type,
                         factor * ((double)((i * 7 + (size_t)k) % 15) - 7) / 8);
        block->param[k] = block->memory + param.offset * element;
    }
    check_ok(
        ecornn_upload(side->device, block->memory, host, side->sizes.param_elements * element));
}

static bool added_of(const struct side *side, const struct block *second, const void **added)
{
    for (int k = 0; second && k < count_params(side->plan); k++) {
        ecornn_param param;
        check_ok(param_at(side->plan, k, &param));
        added[k] = is_vector(&param) ? second->param[k] : NULL;
    }
    return second != NULL;
}

static char *packed_bytes(const struct side *side, const struct block *first,
                          const struct block *second)
{
    const void *added[MOST_PARAMS];
    char *const bytes = calloc(1, side->sizes.weight_bytes);
    void *weights = ecornn_alloc(side->device, side->sizes.weight_bytes);
    ck_assert(weights != NULL && bytes != NULL);
    check_ok(ecornn_upload(side->device, weights, bytes, side->sizes.weight_bytes));
    check_ok(added_of(side, second, added)
                 ? ecornn_pack(side->plan, first->param, added, weights, NULL)
                 : ecornn_pack(side->plan, first->param, NULL, weights, NULL));
    check_ok(ecornn_wait(side->device, NULL));
    check_ok(ecornn_download(side->device, bytes, weights, side->sizes.weight_bytes));
    ecornn_free(side->device, weights);
    return bytes;
}

/* Parameters, what is added to them, and their sums. */
enum { BLOCKS = 3 };

static void side_open(struct side *side, const char *device, const char *problem,
                      struct block block[BLOCKS])
{
    check_ok(ecornn_device_open(&side->device, device));
    check_ok(parse_desc(&side->desc, problem, NULL));
    check_ok(ecornn_plan_create_desc(&side->plan, side->device, &side->desc));
    get_sizes(side->plan, &side->sizes);
    side->type = param_type_of(&side->desc);
    for (int k = 0; k < BLOCKS; k++)
        block_open(side, &block[k], k + 1);
}

static void side_close(struct side *side, struct block block[BLOCKS])
{
    for (int k = 0; k < BLOCKS; k++)
        ecornn_free(side->device, block[k].memory);
    ecornn_plan_free(side->plan);
    ecornn_device_close(side->device);
}

static void check_sums(const char *device, const char *problem)
{
    struct side side;
    struct block block[BLOCKS];
    side_open(&side, device, problem, block);
    char *const sum = packed_bytes(&side, &block[0], &block[1]), *const whole = packed_bytes(
                                                                     &side, &block[2], NULL);
    ck_assert_msg(memcmp(sum, whole, side.sizes.weight_bytes) == 0, "%s on %s: other bits", problem,
                  device);
    free(sum);
    free(whole);
    side_close(&side, block);
}

START_TEST(sums_are_packed)
{
    static const char *const devices[] = {"reference", "cpu:1", "cpu:2", "cuda"};
    static const char *const problems[] = {
        "lstm/train/L2/bi/T3/N2/I5/H20",    "gru/bf16/bf16-params/T3/N2/I5/H20",
        "lstm/f64/train/T3/N2/I5/H9/P4",    "lstm/bf16/train/T3/N2/I16/H40",
        "lstm-peephole/train/T2/N1/I4/H12", "gru/train/bi/T2/N40/I16/H33"};
    if (suite_lacks(devices[_i]))
        return;
    for (size_t k = 0; k < sizeof problems / sizeof *problems; k++)
        check_sums(devices[_i], problems[k]);
}
END_TEST

/* ---- runs that are given parameters ---------------------------------------------------------- */

/* y of a run, with the parameters packed before it or given to it; NULL: as packed last. */
static char *run(const struct side *side, const struct block *first, const struct block *second,
                 bool given, void *blocks[4])
{
    const ecornn_desc *desc = &side->desc;
    const void *added[MOST_PARAMS];
    const size_t bytes = (size_t)(desc->steps * desc->batch * desc->hidden) * 2 * sizeof(double);
    char *const y = calloc(1, bytes);
    const ecornn_io io = {.size = sizeof io,
                          .x = blocks[0],
                          .y = blocks[1],
                          .weights = blocks[2],
                          .workspace = blocks[3]};
    const void *const *more = added_of(side, second, added) ? added : NULL;
    ck_assert(y != NULL);
    check_ok(ecornn_upload(side->device, blocks[1], y, bytes));
    if (given) {
        check_ok(forward_params_all(side->plan, &io, first->param, more));
    } else {
        check_ok(more ? ecornn_pack(side->plan, first->param, more, blocks[2], NULL)
                      : ecornn_pack(side->plan, first->param, NULL, blocks[2], NULL));
        check_ok(forward_all(side->plan, &io));
    }
    check_ok(ecornn_wait(side->device, NULL));
    check_ok(ecornn_download(side->device, y, blocks[1], bytes));
    return y;
}

/* The runs of a plan on a GPU: queued, captured, and from its graph. */
static void check_runs(const struct side *side, const char *problem, const struct block *first,
                       const struct block *second, void *blocks[4], size_t bytes)
{
    char *const packed = run(side, first, second, false, blocks);
    for (int k = 0; k < 4; k++) {
        char *const given = run(side, first, second, true, blocks);
        ck_assert_msg(memcmp(given, packed, bytes) == 0, "%s: other bits in run %d", problem, k);
        free(given);
    }
    free(packed);
}

static void check_given(const char *device, const char *problem)
{
    struct side side;
    struct block block[BLOCKS];
    void *blocks[4];
    side_open(&side, device, problem, block);
    const size_t rows = (size_t)(side.desc.steps * side.desc.batch),
                 bytes = rows * (size_t)side.desc.hidden * 2 * sizeof(double),
                 room[4] = {rows * (size_t)side.desc.input * sizeof(double), bytes,
                            side.sizes.weight_bytes, side.sizes.workspace_bytes};
    for (int k = 0; k < 4; k++) {
        blocks[k] = ecornn_alloc(side.device, room[k] + 1);
        ck_assert(blocks[k] != NULL);
    }
    char *const x = calloc(1, room[0]);
    for (size_t i = 0; i < rows * (size_t)side.desc.input; i++)
        eco_type_set(x, i, side.desc.type, (double)(i % 13) / 8 - 0.75);
    check_ok(ecornn_upload(side.device, blocks[0], x, room[0]));
    check_runs(&side, problem, &block[0], NULL, blocks, bytes);
    check_runs(&side, problem, &block[0], &block[1], blocks, bytes);
    check_runs(&side, problem, &block[2], &block[1], blocks, bytes);
    free(x);
    for (int k = 0; k < 4; k++)
        ecornn_free(side.device, blocks[k]);
    side_close(&side, block);
}

/* Matrices as products read them, misaligned ones, and ones with padding; many steps, one step,
 * many rows; more layers than read them in place; rows of another type. */
START_TEST(runs_take_parameters)
{
    static const char *const devices[] = {"reference", "cpu:1", "cpu:2", "cuda"};
    static const char *const problems[] = {
        "lstm/T5/N3/I16/H32",        "lstm/T1/N1/I64/H64",
        "lstm/L2/bi/T3/N40/I32/H32", "gru/T4/N2/I16/H32",
        "lstm/T3/N2/I5/H20",         "lstm/bf16/bf16-params/T9/N8/I64/H64",
        "gru/bf16/T3/N8/I16/H32",    "lstm/L5/bi/T3/N2/I16/H16",
        "lstm/f64/T3/N2/I8/H16/P8",  "rnn-tanh/T4/N5/I16/H16",
        "lstm/T40/N32/I64/H64",      "qrnn/T8/N2/I16/H32",
        "lstm/models:2/T3/N2/I8/H8", "lstm/f32/int8-weights/L2/T3/N2/I16/H37"};
    if (suite_lacks(devices[_i]))
        return;
    for (size_t k = 0; k < sizeof problems / sizeof *problems; k++)
        check_given(devices[_i], problems[k]);
}
END_TEST

START_TEST(matrices_are_refused)
{
    struct net net;
    static const float numbers[MOST];
    const void *params[PARAMS], *added[PARAMS] = {NULL};
    net_open(&net, "cpu:1", NET_PROBLEM);
    for (int k = 0; k < PARAMS; k++)
        params[k] = numbers;
    REFUSES(ecornn_pack(NULL, params, added, net.weights, NULL), "plan is NULL");
    REFUSES(ecornn_pack(net.plan, NULL, added, net.weights, NULL), "params is NULL");
    REFUSES(ecornn_pack(net.plan, params, added, NULL, NULL), "weights is NULL");
    REFUSES(ecornn_pack(net.plan, params, added, (char *)net.weights + 8, NULL), "64 bytes");
    check_ok(ecornn_pack(net.plan, params, added, net.weights, NULL));
    added[1] = net.weights;
    REFUSES(ecornn_pack(net.plan, params, added, net.weights, NULL), "the parameter is a matrix");
    added[1] = params[2] = NULL;
    REFUSES(ecornn_pack(net.plan, params, added, net.weights, NULL), "params[2] is NULL");
    net_close(&net);
}
END_TEST

START_TEST(parameters_are_checked)
{
    struct net net;
    static const float numbers[MOST];
    const void *params[PARAMS], *added[PARAMS] = {NULL};
    net_open(&net, "cpu:1", NET_PROBLEM);
    struct buffers *b = buffers_open(&net);
    b->io.weights = net.weights;
    for (int k = 0; k < PARAMS; k++)
        params[k] = numbers;
    REFUSES(forward_params_all(NULL, &b->io, params, added), "plan is NULL");
    REFUSES(forward_params_all(net.plan, NULL, params, added), "io is NULL");
    REFUSES(forward_params_all(net.plan, &b->io, NULL, added), "params is NULL");
    check_ok(forward_params_all(net.plan, &b->io, params, NULL));
    added[1] = numbers;
    REFUSES(forward_params_all(net.plan, &b->io, params, added), "the parameter is a matrix");
    added[1] = params[2] = NULL;
    REFUSES(forward_params_all(net.plan, &b->io, params, added), "params[2] is NULL");
    b->io.weights = NULL;
    REFUSES(forward_params_all(net.plan, &b->io, params, added), "weights is NULL");
    buffers_close(&net, b);
    net_close(&net);
}
END_TEST

START_TEST(a_nan_has_no_scale)
{
    const float row[] = {NAN, 1, 2};
    ck_assert(isnan(eco_weight_scale(row, ECORNN_F32, 3)));
}
END_TEST

/* Threads compare pieces of 32 KB; each 256 KB are worth a thread. */
START_TEST(each_byte_is_compared)
{
    enum { BYTES = (3 << 20) + 5 };
    static const char *const devices[] = {"reference", "cpu:1", "cpu:2", "cpu:3"};
    static const size_t at[] = {0, (1 << 15) - 1, 1 << 20, BYTES - 1};
    static char a[BYTES], b[BYTES];
    struct net net;
    int same = -1;
    net_open(&net, devices[_i], NET_PROBLEM);
    check_ok(ecornn_same(net.plan, a, b, BYTES, &same));
    ck_assert_int_eq(same, 1);
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        b[at[k]] = 1;
        check_ok(ecornn_same(net.plan, a, b, BYTES, &same));
        ck_assert_int_eq(same, 0);
        check_ok(ecornn_same(net.plan, a, b, at[k], &same));
        ck_assert_int_eq(same, 1);
        b[at[k]] = 0;
    }
    REFUSES(ecornn_same(NULL, a, b, 1, &same), "plan is NULL");
    REFUSES(ecornn_same(net.plan, NULL, b, 1, &same), "a is NULL");
    REFUSES(ecornn_same(net.plan, a, NULL, 1, &same), "b is NULL");
    REFUSES(ecornn_same(net.plan, a, b, 1, NULL), "same is NULL");
    ck_assert(ecornn_same(net.plan, NULL, NULL, same = 0, &same) == ECORNN_OK && same == 1);
    net_close(&net);
}
END_TEST

TEST_MAIN("pack", {a_nan_has_no_scale, 1}, {each_byte_is_compared, 4}, {sums_are_packed, 4},
          {runs_take_parameters, 4}, {matrices_are_refused, 1}, {parameters_are_checked, 1})
