/*
 * Copies to shared memory, and to the L2, that go on while a thread does; waiting for them.
 */
#ifndef ECO_GPU_ARCH_CP_ASYNC_CUH
#define ECO_GPU_ARCH_CP_ASYNC_CUH

#include "gpu/arch/device.cuh"

/* To the L2, where it is wanted. */
ECO_DEVICE void prefetch_l2_if(bool wanted, const void *from)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p prefetch.global.L2 [%0]; }"
                 :
                 : "l"(from), "r"((int)wanted));
}

/* Four bytes to shared memory, where it is wanted, without a branch; there after cp_async_wait_all,
 * for this thread. */
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

/* The same, sixteen bytes. */
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

/* The same, or zeros where there is nothing; by way of L1, for who asks for half a sector will ask
 * for the other. */
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

/* The first so many of sixteen bytes, zeros behind them (compute capability 8.0). */
ECO_DEVICE void cp_async_some_of_16(void *to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes)
                 : "memory");
}

/* Those since the last call are a group; all but the last `LEFT` groups are there, for this thread,
 * after the other. */
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
