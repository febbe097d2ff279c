/*
 * Computes means over a row from the sums that all blocks sent. A few lanes read all sums of a row,
 * add them in a fixed order, and store the means in shared memory for all threads of the block.
 */
#ifndef ECO_GPU_PERSISTENT_MEANS_GATHER_CUH
#define ECO_GPU_PERSISTENT_MEANS_GATHER_CUH

#include "gpu/persistent/exchange.cuh"
#include "gpu/persistent/means_sums.cuh"

ECO_DEVICE float part_in(uint4 v, int i)
{
    return __uint_as_float(i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w);
}

/* What a few lanes add up together: a mean of a row and perhaps its dependent mean; `sent`: their
 * sums. */
struct mean_item {
    int mean, with, row, sum, center, sum_with;
    float curve;
    bool there, joined;
};

template <int STAGE> ECO_DEVICE struct mean_item mean_item_of(int rows, int i)
{
    enum { ITEMS = means_of::items(STAGE) };
    struct mean_item item = {0, 0, 0, 0, 0, 0, 0, i < ITEMS * rows, false};
    for_each_of<0, ITEMS>([&](auto number) {
        enum {
            J = decltype(number)::value,
            WITH = means_of::item(STAGE, J),
            JOINED = means_of::with(WITH) >= 0,
            MEAN = JOINED ? means_of::with(WITH) : WITH,
            SUM = means_of::sum(MEAN),
            CENTER = means_of::center(MEAN),
            SUM_WITH = means_of::sum(WITH)
        };
        if (J == 0 || i >= J * rows) {
            constexpr float curve = means_of::curve(WITH);
            item.row = i - J * rows;
            item.joined = JOINED;
            item.with = WITH;
            item.mean = MEAN;
            item.sum = SUM;
            item.center = CENTER;
            item.sum_with = SUM_WITH;
            item.curve = curve;
        }
    });
    return item;
}

/* Sum over `lanes` lanes, four at least. */
ECO_DEVICE float sum_of_some_lanes(float x, int lanes)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    x += __shfl_xor_sync(0xffffffffu, x, 2);
    if (lanes > 4)
        x += __shfl_xor_sync(0xffffffffu, x, 4);
    if (lanes > 8) {
        x += __shfl_xor_sync(0xffffffffu, x, 8);
        x += __shfl_xor_sync(0xffffffffu, x, 16);
    }
    return x;
}

/* The four partial sums that a lane reads: which exist, and the units of each. */
struct four_parts {
    bool there[4];
    float units[4];
};

template <class DIVISION>
ECO_DEVICE struct four_parts parts_of_lane(const struct block_context *block,
                                           const sums_of_blocks<DIVISION> &sums, int lane)
{
    struct four_parts parts;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        parts.there[k] = 4 * lane + k < sums.parts;
        parts.units[k] = sums.units(block, 4 * lane + k);
    }
    return parts;
}

ECO_DEVICE float sum_of_parts(const struct four_parts &parts, const float (&x)[4])
{
    return ((parts.there[0] ? x[0] : 0) + (parts.there[1] ? x[1] : 0)) +
           ((parts.there[2] ? x[2] : 0) + (parts.there[3] ? x[3] : 0));
}

/* What the blocks sent of an item: four of them, if there are as many. */
template <int STAGE, class DIVISION> struct received_sums {
    enum { JOINS = means_of::joins(STAGE), EACH = JOINS ? 4 : 1 };
    struct mean_item item;
    uint4 v[EACH];

    __device__ __forceinline__ void ask(const sums_of_blocks<DIVISION> &sums, const uint4 *from,
                                        bool part)
    {
        const int apart = sums.rows * sums.vectors;
        const bool there = part && item.there, joined = there && item.joined;
        const uint4 *const at = from + item.row * sums.vectors;
        v[0] = load_16_relaxed_if(there, at + item.sum * apart);
        if constexpr (JOINS) {
            v[1] = load_16_relaxed_if(joined, at + item.sum_with * apart);
            v[2] = load_16_relaxed_if(joined, at + (item.sum_with + 1) * apart);
            v[3] = load_16_relaxed_if(joined, at + item.center * apart);
        }
    }
    /* Is a word that a block will write still all ones, the greatest value? */
    __device__ __forceinline__ bool misses(const struct four_parts &parts) const
    {
        uint4 seen = v[0];
#pragma unroll
        for (int k = 1; k < EACH; k++)
            seen = make_uint4(max(seen.x, v[k].x), max(seen.y, v[k].y), max(seen.z, v[k].z),
                              max(seen.w, v[k].w));
        return (parts.there[0] && seen.x == ~0u) | (parts.there[1] && seen.y == ~0u) |
               (parts.there[2] && seen.z == ~0u) | (parts.there[3] && seen.w == ~0u);
    }
    /* Stores the means in shared memory. */
    __device__ __forceinline__ void add_up(const sums_of_blocks<DIVISION> &sums,
                                           const struct four_parts &parts, int lanes, int lane,
                                           float of_hidden, int means) const
    {
        const bool writes = lane == 0 && item.there;
        const float first[4] = {part_in(v[0], 0), part_in(v[0], 1), part_in(v[0], 2),
                                part_in(v[0], 3)};
        const float mean = sum_of_some_lanes(sum_of_parts(parts, first), lanes) * of_hidden;
        if (writes)
            *floats(means + item.mean * sums.rows + item.row) = mean;
        if constexpr (JOINS) {
            float more[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const float t = mean - part_in(v[3], k);
                more[k] = fmaf(t, fmaf(item.curve * parts.units[k], t, part_in(v[2], k)),
                               part_in(v[1], k));
            }
            const float with = sum_of_some_lanes(sum_of_parts(parts, more), lanes) * of_hidden;
            if (writes && item.joined)
                *floats(means + item.with * sums.rows + item.row) = with;
        }
    }
};

