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

/* The same; nobody reads after it what others wrote before. */
WORD void meet_to_write(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
                 :
                 :
                 : "memory");
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

/* Has it there; it sees that when all have met. */
WORD void put_at_other(float2 *at, unsigned rank, float2 x)
{
    asm volatile("{ .reg .b32 there;"
                 " mapa.shared::cluster.u32 there, %0, %1;"
                 " st.shared::cluster.v2.f32 [there], {%2, %3}; }"
                 :
                 : "r"(address_of(at)), "r"(rank), "f"(x.x), "f"(x.y)
                 : "memory");
}
