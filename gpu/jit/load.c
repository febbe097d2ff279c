/*
 * Loads machine code on a device and finds kernels by name, at plan creation only.
 */

#include "gpu/device/cuda_compat.h"
#include "gpu/jit/jit.h"

/* Finds kernels by name and loads them now, rather than at the first launch, perhaps in a
 * capture. */
static cudaError_t find_kernels(const struct eco_gpu_code *code)
{
    for (int i = 0; i < code->n; i++) {
        struct cudaFuncAttributes attributes;
        cudaError_t error = eco_library_kernel(code->library, code->name[i], &code->kernel[i]);
        if (error == cudaSuccess)
            error = cudaFuncGetAttributes(&attributes, code->kernel[i]);
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}

bool eco_gpu_load(const void *data, struct eco_gpu_code *code, struct eco_text *why)
{
    /* the caller may be capturing; loading must not become part of that */
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    code->library = NULL;
    cudaError_t error = eco_library_load(&code->library, data);
    if (error == cudaSuccess)
        error = find_kernels(code);
    if (error != cudaSuccess) {
        cudaGetLastError();
        eco_text_add(why, "CUDA: %s (%s) while loading the code", cudaGetErrorString(error),
                     cudaGetErrorName(error));
        eco_gpu_unload(code->library);
        code->library = NULL;
    }
    cudaThreadExchangeStreamCaptureMode(&mode);
    return error == cudaSuccess;
}

void eco_gpu_architecture(const struct eco_gpu *gpu, char name[ECO_GPU_ARCHITECTURE])
{
    /* from 9.0 on with architecture-specific features */
    eco_text_add(&(struct eco_text){name, ECO_GPU_ARCHITECTURE, 0}, "sm_%d%s", gpu->capability,
                 gpu->capability >= 90 ? "a" : "");
}

void eco_gpu_unload(cudaLibrary_t library)
{
    if (library != NULL)
        eco_library_unload(library);
}
