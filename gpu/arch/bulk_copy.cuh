/*
 * Copies to shared memory that the hardware makes by itself; a barrier there counts the bytes
 * (compute capability 9.0).
 */
#ifndef ECO_GPU_ARCH_BULK_COPY_CUH
#define ECO_GPU_ARCH_BULK_COPY_CUH

#include "gpu/arch/mbarrier.cuh"

/* What this thread knows to be written to shared memory is there for matrix instructions of four
 * warps and copies to come.  It waits for all that the thread has asked memory for. */
ECO_DEVICE void fence_proxy_async(void)
{
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

/* From global memory. */
ECO_DEVICE void bulk_copy(unsigned to, const char *from, unsigned bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :
                 : "r"(to), "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

/* To the same place of every block of the cluster in the mask, and counted there. */
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

/* From shared memory to that place of another block, and counted there; this block stays until the
 * bytes are there. */
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
