/*
 * Barriers in shared memory that count threads and bytes of copies (compute capability 9.0).
 */
#ifndef ECO_GPU_ARCH_MBARRIER_CUH
#define ECO_GPU_ARCH_MBARRIER_CUH

#include "gpu/arch/cluster.cuh"

ECO_DEVICE void mbarrier_init(uint64_t *barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
}

/* The same for a constant, which takes no register. */
template <int arrivals> ECO_DEVICE void mbarrier_init(uint64_t *barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(shared_address(barrier)), "n"(arrivals)
                 : "memory");
}

/* Makes initialised barriers visible to other blocks; precedes a barrier of the cluster. */
ECO_DEVICE void mbarrier_fence_init(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

/* Arrives at a barrier of block `rank`. Only block scope: other blocks do not read this thread's
 * writes, and a wider scope would wait for device memory. */
ECO_DEVICE void mbarrier_arrive(uint64_t *barrier, unsigned rank)
{
    asm volatile("{ .reg .b32 there;"
                 " mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 :
                 : "r"(shared_address(barrier)), "r"(rank)
                 : "memory");
}

/* Arrives at a barrier of this block. */
ECO_DEVICE void mbarrier_arrive_here(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :
                 : "r"(shared_address(barrier))
                 : "memory");
}

/* Arrives, and expects `bytes` more bytes. */
ECO_DEVICE void mbarrier_expect_bytes(uint64_t *barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

/* Waits until the phase with this parity is over. */
ECO_DEVICE void mbarrier_wait(uint64_t *barrier, unsigned parity)
{
    unsigned over = 0;
    while (!over)
        asm volatile("{ .reg .pred p;"
                     " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(over)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

#endif /* ECO_GPU_ARCH_MBARRIER_CUH */
