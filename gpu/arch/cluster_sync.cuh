/*
 * Blocks of a cluster, that wait for each other and read each other's shared memory.
 */
WORD unsigned address_of(const void *at)
{
    return (unsigned)__cvta_generic_to_shared(at);
}

WORD unsigned rank_in_cluster(void)
{
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* All threads of all blocks. */
WORD void meet_all(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
                 :
                 :
                 : "memory");
}

/* The same in two parts; nobody reads after them what others wrote before. */
WORD void say_met(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory");
}

WORD void wait_till_met(void)
{
    asm volatile("barrier.cluster.wait.aligned;" : : : "memory");
}

/* Both. */
WORD void meet_to_write(void)
{
    say_met();
    wait_till_met();
}

WORD unsigned blocks_in_cluster(void)
{
    unsigned blocks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

/* What another block has at that place. */
WORD unsigned of_other(const unsigned *at, unsigned rank)
{
    unsigned x;
    asm volatile("{ .reg .b32 there;"
                 " mapa.shared::cluster.u32 there, %1, %2;"
                 " ld.shared::cluster.u32 %0, [there]; }"
                 : "=r"(x)
                 : "r"(address_of(at)), "r"(rank)
                 : "memory");
    return x;
}

/* Shared memory to that place of another block, where the barrier counts the bytes; this block
 * stays until they are there. */
WORD void copy_to_other(const void *to, const void *from, unsigned rank, unsigned bytes,
                        uint64_t *barrier)
{
    asm volatile("{ .reg .b32 there, counter;"
                 " mapa.shared::cluster.u32 there, %0, %2;"
                 " mapa.shared::cluster.u32 counter, %1, %2;"
                 " cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                 " [there], [%3], %4, [counter]; }"
                 :
                 : "r"(address_of(to)), "r"(address_of(barrier)), "r"(rank), "r"(address_of(from)),
                   "r"(bytes)
                 : "memory");
}

/* Some of a block's threads, a multiple of a warp. */
WORD void meet_some(int threads)
{
    asm volatile("bar.sync 1, %0;" : : "r"(threads) : "memory");
}
