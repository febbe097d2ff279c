/*
 * Products of floats on the tensor cores, of operands split into two numbers of F16 each
 * (split_prepare.cu): x = x1 + x2, x y = x1 y1 + x1 y2 + x2 y1; left out is at most 2^-22 of it.
 * Tensor cores cut off where they add, so they add 64 of k at most, the small products first;
 * these sums are added as floats are.  A thread of a block has operands copied to shared memory,
 * those that both blocks of a cluster read only once; the others multiply.  Rows of C whose
 * operands are not finite are computed term by term.  Needs compute capability 9.0a; elsewhere the
 * kernels are empty.
 */
#include "gpu/split_call.h"
#include "gpu/word.cuh"

#include "gpu/meet.cuh"
#include "gpu/split_sum.cuh"
#include "gpu/squares.cuh"

#include "gpu/split_stage.cuh"

#include "gpu/split_course.cuh"

#if HAS_SQUARES
#define IN_PAIRS __cluster_dims__(PAIR, 1, 1)
#else
#define IN_PAIRS
#endif

enum {
    EIGHTS = TILE / 8, /* of a tile's columns */
    SHARES = 4,        /* blocks that add the parts of a tile */
    CONSUMER_REGISTERS = 232,
    COPYING_REGISTERS = 40 /* of the warps that fill stages: one of their threads does */
};
typedef block_of<ECO_SPLIT_PAIRS, TILE, TILE, false> kind;
enum { CONSUMERS = kind::consumers, THREADS = kind::threads };

/* ---- copying --------------------------------------------------------------------------------- */

