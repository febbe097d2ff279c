/*
 * Products of floats on the tensor cores, of operands split into three pieces of BF16 each: x = x1
 * + x2 + x3, x y = x1 y1 + x1 y2 + x2 y1 + x2 y2 + x1 y3 + x3 y1; what is left out is below the
 * last bit.  Tensor cores cut off where they add, so they add 64 terms at most, the small ones
 * first; these sums are added as floats are.  Half of a block's threads read and split, the others
 * multiply.  Needs compute capability 9.0a; elsewhere the kernels are empty.
 */
#include "gpu/split_call.h"

#define WORD [[maybe_unused]] static __device__ __forceinline__

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_SQUARES 1
#else
#define HAS_SQUARES 0
#endif

#include "gpu/squares.cuh"
#include "gpu/split.cuh"
#include "gpu/split_course.cuh"

enum {
    STAGE_BYTES = 2 * OPERAND_BYTES,
    ALIGNMENT = 1024,
    SHARED_BYTES = STAGES * STAGE_BYTES + ALIGNMENT,
    CONSUMER_REGISTERS = 144,
    PRODUCER_REGISTERS = 256 - CONSUMER_REGISTERS
};

/* ---- producers ------------------------------------------------------------------------------- */

template <bool a_turned, bool b_turned>
WORD void produce(const eco_split_call &call, const course &c, char *shared, barriers *b)
{
    const int thread = (int)threadIdx.x - CONSUMERS;
    const operand a = {call.a, call.a_row, call.m, ((uintptr_t)call.a | call.a_row * 4) % 16 == 0},
                  w = {call.b, call.b_row, call.n, ((uintptr_t)call.b | call.b_row * 4) % 16 == 0};
    float4 a_raw[QUADS], w_raw[QUADS];
    turn turn = {0, 1};
    place at = bound(c, (int32_t)blockIdx.x);
    const place end = bound(c, (int32_t)blockIdx.x + 1);
    source a_next, w_next;
    auto look_at = [&](const place &p) {
        const int32_t m = p.tile / c.tiles_n, n = p.tile - m * c.tiles_n;
        a_next = source_of<a_turned>(a, m * TILE, p.step * DEPTH, call.k, thread);
        w_next = source_of<b_turned>(w, n * TILE, p.step * DEPTH, call.k, thread);
    };
    int mode = ALL;
    bool fresh = true;
    while (before(at, end)) {
        place next = at;
        if (fresh) {
            look_at(at);
#pragma unroll
            for (int i = 0; i < QUADS; i++) {
                a_raw[i] = load<a_turned>(a_next, i);
                w_raw[i] = load<b_turned>(w_next, i);
            }
        }
        go_on(c, &next);
        const bool more = before(next, end);
        if (more)
            look_at(next);
        char *stage = shared + turn.stage * STAGE_BYTES;
        wait_for(&b->empty[turn.stage], turn.parity);
        bool left_out = put_all<a_turned>(a_raw, stage, mode, a_next, more, thread);
        left_out |= put_all<b_turned>(w_raw, stage + OPERAND_BYTES, mode, w_next, more, thread);
        show_to_products();
        fresh = any_of<PRODUCERS>(left_out);
        if (thread == 0) {
            b->mode[turn.stage] = fresh ? SMALL : mode;
            arrive(&b->full[turn.stage]);
        }
        turn.next();
        mode = fresh ? LARGE : ALL;
        if (!fresh)
            at = next;
    }
}

/* ---- consumers ------------------------------------------------------------------------------- */

template <bool a_turned, bool b_turned, int pa, int pb>
WORD void term(float (&d)[64], uint64_t a, uint64_t b, int add)
{
#pragma unroll
    for (int i = 0; i < DEPTH / 16; i++)
        multiply_squares<a_turned, b_turned>(
            d, a + ((pa * PLANE_BYTES + i * next_k(a_turned)) >> 4),
            b + ((pb * PLANE_BYTES + i * next_k(b_turned)) >> 4), add || i > 0);
}

