/*
 * Launches of kernels that may become resident before their predecessors have ended; the grid of a
 * stage's kernel over rows and units; and the architectures for which there is code.
 */
#include "gpu/kernels.h"

/* Threads along the units of a row. A row or head with means belongs to one block, which adds its
 * sums in pairs and so has a power of two of threads. */
static void shape_of(const struct eco_stage_call *call, dim3 *blocks, dim3 *block)
{
    const unsigned most = 65535, rows = (unsigned)call->rows, heads = (unsigned)call->heads;
    const int32_t units = call->means ? call->head : call->hidden;
    unsigned threads = 32;
    while (threads < ECO_STAGE_THREADS && (int32_t)threads < units)
        threads *= 2;
    const unsigned across = ((unsigned)units + threads - 1) / threads;
    *block = (dim3){threads, 1, 1};
    *blocks = (dim3){call->means ? 1 : across, rows < most ? rows : most,
                     !call->means   ? 1
                     : heads < most ? heads
                                    : most};
}

cudaError_t eco_kernel_version(const void *kernel, int *version)
{
    struct cudaFuncAttributes code;
    const cudaError_t error = cudaFuncGetAttributes(&code, kernel);
    *version = error == cudaSuccess ? code.ptxVersion : 0;
    if (error != cudaErrorNoKernelImageForDevice && error != cudaErrorInvalidDeviceFunction)
        return error;
    (void)cudaGetLastError();
    return cudaSuccess;
}

/* With overlap the kernel itself waits for its predecessor (arch/grid_dependency.cuh). */
cudaError_t eco_launch(const void *kernel, dim3 blocks, dim3 threads, void **arguments,
                       bool overlap, cudaStream_t stream)
{
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeProgrammaticStreamSerialization};
    attribute.val.programmaticStreamSerializationAllowed = 1;
    const cudaLaunchConfig_t config = {.gridDim = blocks,
                                       .blockDim = threads,
                                       .stream = stream,
                                       .attrs = &attribute,
                                       .numAttrs = overlap ? 1 : 0};
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

cudaError_t eco_launch_stage(const void *kernel, const struct eco_stage_call *shape,
                             const void *argument, bool overlap, cudaStream_t stream)
{
    dim3 blocks, threads;
    void *arguments[] = {(void *)(uintptr_t)argument};
    shape_of(shape, &blocks, &threads);
    return eco_launch(kernel, blocks, threads, arguments, overlap, stream);
}
