/*
 * Attention on the CUDA device against the reference: every case, some large ones, runs that go
 * wrong.  Skipped, with the reason, where there is no device.
 *
 *     test_attention [CASE]      that case only
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tests/kit/attention_calls.h"
#include "tests/kit/attention.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

static ecornn_device *device;

/* How often backward runs; each run must give the same bits. */
enum { BACKWARDS = 3 };

START_TEST(agrees_with_reference)
{
    char text[CASE_TEXT];
    attention_text(_i, text);
    ck_assert_msg(attention_case_passes(text, device, BACKWARDS), "%s", text);
}
END_TEST

/* Queries, positions and columns, each alone and all together, are more than a block takes at a
 * time. */
static const char *const large[] = {
    "attention/additive/f32/train/T70/S90/N2/H600/V100/lengths:random",
    "attention/additive/bf16/train/T70/S90/N2/H600/V100/lengths:random/batch-major",
    "attention/additive/f64/train/T20/S50/N2/H300/V40",
    "attention/additive/f16/train/T50/S50/N3/H512/scale-inputs:3",
    "attention/additive/f32/train/T3/S200/N2/H512/scale-inputs:60/lengths:random"};
enum { LARGE = sizeof large / sizeof *large };

START_TEST(agrees_in_large_cases)
{
    ck_assert_msg(attention_case_passes(large[_i], device, BACKWARDS), "%s", large[_i]);
}
END_TEST

/* Each call of CUDA fails once. The run reports it, and the next run is correct. */
START_TEST(every_call_fails_once)
{
    enum { ROWS = 4 * 3 * 8, MOST_CALLS = 200 };
    struct eco_attention_desc desc;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    float host[ROWS], first[ROWS], later[ROWS];
    for (int i = 0; i < ROWS; i++)
        host[i] = (float)(i * 7 % 11) / 11 - 0.5f;
    ck_assert(eco_attention_parse(&desc, "attention/additive/f32/train/T4/S4/N3/H8") == ECORNN_OK);
    ck_assert(attention_create(&plan, device, &desc) == ECORNN_OK);
    get_sizes(plan, &sizes);
    float *in = ecornn_alloc(device, sizeof host), *out[5];
    for (int k = 0; k < 5; k++)
        out[k] = ecornn_alloc(device, sizeof host);
    ck_assert(ecornn_upload(device, in, host, sizeof host) == ECORNN_OK);
    const ecornn_attention_io io = {.size = sizeof io,
                                    .query = in,
                                    .keys = in,
                                    .values = in,
                                    .vector = in,
                                    .context = out[0],
                                    .workspace = ecornn_alloc(device, sizes.workspace_bytes),
                                    .reserve = ecornn_alloc(device, sizes.reserve_bytes)};
    const ecornn_attention_gradient gradient = {.size = sizeof gradient,
                                                .dcontext = in,
                                                .dquery = out[1],
                                                .dkeys = out[2],
                                                .dvalues = out[3],
                                                .dvector = out[4]};
    bool failed = true;
    int k = 0;
    for (; failed && k < MOST_CALLS; k++) {
        eco_call_fail_at(k); /* 0: none */
        ecornn_status status = attention_forward_all(plan, &io);
        if (status == ECORNN_OK)
            status = attention_backward_all(plan, &io, &gradient);
        failed = k > 0 && !eco_call_fail_at(0);
        ck_assert_int_eq(status == ECORNN_OK, !failed);
        check_ok(ecornn_wait(device, NULL));
        if (!failed) {
            ck_assert(ecornn_download(device, k ? later : first, out[1], sizeof host) == ECORNN_OK);
            failed = k == 0;
        }
    }
    ck_assert_int_gt(k, 10);
    ck_assert_int_lt(k, MOST_CALLS);
    ck_assert_mem_eq(first, later, sizeof first);
    for (int i = 0; i < 5; i++)
        ecornn_free(device, out[i]);
    ecornn_free(device, in);
    ecornn_free(device, io.workspace);
    ecornn_free(device, io.reserve);
    ecornn_plan_free(plan);
}
END_TEST

/* An array in the host's memory is refused by its name, before a kernel reads it. */
START_TEST(refuses_memory_of_the_host)
{
    struct eco_attention_desc desc;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    static float host[64];
    ck_assert(eco_attention_parse(&desc, "attention/additive/f32/infer/T2/S3/N2/H4") == ECORNN_OK);
    ck_assert(attention_create(&plan, device, &desc) == ECORNN_OK);
    get_sizes(plan, &sizes);
    float *memory = ecornn_alloc(device, sizeof host);
    void *workspace = ecornn_alloc(device, sizes.workspace_bytes);
    ecornn_attention_io io = {.size = sizeof io,
                              .query = memory,
                              .keys = host,
                              .values = memory,
                              .vector = memory,
                              .context = memory,
                              .workspace = workspace};
    const ecornn_status status = attention_forward_all(plan, &io);
    ck_assert_msg(status == ECORNN_BAD_ARGUMENT && strstr(ecornn_error_detail(), "io.keys is"),
                  "%s", ecornn_error_detail());
    ecornn_free(device, memory);
    ecornn_free(device, workspace);
    ecornn_plan_free(plan);
}
END_TEST

int main(int argc, char **argv)
{
    static const struct suite_program program = {.name = "attention on a GPU", .one_process = true};
    if (argc > 1)
        setenv("ECORNN_CASE", argv[1], 1);
    if (!suite_open_gpu(&device))
        return EXIT_SUCCESS;
    const bool all = getenv("ECORNN_CASE") == NULL;
    const int status = suite_run(&program, SUITE_TESTS({agrees_with_reference, attention_count()},
                                                       {agrees_in_large_cases, all ? LARGE : 0},
                                                       {every_call_fails_once, all},
                                                       {refuses_memory_of_the_host, all}));
    ecornn_device_close(device);
    return status;
}
