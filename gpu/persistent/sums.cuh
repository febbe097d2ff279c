/*
 * Sums of a step's products: a lane's, in chains that end where scales do; those of a block in
 * shared memory, and how the blocks of a cluster share them.
 */
#ifndef ECO_GPU_PERSISTENT_SUMS_CUH
#define ECO_GPU_PERSISTENT_SUMS_CUH

#include "gpu/persistent/cluster_sums.cuh"
#include "gpu/persistent/elements.cuh"
#include "gpu/persistent/weights.cuh"

/* The sums of one tile of R and 8 rows of the batch. */
struct sums {
    float even[4], odd[4]; /* two chains, that do not wait for each other */
#if defined(SCALED_R)
    float total[4];
#endif
};

/* Of operands of one number: one chain is enough where several tiles of the batch take turns, and
 * leaves registers; kernels of many items spill with it. */
template <class CUT> ECO_DEVICE constexpr int chains_of(int tiles)
{
    return CUT::many || CUT::scale_block::halves || tiles == 1 ? 2 : 1;
}

/* d += the tile's rows times 8 rows of the batch, of which a lane has the sums of two; first: of a
 * chain with a scale. */
template <int CHAINS>
ECO_DEVICE void multiply_item(struct sums *d, struct fragment r, uint4 b, bool first)
{
    const bool begins = ITEM_SCALES && first;
    if (begins)
        multiply_first(d->even, r.first, b.x, b.y);
    else
        multiply_add(d->even, r.first, b.x, b.y);
#if defined(ECO_OPERAND_PAIR)
    if (begins)
        multiply_first(d->odd, r.second, b.x, b.y);
    else
        multiply_add(d->odd, r.second, b.x, b.y);
    multiply_add(d->odd, r.first, b.z, b.w);
#else
    if (begins && CHAINS == 2)
        multiply_first(d->odd, r.second, b.z, b.w);
    else
        multiply_add(CHAINS == 2 ? d->odd : d->even, r.second, b.z, b.w);
#endif
}

/* Matrix instructions cut off where they add, so long chains are less accurate than those of
 * multiply-adds: of pairs a chain ends after two items, or three.  With scales it ends within a
 * scale block: its length divides that of the scale block and the warp's `count` of items. */
template <class CUT> ECO_DEVICE constexpr int longest_chain(int count)
{
    enum { PAIRS = INSTRUCTIONS == ECO_PERSISTENT_PAIR };
    if (!ITEM_SCALES)
        return PAIRS && count > 1 ? 2 : 1;
    int chain = PAIRS ? 3 : 4;
    while (count % chain != 0 || CUT::scale_block::items % chain != 0)
        chain--;
    return chain;
}

/* What sums are to be multiplied by, of two rows; of the second half of an item. */
struct back {
    float2 first, second;
};

ECO_DEVICE float of_sum(float2 scale, int i)
{
    return i % 2 ? scale.y : scale.x;
}

/* After the last item of one; its sums are to be multiplied by `scale`, if there are any. */
template <class CUT, int CHAINS> ECO_DEVICE void end_chain(struct sums *d, const struct back &scale)
{
#if defined(ECO_SCALED)
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const bool both = CHAINS == 2 || INSTRUCTIONS == ECO_PERSISTENT_PAIR;
        const float sum = both && !CUT::scale_block::halves ? d->even[i] + d->odd[i] : d->even[i];
        d->total[i] = fmaf(sum, of_sum(scale.first, i), d->total[i]);
        if (CUT::scale_block::halves)
            d->total[i] = fmaf(d->odd[i], of_sum(scale.second, i), d->total[i]);
    }
#elif defined(ECO_OPERAND_PAIR)
#pragma unroll
    for (int i = 0; i < 4; i++) {
        d->total[i] += d->even[i];
        d->even[i] = 0;
    }
#endif
}

