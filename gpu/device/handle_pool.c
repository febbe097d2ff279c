/*
 * What one run at a time has of a device: a cuBLAS handle, streams, events; made when first taken.
 */
#include "gpu/device/device.h"

#include <string.h>

void eco_gpu_free_set(struct eco_gpu_set *set)
{
    if (set->blas != NULL)
        cublasDestroy(set->blas);
    for (int i = 0; i < ECO_MAX_STREAMS; i++)
        if (set->stream[i] != NULL)
            cudaStreamDestroy(set->stream[i]);
    for (int i = 0; i <= ECO_MAX_STREAMS; i++)
        if (set->event[i] != NULL)
            cudaEventDestroy(set->event[i]);
    set->blas = NULL;
    memset(set->stream, 0, sizeof set->stream);
    memset(set->event, 0, sizeof set->event);
}

static ecornn_status make_set(struct eco_gpu_set *set)
{
    /* the caller may be capturing: what is made here is no part of it */
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    ecornn_status status = ECO_CUBLAS(cublasCreate(&set->blas));
    for (int i = 0; status == ECORNN_OK && i < ECO_MAX_STREAMS; i++)
        status = ECO_CUDA(cudaStreamCreateWithFlags(&set->stream[i], cudaStreamNonBlocking));
    for (int i = 0; status == ECORNN_OK && i <= ECO_MAX_STREAMS; i++)
        status = ECO_CUDA(cudaEventCreateWithFlags(&set->event[i], cudaEventDisableTiming));
    if (status != ECORNN_OK)
        eco_gpu_free_set(set);
    cudaThreadExchangeStreamCaptureMode(&mode);
    return status;
}

ecornn_status eco_gpu_take_set(struct eco_gpu *gpu, struct eco_gpu_set **set)
{
    for (int i = 0; i < ECO_MAX_SETS; i++) {
        struct eco_gpu_set *one = &gpu->set[i];
        if (atomic_exchange_explicit(&one->taken, true, memory_order_acquire))
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
    return eco_gpu_services->fail(ECORNN_UNSUPPORTED, "more than %d runs at once on one device",
                                  ECO_MAX_SETS);
}

void eco_gpu_return_set(struct eco_gpu_set *set)
{
    atomic_store_explicit(&set->taken, false, memory_order_release);
}
