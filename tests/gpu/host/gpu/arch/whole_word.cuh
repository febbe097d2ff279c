/* Words of 8 bytes on the host, in place of gpu/arch/whole_word.cuh. */
#ifndef ECO_GPU_ARCH_WHOLE_WORD_CUH
#define ECO_GPU_ARCH_WHOLE_WORD_CUH

#include "gpu/arch/device.cuh"

ECO_DEVICE uint64_t load_whole_relaxed(const uint64_t *p)
{
    return *p;
}

ECO_DEVICE void store_whole_relaxed(uint64_t *p, uint64_t v)
{
    *p = v;
}

#endif /* ECO_GPU_ARCH_WHOLE_WORD_CUH */
