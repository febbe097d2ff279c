/*
 * Makes a device current for the calling thread, and checks that it can reach an address.
 */
#include "gpu/device/device.h"

ecornn_status eco_gpu_enter(struct eco_gpu_scope *scope, const struct ecornn_device *device)
{
    scope->device = ((const struct eco_gpu *)device->context)->device;
    scope->before = scope->device;
    cudaError_t error = cudaGetDevice(&scope->before);
    if (error == cudaSuccess && scope->before != scope->device)
        error = cudaSetDevice(scope->device);
    return eco_cuda_status(error, "cudaSetDevice");
}

void eco_gpu_leave(const struct eco_gpu_scope *scope)
{
    if (scope->before != scope->device)
        cudaSetDevice(scope->before);
}

ecornn_status eco_gpu_check_pointer(const struct eco_gpu *gpu, const char *name,
                                    const void *pointer)
{
    struct cudaPointerAttributes attributes;
    if (pointer == NULL)
        return ECORNN_OK;
    const ecornn_status status = ECO_CUDA(cudaPointerGetAttributes(&attributes, pointer));
    if (status != ECORNN_OK)
        return status;
    if (attributes.type == cudaMemoryTypeUnregistered)
        return eco_gpu_services->fail(ECORNN_BAD_ARGUMENT,
                                      "%s is %p, which device cuda:%d cannot access", name, pointer,
                                      gpu->device);
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != gpu->device)
        return eco_gpu_services->fail(ECORNN_BAD_ARGUMENT,
                                      "%s is memory of cuda:%d, must be memory of cuda:%d", name,
                                      attributes.device, gpu->device);
    return ECORNN_OK;
}
