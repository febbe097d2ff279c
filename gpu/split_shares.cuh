/*
 * The sums of a tile that the blocks of a cluster tell each other: each adds those of a share.
 */
/* Sums of a thread go to the blocks of the cluster in turn, two at a time, as many to each:
 * [blocks][of a share][consumers]. */
template <class kind> struct shares {
    static constexpr unsigned pairs = kind::held / 2;
    float2 *at;
    unsigned rank, blocks, share;

    __device__ __forceinline__ float2 *place(unsigned block, unsigned i) const
    {
        return &at[(block * share + i) * kind::consumers + threadIdx.x];
    }

    __device__ __forceinline__ void send(const float (&sum)[kind::held]) const
    {
#pragma unroll
        for (unsigned i = 0; i < pairs; i++)
            put_at_other(place(rank, i % share), i / share,
                         make_float2(sum[2 * i], sum[2 * i + 1]));
    }

    /* Those of the block: from `first` on. */
    __device__ __forceinline__ unsigned first(void) const
    {
        return rank * share;
    }

    __device__ __forceinline__ unsigned count(void) const
    {
        return first() < pairs ? min(share, pairs - first()) : 0;
    }

    /* Of all blocks, in their order. */
    __device__ __forceinline__ float2 sum_of(unsigned i) const
    {
        float2 sum = make_float2(0, 0);
        for (unsigned block = 0; block < blocks; block++) {
            const float2 y = *place(block, i);
            sum.x += y.x;
            sum.y += y.y;
        }
        return sum;
    }
};

template <class kind> WORD shares<kind> shares_of(char *room)
{
    const unsigned blocks = blocks_in_cluster();
    return {(float2 *)room, rank_in_cluster(), blocks, (shares<kind>::pairs + blocks - 1) / blocks};
}
