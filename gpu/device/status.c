/*
 * What CUDA and cuBLAS report, as a status and a text.
 */
#include "gpu/device/device.h"

const struct eco_services *eco_gpu_services;

ecornn_status eco_cuda_error(cudaError_t error, const char *doing)
{
    if (error == cudaSuccess)
        return ECORNN_OK;
    cudaGetLastError(); /* clears errors that can be cleared, so that the caller's next call does
                           not report them */
    return eco_gpu_services->fail(
        error == cudaErrorMemoryAllocation ? ECORNN_NO_MEMORY : ECORNN_FAILED,
        "CUDA: %s (%s) in %s", cudaGetErrorString(error), cudaGetErrorName(error), doing);
}

ecornn_status eco_cublas_error(cublasStatus_t error, const char *doing)
{
    if (error == CUBLAS_STATUS_SUCCESS)
        return ECORNN_OK;
    return eco_gpu_services->fail(error == CUBLAS_STATUS_ALLOC_FAILED ? ECORNN_NO_MEMORY
                                                                      : ECORNN_FAILED,
                                  "cuBLAS: %s in %s", cublasGetStatusString(error), doing);
}

ecornn_status eco_cuda_status(cudaError_t error, const char *doing)
{
    return eco_cuda_error(error == cudaSuccess && ECO_FAILS() ? cudaErrorUnknown : error, doing);
}

ecornn_status eco_cublas_status(cublasStatus_t error, const char *doing)
{
    return eco_cublas_error(
        error == CUBLAS_STATUS_SUCCESS && ECO_FAILS() ? CUBLAS_STATUS_INTERNAL_ERROR : error,
        doing);
}
