/*
 * Fills memory with one value. Knows no types: an element is up to four pieces of 2 bytes.
 */
#include "gpu/arch/device.cuh"
#include "gpu/kernels.h"

enum { SET_THREADS = 256, SET_BLOCKS = 4096 };

static __global__ void set_elements(uint16_t *to, uint64_t element, unsigned pieces, size_t count)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = (uint16_t)(element >> 16 * (i % pieces));
}

cudaError_t eco_launch_set(void *to, uint64_t element, size_t element_bytes, size_t bytes,
                           cudaStream_t stream)
{
    unsigned pieces = (unsigned)(element_bytes / sizeof(uint16_t));
    size_t count = bytes / sizeof(uint16_t);
    const size_t blocks = (count + SET_THREADS - 1) / SET_THREADS;
    void *argument[] = {&to, &element, &pieces, &count};
    if (count == 0)
        return cudaSuccess;
    return cudaLaunchKernel((const void *)set_elements,
                            dim3((unsigned)(blocks < SET_BLOCKS ? blocks : SET_BLOCKS)),
                            dim3(SET_THREADS), argument, 0, stream);
}
