/*
 * Products of floats on the tensor cores. Operands are split into two F16 numbers
 * (split_operands.cu): x = x1 + x2, x y = x1 y1 + x1 y2 + x2 y1; what is left out is at most 2^-22
 * of the product. Tensor cores truncate when they add, so they add at most 64 of k, small products
 * first, and these sums are added as floats. One thread of a block issues copies of operands to
 * shared memory; what both blocks of a cluster need is loaded once. The other warps multiply. Rows
 * of C with operands that are not finite are computed term by term. Needs compute capability 9.0a;
 * for other architectures the kernels are empty.
 */
#include "gpu/arch/grid_dependency.cuh"
#include "gpu/gemm/emulated_f32/epilogue.cuh"
#include "gpu/gemm/emulated_f32/pipeline.cuh"
#include "gpu/gemm/emulated_f32/tile_scheduler.cuh"

#if HAS_WGMMA
#define IN_PAIRS __cluster_dims__(PAIR, 1, 1)
#else
#define IN_PAIRS
#endif

enum {
    EIGHTS_OF_TILE = TILE / 8, /* of a tile's columns */
    SHARES = 4,                /* blocks that add the partial sums of a tile */
    TILE_SCALES = TILE * 4,    /* bytes of an operand's */
    CONSUMER_REGISTERS = 240,
    COPYING_REGISTERS = 24 /* of the warps that fill stages, where only one thread works */
};
typedef block_shape<ECO_EMULATED_PAIRS, TILE, TILE, false> kind;
enum { CONSUMERS = kind::consumers, GEMM_THREADS = kind::threads };

/* What a block keeps besides stages: a line buffer for each multiplying warp, and scales of tiles,
 * first those of A's rows. The end of a tile runs before a stage of the next tile is released, and
 * a tile may have a single stage, so scales of stages + 1 tiles are kept. */
enum { LINE_COLUMNS = TILE / 2, SCALED_TILES = kind::stages + 1 };
struct ends {
    float lines[CONSUMERS / WARP][lines<LINE_COLUMNS>::FLOATS];
    float scales[SCALED_TILES][2][TILE];
};
static_assert(kind::stages * kind::stage_bytes + sizeof(ends) <= STAGES_BYTES + SCALES_BYTES,
              "they fit");

ECO_DEVICE ends *ends_of(unsigned shared)
{
    extern __shared__ char room[];
    return (ends *)(room + (shared - shared_address(room)) + kind::stages * kind::stage_bytes);
}

/* ---- copying --------------------------------------------------------------------------------- */

ECO_DEVICE void copy_scales(const eco_emulated_call &call, const schedule &c, const tile &t,
                            float to[2][TILE], uint64_t *full)
{
    const int32_t m = min(t.m, c.tiles_m - 1);
    bulk_copy(shared_address(to[0]), (const char *)(call.a.scales + m * TILE), TILE_SCALES, full);
    bulk_copy(shared_address(to[1]), (const char *)(call.b.scales + t.n * TILE), TILE_SCALES, full);
}

/* Each block of the pair copies a plane of B to both. */
ECO_DEVICE void fill_gemm_stages(const eco_emulated_call &call, const schedule &c, unsigned shared,
                                 barriers *b)
{
    const int32_t cluster = (int32_t)blockIdx.x / PAIR, rank = (int32_t)cluster_rank();
    int32_t before_work = 0; /* stages */
    work work = work_of(c, cluster, 0);
    for (int32_t k = 0; work.from < work.to; work = work_of(c, cluster, ++k)) {
        const tile t = tile_of(c, work.pair, rank);
        const char *a = k_tile_of<kind>(call.a, c.steps, min(t.m, c.tiles_m - 1), work.from),
                   *w = k_tile_of<kind>(call.b, c.steps, t.n, work.from) + rank * PLANE_BYTES;
        for (int32_t i = 0; i < work.to - work.from; i++) {
            const slot<kind::stages> slot(before_work + i);
            const unsigned stage = shared + slot.stage * kind::stage_bytes;
            uint64_t *full = &b->full[slot.stage];
            wait_for_room(b, slot);
            mbarrier_expect_bytes(full, kind::stage_bytes + (i == 0 ? 2 * TILE_SCALES : 0));
            bulk_copy(stage, a + (size_t)i * K_TILE_BYTES, K_TILE_BYTES, full);
            bulk_copy_multicast(stage + K_TILE_BYTES + rank * kind::b_bytes,
                                w + (size_t)i * K_TILE_BYTES, kind::b_bytes, full, (1 << PAIR) - 1);
            if (i == 0)
                copy_scales(call, c, t, ends_of(shared)->scales[k % SCALED_TILES], full);
        }
        before_work += work.to - work.from;
    }
}

/* ---- multiplying ----------------------------------------------------------------------------- */

template <int n> ECO_DEVICE void store_partial(float4 *part, const float (&sum)[n])
{
#pragma unroll
    for (int i = 0; i < n / 4; i++)
        part[i * CONSUMERS + threadIdx.x] =
            make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
}

/* A thread that multiplies. */
struct multiplier {
    const eco_emulated_call &call;
    const schedule &c;
    consumer<kind> me;
    int32_t cluster, rank;

    /* Writes the sums of work k. */
    __device__ __forceinline__ void finish(int32_t k, const float (&sum)[kind::held]) const
    {
        const work work = work_of(c, cluster, k);
        if (is_whole(c, work)) {
            const int32_t warp = (int32_t)threadIdx.x / WARP;
            const tile t = tile_of(c, work.pair, rank);
            ends *const e = ends_of(me.shared);
            const float(*scales)[TILE] = e->scales[k % SCALED_TILES];
            write_tile<LINE_COLUMNS>(call,
                                     {scales[0] + warp * WARP_ROWS, scales[1], e->lines[warp],
                                      t.m * TILE + warp * WARP_ROWS, t.n * TILE},
                                     sum);
        } else {
            const bool last = work.pair > bound(c, cluster).pair;
            store_partial(part_of(call, cluster, rank, last), sum);
        }
    }