/* Each block of the pair copies a plane of B to both. */
WORD void fill_stages(const eco_split_call &call, const course &c, unsigned shared, barriers *b)
{
    const int32_t cluster = (int32_t)blockIdx.x / PAIR, rank = (int32_t)rank_in_cluster();
    const place first = bound(c, cluster), end = bound(c, cluster + 1);
    int32_t before_pair = 0; /* stages */
    for (int32_t pair = first.pair; before({pair, 0}, end); pair++) {
        const int32_t from = pair == first.pair ? first.step : 0,
                      to = pair == end.pair ? end.step : c.steps;
        const tile t = tile_of(c, pair, rank);
        const char *a = piece_of<kind>(call.a, c.steps, min(t.m, c.tiles_m - 1), from),
                   *w = piece_of<kind>(call.b, c.steps, t.n, from) + rank * PLANE_BYTES;
        for (int32_t i = 0; i < to - from; i++) {
            const slot<kind::stages> slot(before_pair + i);
            const unsigned stage = shared + slot.stage * kind::stage_bytes;
            uint64_t *full = &b->full[slot.stage];
            wait_for_room(b, slot);
            expect(full, kind::stage_bytes);
            copy(stage, a + (size_t)i * PIECE_BYTES, PIECE_BYTES, full);
            copy_to_all(stage + PIECE_BYTES + rank * kind::b_bytes, w + (size_t)i * PIECE_BYTES,
                        kind::b_bytes, full, (1 << PAIR) - 1);
        }
        before_pair += to - from;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Of all threads of a warp: of their sums those. */
template <int eights>
WORD void replace_odd(const eco_split_call &call, int32_t row, int32_t column,
                      float (&sum)[4 * eights])
{
#pragma unroll
    for (int i = 0; i < 4 * eights; i++) {
        const int32_t r = row + i / 2 % 2 * 8, c = column + i / 4 * 8 + i % 2;
        const bool odd = r < call.a.rows && c < call.b.rows &&
                         (is_odd(call.a.scales[r]) || is_odd(call.b.scales[c]));
        sum[i] = replaced(call, odd, r, c, sum[i]);
    }
}

/* What C has at two columns, if there it is added to; wide: at once. */
WORD float2 old_of(const eco_split_call &call, int32_t row, int32_t column, bool wide)
{
    const float *from = call.c + (size_t)row * call.c_row + column;
    const bool there = call.add && row < call.a.rows, one = there && column < call.b.rows,
               two = there && column + 1 < call.b.rows;
    if (wide && two)
        return *(const float2 *)from;
    return make_float2(one ? from[0] : 0, two ? from[1] : 0);
}

WORD void write_two(const eco_split_call &call, int32_t row, int32_t column, float x, float y,
                    bool wide)
{
    float *to = call.c + (size_t)row * call.c_row + column;
    const bool there = row < call.a.rows, one = there && column < call.b.rows,
               two = there && column + 1 < call.b.rows;
    if (wide && two) {
        *(float2 *)to = make_float2(x, y);
        return;
    }
    if (one)
        to[0] = x;
    if (two)
        to[1] = y;
}

WORD float2 bias_of(const eco_split_call &call, int32_t column)
{
    if (call.bias == nullptr)
        return make_float2(0, 0);
    return make_float2(column < call.b.rows ? __ldg(call.bias + column) : 0,
                       column + 1 < call.b.rows ? __ldg(call.bias + column + 1) : 0);
}

/* So many eighths of a tile's columns, from `column` on; a thread has two of each, of two rows. */
template <int eights>
WORD void write(const eco_split_call &call, int32_t m, int32_t column, float (&sum)[4 * eights])
{
    const int32_t thread = (int32_t)threadIdx.x;
    const int32_t row = m * TILE + thread / 32 * 16 + thread % 32 / 4;
    if (m * TILE >= call.a.rows)
        return;
    column += thread % 4 * 2;
    const float s[2] = {call.a.scales[row], call.a.scales[row + 8]};
    bool odd = is_odd(s[0]) || is_odd(s[1]);
#pragma unroll
    for (int j = 0; j < eights; j++) {
        const float2 u = *(const float2 *)(call.b.scales + column + 8 * j);
        odd |= is_odd(u.x) || is_odd(u.y);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            sum[4 * j + 2 * h] = divided(sum[4 * j + 2 * h], s[h], u.x);
            sum[4 * j + 2 * h + 1] = divided(sum[4 * j + 2 * h + 1], s[h], u.y);
        }
    }
    if (__any_sync(~0u, odd))
        replace_odd<eights>(call, row, column, sum);
    const bool wide = ((uintptr_t)call.c | call.c_row * 4) % 8 == 0;
    float2 old[2 * eights]; /* all before anything is written, else each would wait for the last */
#pragma unroll
    for (int i = 0; i < 2 * eights; i++)
        old[i] = old_of(call, row + i % 2 * 8, column + i / 2 * 8, wide);
#pragma unroll
    for (int i = 0; i < 2 * eights; i++) {
        const float2 bias = bias_of(call, column + i / 2 * 8);
        write_two(call, row + i % 2 * 8, column + i / 2 * 8, old[i].x + (sum[2 * i] + bias.x),
                  old[i].y + (sum[2 * i + 1] + bias.y), wide);
    }
}

template <int n> WORD void put_aside(float4 *part, const float (&sum)[n])
{
#pragma unroll
    for (int i = 0; i < n / 4; i++)
        part[i * CONSUMERS + threadIdx.x] =
            make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
}

/* ---- multiplying ----------------------------------------------------------------------------- */

WORD void empty_stages(const eco_split_call &call, const course &c, unsigned shared, barriers *b)
{
    const int32_t cluster = (int32_t)blockIdx.x / PAIR, rank = (int32_t)rank_in_cluster();
    const place first = bound(c, cluster), end = bound(c, cluster + 1);
    consumer<kind> me = {shared, b, 0, PAIR, 0};
    for (int32_t pair = first.pair; before({pair, 0}, end); pair++) {
        const int32_t from = pair == first.pair ? first.step : 0,
                      to = pair == end.pair ? end.step : c.steps;
        const tile t = tile_of(c, pair, rank);
        float sum[kind::held] = {0};
        me.add(to - from, sum);
        if (from == 0 && to == c.steps)
            write<EIGHTS>(call, t.m, t.n * TILE, sum);
        else
            put_aside(part_of(call, cluster, rank, pair > first.pair), sum);
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static __global__ void IN_PAIRS __launch_bounds__(THREADS, 1)
    multiply(const __grid_constant__ eco_split_call call)
{
#if HAS_SQUARES
    extern __shared__ char room[];
    __shared__ barriers b;
    const unsigned shared = aligned(room);
    const course c = course_of(call, (int32_t)gridDim.x / PAIR);
    if (threadIdx.x == 0)
        open_stages<kind>(&b, 1, PAIR);
    meet_all();
    if (threadIdx.x < CONSUMERS) {
        more_registers<CONSUMER_REGISTERS>();
        empty_stages(call, c, shared, &b);
    } else {
        fewer_registers<COPYING_REGISTERS>();
        if (threadIdx.x == CONSUMERS)
            fill_stages(call, c, shared, &b);
        __syncwarp();
    }
    meet_all(); /* nothing comes to a block that has gone */
#endif
}

/* Of the tiles that cluster blockIdx.x begins and others end, that of rank blockIdx.z: its parts in
 * the order of k, columns of share blockIdx.y. */
static __global__ void __launch_bounds__(CONSUMERS)
    add_parts(const __grid_constant__ eco_split_call call)
{
#if HAS_SQUARES
    enum { SHARE = EIGHTS / SHARES };
    const course c = course_of(call, (int32_t)gridDim.x);
    int32_t cluster = (int32_t)blockIdx.x;
    const int32_t rank = (int32_t)blockIdx.z, from = (int32_t)blockIdx.y * SHARE;
    const place first = bound(c, cluster), end = bound(c, cluster + 1);
    const bool begins = end.step > 0 && (first.pair < end.pair || first.step == 0);
    if (!begins)
        return;
    float sum[4 * SHARE] = {0};
    bool last = end.pair > first.pair;
    do {
        const float4 *part = part_of(call, cluster, rank, last) + from * CONSUMERS;
#pragma unroll
        for (int i = 0; i < SHARE; i++) {
            const float4 x = part[i * CONSUMERS + threadIdx.x];
            sum[4 * i] += x.x;
            sum[4 * i + 1] += x.y;
            sum[4 * i + 2] += x.z;
            sum[4 * i + 3] += x.w;
        }
        last = false;
        cluster++;
    } while (before(bound(c, cluster), {end.pair + 1, 0}));
    const tile t = tile_of(c, end.pair, rank);
    write<SHARE>(call, t.m, t.n * TILE + 8 * from, sum);
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

cudaError_t eco_launch_split(const struct eco_split_call *call, int32_t clusters,
                             cudaStream_t stream)
{
    void *argument[] = {(void *)call};
    const cudaError_t error =
        cudaLaunchKernel((const void *)multiply, dim3((unsigned)clusters * PAIR), dim3(THREADS),
                         argument, SHARED_BYTES, stream);
    if (error != cudaSuccess || call->parts == NULL)
        return error;
    return cudaLaunchKernel((const void *)add_parts, dim3((unsigned)clusters, SHARES, PAIR),
                            dim3(CONSUMERS), argument, 0, stream);
}

cudaError_t eco_split_load(bool *usable)
{
    cudaError_t error = eco_split_load_kernel((const void *)multiply, SHARED_BYTES, usable);
    if (error == cudaSuccess && *usable)
        error = eco_split_step_load(usable);
    if (error == cudaSuccess && *usable)
        error = eco_split_prepare_load();
    return error;
}

/* An empty kernel takes few registers. */
cudaError_t eco_split_load_kernel(const void *kernel, int shared_bytes, bool *usable)
{
    enum { FEW_REGISTERS = 32 };
    struct cudaFuncAttributes attributes = {0};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    *usable = error == cudaSuccess && attributes.numRegs > FEW_REGISTERS;
    return *usable ? cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          shared_bytes)
                   : error;
}
