/*
 * What kernels of skinny products share: who does what, and A, a slice of it in a block's shared
 * memory.
 */
#include "gpu/skinny_call.h"

#include "gpu/arithmetic.cuh"
#include "gpu/resident_call.h"

#include "gpu/matrix.cuh"

#include "gpu/pair.cuh"

enum {
    LANES = 32,
    WARPS = ECO_SKINNY_WARPS,
    THREADS = WARPS * LANES,
    BATCH = ECO_SKINNY_BATCH,
    TILE = ECO_SKINNY_TILE,
    HALVES = 2
};

/* Four terms of a row, 0 beyond `there` of them. */
WORD uint4 four_of(const float *from, size_t step, int32_t there)
{
    const bool whole = there >= 4 && step == 1 && (uintptr_t)from % 16 == 0;
    if (whole)
        return __ldg((const uint4 *)from);
    uint4 v;
    v.x = there > 0 ? __float_as_uint(from[0]) : 0;
    v.y = there > 1 ? __float_as_uint(from[step]) : 0;
    v.z = there > 2 ? __float_as_uint(from[2 * step]) : 0;
    v.w = there > 3 ? __float_as_uint(from[3 * step]) : 0;
    return v;
}

/* Of the lanes that have the same row. */
WORD float greatest_of_row(float most)
{
    enlarge(&most, __shfl_xor_sync(0xffffffffu, most, 1));
    enlarge(&most, __shfl_xor_sync(0xffffffffu, most, 2));
    return most;
}

/* What sums of each tile are to be multiplied by. */
WORD float *factors_of(void *prepared, int32_t tiles, int32_t items)
{
    return (float *)((char *)prepared + (size_t)tiles * items * ECO_SKINNY_PIECE);
}

/* ---- who does what --------------------------------------------------------------------------- */

/* A block's part, and a warp's. */
struct part {
    int32_t slice, group, item0, items; /* of k */
    int32_t first, end;                 /* tiles */
    int32_t warp, lane, down, d, a;     /* warps down; this one's place down and across */
    int32_t own0, own;                  /* its items in the slice */
};

WORD part part_of(const eco_skinny_shape &shape)
{
    part p;
    p.slice = (int32_t)blockIdx.x % shape.slices;
    p.group = (int32_t)blockIdx.x / shape.slices;
    p.item0 = p.slice * shape.slice_items;
    p.items = min(shape.slice_items, shape.items - p.item0);
    p.first = p.group * shape.group_tiles;
    p.end = min(p.first + shape.group_tiles, shape.tiles);
    p.warp = (int32_t)threadIdx.x / LANES;
    p.lane = (int32_t)threadIdx.x % LANES;
    p.down = WARPS / shape.across;
    p.d = p.warp % p.down;
    p.a = p.warp / p.down;
    const int32_t each = (p.items + shape.across - 1) / shape.across;
    p.own0 = min(p.a * each, p.items);
    p.own = min(each, p.items - p.own0);
    return p;
}

/* ---- A --------------------------------------------------------------------------------------- */

/* The slice of A as it is, several pieces at a time: no branch between reads.  vectors: rows begin
 * at multiples of 16 bytes and are of whole quads. */
template <int RT, bool vectors>
WORD void read_raw(const eco_skinny_call &call, const part &p, uint4 *operand, unsigned *greatest)
{
    enum { AT_ONCE = 8 };
    const int32_t all = p.items * RT;
    for (int32_t i0 = p.warp; i0 < all; i0 += AT_ONCE * WARPS) {
        uint4 raw[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int32_t i = i0 + j * WARPS, n = i % RT * BATCH + p.lane / 4;
            const int32_t k = (p.item0 + i / RT) * ECO_SKINNY_ITEM + p.lane % 4 * 4;
            const int32_t there = i < all && n < call.m ? call.k - k : 0;
            const float *const from = call.a + (there > 0 ? (size_t)n * call.a_row + k : 0);
            raw[j] = make_uint4(0, 0, 0, 0);
            if (!vectors)
                raw[j] = four_of(from, 1, there);
            else if (there > 0)
                raw[j] = __ldg((const uint4 *)from);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int32_t i = i0 + j * WARPS;
            float most = 0;
            enlarge(&most, raw[j]);
            most = greatest_of_row(most);
            if (i < all && p.lane % 4 == 0)
                atomicMax(&greatest[i % RT * BATCH + p.lane / 4], __float_as_uint(most));
            if (i < all)
                operand[i * LANES + p.lane] = raw[j];
        }
    }
}

/* It as pairs: [items, RT, lanes]; factor: what sums of a row are multiplied by. */
template <int RT>
WORD void read_rows(const eco_skinny_call &call, const part &p, uint4 *operand, unsigned *greatest,
                    float *factor)
{
    const bool vectors = ((uintptr_t)call.a | call.a_row * 4 | (size_t)call.k * 4) % 16 == 0;
    for (int32_t n = (int32_t)threadIdx.x; n < RT * BATCH; n += THREADS)
        greatest[n] = 0;
    __syncthreads();
    if (vectors)
        read_raw<RT, true>(call, p, operand, greatest);
    else
        read_raw<RT, false>(call, p, operand, greatest);
    __syncthreads();
#pragma unroll 4
    for (int32_t i = p.warp; i < p.items * RT; i += WARPS) {
        const float scale = scale_for(__uint_as_float(greatest[i % RT * BATCH + p.lane / 4]));
        operand[i * LANES + p.lane] = pairs_of(operand[i * LANES + p.lane], scale);
    }
    for (int32_t n = (int32_t)threadIdx.x; n < RT * BATCH; n += THREADS)
        factor[n] = 1 / scale_for(__uint_as_float(greatest[n]));
    __syncthreads();
}
