/*
 * Sums that the blocks of a cluster write into each other's shared memory.  What comes is counted:
 * a barrier of the block that it is for knows how many bytes a step brings.  Two barriers, of steps
 * in turn: a block that writes in a step has what it was sent in the step before, so the others
 * have read what they were sent in the one before that.
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

/* One thread says how much comes in a step. */
ECO_DEVICE void expect_bytes(int step, unsigned bytes)
{
#if HAS_CLUSTERS
    mbarrier_expect_bytes(&arrivals[step & 1], bytes);
#endif
}

/* To where `at` is in this block, in block `rank`. */
ECO_DEVICE void send_in_cluster(int rank, const void *at, int step, float4 v)
{
#if HAS_CLUSTERS
    cluster_store_async(shared_address(at), shared_address(&arrivals[step & 1]), rank, v);
#endif
}

/* All that was expected in a step is there: the barrier counts what others sent as it comes, so no
 * wider scope than the block's is needed, which would throw out of the L1 what is there. */
ECO_DEVICE void wait_for_bytes(int step)
{
#if HAS_CLUSTERS
    mbarrier_wait(&arrivals[step & 1], step >> 1 & 1);
#endif
}

#endif /* ECO_GPU_PERSISTENT_CLUSTER_SUMS_CUH */