/* Smallest first: the sum is cut off where it is small.  What a stage leaves out is multiplied by
 * the last pieces, which are 0 where there are large ones only, and next to nothing elsewhere. */
template <bool a_turned, bool b_turned>
WORD void multiply_stage(float (&d)[64], uint64_t a, uint64_t b, int mode)
{
    const uint64_t none = 2 * PLANE_BYTES >> 4;
    const uint64_t small = mode == LARGE ? none : 0, large = mode == SMALL ? none : 0;
    term<a_turned, b_turned, 2, 0>(d, a, b + small, 0);
    term<a_turned, b_turned, 0, 2>(d, a + small, b, 1);
    term<a_turned, b_turned, 1, 1>(d, a, b, 1);
    term<a_turned, b_turned, 1, 0>(d, a, b + small, 1);
    term<a_turned, b_turned, 0, 1>(d, a + small, b, 1);
    term<a_turned, b_turned, 0, 0>(d, a + large, b + large, 1);
}

template <bool wide>
WORD void put_two(const eco_split_call &call, float *to, int32_t column, float x, float y)
{
    if (column >= call.n)
        return;
    const bool two = column + 1 < call.n;
    if (call.bias != nullptr) {
        x += call.bias[column];
        y += two ? call.bias[column + 1] : 0;
    }
    to += column;
    if (wide && two) {
        const float2 old = call.add ? *(const float2 *)to : make_float2(0, 0);
        *(float2 *)to = make_float2(old.x + x, old.y + y);
        return;
    }
    to[0] = call.add ? to[0] + x : x;
    if (two)
        to[1] = call.add ? to[1] + y : y;
}

template <bool wide>
WORD void put_row(const eco_split_call &call, int32_t row, int32_t column, const float *sum)
{
    float *to = call.c + (size_t)row * call.c_row;
#pragma unroll
    for (int j = 0; j < 16; j++)
        put_two<wide>(call, to, column + 8 * j, sum[4 * j], sum[4 * j + 1]);
}

WORD void write(const eco_split_call &call, const course &c, int32_t tile, const float (&sum)[64])
{
    const int32_t thread = (int32_t)threadIdx.x, m = tile / c.tiles_n;
    const int32_t row = m * TILE + thread / 32 * 16 + thread % 32 / 4;
    const int32_t column = (tile - m * c.tiles_n) * TILE + thread % 4 * 2;
    const bool wide = ((uintptr_t)call.c | call.c_row * 4) % 8 == 0;
#pragma unroll
    for (int h = 0; h < 2; h++)
        if (row + 8 * h < call.m && wide)
            put_row<true>(call, row + 8 * h, column, &sum[2 * h]);
        else if (row + 8 * h < call.m)
            put_row<false>(call, row + 8 * h, column, &sum[2 * h]);
}

WORD void put_aside(float4 *part, const float (&sum)[64])
{
#pragma unroll
    for (int i = 0; i < 16; i++)
        part[i * CONSUMERS + threadIdx.x] =
            make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
}

