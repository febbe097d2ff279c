/*
 * Loads and stores under a predicate, not behind a branch: a branch would wait for what it loads,
 * and nothing is moved across one.  `_relaxed`: of words that other blocks write or read meanwhile,
 * seen by the whole GPU, in no order among them.
 */
#ifndef ECO_GPU_ARCH_MEMORY_CUH
#define ECO_GPU_ARCH_MEMORY_CUH

#include "gpu/arch/device.cuh"

ECO_DEVICE uint4 load_16_relaxed(const void *p)
{
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

/* Where it is wanted, else zeros. */
ECO_DEVICE uint4 load_16_relaxed_if(bool wanted, const void *p)
{
    uint4 v;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0;"
                 " mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
                 " @p ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4]; }"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(p), "r"((int)wanted)
                 : "memory");
    return v;
}

ECO_DEVICE uint2 load_8_relaxed_if(bool wanted, const void *p)
{
    uint2 v;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0;"
                 " @p ld.relaxed.gpu.global.v2.u32 {%0,%1}, [%2]; }"
                 : "=&r"(v.x), "=&r"(v.y)
                 : "l"(p), "r"((int)wanted)
                 : "memory");
    return v;
}

/* Of what nobody writes meanwhile. */
ECO_DEVICE uint4 load_16_if(bool wanted, const void *p)
{
    uint4 v;
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0;"
                 " mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;"
                 " @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(p), "r"((int)wanted));
    return v;
}

/* Of what nobody writes while the kernel runs: once, wherever it is asked for again. */
ECO_DEVICE float load_constant(const float *p)
{
    float v;
    asm("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}

/* Of what is released with a store, all is seen behind the load that found it. */
ECO_DEVICE unsigned load_acquire(const unsigned *p)
{
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

ECO_DEVICE void store_release(unsigned *p, unsigned v)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}

ECO_DEVICE void store_relaxed_if(bool wanted, void *p, unsigned short bits)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.relaxed.gpu.global.u16 [%0], %1; }"
                 :
                 : "l"(p), "h"(bits), "r"((int)wanted)
                 : "memory");
}

ECO_DEVICE void store_relaxed_if(bool wanted, void *p, unsigned bits)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.relaxed.gpu.global.u32 [%0], %1; }"
                 :
                 : "l"(p), "r"(bits), "r"((int)wanted)
                 : "memory");
}

ECO_DEVICE void store_2_if(bool wanted, void *p, unsigned short bits)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.u16 [%0], %1; }"
                 :
                 : "l"(p), "h"(bits), "r"((int)wanted)
                 : "memory");
}

ECO_DEVICE void store_4_if(bool wanted, void *p, unsigned bits)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.u32 [%0], %1; }"
                 :
                 : "l"(p), "r"(bits), "r"((int)wanted)
                 : "memory");
}

ECO_DEVICE void store_16_if(bool wanted, void *p, const float4 &x)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0;"
                 " @p st.global.v4.f32 [%4], {%0, %1, %2, %3}; }"
                 :
                 : "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "l"(p), "r"((int)wanted)
                 : "memory");
}

#endif /* ECO_GPU_ARCH_MEMORY_CUH */
