/*
 * The product of a step: few rows by R, prepared once in a run, so C turned: R has the larger
 * tiles. A cluster of blocks shares a tile, each has some of k; they send each other their sums,
 * and each adds and writes a share of the tile.  R does not wait for the states: stages are filled
 * with it while the kernel ahead still computes these.
 */
#include "gpu/split_call.h"

#define WORD [[maybe_unused]] static __device__ __forceinline__

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_SQUARES 1
#else
#define HAS_SQUARES 0
#endif

#include "gpu/ahead.cuh"
#include "gpu/meet.cuh"
#include "gpu/split_sum.cuh"
#include "gpu/squares.cuh"

#include "gpu/split_stage.cuh"

#include "gpu/split_shares.cuh"
#include "gpu/split_states.cuh"

enum { SOME = 8 }; /* pairs of sums that a thread writes at a time */

/* What a block has of k: stages of its tile. */
struct slice {
    int32_t from, to, steps;
};

WORD slice slice_of(const eco_split_call &call)
{
    const int32_t rank = (int32_t)rank_in_cluster(), blocks = (int32_t)blocks_in_cluster();
    slice s;
    s.steps = (call.k + DEPTH - 1) / DEPTH;
    s.from = s.steps * rank / blocks;
    s.to = s.steps * (rank + 1) / blocks;
    return s;
}

WORD int32_t tile_of_block(void)
{
    return (int32_t)(blockIdx.x / blocks_in_cluster());
}

/* ---- filling stages -------------------------------------------------------------------------- */

/* By one thread; of a piece of R a half, where the tile is that. */
template <class kind>
WORD void copy_rows(const eco_split_call &call, const slice &s, unsigned shared, barriers *b,
                    int32_t i)
{
    const slot<kind::stages> slot(i);
    const int32_t row = tile_of_block() * kind::rows;
    const char *from = piece_of(call.a, s.steps, row / TILE, s.from + i) + row % TILE * LINE_BYTES;
    const unsigned to = shared + slot.stage * kind::stage_bytes;
    wait_for_room(b, slot);
    expect(&b->full[slot.stage], 2 * kind::a_bytes);
#pragma unroll
    for (int plane = 0; plane < 2; plane++)
        copy(to + plane * kind::a_bytes, from + plane * PLANE_BYTES, kind::a_bytes,
             &b->full[slot.stage]);
}

/* By several warps: first as much of R as there are stages, then the states of these, then both.
 * States are read some stages ahead. */
template <class kind>
WORD void fill_stages(const eco_split_call &call, const slice &s, unsigned shared, char *room,
                      barriers *b)
{
    typedef splitter<kind> mine;
    const int32_t stages = s.to - s.from, ahead = min(stages, kind::stages);
    const bool copies = threadIdx.x == kind::consumers;
    const mine me = splitter_of<kind>(call.b, (int32_t)blockIdx.y * kind::columns, s.from);
    __align__(16) float x[AHEAD][mine::held][GROUP];
    for (int32_t i = 0; copies && i < ahead; i++)
        copy_rows<kind>(call, s, shared, b, i);
    __syncwarp();
    wait_for_kernels_ahead();
    let_next_start();
#pragma unroll
    for (int j = 0; j < AHEAD - 1; j++)
        me.load(j, stages, x[j]);
    for (int32_t first = 0; first < stages; first += AHEAD)
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int32_t i = first + j;
            const slot<kind::stages> slot(i);
            if (i >= stages)
                break;
            me.load(i + AHEAD - 1, stages, x[(j + AHEAD - 1) % AHEAD]);
            if (copies && i >= ahead)
                copy_rows<kind>(call, s, shared, b, i);
            __syncwarp();
            wait_for_room(b, slot);
            me.keep(room + slot.stage * kind::stage_bytes + 2 * kind::a_bytes,
                    (float *)scales_of<kind>(shared, slot.stage), x[j]);
            show_to_squares();
            __syncwarp();
            if (threadIdx.x % 32 == 0)
                arrive(&b->full[slot.stage], rank_in_cluster());
        }
}

/* ---- adding and writing ---------------------------------------------------------------------- */

/* Where a thread's pair of sums number i belongs: two columns of a row. */
struct spot {
    int32_t row, column;
};

template <class kind> WORD spot spot_of(unsigned i)
{
    const int32_t at = (int32_t)i, thread = (int32_t)threadIdx.x;
    return {tile_of_block() * kind::rows + thread / 32 * 16 + thread % 32 / 4 + at % 2 * 8,
            (int32_t)blockIdx.y * kind::columns + at / 2 * 8 + thread % 4 * 2};
}

WORD bool is_there(const eco_split_call &call, const spot &at, int c)
{
    return at.row < call.a.rows && at.column + c < call.b.rows;
}

WORD float *place_of(const eco_split_call &call, const spot &at, int c)
{
    return call.c + (size_t)(at.column + c) * call.c_row + at.row;
}

/* Numbers of a share of the tile: what they are added to, and their rows' scales. */
struct some {
    float old[SOME][2], s[SOME];
};

/* All before any is used or written: else each would wait for the one before. */
template <class kind>
WORD void read_some(const eco_split_call &call, unsigned from, unsigned count, some &x)
{
#pragma unroll
    for (unsigned i = 0; i < SOME; i++) {
        const spot at = spot_of<kind>(from + i);
        x.s[i] = i < count && is_there(call, at, 0) ? call.a.scales[at.row] : 1;
#pragma unroll
        for (int c = 0; c < 2; c++)
            x.old[i][c] =
                call.add && i < count && is_there(call, at, c) ? *place_of(call, at, c) : 0;
    }
}