template <bool a_turned, bool b_turned>
WORD void consume(const eco_split_call &call, const course &c, char *shared, barriers *b)
{
    turn turn = {0, 0};
    const int32_t block = (int32_t)blockIdx.x;
    const unsigned half = threadIdx.x / 128 * SQUARE_BYTES;
    const place first = bound(c, block), end = bound(c, block + 1);
    for (int32_t tile = first.tile; before({tile, 0}, end); tile++) {
        const int32_t from = tile == first.tile ? first.step : 0,
                      to = tile == end.tile ? end.step : c.steps;
        float sum[64] = {0}, d[64];
        for (int32_t step = from; step < to;) {
            const unsigned stage = address_of(shared) + turn.stage * STAGE_BYTES;
            wait_for(&b->full[turn.stage], turn.parity);
            const int mode = b->mode[turn.stage];
            begin_products();
            multiply_stage<a_turned, b_turned>(d, describe(stage + half),
                                               describe(stage + OPERAND_BYTES), mode);
            end_products();
            if (threadIdx.x % 32 == 0)
                arrive(&b->empty[turn.stage]);
            turn.next();
            step += mode != SMALL;
#pragma unroll
            for (int i = 0; i < 64; i++)
                sum[i] += d[i];
        }
        if (from == 0 && to == c.steps)
            write(call, c, tile, sum);
        else
            put_aside(part_of(call, block, tile > first.tile), sum);
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

template <bool a_turned, bool b_turned>
static __global__ void __launch_bounds__(CONSUMERS + PRODUCERS, 1)
    multiply(const __grid_constant__ eco_split_call call)
{
#if HAS_SQUARES
    extern __shared__ char room[];
    __shared__ barriers b;
    char *shared = room + (ALIGNMENT - address_of(room) % ALIGNMENT) % ALIGNMENT;
    const course c = course_of(call, (int32_t)gridDim.x);
    if (threadIdx.x == 0)
        for (int i = 0; i < STAGES; i++) {
            open_barrier(&b.full[i], 1);
            open_barrier(&b.empty[i], CONSUMERS / 32);
        }
    __syncthreads();
    if (threadIdx.x < CONSUMERS) {
        more_registers<CONSUMER_REGISTERS>();
        consume<a_turned, b_turned>(call, c, shared, &b);
    } else {
        fewer_registers<PRODUCER_REGISTERS>();
        produce<a_turned, b_turned>(call, c, shared, &b);
    }
#endif
}

/* The tile that block blockIdx.x begins and others end: its parts in the order of k. */
static __global__ void __launch_bounds__(CONSUMERS)
    add_parts(const __grid_constant__ eco_split_call call)
{
#if HAS_SQUARES
    const course c = course_of(call, (int32_t)gridDim.x);
    int32_t block = (int32_t)blockIdx.x;
    const place first = bound(c, block), end = bound(c, block + 1);
    const bool begins = end.step > 0 && (first.tile < end.tile || first.step == 0);
    if (!begins)
        return;
    float sum[64] = {0};
    bool last = end.tile > first.tile;
    do {
        const float4 *part = part_of(call, block, last);
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const float4 x = part[i * CONSUMERS + threadIdx.x];
            sum[4 * i] += x.x;
            sum[4 * i + 1] += x.y;
            sum[4 * i + 2] += x.z;
            sum[4 * i + 3] += x.w;
        }
        last = false;
        block++;
    } while (before(bound(c, block), {end.tile + 1, 0}));
    write(call, c, end.tile, sum);
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

static const void *const kernels[2][2] = {
    {(const void *)multiply<false, false>, (const void *)multiply<false, true>},
    {NULL, (const void *)multiply<true, true>}}; /* [a_turned][b_turned] */

cudaError_t eco_launch_split(const struct eco_split_call *call, int32_t blocks, cudaStream_t stream)
{
    void *argument[] = {(void *)call};
    const cudaError_t error =
        cudaLaunchKernel(kernels[call->a_turned][call->b_turned], dim3((unsigned)blocks),
                         dim3(CONSUMERS + PRODUCERS), argument, SHARED_BYTES, stream);
    if (error != cudaSuccess || call->parts == NULL)
        return error;
    return cudaLaunchKernel((const void *)add_parts, dim3((unsigned)blocks), dim3(CONSUMERS),
                            argument, 0, stream);
}

/* An empty kernel takes few registers. */
cudaError_t eco_split_load(bool *usable)
{
    enum { FEW_REGISTERS = 64 };
    cudaError_t error = cudaSuccess;
    *usable = true;
    for (int i = 0; i < 4 && error == cudaSuccess; i++) {
        const void *kernel = kernels[i / 2][i % 2];
        struct cudaFuncAttributes attributes = {0};
        if (kernel == NULL)
            continue;
        error = cudaFuncGetAttributes(&attributes, kernel);
        *usable = *usable && error == cudaSuccess && attributes.numRegs > FEW_REGISTERS;
        if (*usable)
            error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         SHARED_BYTES);
    }
    return error;
}
