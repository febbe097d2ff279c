/* BF16 as bits on the host, in place of gpu/arch/float16.cuh. */
#ifndef ECO_GPU_ARCH_FLOAT16_CUH
#define ECO_GPU_ARCH_FLOAT16_CUH

#include "gpu/arch/device.cuh"

ECO_DEVICE float bf16_to_float(unsigned short bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

ECO_DEVICE unsigned short float_to_bf16(float x)
{
    const uint32_t bits = __float_as_uint(x);
    return x != x ? 0x7FFF : (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

#endif /* ECO_GPU_ARCH_FLOAT16_CUH */
