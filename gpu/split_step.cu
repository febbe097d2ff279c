/*
 * The product of a step: few rows by R, prepared once in a run, so C turned: R has the tiles of 128
 * rows.  A cluster of blocks shares a tile, each has some of k; they send each other their sums,
 * and each adds and writes a share of the tile.  R does not wait for the states: stages are filled
 * with it while the kernel ahead still prepares these.
 */
#include "gpu/split_call.h"

#define WORD [[maybe_unused]] static __device__ __forceinline__

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_SQUARES 1
#else
#define HAS_SQUARES 0
#endif

#include "gpu/meet.cuh"
#include "gpu/split_sum.cuh"
#include "gpu/squares.cuh"

#include "gpu/split_stage.cuh"

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

/* ---- copying --------------------------------------------------------------------------------- */

template <int columns>
WORD void copy_states(const char *piece, unsigned shared, barriers *b,
                      const slot<wide<columns>::stages> &slot)
{
    typedef wide<columns> kind;
    const unsigned at = shared + slot.stage * kind::stage_bytes + PIECE_BYTES;
#pragma unroll
    for (int plane = 0; plane < 2; plane++)
        copy(at + plane * kind::plane_bytes, piece + plane * PLANE_BYTES, kind::plane_bytes,
             &b->full[slot.stage]);
}

/* First as much of R as there are stages, then the states of these, then both. */
template <int columns>
WORD void fill_stages(const eco_split_call &call, const slice &s, unsigned shared, barriers *b)
{
    typedef wide<columns> kind;
    const char *a = piece_of(call.a, s.steps, tile_of_block(), s.from),
               *states = piece_of(call.b, s.steps, (int32_t)blockIdx.y, s.from);
    const int32_t stages = s.to - s.from, ahead = min(stages, kind::stages);
    auto copy_rows = [&](int32_t i) {
        const slot<kind::stages> slot(i);
        wait_for_room(b, slot);
        expect(&b->full[slot.stage], kind::stage_bytes);
        copy(shared + slot.stage * kind::stage_bytes, a + (size_t)i * PIECE_BYTES, PIECE_BYTES,
             &b->full[slot.stage]);
    };
    for (int32_t i = 0; i < ahead; i++)
        copy_rows(i);
    wait_for_kernels_ahead();
    for (int32_t i = 0; i < stages; i++) {
        if (i >= ahead)
            copy_rows(i);
        copy_states<columns>(states + (size_t)i * PIECE_BYTES, shared, b, slot<kind::stages>(i));
    }
}

/* ---- adding and writing ---------------------------------------------------------------------- */

/* Sums of a thread go to the blocks of the cluster in turn, two at a time: [blocks][of a share]
 * [CONSUMERS]. */
template <int held> WORD void send(float2 *shares, const float (&sum)[held])
{
    const unsigned rank = rank_in_cluster(), share = held / 2 / blocks_in_cluster();
#pragma unroll
    for (unsigned i = 0; i < held / 2; i++)
        put_at_other(&shares[(rank * share + i % share) * CONSUMERS + threadIdx.x], i / share,
                     make_float2(sum[2 * i], sum[2 * i + 1]));
}

/* Where a thread's pair of sums number i belongs: two columns of a row. */
struct spot {
    int32_t row, column;
};

WORD spot spot_of(int32_t first, unsigned i)
{
    const int32_t at = (int32_t)i, thread = (int32_t)threadIdx.x;
    return {tile_of_block() * TILE + thread / 32 * 16 + thread % 32 / 4 + at % 2 * 8,
            first + at / 2 * 8 + thread % 4 * 2};
}

WORD bool is_there(const eco_split_call &call, const spot &at, int c)
{
    return at.row < call.a.rows && at.column + c < call.b.rows;
}

WORD float *place_of(const eco_split_call &call, const spot &at, int c)
{
    return call.c + (size_t)(at.column + c) * call.c_row + at.row;
}

/* Numbers of a share of the tile: what they are added to, and their scales. */
struct some {
    float old[SOME][2], s[SOME], t[SOME][2];
};

/* All before any is used or written: else each would wait for the one before. */
WORD void read_some(const eco_split_call &call, int32_t first, unsigned from, unsigned count,
                    some &x)
{
#pragma unroll
    for (unsigned i = 0; i < SOME; i++) {
        const spot at = spot_of(first, from + i);
        x.s[i] = i < count && is_there(call, at, 0) ? call.a.scales[at.row] : 1;
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const bool there = i < count && is_there(call, at, c);
            x.t[i][c] = there ? call.b.scales[at.column + c] : 1;
            x.old[i][c] = call.add && there ? *place_of(call, at, c) : 0;
        }
    }
}

