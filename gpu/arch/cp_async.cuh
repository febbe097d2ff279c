/*
 * Asynchronous copies to shared memory, and prefetches into the L2.
 */
#ifndef ECO_GPU_ARCH_CP_ASYNC_CUH
#define ECO_GPU_ARCH_CP_ASYNC_CUH

#include "gpu/arch/device.cuh"

/* Prefetches into the L2 if wanted. */
ECO_DEVICE void prefetch_l2_if(bool wanted, const void *from)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p prefetch.global.L2 [%0]; }"
                 :
                 : "l"(from), "r"((int)wanted));
}

/* Copies four bytes to shared memory if wanted, without a branch; see cp_async_wait_all(). */
ECO_DEVICE void cp_async_4_if(bool wanted, void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0;"
                 " @p cp.async.ca.shared.global [%0], [%1], 4; }"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"((int)wanted)
                 : "memory");
#else
    if (wanted)
        *(unsigned *)to = *(const unsigned *)from;
#endif
}

/* The same for sixteen bytes. */
ECO_DEVICE void cp_async_16_if(bool wanted, void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0;"
                 " @p cp.async.cg.shared.global [%0], [%1], 16; }"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"((int)wanted)
                 : "memory");
#else
    if (wanted)
        *(uint4 *)to = *(const uint4 *)from;
#endif
}

/* The same, or zeros. Uses the L1, because a reader of half a sector will need the other half. */
ECO_DEVICE void cp_async_16_or_zeros(bool there, void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
#else
    *(uint4 *)to = there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
#endif
}

/* Copies the first `bytes` of sixteen and zeroes the rest (compute capability 8.0). */
ECO_DEVICE void cp_async_some_of_16(void *to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes)
                 : "memory");
}

/* commit: the copies since the last call form a group. wait: returns when all but the last `LEFT`
 * groups of this thread are complete. */
ECO_DEVICE void cp_async_commit(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

template <int LEFT> ECO_DEVICE void cp_async_wait(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
#endif
}

ECO_DEVICE void cp_async_wait_all(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

#endif /* ECO_GPU_ARCH_CP_ASYNC_CUH */
