/*
 * Conversions between float and the 16-bit types, as bits. The toolkit's headers are not used,
 * because kernels that are compiled at run time have none.
 */
#ifndef ECO_GPU_ARCH_FLOAT16_CUH
#define ECO_GPU_ARCH_FLOAT16_CUH

#include "gpu/arch/device.cuh"

ECO_DEVICE float f16_to_float(unsigned short bits)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
    return y;
}

/* Rounds to nearest, ties to even. Any NaN becomes the NaN of the instruction. */
ECO_DEVICE unsigned short float_to_f16(float x)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

ECO_DEVICE float bf16_to_float(unsigned short bits)
{
    return __uint_as_float((unsigned)bits << 16);
}

ECO_DEVICE unsigned short float_to_bf16(float x)
{
#if __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const unsigned bits = __float_as_uint(x);
    return x != x ? 0x7FFF : (unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
#endif
}

/* Two floats rounded to BF16, the first in the lower half (compute capability 8.0). */
ECO_DEVICE unsigned floats_to_bf16(float low, float high)
{
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

/* To TF32, ties away from zero (compute capability 8.0). */
ECO_DEVICE unsigned float_to_tf32(float x)
{
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

#endif /* ECO_GPU_ARCH_FLOAT16_CUH */