/* Log2 of the lanes that read all partial sums of an item, four each. */
ECO_DEVICE constexpr int readers_log2(int parts)
{
    enum { FOUR = 2, EIGHT = 3, ALL = 5 };
    return parts <= 4 << FOUR ? (int)FOUR : parts <= 4 << EIGHT ? (int)EIGHT : (int)ALL;
}

/* Gathers `AT_ONCE` items of a thread. */
template <int STAGE, class DIVISION, int AT_ONCE>
ECO_DEVICE void gather_items(struct block_context *block, const sums_of_blocks<DIVISION> &sums,
                             int lanes_log2, const uint4 *from, int first)
{
    const int lanes = 1 << lanes_log2, lane = (int)threadIdx.x & (lanes - 1);
    const struct four_parts parts = parts_of_lane(block, sums, lane);
    const float of_hidden = v_div((real)1, (real)block->call->hidden);
    struct received_sums<STAGE, DIVISION> in[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        const int number = first + (((int)threadIdx.x + i * PERSISTENT_THREADS) >> lanes_log2);
        in[i].item = mean_item_of<STAGE>(sums.rows, number);
    }
    for (bool missing = true; missing;) {
        missing = false;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            in[i].ask(sums, from + lane, parts.there[0]);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            missing |= in[i].misses(parts);
        missing = !warp_agrees(!missing || !keep_waiting(block));
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        in[i].add_up(sums, parts, lanes, lane, of_hidden, block->memory.means);
}

/* Stores the means of a stage in shared memory, [means, rows] from `means` on, for all threads. (It
 * was slower to let warps gather the means of their own rows, which avoids a barrier.) */
template <int STAGE, class DIVISION> ECO_DEVICE void gather_means(struct block_context *block)
{
    enum { ITEMS = means_of::items(STAGE), FIRST = means_of::sent(STAGE) };
    const sums_of_blocks<DIVISION> sums(block);
    const int lanes_log2 = readers_log2(sums.parts), items = ITEMS * sums.rows,
              round = PERSISTENT_THREADS >> lanes_log2;
    const uint4 *const from =
        (const uint4 *)sent_sums<DIVISION>(block) + FIRST * sums.rows * sums.vectors;
    const auto gather = [&](auto at_once) {
        enum { AT_ONCE = decltype(at_once)::value };
#pragma unroll 1
        for (int first = 0; first < items; first += AT_ONCE * round)
            gather_items<STAGE, DIVISION, AT_ONCE>(block, sums, lanes_log2, from, first);
    };
    if constexpr (usual.tiles > 0 && usual.parts > 0) {
        enum {
            ALL = ITEMS * usual.tiles * ECO_PERSISTENT_N,
            AT_ONCE = ALL <= PERSISTENT_THREADS >> readers_log2(usual.parts) ? 1 : 2
        };
        gather(count<AT_ONCE>());
    } else if (items <= round) {
        gather(count<1>());
    } else {
        gather(count<2>());
    }
    __syncthreads();
}

/* Reads the means of row n that earlier stages have stored. */
template <int STAGE, class CELL>
ECO_DEVICE void read_means(const struct block_context *block, int n, struct element_of<CELL> *at)
{
    const int rows = block->memory.row_tiles * ECO_PERSISTENT_N, row = n < rows ? n : rows - 1;
    for_each_of<0, means_of::means>([&](auto mean) {
        enum { M = decltype(mean)::value };
        if constexpr (means_of::stage(M) < STAGE)
            at->mean[M] = *floats(block->memory.means + M * rows + row);
    });
}

#endif /* ECO_GPU_PERSISTENT_MEANS_GATHER_CUH */
