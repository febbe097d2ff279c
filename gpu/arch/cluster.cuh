/*
 * Blocks of a cluster write into each other's shared memory.  What comes is counted: a barrier of
 * the block that it is for knows how many bytes a step brings.  Two barriers, of steps in turn: a
 * block that writes in a step has what it was sent in the step before, so the others have read what
 * they were sent in the one before that.
 */
#if __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS 1
#else
#define HAS_CLUSTERS 0
#endif

static __shared__ uint64_t arrivals[2];

WORD unsigned shared_address(const void *at)
{
    return (unsigned)__cvta_generic_to_shared(at);
}

/* Waits for all threads of the cluster. */
WORD void meet_cluster(void)
{
#if HAS_CLUSTERS
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
                 :
                 :
                 : "memory");
#endif
}

/* Once, before anything is written to another block. */
WORD void open_cluster(void)
{
#if HAS_CLUSTERS
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                         :
                         : "r"(shared_address(&arrivals[i]))
                         : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    }
    meet_cluster();
#endif
}

/* One thread says how much comes in a step. */
WORD void expect_bytes(int step, unsigned bytes)
{
#if HAS_CLUSTERS
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_address(&arrivals[step & 1])), "r"(bytes)
                 : "memory");
#endif
}

/* Where `at` is in this block, in block `rank`. */
WORD void send_in_cluster(int rank, const void *at, int step, float4 v)
{
#if HAS_CLUSTERS
    asm volatile("{ .reg .u32 there, counter;"
                 " mapa.shared::cluster.u32 there, %0, %2;"
                 " mapa.shared::cluster.u32 counter, %1, %2;"
                 " st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
                 " [there], {%3, %4, %5, %6}, [counter]; }"
                 :
                 : "r"(shared_address(at)), "r"(shared_address(&arrivals[step & 1])), "r"(rank),
                   "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
#endif
}

/* All that was expected in a step is there: the barrier counts what others sent as it comes, so no
 * wider scope than the block's is needed, which would throw out of the L1 what is there. */
WORD void wait_for_bytes(int step)
{
#if HAS_CLUSTERS
    unsigned there = 0;
    while (!there)
        asm volatile("{ .reg .pred p;"
                     " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(there)
                     : "r"(shared_address(&arrivals[step & 1])), "r"(step >> 1 & 1)
                     : "memory");
#endif
}
