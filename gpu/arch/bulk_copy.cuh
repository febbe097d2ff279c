/*
 * Asynchronous bulk copies to shared memory, counted by an mbarrier (compute capability 9.0).
 */
#ifndef ECO_GPU_ARCH_BULK_COPY_CUH
#define ECO_GPU_ARCH_BULK_COPY_CUH

#include "gpu/arch/mbarrier.cuh"

/* Makes this thread's writes to shared memory visible to wgmma instructions and later bulk copies.
 * Waits for all loads of the thread. */
ECO_DEVICE void fence_proxy_async(void)
{
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

/* Copies from global memory. */
ECO_DEVICE void bulk_copy(unsigned to, const char *from, unsigned bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :
                 : "r"(to), "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

/* Copies to the same address in every block of the cluster in `mask`; each one's barrier counts. */
ECO_DEVICE void bulk_copy_multicast(unsigned to, const char *from, unsigned bytes,
                                    uint64_t *barrier, unsigned mask)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;"
                 :
                 : "r"(to), "l"(from), "r"(bytes), "r"(shared_address(barrier)),
                   "h"((unsigned short)mask)
                 : "memory");
}

/* Copies from shared memory to the same address in block `rank`, counted there. This block must not
 * exit before the bytes have arrived. */
ECO_DEVICE void bulk_copy_to_block(const void *to, const void *from, unsigned rank, unsigned bytes,
                                   uint64_t *barrier)
{
    asm volatile("{ .reg .b32 there, counter;"
                 " mapa.shared::cluster.u32 there, %0, %2;"
                 " mapa.shared::cluster.u32 counter, %1, %2;"
                 " cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                 " [there], [%3], %4, [counter]; }"
                 :
                 : "r"(shared_address(to)), "r"(shared_address(barrier)), "r"(rank),
                   "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}

#endif /* ECO_GPU_ARCH_BULK_COPY_CUH */
