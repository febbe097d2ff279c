/*
 * Skinny products: C[m,n] (+)= A[m,k] B^T of floats, m small, as the recurrent product of a step
 * is.  B streams from memory through registers once, in the order of matrix instructions, prepared
 * for many products (pairs of F16, pair.cuh).  Where k is cut into slices, a second kernel adds
 * their sums, in order.  Needs compute capability 8.0.
 */
#define ECO_ROWS_F32     1
#define ECO_OPERAND_PAIR 1
#include "gpu/skinny.cuh"

/* ---- preparing B ----------------------------------------------------------------------------- */

WORD uint4 piece_of(const eco_skinny_prepare &call, int32_t item, int32_t half)
{
    const int32_t lane = (int32_t)threadIdx.x % LANES;
    const int32_t row = (int32_t)blockIdx.x * TILE + half * 8 + lane / 4;
    const int32_t k = item * ECO_SKINNY_ITEM + lane % 4 * 4;
    return four_of(call.b + (size_t)row * call.b_row + (size_t)k * call.b_step, call.b_step,
                   row < call.n ? call.k - k : 0);
}

/* A block for each tile. */
static __global__ void __launch_bounds__(THREADS)
    prepare(const __grid_constant__ eco_skinny_prepare call)
{
#if __CUDA_ARCH__ >= 800
    __shared__ unsigned greatest;
    const int32_t tiles = (int32_t)gridDim.x, warp = (int32_t)threadIdx.x / LANES;
    const int32_t items = (call.k + ECO_SKINNY_ITEM - 1) / ECO_SKINNY_ITEM;
    uint4 *const to = (uint4 *)call.prepared + (size_t)blockIdx.x * items * HALVES * LANES;
    if (threadIdx.x == 0)
        greatest = 0;
    __syncthreads();
    float most = 0;
    for (int32_t i = warp; i < items * HALVES; i += WARPS)
        enlarge(&most, piece_of(call, i / HALVES, i % HALVES));
    atomicMax(&greatest, __float_as_uint(most));
    __syncthreads();
    const float scale = scale_for(__uint_as_float(greatest));
    for (int32_t i = warp; i < items * HALVES; i += WARPS)
        to[i * LANES + threadIdx.x % LANES] =
            pairs_of(piece_of(call, i / HALVES, i % HALVES), scale);
    if (threadIdx.x == 0)
        factors_of(call.prepared, tiles, items)[blockIdx.x] = 1 / scale;
#endif
}

/* ---- a product ------------------------------------------------------------------------------- */

enum { AHEAD = 4 /* items of B on their way; as many are added in a chain */ };

struct half_tiles {
    uint4 low, high; /* rows g and g + 8 of a tile, for lane 4g + q */
};

/* d += an item of a tile of B times all rows; what is small first. */
template <int RT> WORD void multiply_item(float (&d)[RT][4], const half_tiles &b, const uint4 *a)
{
    uint4 v[RT];
#pragma unroll
    for (int t = 0; t < RT; t++)
        v[t] = a[t * LANES];
#pragma unroll
    for (int t = 0; t < RT; t++)
        multiply_add(d[t], b.low.z, b.high.z, b.low.w, b.high.w, v[t].x, v[t].y);
#pragma unroll
    for (int t = 0; t < RT; t++)
        multiply_add(d[t], b.low.x, b.high.x, b.low.y, b.high.y, v[t].z, v[t].w);
#pragma unroll
    for (int t = 0; t < RT; t++)
        multiply_add(d[t], b.low.x, b.high.x, b.low.y, b.high.y, v[t].x, v[t].y);
}

WORD float *part_at(const eco_skinny_call &call, int32_t slice, int32_t tile, int32_t rows)
{
    return call.parts + ((size_t)slice * call.shape.tiles + tile) * rows * TILE;
}