WORD void write_some(const eco_split_call &call, int32_t first, unsigned from, unsigned count,
                     const float2 *sums, const some &x)
{
#pragma unroll
    for (unsigned i = 0; i < SOME; i++) {
        const spot at = spot_of(first, from + i);
        const float2 sum = i < count ? sums[i] : make_float2(0, 0);
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const bool there = i < count && is_there(call, at, c),
                       odd = there && (is_odd(x.s[i]) || is_odd(x.t[i][c]));
            const float y = replaced(call, odd, at.row, at.column + c,
                                     divided(c == 0 ? sum.x : sum.y, x.s[i], x.t[i][c]));
            if (there)
                *place_of(call, at, c) = x.old[i][c] + y;
        }
    }
}

/* The block's share of the tile: the sums of all blocks, in their order. */
WORD void write(const eco_split_call &call, int32_t first, const float2 *shares, unsigned share)
{
    const unsigned rank = rank_in_cluster(), blocks = blocks_in_cluster();
    for (unsigned from = 0; from < share; from += SOME) {
        const unsigned count = min(share - from, (unsigned)SOME);
        some x;
        float2 sums[SOME];
        read_some(call, first, rank * share + from, count, x);
#pragma unroll
        for (unsigned i = 0; i < SOME; i++) {
            sums[i] = make_float2(0, 0);
            for (unsigned block = 0; block < blocks && i < count; block++) {
                const float2 y = shares[(block * share + from + i) * CONSUMERS + threadIdx.x];
                sums[i].x += y.x;
                sums[i].y += y.y;
            }
        }
        write_some(call, first, rank * share + from, count, sums, x);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <int columns>
static __global__ void __launch_bounds__(THREADS, 1)
    multiply_step(const __grid_constant__ eco_split_call call)
{
#if HAS_SQUARES
    typedef wide<columns> kind;
    extern __shared__ char room[];
    __shared__ barriers b;
    const unsigned shared = aligned(room);
    float2 *shares = (float2 *)(room + (shared - address_of(room)));
    const slice s = slice_of(call);
    if (threadIdx.x == 0)
        open_stages<columns>(&b, 1);
    __syncthreads();
    if (threadIdx.x < CONSUMERS) {
        more_registers<CONSUMER_REGISTERS>();
        consumer<columns> me = {shared, &b, rank_in_cluster(), 1, 0};
        float sum[kind::held] = {0};
        me.add(s.to - s.from, sum);
        meet_all(); /* all have multiplied what lay where sums go now */
        send(shares, sum);
        meet_all();
        wait_for_kernels_ahead();
        write(call, (int32_t)blockIdx.y * columns, shares, kind::held / 2 / blocks_in_cluster());
    } else {
        fewer_registers<COPYING_REGISTERS>();
        if (threadIdx.x == CONSUMERS)
            fill_stages<columns>(call, s, shared, &b);
        __syncwarp();
        meet_all();
        meet_all();
    }
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

static const struct {
    int columns;
    const void *kernel;
} kernels[] = {{32, (const void *)multiply_step<32>},
               {64, (const void *)multiply_step<64>},
               {TILE, (const void *)multiply_step<TILE>}};
enum { KERNELS = sizeof kernels / sizeof *kernels };

cudaError_t eco_launch_split_step(const struct eco_split_call *call, int32_t slices, bool overlap,
                                  cudaStream_t stream)
{
    int which = 0;
    while (which < KERNELS - 1 && kernels[which].columns < call->b.rows)
        which++;
    const int32_t tiles = (call->a.rows + TILE - 1) / TILE, columns = kernels[which].columns;
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {(unsigned)slices, 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim =
        dim3((unsigned)(tiles * slices), (unsigned)((call->b.rows + columns - 1) / columns));
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = SHARED_BYTES;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = overlap ? 2 : 1;
    void *argument[] = {(void *)call};
    return cudaLaunchKernelExC(&config, kernels[which].kernel, argument);
}

cudaError_t eco_split_step_load(bool *usable)
{
    cudaError_t error = cudaSuccess;
    *usable = true;
    for (int i = 0; i < KERNELS && error == cudaSuccess && *usable; i++)
        error = eco_split_load_kernel(kernels[i].kernel, SHARED_BYTES, usable);
    return error;
}
