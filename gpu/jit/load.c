/*
 * Loads machine code on a device and finds kernels by name, at plan creation only.
 */

#include "gpu/jit/compile.h"
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

static bool load(struct eco_gpu_code *code, const void *data, struct eco_text *why)
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
        eco_gpu_unload(code);
    }
    cudaThreadExchangeStreamCaptureMode(&mode);
    return error == cudaSuccess;
}

bool eco_gpu_load(const struct eco_gpu *gpu, struct eco_gpu_code *code, struct eco_text *why)
{
    char architecture[16];
    struct eco_code binary;
    struct eco_text name = {architecture, sizeof architecture, 0};
    /* from 9.0 on with architecture-specific features */
    eco_text_add(&name, "sm_%d%s", gpu->capability, gpu->capability >= 90 ? "a" : "");
    const struct eco_source source = {code->text, architecture, code->options};
    if (!eco_compile(&source, &binary, why))
        return false;
    const bool ok = load(code, binary.data, why);
    eco_free(binary.data);
    return ok;
}

void eco_gpu_unload(struct eco_gpu_code *code)
{
    if (code->library != NULL)
        eco_library_unload(code->library);
    code->library = NULL;
}
