/*
 * How much memory training takes: sizes of each policy, the table of a plan, limits of memory, and
 * reserves and calls that do not belong to a policy.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/mark.h"
#include "tests/kit/calls.h"
#include "tests/kit/net.h"
#include "tests/kit/suite.h"

static ecornn_device *device;

static ecornn_status make(ecornn_plan **plan, const char *problem)
{
    ecornn_desc desc;
    check_ok(parse_desc(&desc, problem, NULL));
    return ecornn_plan_create_desc(plan, device, &desc);
}

static ecornn_sizes sizes_of(const char *problem)
{
    ecornn_plan *plan;
    ecornn_sizes sizes;
    check_ok(make(&plan, problem));
    get_sizes(plan, &sizes);
    ecornn_plan_free(plan);
    return sizes;
}

static void open_device(void)
{
    check_ok(ecornn_device_open(&device, "cpu:1"));
}

static void close_device(void)
{
    ecornn_device_close(device);
}

/* Saved values in units of T*N*H, over all layers and directions, in the type of rows. Sizes are
 * multiples of a cache line. */
static const struct {
    const char *problem;
    double values;
} kept[] = {
    {"lstm/train/T257/N8/I64/H64/save:states", 1 * 256.0 / 257},
    {"lstm/train/T257/N8/I64/H64/save:every:16", 1 / 257.0 * 16},
    {"lstm/train/T257/N8/I64/H64/save:every:257", 0},
    {"lstm/bf16/train/T257/N8/I64/H64/save:states", 1}, /* rounded: the last step, too */
    {"lstm/bf16/train/T257/N8/I64/H64/save:every:16", 2 / 257.0 * 16},
    {"lstm/train/T257/N8/I64/H64/save:states/bf16-save", 0.5},
    {"gru/train/T257/N8/I64/H64/save:states", 0},
    {"lstm/train/T257/N8/I64/H64/save:all/bf16-save", 0.5 * 5},
    {"lstm/train/L2/T257/N8/I64/H64/save:all/bf16-save", 0.5 * 10 + 259.0 / 257},
    {"gru-reset-first/bf16/train/bi/T257/N8/I64/H64/save:every:9", 0},
    {"gru/train/L3/T254/N8/I64/H64/save:states", 2 * 256.0 / 254},
    {"lstm/train/L2/bi/T254/N8/I64/H64/save:every:11", 256.0 / 254 + 2 * 23 / 254.0},
};

START_TEST(reserve_is_what_the_policy_says)
{
    ecornn_desc desc;
    check_ok(parse_desc(&desc, kept[_i].problem, NULL));
    const size_t ways = (desc.flags & ECORNN_BIDIRECTIONAL) ? 2 : 1;
    const double value = (double)desc.steps * desc.batch * desc.hidden * (double)ways *
                         (double)eco_type_bytes(desc.type);
    const ecornn_sizes sizes = sizes_of(kept[_i].problem);
    ck_assert_uint_eq(sizes.reserve_bytes,
                      ECO_MARK_BYTES + (size_t)(kept[_i].values * value + 0.5));
}
END_TEST

static size_t both(ecornn_sizes sizes)
{
    return sizes.reserve_bytes + sizes.workspace_bytes;
}

static const char *const limited[] = {
    "lstm/train/T300/N20/I80/H80",
    "gru/bf16/train/L2/bi/T100/N3/I40/H56",
    "gru-reset-first/f64/train/L2/T64/N5/I16/H24",
    "rnn-tanh/train/T1/N1/I1/H1",
};
enum { LIMITED = 4 };

/* A limit of exactly the bytes of a plan that saves all is enough for it, and one byte less is not.
 * The least limit that the error names is enough for some plan, and one byte less is not. */
START_TEST(limits_are_kept)
{
    const char *const problem = limited[_i];
    char text[256];
    ecornn_plan *plan;
    const ecornn_sizes all = sizes_of(problem);
    snprintf(text, sizeof text, "%s/memory:%zu", problem, both(all));
    check_ok(make(&plan, text));
    ck_assert_int_eq(plan->problem.saving.policy, ECO_SAVE_ALL);
    ecornn_plan_free(plan);
    snprintf(text, sizeof text, "%s/memory:1", problem);
    ck_assert_int_eq(make(&plan, text), ECORNN_BAD_ARGUMENT);
    const char *named = strstr(ecornn_error_detail(), "at least ");
    ck_assert_ptr_nonnull(named);
    const size_t least = strtoull(named + strlen("at least "), NULL, 10);
    snprintf(text, sizeof text, "%s/memory:%zu", problem, least - 1);
    ck_assert_int_eq(make(&plan, text), ECORNN_BAD_ARGUMENT);
    for (size_t limit = least; limit < both(all); limit += limit / 4 + 1) {
        snprintf(text, sizeof text, "%s/memory:%zu", problem, limit);
        ck_assert_uint_le(both(sizes_of(text)), limit);
    }
}
END_TEST

