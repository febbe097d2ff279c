/*
 * The hardware's approximate functions of floats.
 */
#ifndef ECO_GPU_ARCH_FAST_MATH_CUH
#define ECO_GPU_ARCH_FAST_MATH_CUH

#include "gpu/arch/device.cuh"

/* 2^a and 1/a, to some units in the 23rd bit. */
ECO_DEVICE float fast_exp2(float a)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
    return y;
}

ECO_DEVICE float fast_reciprocal(float a)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
    return y;
}

/* The same for any float, with a few bits less; and roots, to 2^-23 of the value. */
ECO_DEVICE float wide_reciprocal(float a)
{
    float y;
    asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(a));
    return y;
}

ECO_DEVICE float wide_sqrt(float a)
{
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(a));
    return y;
}

/* To 2^-11 of the value (compute capability 7.5). */
ECO_DEVICE float fast_tanh(float a)
{
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(a));
    return y;
}

#endif /* ECO_GPU_ARCH_FAST_MATH_CUH */