/* A sum that is not finite has such terms, or terms beyond 1e30. */
template <class kind>
WORD void write_some(const eco_split_call &call, unsigned from, unsigned count,
                     const float2 (&sums)[SOME], const some &x)
{
#pragma unroll
    for (unsigned i = 0; i < SOME; i++) {
        const spot at = spot_of<kind>(from + i);
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const bool there = i < count && is_there(call, at, c);
            const float sum = c == 0 ? sums[i].x : sums[i].y,
                        y = replaced(call, there && is_odd(fabsf(sum)), at.row, at.column + c,
                                     sum * over(x.s[i]));
            if (there)
                *place_of(call, at, c) = x.old[i][c] + y;
        }
    }
}

/* The block's share of the tile, of which `x` has the first. */
template <class kind>
WORD void write(const eco_split_call &call, const shares<kind> &shares, some &x)
{
    const unsigned first = shares.first(), all = shares.count();
    for (unsigned from = 0; from < all; from += SOME) {
        const unsigned count = min(all - from, (unsigned)SOME);
        float2 sums[SOME];
        if (from > 0)
            read_some<kind>(call, first + from, count, x);
#pragma unroll
        for (unsigned i = 0; i < SOME; i++)
            sums[i] = i < count ? shares.sum_of(from + i) : make_float2(0, 0);
        write_some<kind>(call, first + from, count, sums, x);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <int rows, int columns>
static __global__ void __launch_bounds__(block_of<rows, columns, true>::threads, 1)
    multiply_step(const __grid_constant__ eco_split_call call)
{
#if HAS_SQUARES
    typedef block_of<rows, columns, true> kind;
    extern __shared__ char anywhere[];
    __shared__ barriers b;
    const unsigned shared = aligned(anywhere);
    char *const room = anywhere + (shared - address_of(anywhere));
    const slice s = slice_of(call);
    if (threadIdx.x == 0)
        open_stages<kind>(&b, 1 + kind::filling / 32, 1);
    __syncthreads();
    if (threadIdx.x < kind::consumers) {
        const shares<kind> shares = shares_of<kind>(room);
        consumer<kind> me = {shared, &b, rank_in_cluster(), 1, 0};
        float sum[kind::held] = {0};
        some x;
        me.add(s.to - s.from, sum);
        wait_for_kernels_ahead();
        read_some<kind>(call, shares.first(), min(shares.count(), (unsigned)SOME), x);
        __syncwarp();
        meet_to_write(); /* all have multiplied what lay where sums go now */
        shares.send(sum);
        meet_all();
        write<kind>(call, shares, x);
    } else {
        fill_stages<kind>(call, s, shared, room, &b);
        __syncwarp();
        meet_to_write();
        meet_all();
    }
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

/* [tiles of 64 rows of R, or 128][tiles of 32 columns, or 64]; of larger ones there would be more
 * sums than registers. */
enum { HEIGHTS = 2, WIDTHS = 2, FEW_COLUMNS = ECO_SPLIT_FEW_COLUMNS, COLUMNS = ECO_SPLIT_COLUMNS };
static const struct {
    const void *kernel;
    int threads;
} kernels[HEIGHTS][WIDTHS] = {
#define KERNEL(rows, columns)                                                                      \
    {                                                                                              \
        (const void *)multiply_step<rows, columns>, block_of<rows, columns, true>::threads         \
    }
    {KERNEL(64, FEW_COLUMNS), KERNEL(64, COLUMNS)},
    {KERNEL(128, FEW_COLUMNS), KERNEL(128, COLUMNS)},
#undef KERNEL
};

/* In clusters of so many blocks. */
static cudaLaunchConfig_t config_of(cudaLaunchAttribute attributes[2], int32_t slices, int threads)
{
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {(unsigned)slices, 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)slices);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = SHARED_BYTES;
    config.attrs = attributes;
    config.numAttrs = 1;
    return config;
}

cudaError_t eco_launch_split_step(const struct eco_split_call *call, int32_t tile, int32_t slices,
                                  bool overlap, cudaStream_t stream)
{
    const int height = tile == ECO_SPLIT_TILE, width = call->b.rows > FEW_COLUMNS;
    const int32_t tiles = (call->a.rows + tile - 1) / tile;
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = config_of(attributes, slices, kernels[height][width].threads);
    config.gridDim =
        dim3((unsigned)(tiles * slices), (unsigned)((call->b.rows + COLUMNS - 1) / COLUMNS));
    config.stream = stream;
    config.numAttrs = overlap ? 2 : 1;
    void *argument[] = {(void *)call};
    return cudaLaunchKernelExC(&config, kernels[height][width].kernel, argument);
}

void eco_split_step_count(int32_t clusters[ECO_SPLIT_SLICES])
{
    for (int32_t slices = 1; slices <= ECO_SPLIT_SLICES; slices++) {
        cudaLaunchAttribute attributes[2] = {};
        const cudaLaunchConfig_t config = config_of(attributes, slices, kernels[0][0].threads);
        int n = 0;
        if (cudaOccupancyMaxActiveClusters(&n, kernels[0][0].kernel, &config) != cudaSuccess) {
            (void)cudaGetLastError(); /* a device that cannot say does without */
            n = 0;
        }
        clusters[slices - 1] = n;
    }
}

cudaError_t eco_split_step_load(bool *usable)
{
    cudaError_t error = cudaSuccess;
    *usable = true;
    for (int i = 0; i < HEIGHTS * WIDTHS && error == cudaSuccess && *usable; i++)
        error = eco_split_load_kernel(kernels[i / WIDTHS][i % WIDTHS].kernel, SHARED_BYTES, usable);
    return error;
}
