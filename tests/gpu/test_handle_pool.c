/*
 * The streams, events and handles that runs take from a device. There is no device: this file
 * defines the calls of CUDA, which note streams and events. Tests the largest number of concurrent
 * runs, and how lanes fork and join.
 */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "gpu/run/run.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"

const struct eco_services services = {.fail = eco_fail, .call_fails = eco_call_fails};
const struct eco_services *eco_gpu_services = &services;

/* ---- CUDA ------------------------------------------------------------------------------------ */

static atomic_int streams, events, handles, made; /* how many exist; made: streams made so far */
static _Thread_local struct eco_text calls;       /* this thread's calls that order streams */

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    (void)mode;
    return cudaSuccess;
}

/* Streams are 1, 2 and so on, events 1001, 1002. */
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    atomic_fetch_add(&streams, 1);
    *stream = (cudaStream_t)(uintptr_t)(atomic_fetch_add(&made, 1) + 1);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    atomic_fetch_sub(&streams, stream != NULL);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = (cudaEvent_t)(uintptr_t)(atomic_fetch_add(&events, 1) + 1001);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    atomic_fetch_sub(&events, event != NULL);
    return cudaSuccess;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    *handle = (cublasHandle_t)(uintptr_t)(atomic_fetch_add(&handles, 1) + 1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    atomic_fetch_sub(&handles, handle != NULL);
    return CUBLAS_STATUS_SUCCESS;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    eco_text_add(&calls, "%zu@%zu ", (size_t)event, (size_t)stream);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    eco_text_add(&calls, "%zu>%zu ", (size_t)event, (size_t)stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

/* ---- of the module --------------------------------------------------------------------------- */

ecornn_status eco_cuda_error(cudaError_t error, const char *doing)
{
    return error == cudaSuccess ? ECORNN_OK : eco_fail(ECORNN_FAILED, "%s", doing);
}

ecornn_status eco_cublas_error(cublasStatus_t error, const char *doing)
{
    return error == CUBLAS_STATUS_SUCCESS ? ECORNN_OK : eco_fail(ECORNN_FAILED, "%s", doing);
}

ecornn_status eco_gpu_enter(struct eco_gpu_scope *scope, const struct ecornn_device *device)
{
    (void)scope, (void)device;
    return ECORNN_OK;
}

void eco_gpu_leave(const struct eco_gpu_scope *scope)
{
    (void)scope;
}

ecornn_status eco_gpu_check_waits(const struct eco_gpu *gpu)
{
    (void)gpu;
    return ECORNN_OK;
}

bool eco_gpu_keeps_graph(const struct ecornn_plan *plan, double nodes)
{
    (void)plan, (void)nodes;
    return false;
}

ecornn_status eco_gpu_run_queue(const struct eco_gpu_queue *queue)
{
    return queue->queue(queue->own, queue->args->stream);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static struct eco_gpu gpu;
static struct ecornn_device device = {.context = &gpu};

static void close_gpu(void)
{
    for (int i = 0; i < ECO_MAX_RUNS; i++) {
        eco_gpu_free_set(&gpu.set[i]);
        eco_gpu_free_lanes(&gpu.lanes[i]);
    }
    ck_assert_int_eq(streams, 0);
    ck_assert_int_eq(events, 0);
    ck_assert_int_eq(handles, 0);
}

/* A run that holds its set until all threads hold one. */
static ecornn_status meet(void *own, int run, int place, void *stream)
{
    pthread_barrier_t *all = own;
    struct eco_gpu_set *set;
    (void)place, (void)stream;
    const ecornn_status status = eco_gpu_take_set(&gpu, &set);
    if (run == 0)
        pthread_barrier_wait(all);
    if (status == ECORNN_OK)
        eco_gpu_return_set(set);
    return status;
}

static ecornn_status end(void *own, void *stream)
{
    (void)own, (void)stream;
    return ECORNN_OK;
}

static void *run_models(void *own)
{
    const struct eco_jobs beside = {
        .jobs = ECO_GPU_LANES, .lanes = ECO_GPU_LANES, .one = meet, .last = end, .user_data = own};
    return (void *)(uintptr_t)eco_gpu_fork(&device, &beside, NULL);
}

/* All threads hold lanes and a set at the same time. */
START_TEST(runs_in_many_threads)
{
    pthread_t thread[ECO_MAX_RUNS];
    pthread_barrier_t all;
    int failed = 0;
    pthread_barrier_init(&all, NULL, ECO_MAX_RUNS);
    for (int k = 0; k < ECO_MAX_RUNS; k++)
        ck_assert_int_eq(pthread_create(&thread[k], NULL, run_models, &all), 0);
    for (int k = 0; k < ECO_MAX_RUNS; k++) {
        void *status;
        ck_assert_int_eq(pthread_join(thread[k], &status), 0);
        failed += (uintptr_t)status != ECORNN_OK;
    }
    pthread_barrier_destroy(&all);
    ck_assert_int_eq(failed, 0);
    ck_assert_int_eq(handles, ECO_MAX_RUNS);
    ck_assert_int_eq(streams, ECO_MAX_RUNS * (ECO_MAX_STREAMS + ECO_GPU_LANES));
    close_gpu();
}
END_TEST

/* One more is refused, and runs when another has ended. */
START_TEST(refuses_one_more)
{
    struct eco_gpu_lanes *lanes, *last = NULL;
    struct eco_gpu_set *set;
    for (int k = 0; k < ECO_MAX_RUNS; k++) {
        check_ok(eco_gpu_take_set(&gpu, &set));
        check_ok(eco_gpu_take_lanes(&gpu, 1, &last));
    }
    ck_assert_int_eq(eco_gpu_take_set(&gpu, &set), ECORNN_UNSUPPORTED);
    ck_assert_str_eq(eco_fail_detail(), "more than 128 concurrent runs on one device");
    ck_assert_int_eq(eco_gpu_take_lanes(&gpu, 1, &lanes), ECORNN_UNSUPPORTED);
    ck_assert_str_eq(eco_fail_detail(), "more than 128 concurrent runs on one device");
    eco_gpu_return_lanes(last);
    check_ok(eco_gpu_take_lanes(&gpu, 3, &lanes));
    ck_assert_ptr_eq(lanes, last);
    ck_assert_int_eq(lanes->made, 3);
    close_gpu();
}
END_TEST

/* If a stream cannot be made, the next run makes the missing ones. */
START_TEST(makes_what_is_missing)
{
    struct eco_gpu_lanes *lanes;
    for (int k = 1; k <= 6; k++) {
        eco_call_fail_at(k);
        ck_assert_int_eq(eco_gpu_make_lanes(&device, 3), ECORNN_FAILED);
        eco_call_fail_at(0);
        check_ok(eco_gpu_take_lanes(&gpu, 3, &lanes));
        ck_assert_int_eq(streams, 3);
        ck_assert_int_eq(events, 3);
        eco_gpu_return_lanes(lanes);
        close_gpu();
    }
}
END_TEST

static ecornn_status note_run(void *own, int run, int place, void *stream)
{
    (void)own;
    eco_text_add(&calls, "run%d:%d@%zu ", run, place, (size_t)stream);
    return run == 4 ? eco_fail(ECORNN_FAILED, "run 4") : ECORNN_OK;
}

static ecornn_status note_end(void *own, void *stream)
{
    (void)own;
    eco_text_add(&calls, "end@%zu", (size_t)stream);
    return ECORNN_OK;
}

/* Lanes fork from the caller's stream, 99, which is the first lane, and join it, even if a run
 * fails. */
START_TEST(lanes_fork_and_join)
{
    static const char *const should[] = {
        "1001@99 1001>2 1001@99 1001>3 run0:0@99 run1:1@2 run2:2@3 run3:0@99 "
        "1002@2 1002>99 1003@3 1003>99 end@99",
        "1001@99 1001>2 1001@99 1001>3 run0:0@99 run1:1@2 run2:2@3 run3:0@99 run4:1@2 "
        "1002@2 1002>99 1003@3 1003>99 "};
    char text[400] = "";
    const struct eco_jobs beside = {.jobs = 4 + _i, .lanes = 3, .one = note_run, .last = note_end};
    calls = (struct eco_text){text, sizeof text, 0};
    ck_assert_int_eq(eco_gpu_fork(&device, &beside, (void *)(uintptr_t)99),
                     _i == 0 ? ECORNN_OK : ECORNN_FAILED);
    ck_assert_str_eq(text, should[_i]);
    close_gpu();
}
END_TEST

TEST_MAIN("handle pool", {runs_in_many_threads, 1}, {refuses_one_more, 1},
          {makes_what_is_missing, 1}, {lanes_fork_and_join, 2})
