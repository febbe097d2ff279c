/*
 * Launching a stage's kernel, whichever way it was compiled: the grid over rows and units.
 */
#include "gpu/kernels.h"

/* Threads along the units of a row.  A row whose means are summed belongs to one block; its sums
 * are added in pairs, so a power of two. */
static void shape_of(const struct eco_stage_call *call, cudaLaunchConfig_t *config)
{
    unsigned threads = 32;
    while (threads < ECO_STAGE_THREADS && (int32_t)threads < call->hidden)
        threads *= 2;
    const unsigned across = ((unsigned)call->hidden + threads - 1) / threads;
    config->blockDim = (dim3){threads, 1, 1};
    config->gridDim =
        (dim3){call->means ? 1 : across, call->rows < 65535 ? (unsigned)call->rows : 65535, 1};
}

/* With overlap the kernel waits for the one before it itself (cell.cuh). */
cudaError_t eco_launch_stage(const void *kernel, const struct eco_stage_call *shape,
                             const void *argument, bool overlap, cudaStream_t stream)
{
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeProgrammaticStreamSerialization};
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {
        .stream = stream, .attrs = &attribute, .numAttrs = overlap ? 1 : 0};
    void *arguments[] = {(void *)(uintptr_t)argument};
    shape_of(shape, &config);
    return cudaLaunchKernelExC(&config, kernel, arguments);
}
