/*
 * Loads and stores with a predicate instead of a branch: the compiler moves nothing across a
 * branch, so that each load would be waited for. `_relaxed`: for words that other blocks access
 * meanwhile, at GPU scope, in no order.
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

/* Zeros unless wanted. */
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

/* For memory that is not written meanwhile. */
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

/* Starts a load into the L1 without waiting for it. */
ECO_DEVICE void load_ahead(const void *p)
{
    asm volatile("{ .reg .u32 unused; ld.global.ca.u32 unused, [%0]; }" : : "l"(p));
}

/* For memory that is not written while the kernel runs; loaded once, however often it is used. */
ECO_DEVICE float load_constant(const float *p)
{
    float v;
    asm("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
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
