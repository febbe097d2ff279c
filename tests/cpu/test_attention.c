/*
 * Attention on the CPU. Every case is compared with the reference, in each instruction set. Bits
 * must not depend on the number of threads, and must be equal for sets that round alike.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa/isa.h"
#include "tests/kit/attention.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

START_TEST(agrees_with_reference)
{
    char text[CASE_TEXT];
    ecornn_device *device = device_on("cpu:2");
    attention_text(_i, text);
    ck_assert_msg(attention_case_passes(text, device, 2), "%s", text);
    ecornn_device_close(device);
}
END_TEST

/* Large enough for several threads. */
static const char *const large[] = {
    "attention/additive/f32/train/T70/S90/N3/H300/V270/lengths:random/accumulate",
    "attention/additive/bf16/train/T40/S70/N2/H264/batch-major",
    "attention/additive/f64/train/T40/S70/N2/H64/V16"};
enum { LARGE = sizeof large / sizeof *large };

static struct data results_of(const char *text, const char *device_name)
{
    struct attention_case test;
    struct data inputs = {0}, results = {0};
    ecornn_device *device = device_on(device_name);
    ck_assert(attention_parse(&test, text));
    attention_inputs(&test, &inputs);
    ck_assert(attention_run(&test, device, test.desc.type, 1, &inputs, &results));
    data_free(&inputs);
    ecornn_device_close(device);
    return results;
}

static void check_same(const char *text, const char *who, struct data *one, struct data *other)
{
    struct attention_case test;
    ck_assert(attention_parse(&test, text));
    ck_assert_msg(attention_same(&test, who, one, other), "%s: %s", text, who);
}

START_TEST(threads_give_the_same_bits)
{
    static const char *const other[] = {"cpu:2", "cpu:3", "cpu:7"};
    struct data one = results_of(large[_i], "cpu:1");
    for (int k = 0; k < 3; k++) {
        struct data some = results_of(large[_i], other[k]);
        check_same(large[_i], other[k], &one, &some);
        data_free(&some);
    }
    data_free(&one);
}
END_TEST

START_TEST(sets_that_fuse_give_the_same_bits)
{
    struct data first[2] = {{0}, {0}};
    const struct eco_isa *isa;
    for (int k = 0; (isa = eco_isa_supported(k)) != NULL; k++) {
        setenv("ECORNN_ISA", isa->name, 1);
        struct data some = results_of(large[_i], "cpu:2");
        struct data *before = &first[isa->fused];
        if (before->n == 0) {
            *before = some;
            continue;
        }
        check_same(large[_i], isa->name, before, &some);
        data_free(&some);
    }
    data_free(&first[0]);
    data_free(&first[1]);
}
END_TEST

START_TEST(agrees_in_each_set)
{
    static const char *const text = "attention/additive/f32/train/T19/S23/N3/H133/V50";
    const struct eco_isa *isa;
    for (int k = 0; (isa = eco_isa_supported(k)) != NULL; k++) {
        setenv("ECORNN_ISA", isa->name, 1);
        ecornn_device *device = device_on("cpu:1");
        ck_assert_msg(attention_case_passes(text, device, 1), "%s: %s", isa->name, text);
        ecornn_device_close(device);
    }
}
END_TEST

TEST_MAIN("attention on a CPU", {agrees_with_reference, attention_count()},
          {threads_give_the_same_bits, LARGE}, {sets_that_fuse_give_the_same_bits, LARGE},
          {agrees_in_each_set, 1})
