/*
 * Pools of what runs need on a device, made when first taken: sets with a cuBLAS handle, streams
 * and events, and lanes of concurrent runs.
 */
#include "gpu/device/device.h"

#include <assert.h>
#include <string.h>

static bool take(_Atomic bool *taken)
{
    return !atomic_exchange_explicit(taken, true, memory_order_acquire);
}

static void give_back(_Atomic bool *taken)
{
    atomic_store_explicit(taken, false, memory_order_release);
}

static ecornn_status none_is_left(void)
{
    return eco_gpu_services->fail(ECORNN_UNSUPPORTED, "more than %d concurrent runs on one device",
                                  ECO_MAX_RUNS);
}

static void free_streams(cudaStream_t stream[], int streams, cudaEvent_t event[], int events)
{
    for (int i = 0; i < streams; i++)
        if (stream[i] != NULL)
            cudaStreamDestroy(stream[i]);
    for (int i = 0; i < events; i++)
        if (event[i] != NULL)
            cudaEventDestroy(event[i]);
    memset(stream, 0, (size_t)streams * sizeof *stream);
    memset(event, 0, (size_t)events * sizeof *event);
}

static ecornn_status make_stream(cudaStream_t *stream)
{
    return *stream != NULL ? ECORNN_OK
                           : ECO_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
}

static ecornn_status make_event(cudaEvent_t *event)
{
    return *event != NULL ? ECORNN_OK
                          : ECO_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
}

/* ---- sets ------------------------------------------------------------------------------------ */

void eco_gpu_free_set(struct eco_gpu_set *set)
{
    if (set->blas != NULL)
        cublasDestroy(set->blas);
    set->blas = NULL;
    free_streams(set->stream, ECO_MAX_STREAMS, set->event, ECO_MAX_STREAMS + 1);
}

static ecornn_status make_set(struct eco_gpu_set *set)
{
    /* the caller may be capturing; this must not become part of that */
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    ecornn_status status = ECO_CUBLAS(cublasCreate(&set->blas));
    for (int i = 0; status == ECORNN_OK && i < ECO_MAX_STREAMS; i++)
        status = make_stream(&set->stream[i]);
    for (int i = 0; status == ECORNN_OK && i <= ECO_MAX_STREAMS; i++)
        status = make_event(&set->event[i]);
    if (status != ECORNN_OK)
        eco_gpu_free_set(set);
    cudaThreadExchangeStreamCaptureMode(&mode);
    return status;
}

ecornn_status eco_gpu_take_set(struct eco_gpu *gpu, struct eco_gpu_set **set)
{
    for (int i = 0; i < ECO_MAX_RUNS; i++) {
        struct eco_gpu_set *one = &gpu->set[i];
        if (!take(&one->taken))
            continue;
        ecornn_status status = ECORNN_OK;
        if (!one->made) {
            status = make_set(one);
            one->made = status == ECORNN_OK;
        }
        if (status != ECORNN_OK) {
            eco_gpu_return_set(one);
            return status;
        }
        *set = one;
        return ECORNN_OK;
    }
    return none_is_left();
}

void eco_gpu_return_set(struct eco_gpu_set *set)
{
    give_back(&set->taken);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

void eco_gpu_free_lanes(struct eco_gpu_lanes *lanes)
{
    lanes->made = 0;
    free_streams(lanes->stream, ECO_GPU_LANES, lanes->event, ECO_GPU_LANES);
}

/* Makes the lanes that are still missing; after a failure those made so far stay. */
static ecornn_status make_lanes(struct eco_gpu_lanes *lanes, int count)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* see make_set */
    ecornn_status status = ECORNN_OK;
    cudaThreadExchangeStreamCaptureMode(&mode);
    while (status == ECORNN_OK && lanes->made < count) {
        status = make_stream(&lanes->stream[lanes->made]);
        if (status == ECORNN_OK)
            status = make_event(&lanes->event[lanes->made]);
        lanes->made += status == ECORNN_OK;
    }
    cudaThreadExchangeStreamCaptureMode(&mode);
    return status;
}

ecornn_status eco_gpu_take_lanes(struct eco_gpu *gpu, int count, struct eco_gpu_lanes **lanes)
{
    assert(count >= 1 && count <= ECO_GPU_LANES);
    for (int i = 0; i < ECO_MAX_RUNS; i++) {
        struct eco_gpu_lanes *one = &gpu->lanes[i];
        if (!take(&one->taken))
            continue;
        const ecornn_status status = one->made < count ? make_lanes(one, count) : ECORNN_OK;
        if (status == ECORNN_OK)
            *lanes = one;
        else
            eco_gpu_return_lanes(one);
        return status;
    }
    return none_is_left();
}

void eco_gpu_return_lanes(struct eco_gpu_lanes *lanes)
{
    give_back(&lanes->taken);
}
