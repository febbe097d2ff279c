/*
 * A second bias. Adding it to packed weights with ecornn_pack_sums must give the bits of packing
 * the sum, on every device of the machine.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "ecornn.h"
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
    const int count = ecornn_param_count(side->plan);
    const size_t element = eco_type_bytes(side->type);
    ck_assert_int_le(count, MOST_PARAMS);
    ck_assert_uint_le(side->sizes.params, MOST);
    block->memory = ecornn_alloc(side->device, side->sizes.params * element);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        check_ok(ecornn_param_get(side->plan, k, &param));
        const double factor = is_vector(&param) ? vectors : 1;
        for (size_t i = 0; i < (size_t)param.rows * (size_t)param.cols; i++)
            eco_type_set(host, param.offset + i, side->type,
                         factor * ((double)((i * 7 + (size_t)k) % 15) - 7) / 8);
        block->param[k] = block->memory + param.offset * element;
    }
    check_ok(ecornn_upload(side->device, block->memory, host, side->sizes.params * element));
}

static char *packed_bytes(const struct side *side, const struct block *first,
                          const struct block *second)
{
    const void *added[MOST_PARAMS];
    char *const bytes = calloc(1, side->sizes.weights);
    void *weights = ecornn_alloc(side->device, side->sizes.weights);
    ck_assert(weights != NULL && bytes != NULL);
    check_ok(ecornn_upload(side->device, weights, bytes, side->sizes.weights));
    for (int k = 0; second && k < ecornn_param_count(side->plan); k++) {
        ecornn_param param;
        check_ok(ecornn_param_get(side->plan, k, &param));
        added[k] = is_vector(&param) ? second->param[k] : NULL;
    }
    check_ok(second ? ecornn_pack_sums(side->plan, first->param, added, weights, NULL)
                    : ecornn_pack(side->plan, first->param, weights, NULL));
    check_ok(ecornn_wait(side->device, NULL));
    check_ok(ecornn_download(side->device, bytes, weights, side->sizes.weights));
    ecornn_free(side->device, weights);
    return bytes;
}

static void check_sums(const char *device, const char *problem)
{
    struct side side;
    ecornn_desc desc;
    struct block one, two, three;
    check_ok(ecornn_device_open(&side.device, device));
    check_ok(ecornn_desc_parse(&desc, problem, NULL));
    check_ok(ecornn_plan_create(&side.plan, side.device, &desc));
    ecornn_plan_sizes(side.plan, &side.sizes);
    side.type = desc.type == ECORNN_F64 ? ECORNN_F64 : desc.param_type;
    block_open(&side, &one, 1);
    block_open(&side, &two, 2);
    block_open(&side, &three, 3);
    char *const sum = packed_bytes(&side, &one, &two), *const whole =
                                                           packed_bytes(&side, &three, NULL);
    ck_assert_msg(memcmp(sum, whole, side.sizes.weights) == 0, "%s on %s: other bits", problem,
                  device);
    free(sum);
    free(whole);
    ecornn_free(side.device, one.memory);
    ecornn_free(side.device, two.memory);
    ecornn_free(side.device, three.memory);
    ecornn_plan_free(side.plan);
    ecornn_device_close(side.device);
}

START_TEST(sums_are_packed)
{
    static const char *const devices[] = {"reference", "cpu:1", "cpu:2", "cuda"};
    static const char *const problems[] = {
        "lstm/train/L2/bi/T3/N2/I5/H20",    "gru/bf16/bf16-params/T3/N2/I5/H20",
        "lstm/f64/train/T3/N2/I5/H9/P4",    "lstm/bf16/train/T3/N2/I16/H40",
        "lstm-peephole/train/T2/N1/I4/H12", "gru/train/bi/T2/N40/I16/H33"};
    if (_i == 3 && ecornn_device_count("cuda") == 0)
        return;
    for (size_t k = 0; k < sizeof problems / sizeof *problems; k++)
        check_sums(devices[_i], problems[k]);
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
    REFUSES(ecornn_pack_sums(NULL, params, added, net.weights, NULL), "plan is NULL");
    REFUSES(ecornn_pack_sums(net.plan, NULL, added, net.weights, NULL), "params is NULL");
    REFUSES(ecornn_pack_sums(net.plan, params, NULL, net.weights, NULL), "added is NULL");
    REFUSES(ecornn_pack_sums(net.plan, params, added, NULL, NULL), "weights is NULL");
    REFUSES(ecornn_pack_sums(net.plan, params, added, (char *)net.weights + 8, NULL), "64 bytes");
    check_ok(ecornn_pack_sums(net.plan, params, added, net.weights, NULL));
    added[1] = net.weights;
    REFUSES(ecornn_pack_sums(net.plan, params, added, net.weights, NULL),
            "the parameter is a matrix");
    added[1] = params[2] = NULL;
    REFUSES(ecornn_pack_sums(net.plan, params, added, net.weights, NULL), "params[2] is NULL");
    net_close(&net);
}
END_TEST

TEST_MAIN("pack", 0, {sums_are_packed, 4}, {matrices_are_refused, 1})
