/*
 * CUDA's words for the host's compiler, in place of gpu/arch/device.cuh: kernels of gpu/ that use
 * no other instructions run on a CPU, one thread after the other (block.cuh).
 */
#ifndef ECO_GPU_ARCH_DEVICE_CUH
#define ECO_GPU_ARCH_DEVICE_CUH

#include <math.h>
#include <stdint.h>
#include <string.h>

#define ECO_DEVICE [[maybe_unused]] static inline
#define __global__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

static struct {
    int x, y;
} threadIdx, blockIdx;

/* Waits for all threads of the block. */
void __syncthreads(void);

/* Blocks run one by one, so what a warp waits for is there; else nothing would ever come. */
ECO_DEVICE bool __all_sync(unsigned, bool there)
{
    if (!there)
        __builtin_trap();
    return true;
}

ECO_DEVICE void __nanosleep(unsigned)
{
}

ECO_DEVICE uint32_t atomicAdd(uint32_t *to, uint32_t more)
{
    const uint32_t before = *to;
    *to += more;
    return before;
}

ECO_DEVICE float __uint_as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

ECO_DEVICE uint32_t __float_as_uint(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#endif /* ECO_GPU_ARCH_DEVICE_CUH */
