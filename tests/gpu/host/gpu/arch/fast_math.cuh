/* Functions of floats on the host, in place of gpu/arch/fast_math.cuh. */
#ifndef ECO_GPU_ARCH_FAST_MATH_CUH
#define ECO_GPU_ARCH_FAST_MATH_CUH

#include "gpu/arch/device.cuh"

ECO_DEVICE float fast_exp2(float a)
{
    return exp2f(a);
}

ECO_DEVICE float fast_reciprocal(float a)
{
    return 1 / a;
}

#endif /* ECO_GPU_ARCH_FAST_MATH_CUH */