template <int CHAINS> ECO_DEVICE float sum_in(const struct sums *d, int i)
{
#if defined(ECO_SCALED)
    return d->total[i];
#elif defined(ECO_OPERAND_PAIR)
    return d->total[i] + (d->even[i] + d->odd[i]);
#else
    return CHAINS == 2 ? d->even[i] + d->odd[i] : d->even[i];
#endif
}

/* A lane's sums of one tile of R and 8 rows of the batch, to shared memory. */
template <class CUT> ECO_DEVICE void put_four(int at, float4 d, const struct scales *scales)
{
    *floats(at) = unscale(scales, d.x);
    *floats(at + CUT::sum_row) = unscale(scales, d.y);
    *floats(at + 8) = unscale(scales, d.z);
    *floats(at + CUT::sum_row + 8) = unscale(scales, d.w);
}

template <class CUT, int CHAINS>
ECO_DEVICE void put_sums(int at, const struct sums *d, const struct scales *scales)
{
    put_four<CUT>(at,
                  make_float4(sum_in<CHAINS>(d, 0), sum_in<CHAINS>(d, 1), sum_in<CHAINS>(d, 2),
                              sum_in<CHAINS>(d, 3)),
                  scales);
}

/* ---- in shared memory ------------------------------------------------------------------------ */

/* How far the sums of a step are from those of the first. */
template <class CUT> ECO_DEVICE int parity_offset(const struct memory *memory, int step)
{
    return CUT::direct ? (step & 1) * (memory->row_tiles * CUT::sum_tile) : 0;
}

/* Adds up the sums of this block's slice of k, and gives each block of the cluster those of its
 * units. */
template <class CUT>
ECO_DEVICE void share_sums(const struct block *block, const struct memory *memory, int step,
                           int first, int end)
{
    enum { WIDE = 4 }; /* rows of R at once */
    const int from = memory->sums + parity_offset<CUT>(memory, step),
              to = memory->parts + ((step & 1) * CUT::blocks + block->rank) * memory->part_across +
                   first * ECO_PERSISTENT_N * CUT::part_row;
    const int all = (end - first) * ECO_PERSISTENT_N * (CUT::rows / WIDE);
#pragma unroll 2
    for (int i = (int)threadIdx.x; i < all; i += THREADS) {
        const int row = i % (CUT::rows / WIDE) * WIDE, n = i / (CUT::rows / WIDE);
        const int at = from + ECO_PERSISTENT_SUM_AT(n, CUT::sum_row) + row;
        float4 sum = *(const float4 *)floats(at);
#pragma unroll
        for (int k = 1; k < CUT::parts; k++) {
            const float4 v = *(const float4 *)floats(at + k * CUT::sum_part);
            sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
        }
        send_in_cluster(row / CUT::own, floats(to + n * CUT::part_row + row % CUT::own), step, sum);
    }
}

/* Where the sums of batch row n begin; beyond the last one those of the last. */
template <class CUT>
ECO_DEVICE int sums_at(const struct memory *memory, const struct thread *thread, int step, int n)
{
    const int last = memory->row_tiles * ECO_PERSISTENT_N - 1, row = n < last ? n : last;
    if (CUT::blocks == 1)
        return thread->element_sums + ECO_PERSISTENT_SUM_AT(row, CUT::sum_row) +
               parity_offset<CUT>(memory, step);
    return thread->element_sums + (step & 1) * CUT::blocks * memory->part_across +
           row * CUT::part_row;
}

/* The sum of an element's products with the block's row `row` of its units. */
template <class CUT> ECO_DEVICE float sum_of(const struct memory *memory, int at, int row)
{
    enum { PARTS = CUT::blocks == 1 ? (int)CUT::parts : (int)CUT::blocks };
    const int apart = CUT::blocks == 1 ? (int)CUT::sum_part : memory->part_across;
    float sum = *floats(at + (row << CUT::shift));
#pragma unroll
    for (int k = 1; k < PARTS; k++)
        sum += *floats(at + (row << CUT::shift) + k * apart);
    return sum;
}

#endif /* ECO_GPU_PERSISTENT_SUMS_CUH */
