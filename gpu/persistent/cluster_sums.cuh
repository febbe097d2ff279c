/*
 * Sums that the blocks of a cluster write into each other's shared memory. An mbarrier of the
 * receiving block counts the bytes that arrive in a step. There are two, for even and odd steps: a
 * block that sends in step s has received the sums of step s-1, which the other blocks sent after
 * reading those of step s-2.
 */
#ifndef ECO_GPU_PERSISTENT_CLUSTER_SUMS_CUH
#define ECO_GPU_PERSISTENT_CLUSTER_SUMS_CUH

#include "gpu/arch/mbarrier.cuh"

static __shared__ uint64_t arrivals[2];

/* Once, before anything is written to another block. */
ECO_DEVICE void open_cluster(void)
{
#if HAS_CLUSTERS
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++)
            mbarrier_init<1>(&arrivals[i]);
        mbarrier_fence_init();
    }
    cluster_sync();
#endif
}

/* One thread sets the number of bytes of a step. */
ECO_DEVICE void expect_bytes(int step, unsigned bytes)
{
#if HAS_CLUSTERS
    mbarrier_expect_bytes(&arrivals[step & 1], bytes);
#endif
}

/* Writes v to block `rank`, at the same address as `at` in this block. */
ECO_DEVICE void send_in_cluster(int rank, const void *at, int step, float4 v)
{
#if HAS_CLUSTERS
    cluster_store_async(shared_address(at), shared_address(&arrivals[step & 1]), rank, v);
#endif
}

/* Waits for all expected bytes. The barrier counts bytes as they arrive, so block scope is enough;
 * a wider scope would invalidate the L1. */
ECO_DEVICE void wait_for_bytes(int step)
{
#if HAS_CLUSTERS
    mbarrier_wait(&arrivals[step & 1], step >> 1 & 1);
#endif
}

#endif /* ECO_GPU_PERSISTENT_CLUSTER_SUMS_CUH */
