/*
 * Clusters: barriers, and access to the shared memory of other blocks (compute capability 9.0).
 */
#ifndef ECO_GPU_ARCH_CLUSTER_CUH
#define ECO_GPU_ARCH_CLUSTER_CUH

#include <stdint.h>

#include "gpu/arch/device.cuh"

#if __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS 1
#else
#define HAS_CLUSTERS 0
#endif

ECO_DEVICE unsigned shared_address(const void *at)
{
    return (unsigned)__cvta_generic_to_shared(at);
}

ECO_DEVICE unsigned cluster_rank(void)
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

ECO_DEVICE unsigned cluster_blocks(void)
{
    unsigned blocks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

/* All threads of all blocks. */
ECO_DEVICE void cluster_sync(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
                 :
                 :
                 : "memory");
}

/* The same in two parts, without ordering memory: no thread may rely on writes of other blocks. */
ECO_DEVICE void cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory");
}

ECO_DEVICE void cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.aligned;" : : : "memory");
}

/* The same in two parts: after it other blocks may overwrite what this block has read. */
ECO_DEVICE void cluster_sync_to_write(void)
{
    cluster_arrive();
    cluster_wait();
}

/* Loads from the same address in another block. */
ECO_DEVICE unsigned cluster_load(const unsigned *at, unsigned rank)
{
    unsigned x;
    asm volatile("{ .reg .b32 there;"
                 " mapa.shared::cluster.u32 there, %1, %2;"
                 " ld.shared::cluster.u32 %0, [there]; }"
                 : "=r"(x)
                 : "r"(shared_address(at)), "r"(rank)
                 : "memory");
    return x;
}

/* Stores to another block; `to` and its barrier are given by their addresses in this block. */
ECO_DEVICE void cluster_store_async(unsigned to, unsigned barrier, int rank, float4 v)
{
    asm volatile("{ .reg .u32 there, counter;"
                 " mapa.shared::cluster.u32 there, %0, %2;"
                 " mapa.shared::cluster.u32 counter, %1, %2;"
                 " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
                 " [there], {%3, %4, %5, %6}, [counter]; }"
                 :
                 : "r"(to), "r"(barrier), "r"(rank), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}

/* Synchronizes `threads` threads of a block, whole warps. */
ECO_DEVICE void named_barrier_sync(int threads)
{
    asm volatile("bar.sync 1, %0;" : : "r"(threads) : "memory");
}

#endif /* ECO_GPU_ARCH_CLUSTER_CUH */
