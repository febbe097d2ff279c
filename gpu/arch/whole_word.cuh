/*
 * Words of 8 bytes that other blocks access meanwhile: read and written as one, at GPU scope, in no
 * order.
 */
#ifndef ECO_GPU_ARCH_WHOLE_WORD_CUH
#define ECO_GPU_ARCH_WHOLE_WORD_CUH

#include <stdint.h>

#include "gpu/arch/device.cuh"

ECO_DEVICE uint64_t load_whole_relaxed(const uint64_t *p)
{
    unsigned long long v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

ECO_DEVICE void store_whole_relaxed(uint64_t *p, uint64_t v)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                 :
                 : "l"(p), "l"((unsigned long long)v)
                 : "memory");
}

#endif /* ECO_GPU_ARCH_WHOLE_WORD_CUH */