START_TEST(limits_of_inference)
{
    ecornn_plan *plan;
    const size_t bytes = both(sizes_of("lstm/T50/N4/I8/H16"));
    char text[100];
    snprintf(text, sizeof text, "lstm/T50/N4/I8/H16/memory:%zu", bytes);
    ck_assert_uint_le(both(sizes_of(text)), bytes);
    ck_assert_int_eq(make(&plan, "lstm/T50/N4/I8/H16/memory:1K"), ECORNN_BAD_ARGUMENT);
}
END_TEST

/* A policy that the description names is kept, whatever the limit. */
START_TEST(a_policy_stays)
{
    ecornn_plan *plan;
    check_ok(make(&plan, "lstm/train/T300/N20/I80/H80/save:every:7/memory:1G"));
    ck_assert_int_eq(plan->problem.saving.policy, ECO_SAVE_EVERY);
    ck_assert_int_eq(plan->problem.saving.every, 7);
    ecornn_plan_free(plan);
}
END_TEST

START_TEST(a_long_sequence_fits)
{
    const char *text = "lstm/bf16/train/T100000/N4/I1024/H1024/memory:64M";
    ck_assert_uint_le(both(sizes_of(text)), (size_t)64 << 20);
}
END_TEST

START_TEST(the_plan_says_what_ways_cost)
{
    static const char *const row[] = {"save:all", "save:states", "save:every:4", "save:every:16",
                                      "chosen"};
    static char text[10000];
    ecornn_plan *plan;
    check_ok(make(&plan, "lstm/train/T40/N20/I80/H80/memory:3M"));
    ck_assert_int_lt(ecornn_plan_print(plan, text, sizeof text), (int)sizeof text);
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        ck_assert_msg(strstr(text, row[k]) != NULL, "no %s in %s", row[k], text);
    ck_assert_ptr_null(strstr(text, "save:every:64"));
    ecornn_plan_free(plan);
}
END_TEST

/* ---- reserves -------------------------------------------------------------------------------- */

static void check_other_policy(struct net *net, struct buffers *b, const char *problem)
{
    ecornn_desc desc;
    ecornn_plan *other;
    check_ok(parse_desc(&desc, problem, NULL));
    check_ok(ecornn_plan_create_desc(&other, net->device, &desc));
    ecornn_sizes sizes;
    get_sizes(other, &sizes);
    struct buffers before = *b;
    void *const workspace = b->io.workspace;
    b->io.workspace = ecornn_alloc(net->device, sizes.workspace_bytes);
    REFUSES(backward_all(other, &b->io, &b->gradient), "save:every:2, but this plan has save:");
    ecornn_free(net->device, b->io.workspace);
    b->io.workspace = workspace;
    ck_assert_mem_eq(b, &before, sizeof before);
    ecornn_plan_free(other);
}

START_TEST(a_reserve_of_another_policy_is_refused)
{
    struct net net;
    net_open(&net, net_device[_i], NET_PROBLEM "/save:every:2");
    struct buffers *b = buffers_open(&net);
    net_train(&net, b);
    check_other_policy(&net, b, NET_PROBLEM);
    check_other_policy(&net, b, NET_PROBLEM "/save:states");
    check_other_policy(&net, b, NET_PROBLEM "/save:every:3");
    if (strcmp(net_device[_i], "reference") != 0) {
        b->io.y = NULL;
        REFUSES(backward_all(net.plan, &b->io, &b->gradient),
                "io.y is NULL, but backward of this plan reads it");
        REFUSES(forward_all(net.plan, &b->io), "io.y is NULL");
    }
    buffers_close(&net, b);
    net_close(&net);
}
END_TEST

TEST_MAIN_AROUND("saving", open_device, close_device,
                 {reserve_is_what_the_policy_says, sizeof kept / sizeof *kept},
                 {limits_are_kept, LIMITED}, {limits_of_inference, 1}, {a_policy_stays, 1},
                 {a_long_sequence_fits, 1}, {the_plan_says_what_ways_cost, 1},
                 {a_reserve_of_another_policy_is_refused, NET_DEVICES})
