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

static void *managed(size_t bytes)
{
    void *memory = NULL;
    return cudaMallocManaged(&memory, bytes > 0 ? bytes : 1, cudaMemAttachGlobal) == cudaSuccess
               ? memory
               : NULL;
}

static void give_back(void *memory)
{
    cudaFree(memory);
}

static const struct models_memory memory = {managed, give_back};

/* Persistent kernels in partitions of the device. There are as many partitions as streams, and
 * more; groups of one, two, three, four and more blocks; two directions; and layers. Some models
 * are too large for a partition, and some algorithms have none. Each model's part of every array is
 * a multiple of 256 bytes, because the choice of a product depends on the alignment of arrays. */
static const struct models_case list[] = {
    {"lstm/bf16/train/T9/N40/I16/H128", 16, false, true, false},
    {"lstm/bf16/train/T12/N256/I32/H128", 16, true, false, false},
    {"gru/f32/train/bi/T8/N4/I8/H64", 5, true, true, false},
    {"gru/f32/fast/train/T8/N36/I8/H96", 6, false, false, false},
    {"lstm/f32/train/T6/N20/I8/H128/all-states", 3, true, false, false},
    {"lstm/bf16/infer/L3/T40/N8/I16/H64", 20, false, false, false},
    {"lstm/f16/train/L2/T8/N4/I8/H64/dropout:0.5", 4, true, true, false},
    {"lstm/bf16/train/T7/N16/I8/H256/resets", 3, false, true, true},
    {"lstm/bf16/train/T5/N16/I8/H1024", 2, false, false, false},
    {"mgu/f32/train/T8/N4/I8/H48/save:every:3", 3, false, false, false},
    {"gru/f64/train/T4/N8/I4/H24", 4, true, false, false},
};
enum { PROBLEMS = sizeof list / sizeof *list };

START_TEST(bits_are_those_of_each_by_itself)
{
    models_check(&list[_i], "cuda", &memory);
}
END_TEST

/* A plan of models that are small enough runs them concurrently. */
START_TEST(small_ones_have_parts)
{
    char text[8000];
    struct models_run run = {.memory = &memory};
    ecornn_device_info info;
    models_open(&run, "cuda", "lstm/bf16/train/T50/N256/I32/H128/models:16");
    check_ok(query_device(run.device, &info));
    ck_assert_int_gt(ecornn_plan_print(run.plan, text, sizeof text), 100);
    if (strncmp(info.variant, "sm_9", 4) == 0) {
        ck_assert_msg(strstr(text, "/models:16: 1 at once") == NULL, "%s", text);
        ck_assert_msg(strstr(text, "algorithm=persistent") != NULL, "%s", text);
    }
    models_close(&run);
}
END_TEST

START_TEST(refuses_what_at_once_cannot_be)
{
    ecornn_device *device;
    ecornn_desc desc;
    ecornn_plan *plan;
    check_ok(ecornn_device_open(&device, "cuda"));
    check_ok(parse_desc(&desc, "lstm/bf16/train/T9/N4/I8/H64/models:3", NULL));
    setenv("ECORNN_FORCE", "at-once=99", 1);
    ck_assert_int_eq(ecornn_plan_create_desc(&plan, device, &desc), ECORNN_UNSUPPORTED);
    unsetenv("ECORNN_FORCE");
    ck_assert_msg(strstr(ecornn_error_detail(), "at-once=99 is none of the values") != NULL, "%s",
                  ecornn_error_detail());
    ecornn_device_close(device);
}
END_TEST

/* ---- beside other plans ---------------------------------------------------------------------- */

/* Two plans of models in partitions of the device, and one layer that takes the whole device. */
static const char *const together[] = {"lstm/bf16/train/T40/N64/I32/H128/models:20",
                                       "gru/f32/train/bi/T30/N16/I16/H96/models:6",
                                       "lstm/bf16/train/T60/N64/I64/H512"};
enum { TOGETHER = sizeof together / sizeof *together };

struct beside {
    struct models_run run;
    char *should[MODELS_ARRAYS]; /* the results of a run alone */
};

static size_t bytes_of(const struct models_run *run, int array)
{
    return (size_t)run->models * run->bytes[array];
}

static void open_beside(struct beside *beside, const char *problem, uint64_t *seed)
{
    struct models_run *run = &beside->run;
    cudaStream_t stream;
    ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    *beside = (struct beside){.run = {.memory = &memory, .stream = stream}};
    models_open(run, "cuda", problem);
    models_fill(run, seed);
    models_forget(run);
    models_queue(run, NULL, NULL, 5);
    check_ok(ecornn_wait(run->device, stream));
    for (int array = Y; array < MODELS_ARRAYS; array++) {
        beside->should[array] = malloc(bytes_of(run, array) + 1);
        memcpy(beside->should[array], run->array[array], bytes_of(run, array));
    }
}

static void check_beside(const struct beside *beside)
{
    const struct models_run *run = &beside->run;
    check_ok(ecornn_wait(run->device, run->stream));
    for (int array = Y; array < MODELS_ARRAYS; array++)
        ck_assert_mem_eq(run->array[array], beside->should[array], bytes_of(run, array));
}

static void close_beside(struct beside *beside)
{
    cudaStream_t stream = beside->run.stream;
    models_close(&beside->run);
    cudaStreamDestroy(stream);
    for (int array = Y; array < MODELS_ARRAYS; array++)
        free(beside->should[array]);
}

/* Each plan runs on its own stream, queued and from graphs. None waits for ever, and all give the
 * same bits. */
START_TEST(share_the_device)
{
    enum { TIMES = 4, RUNS = 5 };
    struct beside beside[TOGETHER];
    uint64_t seed = 17;
    for (int k = 0; k < TOGETHER; k++)
        open_beside(&beside[k], together[k], &seed);
    for (int time = 0; time < TIMES; time++) {
        for (int k = 0; k < TOGETHER; k++)
            models_forget(&beside[k].run);
        for (int run = 0; run < RUNS; run++)
            for (int k = 0; k < TOGETHER; k++)
                models_queue(&beside[k].run, NULL, NULL, 5);
        for (int k = 0; k < TOGETHER; k++)
            check_beside(&beside[k]);
    }
    for (int k = 0; k < TOGETHER; k++)
        close_beside(&beside[k]);
}
END_TEST

/* Threads share one plan; each has its own stream. */
START_TEST(threads_share_a_plan)
{
    enum { RUNS = 17 };
    struct models_run run[RUNS];
    for (int k = 0; k < RUNS; k++) {
        cudaStream_t stream;
        ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        run[k] = (struct models_run){.memory = &memory, .stream = stream};
    }
    models_open(&run[0], "cuda", "lstm/bf16/train/T20/N32/I16/H64/models:16");
    for (int k = 1; k < RUNS; k++)
        models_open_beside(&run[k], &run[0]);
    models_check_threads(run, RUNS);
    for (int k = RUNS; k-- > 0;) {
        models_close(&run[k]);
        cudaStreamDestroy(run[k].stream);
    }
}
END_TEST

static ecornn_device *device;
GPU_TEST_MAIN("models on a GPU", &device, {bits_are_those_of_each_by_itself, PROBLEMS},
              {small_ones_have_parts, 1}, {refuses_what_at_once_cannot_be, 1},
              {share_the_device, 1}, {threads_share_a_plan, 1})
