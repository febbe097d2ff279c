/*
 * Several models run concurrently in one run on a GPU. Queued, captured and from the graph, each
 * model has the bits that it has alone with the same choices. If all models read one x, its dx is
 * the sum over the models. Skipped, with the reason, where there is no device.
 */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/calls.h"
#include "tests/kit/models.h"
#include "tests/kit/suite.h"

static ecornn_device *device;

/* Persistent kernels in partitions of the device. There are as many partitions as streams, and
 * more; groups of one, two, three, four and more blocks; two directions; and layers. Some models
 * are too large for a partition, and some algorithms have none. Each model's part of every array is
 * a multiple of 256 bytes, because the choice of a product depends on the alignment of arrays. */
static const struct models_case list[] = {
    {"lstm/bf16/train/T9/N40/I16/H128", 16, false, true},
    {"lstm/bf16/train/T12/N256/I32/H128", 16, true, false},
    {"gru/f32/train/bi/T8/N4/I8/H64", 5, true, true},
    {"gru/f32/fast/train/T8/N36/I8/H96", 6, false, false},
    {"lstm/f32/train/T6/N20/I8/H128/all-states", 3, true, false},
    {"lstm/bf16/infer/L3/T40/N8/I16/H64", 20, false, false},
    {"lstm/f16/train/L2/T8/N4/I8/H64/dropout:0.5", 4, true, true},
    {"lstm/bf16/train/T7/N16/I8/H256/resets", 3, false, true},
    {"lstm/bf16/train/T5/N16/I8/H1024", 2, false, false},
    {"mgu/f32/train/T8/N4/I8/H48/save:every:3", 3, false, false},
    {"gru/f64/train/T4/N8/I4/H24", 4, true, false},
};
enum { PROBLEMS = sizeof list / sizeof *list };

START_TEST(bits_are_those_of_each_by_itself)
{
    models_check(&list[_i], "cuda");
}
END_TEST

/* A plan of models that are small enough runs them concurrently. */
START_TEST(small_ones_have_parts)
{
    char text[8000];
    struct trial run;
    ecornn_device_info info;
    trial_open_on(&run, "cuda", "lstm/bf16/train/T50/N256/I32/H128/models:16");
    check_ok(query_device(run.device, &info));
    ck_assert_int_gt(ecornn_plan_print(run.plan, text, sizeof text), 100);
    if (strncmp(info.variant, "sm_9", 4) == 0) {
        ck_assert_msg(strstr(text, "/models:16: 1 at once") == NULL, "%s", text);
        ck_assert_msg(strstr(text, "algorithm=persistent") != NULL, "%s", text);
    }
    trial_close(&run);
}
END_TEST

START_TEST(refuses_what_at_once_cannot_be)
{
    ecornn_plan *plan;
    setenv("ECORNN_FORCE", "at-once=99", 1);
    check_refused(ecornn_plan_create(&plan, device, "lstm/bf16/train/T9/N4/I8/H64/models:3", NULL),
                  ECORNN_UNSUPPORTED, "at-once=99 is none of the values");
    unsetenv("ECORNN_FORCE");
}
END_TEST

/* ---- beside other plans ---------------------------------------------------------------------- */

/* Two plans of models in partitions of the device, and one layer that takes the whole device. */
static const char *const together[] = {"lstm/bf16/train/T40/N64/I32/H128/models:20",
                                       "gru/f32/train/bi/T30/N16/I16/H96/models:6",
                                       "lstm/bf16/train/T60/N64/I64/H512"};
enum { TOGETHER = sizeof together / sizeof *together };

/* A run, and one of the same plan alone. */
struct beside {
    struct trial run, alone;
};

static void open_beside(struct beside *beside, const char *problem)
{
    cudaStream_t stream;
    ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    trial_open(&beside->run, device, problem, NULL);
    trial_fill(&beside->run, 17);
    trial_open_beside(&beside->alone, &beside->run);
    beside->run.io.stream = beside->alone.io.stream = stream;
    beside->run.io.seed = beside->alone.io.seed = 5;
    trial_run(&beside->alone);
}

static void close_beside(struct beside *beside)
{
    const cudaStream_t stream = beside->run.io.stream;
    trial_close(&beside->alone), trial_close(&beside->run);
    cudaStreamDestroy(stream);
}

/* Each plan runs on its own stream, queued and from graphs. None waits for ever, and all give the
 * same bits. */
START_TEST(share_the_device)
{
    enum { TIMES = 4, RUNS = 5 };
    static struct beside beside[TOGETHER];
    for (int k = 0; k < TOGETHER; k++)
        open_beside(&beside[k], together[k]);
    for (int time = 0; time < TIMES; time++) {
        for (int k = 0; k < TOGETHER; k++)
            trial_send(&beside[k].run);
        for (int run = 0; run < RUNS; run++)
            for (int k = 0; k < TOGETHER; k++)
                check_ok(trial_queue(&beside[k].run));
        for (int k = 0; k < TOGETHER; k++) {
            trial_fetch(&beside[k].run);
            part_check((struct part){.of = &beside[k].run}, (struct part){.of = &beside[k].alone},
                       Y, DPARAMS, together[k]);
        }
    }
    for (int k = 0; k < TOGETHER; k++)
        close_beside(&beside[k]);
}
END_TEST

/* Threads share one plan; each has its own stream. */
START_TEST(threads_share_a_plan)
{
    enum { RUNS = 17 };
    static struct trial run[RUNS];
    trial_open(&run[0], device, "lstm/bf16/train/T20/N32/I16/H64/models:16", NULL);
    for (int k = 0; k < RUNS; k++) {
        cudaStream_t stream;
        ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        if (k > 0)
            trial_open_beside(&run[k], &run[0]);
        run[k].io.stream = stream;
    }
    models_check_threads(run, RUNS);
    for (int k = RUNS; k-- > 0;) {
        trial_close(&run[k]);
        cudaStreamDestroy(run[k].io.stream);
    }
}
END_TEST

GPU_TEST_MAIN("models on a GPU", &device, {bits_are_those_of_each_by_itself, PROBLEMS},
              {small_ones_have_parts, 1}, {refuses_what_at_once_cannot_be, 1},
              {share_the_device, 1}, {threads_share_a_plan, 1})
