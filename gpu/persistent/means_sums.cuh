/*
 * Sums for means over a row, as a block sends them: it adds up what a stage stored of its units, in
 * a fixed order. A sum is a float, exchanged like operands (exchange.cuh), in memory that follows
 * them.
 *
 * If another mean is a polynomial in a mean (common/cell/means.c; for example a variance), a block
 * sends both at once: for its units it sums the polynomial and its derivative at c, the mean of
 * four of these units, and sends c, too. What cancels later is (c - mean)^2 in units of the
 * variance: a quarter on average. With c from a single unit it would be 1 on average, and 9 if that
 * unit is off by three standard deviations.
 */
#ifndef ECO_GPU_PERSISTENT_MEANS_SUMS_CUH
#define ECO_GPU_PERSISTENT_MEANS_SUMS_CUH

#include "gpu/persistent/means_element.cuh"

/* The exchange of a group in a step: [sums, rows, partial sums], padded to vectors of four. A block
 * has one partial sum for each warp's width of units. */
template <class DIVISION> struct sums_of_blocks {
    enum {
        UNITS = 1 << DIVISION::shift,
        LANES = UNITS < WARP ? UNITS : WARP, /* lanes with units of the same row and partial sum */
        OF_BLOCK = UNITS / LANES,
        SENT = means_of::sent(means_of::stages)
    };
    int parts, vectors, rows;

    __device__ __forceinline__ sums_of_blocks(const struct block_context *block)
    {
        parts = usual.parts > 0 ? usual.parts : block->call->shape.members * OF_BLOCK;
        vectors = (parts + 3) / 4;
        rows = block->memory.row_tiles * ECO_PERSISTENT_N;
    }

    /* In units of 16 bytes. */
    __device__ __forceinline__ int pieces(void) const
    {
        return SENT * rows * vectors;
    }

    /* Units of a partial sum; may be zero. */
    __device__ __forceinline__ float units(const struct block_context *block, int part) const
    {
        return (float)max(min(block->call->hidden - part * LANES, (int)LANES), 0);
    }
};

/* In the current step. */
template <class DIVISION> ECO_DEVICE unsigned *sent_sums(const struct block_context *block)
{
    return (unsigned *)((const uint4 *)block->thread.sent + sent_of<DIVISION>(block));
}

/* Sums of `N` values over LANES neighbouring lanes, in a fixed order; a NaN becomes the NaN of
 * additions. The lanes divide the sums: a lane has `left` of them from `first` on, or `copies`
 * lanes have the same one. */
template <int N, int LANES> struct shared_sums {
    float x[N];
    int first;

    static __device__ constexpr int left(void)
    {
        return N > LANES ? N / LANES : 1;
    }
    static __device__ constexpr int copies(void)
    {
        return N < LANES ? LANES / N : 1;
    }
    /* Adds up with the lane that is APART from this one; `COUNT` values are left. */
    template <int APART, int COUNT> __device__ __forceinline__ void add_up_from(int lane)
    {
        if constexpr (APART > 0 && COUNT > 1) {
            enum { HALF = COUNT / 2 };
            const bool upper = lane & APART;
            first += upper ? (int)HALF : 0;
#pragma unroll
            for (int i = 0; i < HALF; i++) {
                const float mine = upper ? x[HALF + i] : x[i], other = upper ? x[i] : x[HALF + i];
                x[i] = mine + __shfl_xor_sync(0xffffffffu, other, APART);
            }
            add_up_from<APART / 2, HALF>(lane);
        } else if constexpr (APART > 0) {
            x[0] += __shfl_xor_sync(0xffffffffu, x[0], APART);
            add_up_from<APART / 2, 1>(lane);
        }
    }
    __device__ __forceinline__ void add_up(int lane)
    {
        first = 0;
        add_up_from<LANES / 2, N>(lane);
    }
};

/* The mean of four units of a partial sum; the first unit replaces missing ones. */
template <int LANES, class CELL>
ECO_DEVICE float center_of(const struct element_of<CELL> *at, float own, int lane)
{
    float of[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int other = k * LANES / 4;
        const bool is_there = at->unit - lane + other < at->call->hidden;
        of[k] = __shfl_sync(0xffffffffu, own, is_there ? other : 0, LANES);
    }
    return 0.25f * ((of[0] + of[1]) + (of[2] + of[3]));
}

/* The next power of two. */
ECO_DEVICE constexpr int whole_pow2(int n)
{
    int whole = 1;
    while (whole < n)
        whole *= 2;
    return whole;
}

/* Called by all lanes with units of row n: sends the sums of what they stored in this stage. */
template <int STAGE, class DIVISION, class CELL>
ECO_DEVICE void send_sums(const struct block_context *block, int n, struct element_of<CELL> *at)
{
    typedef sums_of_blocks<DIVISION> of_blocks;
    enum { SUMS = means_of::sums(STAGE), FIRST = means_of::sent(STAGE), LANES = of_blocks::LANES };
    typedef shared_sums<whole_pow2(SUMS), LANES> shared_out;
    const of_blocks all(block);
    const int u = (int)threadIdx.x & (of_blocks::UNITS - 1), lane = u % LANES,
              apart = all.rows * all.vectors * 4;
    unsigned *const to = sent_sums<DIVISION>(block) + (FIRST * all.rows + n) * all.vectors * 4 +
                         block->member * of_blocks::OF_BLOCK + u / WARP;
    if constexpr (means_of::joins(STAGE)) {
        struct element_ahead<CELL, STAGE> ahead = {
            at,
            {
            }
        };
        for_each_of<0, means_of::means>([&](auto mean) {
            enum { M = decltype(mean)::value };
            if constexpr (means_of::stage(M) == STAGE && means_of::leads(M)) {
                enum { CENTER = means_of::center(M) };
                const float own = at->there ? at->summand[M] : 0;
                const float c = center_of<LANES>(at, own, lane);
                ahead.center[M] = c;
                store_relaxed_if(n < all.rows && lane == M % LANES, to + CENTER * apart,
                                 __float_as_uint(c));
            }
        });
        run_ahead<0, STAGE>(&ahead);
    }
    shared_out sums = {};
    for_each_of<0, means_of::means>([&](auto mean) {
        enum { M = decltype(mean)::value };
        if constexpr (means_of::stage(M) == STAGE) {
            enum { SUM = means_of::sum(M) };
            sums.x[SUM] = at->there ? at->summand[M] : 0;
            if constexpr (means_of::with(M) >= 0)
                sums.x[SUM + 1] = at->there ? at->slope[M] : 0;
        }
    });
    sums.add_up(lane);
#pragma unroll
    for (int i = 0; i < shared_out::left(); i++)
        store_relaxed_if(n < all.rows && sums.first + i < SUMS && lane % shared_out::copies() == 0,
                         to + (sums.first + i) * apart, __float_as_uint(sums.x[i]));
}

#endif /* ECO_GPU_PERSISTENT_MEANS_SUMS_CUH */