/* Sums of a round's tiles, in shared memory: [down, across, rows of C, TILE + 1]. */
template <int RT> struct round_sums {
    enum { ROW = TILE + 1, TILE_SUMS = RT * BATCH * ROW };
};

template <int RT>
WORD void put_sums(const eco_skinny_call &call, const part &p, const float (&total)[RT][4],
                   float *sums)
{
    typedef round_sums<RT> mine;
    float *const to = sums + (p.d * call.shape.across + p.a) * mine::TILE_SUMS +
                      p.lane % 4 * 2 * mine::ROW + p.lane / 4;
#pragma unroll
    for (int t = 0; t < RT; t++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[(t * BATCH + i % 2) * mine::ROW + i / 2 * 8] = total[t][i];
}

/* The tiles of a round: sums of warps across are added, in order, and go to C, or where all slices
 * are.  Some results of a thread at once, so that what C holds is waited for once. */
template <int RT>
WORD void finish_round(const eco_skinny_call &call, const part &p, int32_t round, const float *sums,
                       const float *factor)
{
    typedef round_sums<RT> mine;
    enum { AT_ONCE = 4, OF_TILE = RT * BATCH * TILE };
    const int32_t first = p.first + round * p.down, across = call.shape.across;
    const int32_t all = min(p.down, p.end - first) * OF_TILE;
    const float *const of_tile = factors_of(call.prepared, call.shape.tiles, call.shape.items);
    const bool sliced = call.shape.slices > 1;
    for (int32_t i0 = (int32_t)threadIdx.x; i0 < all; i0 += AT_ONCE * THREADS) {
        float *to[AT_ONCE], old[AT_ONCE], sum[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int32_t i = i0 + j * THREADS, d = i / OF_TILE, n = i / TILE % (RT * BATCH);
            const int32_t tile = first + d, column = tile * TILE + i % TILE;
            const bool there = i < all && (sliced || (n < call.m && column < call.n));
            to[j] = !there   ? NULL
                    : sliced ? part_at(call, p.slice, tile, RT * BATCH) + i % OF_TILE
                             : call.c + (size_t)n * call.c_row + column;
            old[j] = there && !sliced && call.add ? *to[j] : 0;
            sum[j] = 0;
            if (there) {
                const float *const from =
                    sums + d * across * mine::TILE_SUMS + n * mine::ROW + i % TILE;
                sum[j] = from[0];
                for (int32_t a = 1; a < across; a++)
                    sum[j] += from[a * mine::TILE_SUMS];
                sum[j] = sum[j] * of_tile[tile] * factor[n];
            }
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (to[j] != NULL)
                *to[j] = old[j] + sum[j];
    }
}

WORD uint4 read_streaming(const uint4 *from)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

/* All tiles of the block, a warp one in so many; items of B come AHEAD of their use, also those of
 * the next tile. */
template <int RT>
WORD void multiply_tiles(const eco_skinny_call &call, const part &p, const uint4 *operand,
                         float *sums, const float *factor)
{
    const int32_t rounds = (p.end - p.first + p.down - 1) / p.down;
    const size_t of_tile = (size_t)call.shape.items * HALVES * LANES;
    const uint4 *const mine =
        (const uint4 *)call.prepared + (size_t)(p.item0 + p.own0) * HALVES * LANES + p.lane;
    half_tiles ring[AHEAD];
    const auto fetch = [&](int32_t round, int32_t item, half_tiles &to) {
        const int32_t tile = p.first + round * p.down + p.d;
        const uint4 *const from = mine + tile * of_tile + item * HALVES * LANES;
        if (tile < p.end && item < p.own) {
            to.low = read_streaming(from);
            to.high = read_streaming(from + LANES);
        }
    };
#pragma unroll
    for (int s = 0; s < AHEAD; s++)
        fetch(0, s, ring[s]);
    for (int32_t round = 0; round < rounds; round++) {
        float total[RT][4] = {};
        for (int32_t item = 0; item < p.own; item += AHEAD) {
            const bool last = item + AHEAD >= p.own;
            float d[RT][4] = {};
#pragma unroll
            for (int s = 0; s < AHEAD; s++) {
                if (item + s < p.own)
                    multiply_item<RT>(d, ring[s],
                                      operand + (p.own0 + item + s) * RT * LANES + p.lane);
                fetch(last ? round + 1 : round, last ? s : item + AHEAD + s, ring[s]);
            }
#pragma unroll
            for (int t = 0; t < RT; t++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    total[t][i] += d[t][i];
        }
        put_sums<RT>(call, p, total, sums);
        __syncthreads();
        finish_round<RT>(call, p, round, sums, factor);
        __syncthreads();
    }
}

template <int RT>
static __global__ void __launch_bounds__(THREADS, 1)
    multiply(const __grid_constant__ eco_skinny_call call)
{
#if __CUDA_ARCH__ >= 800
    extern __shared__ uint4 operand[];
    __shared__ unsigned greatest[RT * BATCH];
    __shared__ float factor[RT * BATCH];
    const part p = part_of(call.shape);
    float *const sums = (float *)(operand + call.shape.slice_items * RT * LANES);
    read_rows<RT>(call, p, operand, greatest, factor);
    multiply_tiles<RT>(call, p, operand, sums, factor);
#endif
}

/* C (+)= sums of all slices. */
static __global__ void __launch_bounds__(THREADS)
    add_slices(const __grid_constant__ eco_skinny_call call)
{
    const int32_t rows = call.shape.row_tiles * BATCH, of_tile = rows * TILE;
    const size_t apart = (size_t)call.shape.tiles * of_tile;
    const int32_t i = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    const int32_t n = i / TILE % rows, column = i / of_tile * TILE + i % TILE;
    if (n >= call.m || column >= call.n)
        return;
    float *const to = call.c + (size_t)n * call.c_row + column;
    const float old = call.add ? *to : 0;
    float sum = call.parts[i];
#pragma unroll 4
    for (int32_t s = 1; s < call.shape.slices; s++)
        sum += call.parts[s * apart + i];
    *to = old + sum;
}

/* ---- launches -------------------------------------------------------------------------------- */

static const struct {
    int32_t row_tiles;
    const void *kernel;
} kernels[] = {
    {1, (const void *)multiply<1>}, {2, (const void *)multiply<2>}, {4, (const void *)multiply<4>}};
enum { KERNELS = sizeof kernels / sizeof *kernels };

cudaError_t eco_launch_skinny_prepare(const struct eco_skinny_prepare *call, cudaStream_t stream)
{
    void *argument[] = {(void *)call};
    return cudaLaunchKernel((const void *)prepare, dim3((unsigned)((call->n + TILE - 1) / TILE)),
                            dim3(THREADS), argument, 0, stream);
}

cudaError_t eco_launch_skinny(const struct eco_skinny_call *call, cudaStream_t stream)
{
    const struct eco_skinny_shape *shape = &call->shape;
    void *argument[] = {(void *)call};
    int i = 0;
    while (i < KERNELS - 1 && kernels[i].row_tiles < shape->row_tiles)
        i++;
    const cudaError_t error =
        cudaLaunchKernel(kernels[i].kernel, dim3((unsigned)(shape->groups * shape->slices)),
                         dim3(THREADS), argument, shape->shared_bytes, stream);
    const int32_t results = shape->tiles * TILE * shape->row_tiles * BATCH;
    if (error != cudaSuccess || shape->slices == 1)
        return error;
    return cudaLaunchKernel((const void *)add_slices,
                            dim3((unsigned)((results + THREADS - 1) / THREADS)), dim3(THREADS),
                            argument, 0, stream);
}

cudaError_t eco_skinny_load(size_t block_bytes)
{
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < KERNELS && error == cudaSuccess; i++)
        error = cudaFuncSetAttribute(kernels[i].kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)block_bytes);
    return error;
}
