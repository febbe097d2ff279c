/*
 * Sums of a step's products: those of a lane, in chains that end where scales change; those of a
 * block in shared memory; how the blocks of a cluster share them.
 */
#ifndef ECO_GPU_PERSISTENT_SUMS_CUH
#define ECO_GPU_PERSISTENT_SUMS_CUH

#include "gpu/persistent/cluster_sums.cuh"
#include "gpu/persistent/elements.cuh"
#include "gpu/persistent/weights.cuh"

/* The sums of one tile of R and 8 batch rows. */
struct sums {
    float even[4], odd[4]; /* two independent chains */
#if defined(ECO_OPERAND_PAIR) || defined(ECO_SCALED)
    float total[4];
#endif
};

/* Without scales there are two chains for any number of batch tiles, so that a row's bits do not
 * depend on it. Scaled single numbers have one if several batch tiles alternate, which saves
 * registers; kernels with many k blocks spill with it. */
template <class DIVISION> ECO_DEVICE constexpr int chains_of(int tiles)
{
    return !K_BLOCK_SCALES || DIVISION::many || DIVISION::scale_block::halves || tiles == 1 ? 2 : 1;
}

/* d += the tile's rows times 8 batch rows, two of them in a lane. first: this begins a scaled
 * chain. */
template <int CHAINS>
ECO_DEVICE void multiply_k_block(struct sums *d, struct fragment r, uint4 b, bool first)
{
    const bool begins = K_BLOCK_SCALES && first;
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

/* Matrix instructions truncate when they add, so long chains are less accurate than multiply-adds.
 * With pairs a chain ends after two or three k blocks. With scales its length divides both the
 * scale block and the warp's `count` of k blocks. */
template <class DIVISION> ECO_DEVICE constexpr int longest_chain(int count)
{
    enum { PAIRS = INSTRUCTIONS == ECO_PERSISTENT_PAIR };
    if (!K_BLOCK_SCALES)
        return PAIRS && count > 1 ? 2 : 1;
    int chain = PAIRS ? 3 : 4;
    while (count % chain != 0 || DIVISION::scale_block::k_blocks % chain != 0)
        chain--;
    return chain;
}

/* Factors that undo the scales, for two rows, and for the second half of a k block. */
struct back {
    float2 first, second;
};

ECO_DEVICE float of_sum(float2 scale, int i)
{
    return i % 2 ? scale.y : scale.x;
}

/* Ends a chain; its sums are multiplied by `scale`, if there is one. */
template <class DIVISION, int CHAINS>
ECO_DEVICE void end_chain(struct sums *d, const struct back &scale)
{
#if defined(ECO_SCALED)
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const bool both = CHAINS == 2 || INSTRUCTIONS == ECO_PERSISTENT_PAIR;
        const float sum =
            both && !DIVISION::scale_block::halves ? d->even[i] + d->odd[i] : d->even[i];
        d->total[i] = fmaf(sum, of_sum(scale.first, i), d->total[i]);
        if (DIVISION::scale_block::halves)
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

/* Stores a lane's sums of one tile of R and 8 batch rows in shared memory. */
template <class DIVISION> ECO_DEVICE void put_four(int at, float4 d, const struct scales *scales)
{
    *floats(at) = unscale(scales, d.x);
    *floats(at + DIVISION::sum_row) = unscale(scales, d.y);
    *floats(at + 8) = unscale(scales, d.z);
    *floats(at + DIVISION::sum_row + 8) = unscale(scales, d.w);
}

template <class DIVISION, int CHAINS>
ECO_DEVICE void put_sums(int at, const struct sums *d, const struct scales *scales)
{
    put_four<DIVISION>(at,
                       make_float4(sum_in<CHAINS>(d, 0), sum_in<CHAINS>(d, 1), sum_in<CHAINS>(d, 2),
                                   sum_in<CHAINS>(d, 3)),
                       scales);
}

/* ---- in shared memory ------------------------------------------------------------------------ */

/* Distance of the sums of this step from those of step 0. */
template <class DIVISION> ECO_DEVICE int parity_offset(const struct block_context *block)
{
    return DIVISION::direct ? (block->step & 1) * (block->memory.row_tiles * DIVISION::sum_tile)
                            : 0;
}

/* Adds up the sums of this block's slice of k, and sends each block those of its units. */
template <class DIVISION>
ECO_DEVICE void share_sums(const struct block_context *block, int first, int end)
{
    enum { WIDE = 4 }; /* rows of R at once */
    const int from = block->memory.sums + parity_offset<DIVISION>(block),
              to =
                  block->memory.parts +
                  ((block->step & 1) * DIVISION::blocks + block->rank) * block->memory.part_across +
                  first * ECO_PERSISTENT_N * DIVISION::part_row;
    const int all = (end - first) * ECO_PERSISTENT_N * (DIVISION::rows / WIDE);
#pragma unroll 2
    for (int i = (int)threadIdx.x; i < all; i += PERSISTENT_THREADS) {
        const int row = i % (DIVISION::rows / WIDE) * WIDE, n = i / (DIVISION::rows / WIDE);
        const int at = from + ECO_PERSISTENT_SUM_AT(n, DIVISION::sum_row) + row;
        float4 sum = *(const float4 *)floats(at);
#pragma unroll
        for (int k = 1; k < DIVISION::parts; k++) {
            const float4 v = *(const float4 *)floats(at + k * DIVISION::sum_part);
            sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
        }
        send_in_cluster(row / DIVISION::own,
                        floats(to + n * DIVISION::part_row + row % DIVISION::own), block->step,
                        sum);
    }
}

/* Position of the sums of batch row n; rows beyond the batch read the last row. */
template <class DIVISION> ECO_DEVICE int sums_at(const struct block_context *block, int n)
{
    const int last = block->memory.row_tiles * ECO_PERSISTENT_N - 1, row = n < last ? n : last;
    if (DIVISION::blocks == 1)
        return block->thread.element_sums + ECO_PERSISTENT_SUM_AT(row, DIVISION::sum_row) +
               parity_offset<DIVISION>(block);
    return block->thread.element_sums +
           (block->step & 1) * DIVISION::blocks * block->memory.part_across +
           row * DIVISION::part_row;
}

/* The sum of an element's products with row `row` of its unit. */
template <class DIVISION>
ECO_DEVICE float sum_of(const struct block_context *block, int at, int row)
{
    enum { PARTS = DIVISION::blocks == 1 ? (int)DIVISION::parts : (int)DIVISION::blocks };
    const int apart = DIVISION::blocks == 1 ? (int)DIVISION::sum_part : block->memory.part_across;
    float sum = *floats(at + (row << DIVISION::shift));
#pragma unroll
    for (int k = 1; k < PARTS; k++)
        sum += *floats(at + (row << DIVISION::shift) + k * apart);
    return sum;
}

#endif /* ECO_GPU_PERSISTENT_SUMS_CUH */
