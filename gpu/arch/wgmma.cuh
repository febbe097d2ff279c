/*
 * Words around matrix instructions that take four warps (wgmma, compute capability 9.0a), whatever
 * they multiply.  They begin at once and end later; code for other devices has nothing of it.
 */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_SQUARES 1
#else
#define HAS_SQUARES 0
#endif

/* What this thread knows to be written to shared memory is there for matrix instructions and copies
 * to come.  It waits for all that the thread has asked memory for. */
WORD void show_to_squares(void)
{
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

WORD void begin_products(void)
{
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

WORD void commit_products(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

/* Of those committed all but the last so many are done. */
template <int begun> WORD void wait_for_products(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(begun) : "memory");
}

/* The same; nobody reads their sums before. */
template <int begun, int n> WORD void end_products(float (&d)[n])
{
    wait_for_products<begun>();
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(d[i]) : : "memory");
}