    /* Computes the sums of work k; the previous work is finished while two stages of this one are
     * in flight. */
    __device__ __forceinline__ void add(int32_t k, int32_t stages, float (&sum)[kind::held])
    {
        float d[kind::held], e[kind::held];
        int of_d = me.begin(d), of_e = me.begin(e);
        if (k > 0)
            finish(k - 1, sum);
        clear(sum);
        me.end<1>(of_d, d, sum);
        for (; stages > 3; stages -= 2) {
            of_d = me.begin(d);
            me.end<1>(of_e, e, sum);
            of_e = me.begin(e);
            me.end<1>(of_d, d, sum);
        }
        if (stages == 3) {
            of_d = me.begin(d);
            me.end<1>(of_e, e, sum);
            me.end<0>(of_d, d, sum);
        } else {
            me.end<0>(of_e, e, sum);
        }
    }

    /* One stage. */
    __device__ __forceinline__ void add_one(float (&sum)[kind::held])
    {
        float d[kind::held];
        const int of_d = me.begin(d);
        clear(sum);
        me.end<0>(of_d, d, sum);
    }

    __device__ __forceinline__ void clear(float (&sum)[kind::held]) const
    {
#pragma unroll
        for (int i = 0; i < kind::held; i++)
            sum[i] = 0;
    }

    __device__ __forceinline__ void do_all_work(void)
    {
        float sum[kind::held];
        for (int32_t k = 0;; k++) {
            const work work = work_of(c, cluster, k);
            const int32_t stages = work.to - work.from;
            if (stages > 1) {
                add(k, stages, sum);
                continue;
            }
            if (k > 0)
                finish(k - 1, sum);
            if (stages == 0)
                return;
            add_one(sum);
        }
    }
};

ECO_DEVICE void empty_stages(const eco_emulated_call &call, const schedule &c, unsigned shared,
                             barriers *b)
{
    multiplier m = {
        call, c, {shared, b, 0, PAIR, 0}, (int32_t)blockIdx.x / PAIR, (int32_t)cluster_rank()};
    m.do_all_work();
}

/* ---- kernels --------------------------------------------------------------------------------- */

static __global__ void IN_PAIRS __launch_bounds__(GEMM_THREADS, 1)
    multiply_tiles(const __grid_constant__ eco_emulated_call call)
{
#if HAS_WGMMA
    extern __shared__ char room[];
    __shared__ barriers b;
    const unsigned shared = aligned(room);
    const schedule c = schedule_of(call, (int32_t)gridDim.x / PAIR);
    if (threadIdx.x == 0)
        open_stages<kind>(&b, 1, PAIR);
    cluster_sync();
    launch_dependent_grids(); /* if no tiles are left */
    if (threadIdx.x < CONSUMERS) {
        warpgroup_take_registers<CONSUMER_REGISTERS>();
        empty_stages(call, c, shared, &b);
    } else {
        warpgroup_leave_registers<COPYING_REGISTERS>();
        if (threadIdx.x == CONSUMERS)
            fill_gemm_stages(call, c, shared, &b);
        __syncwarp();
    }
    cluster_sync(); /* nothing may arrive at a block that has exited */
#endif
}

/* Adds the partial sums of the tiles that cluster blockIdx.x begins and others end: block
 * blockIdx.z of the cluster, in the order of k, columns of share blockIdx.y. */
static __global__ void __launch_bounds__(CONSUMERS)
    add_tile_parts(const __grid_constant__ eco_emulated_call call)
{
#if HAS_WGMMA
    enum { SHARE = EIGHTS_OF_TILE / SHARES, OF_SHARE = SHARE * EIGHT };
    __shared__ __align__(16) float room[CONSUMERS / WARP][lines<OF_SHARE>::FLOATS];
    const schedule c = schedule_of(call, (int32_t)gridDim.x);
    int32_t cluster = (int32_t)blockIdx.x;
    const int32_t rank = (int32_t)blockIdx.z, from = (int32_t)blockIdx.y * SHARE,
                  warp = (int32_t)threadIdx.x / WARP;
    const position first = bound(c, cluster), end = bound(c, cluster + 1);
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
    const int32_t row = t.m * TILE + warp * WARP_ROWS, column = t.n * TILE + from * EIGHT;
    write_tile<OF_SHARE>(
        call, {call.a.scales + row, call.b.scales + column, room[warp], row, column}, sum);
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

cudaError_t eco_launch_emulated(const struct eco_emulated_call *call, int32_t clusters,
                                cudaStream_t stream)
{
    void *argument[] = {(void *)call};
    const cudaError_t error =
        cudaLaunchKernel((const void *)multiply_tiles, dim3((unsigned)clusters * PAIR),
                         dim3(GEMM_THREADS), argument, SHARED_BYTES, stream);
    if (error != cudaSuccess || call->parts == NULL)
        return error;
    return cudaLaunchKernel((const void *)add_tile_parts, dim3((unsigned)clusters, SHARES, PAIR),
                            dim3(CONSUMERS), argument, 0, stream);
}

cudaError_t eco_emulated_load(bool *usable)
{
    cudaError_t error =
        eco_emulated_load_kernel((const void *)multiply_tiles, SHARED_BYTES, usable);
    if (error == cudaSuccess && *usable)
        error = eco_emulated_step_load(usable);
    if (error == cudaSuccess && *usable)
        error = eco_emulated_prepare_load();
    return error;
}
