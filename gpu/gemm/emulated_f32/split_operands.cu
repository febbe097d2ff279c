/*
 * Prepares operands as k tiles (args.h). A row of floats is multiplied by a power of two that
 * brings the largest number near 2^15; each number is rounded to the nearest F16 number and, for
 * pairs, so is the residual. Pairs keep 22 bits or more of each number, but nothing below 2^-40 of
 * the largest in its row. Singles keep 11 bits of numbers that are at least 2^-29 of the largest.
 */
#include "gpu/arch/cluster.cuh"
#include "gpu/arch/grid_dependency.cuh"
#include "gpu/gemm/emulated_f32/operand.cuh"
#include "gpu/tile/f16_pair.cuh"
#include "gpu/tile/pow2_scale.cuh"

enum {
    SPLIT_THREADS = 256,
    SPLIT_WARPS = SPLIT_THREADS / WARP,
    GROUPS = DEPTH / GROUP,               /* groups of a row in a k tile */
    SPLIT_COLUMNS = 16,                   /* transposed rows that a block prepares */
    STEP = SPLIT_THREADS / SPLIT_COLUMNS, /* distance of the groups that a thread holds */
    HELD_STRAIGHT = 8,                    /* groups that a thread holds */
    HELD_TRANSPOSED = 8,
    SPLIT_OF_WARP = HELD_STRAIGHT * WARP * GROUP, /* numbers of a row that a warp holds */
    OF_BLOCK = HELD_TRANSPOSED * STEP * GROUP,
    MOST_HOLDERS = ECO_EMULATED_MOST_K / OF_BLOCK
};
static_assert(SPLIT_OF_WARP * SPLIT_WARPS >= ECO_EMULATED_MOST_K, "a row fits a block");

/* An operand. holders: how many warps share a row, or how many blocks share a transposed row. */
struct side {
    eco_emulated_operand o;
    int32_t holders;
};

struct both_operands {
    side of[2];
    int32_t k, first; /* first block of the second operand */
};

/* ---- the largest of a row -------------------------------------------------------------------- */

ECO_DEVICE bool is_finite_size(unsigned size)
{
    return size < 0x7F800000;
}

ECO_DEVICE float scale_of(unsigned most)
{
    return is_finite_size(most) ? scale_for(__uint_as_float(most)) : __uint_as_float(most);
}

/* ---- splitting ------------------------------------------------------------------------------- */

/* Address of eight numbers of a row from k = 8 group on. */
ECO_DEVICE uint4 *group_address(const eco_emulated_operand &o, int32_t row, int32_t group,
                                int32_t k_tiles, int planes)
{
    const int32_t line = row % TILE, k_tile = group / GROUPS, at = group % GROUPS;
    return (uint4 *)(o.k_tiles +
                     ((size_t)(row / TILE) * k_tiles + k_tile) *
                         (planes * ECO_EMULATED_PLANE_BYTES) +
                     line * (2 * DEPTH) + (at ^ line % 8) * 16);
}

ECO_DEVICE void put_group(const eco_emulated_operand &o, int32_t row, int32_t group,
                          int32_t k_tiles, float scale, const float *x)
{
    if (o.form == ECO_EMULATED_PAIRS) {
        uint4 *const to = group_address(o, row, group, k_tiles, 2);
        split_eight(x, scale, to, (uint4 *)((char *)to + ECO_EMULATED_PLANE_BYTES));
    } else {
        *group_address(o, row, group, k_tiles, 1) = nearest_eight(x, scale);
    }
}

/* ---- not transposed: k is contiguous --------------------------------------------------------- */

/* `warps` warps prepare a row; a lane holds groups of eight. */
ECO_DEVICE void prepare_straight(const eco_emulated_operand &o, int32_t k, int32_t block,
                                 int32_t warps)
{
    __shared__ unsigned of_warp[SPLIT_WARPS];
    const int32_t warp = (int32_t)threadIdx.x / WARP, lane = (int32_t)threadIdx.x % WARP,
                  row = block * (SPLIT_WARPS / warps) + warp / warps;
    const int32_t end = row < o.rows ? o.k : 0, k_tiles = (k + DEPTH - 1) / DEPTH,
                  first = warp % warps * WARP + lane, step = warps * WARP;
    const float *at = o.data + (size_t)row * o.row;
    const bool whole = is_aligned(o) && o.k % GROUP == 0;
    __align__(16) float x[HELD_STRAIGHT][GROUP];
    unsigned most = 0;
#pragma unroll
    for (int h = 0; h < HELD_STRAIGHT; h++) {
        const int32_t i = (first + h * step) * GROUP;
        if (whole)
            load_whole_eight(at + i, i < end, x[h]);
        else
            load_eight(at + i, end - i, x[h]);
    }
#pragma unroll
    for (int h = 0; h < HELD_STRAIGHT; h++)
        most = max(most, size_of_eight(x[h]));
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
        most = max(most, __shfl_xor_sync(~0u, most, lanes));
    of_warp[warp] = most;
    __syncthreads();
    for (int i = 0; i < warps; i++)
        most = max(most, of_warp[warp / warps * warps + i]);
    const float scale = scale_of(most);
    if (first == 0)
        o.scales[row] = scale;
#pragma unroll
    for (int h = 0; h < HELD_STRAIGHT; h++)
        if (first + h * step < k_tiles * GROUPS)
            put_group(o, row, first + h * step, k_tiles, scale, x[h]);
}

/* ---- transposed: rows are contiguous --------------------------------------------------------- */

/* The largest number of a column, first over the threads of a block and then over the blocks of the
 * cluster, which hold different lines. */
ECO_DEVICE unsigned most_of_cluster(unsigned most, int32_t blocks)
{
    __shared__ unsigned of_warp[SPLIT_WARPS][SPLIT_COLUMNS];
    [[maybe_unused]] __shared__ unsigned of_block[SPLIT_COLUMNS];
    const int32_t thread = (int32_t)threadIdx.x, column = thread % SPLIT_COLUMNS;
    most = max(most, __shfl_xor_sync(~0u, most, SPLIT_COLUMNS));
    if (thread % WARP < SPLIT_COLUMNS)
        of_warp[thread / WARP][column] = most;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < SPLIT_WARPS; warp++)
        most = max(most, of_warp[warp][column]);
#if __CUDA_ARCH__ >= 900
    if (thread < SPLIT_COLUMNS)
        of_block[column] = most;
    cluster_sync();
    for (int32_t rank = 0; rank < blocks; rank++)
        most = max(most, cluster_load(&of_block[column], (unsigned)rank));
    cluster_sync();
#endif
    return most;
}

/* A cluster prepares 16 columns; each of its blocks takes some of their lines, and each thread
 * takes groups of eight from one column. */
ECO_DEVICE void prepare_transposed(const eco_emulated_operand &o, int32_t k, int32_t block,
                                   int32_t blocks)
{
    const int32_t rank = block % blocks,
                  row = block / blocks * SPLIT_COLUMNS + (int32_t)threadIdx.x % SPLIT_COLUMNS;
    const int32_t end = row < o.rows ? o.k : 0, k_tiles = (k + DEPTH - 1) / DEPTH;
    const int32_t first = rank * (HELD_TRANSPOSED * STEP) + (int32_t)threadIdx.x / SPLIT_COLUMNS;
    const float *at = o.data + row;
    float x[HELD_TRANSPOSED][GROUP];
    unsigned most = 0;
#pragma unroll
    for (int h = 0; h < HELD_TRANSPOSED; h++)
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
            const int32_t line = (first + h * STEP) * GROUP + i;
            x[h][i] =
                line >= o.begin && line < end ? __ldg(at + (size_t)(line - o.begin) * o.row) : 0;
        }
#pragma unroll
    for (int h = 0; h < HELD_TRANSPOSED; h++)
        most = max(most, size_of_eight(x[h]));
    const float scale = scale_of(most_of_cluster(most, blocks));
    if (first == 0)
        o.scales[row] = scale;
#pragma unroll
    for (int h = 0; h < HELD_TRANSPOSED; h++)
        if (first + h * STEP < k_tiles * GROUPS)
            put_group(o, row, first + h * STEP, k_tiles, scale, x[h]);
}

/* ---- both operands --------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(SPLIT_THREADS, 2)
    split_operands(const __grid_constant__ both_operands both)
{
    const bool second = (int32_t)blockIdx.x >= both.first;
    const int32_t block = (int32_t)blockIdx.x - (second ? both.first : 0);
    const side &s = both.of[second];
    launch_dependent_grids(); /* a step's product reads only older data before this kernel has ended
                               */
    wait_on_dependent_grids();
    if (s.o.transposed)
        prepare_transposed(s.o, both.k, block, s.holders);
    else
        prepare_straight(s.o, both.k, block, s.holders);
}

/* Holders of a row: a power of two, at most MOST_HOLDERS. If a straight operand has few rows, all
 * warps of a block share one. */
static int32_t holders_for(const struct eco_emulated_operand *o, int32_t k)
{
    int32_t holders = !o->transposed && o->rows <= TILE ? SPLIT_WARPS : 1;
    while (holders * (o->transposed ? OF_BLOCK : SPLIT_OF_WARP) < k)
        holders *= 2;
    return holders;
}

/* Blocks that prepare an operand; the number fills whole clusters. */
static int32_t blocks_for(const side *s)
{
    const int32_t tiles = (s->o.rows + TILE - 1) / TILE;
    return tiles * (TILE / (s->o.transposed ? SPLIT_COLUMNS : SPLIT_WARPS)) * s->holders;
}
static_assert(TILE / SPLIT_WARPS % MOST_HOLDERS == 0, "rows that lie straight fill clusters");

static side side_of(const struct eco_emulated_operand *o, int32_t k)
{
    return {*o, holders_for(o, k)};
}

static cudaError_t launch_split(const both_operands *both, int32_t blocks, bool overlap,
                                cudaStream_t stream)
{
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {1, 1, 1};
    for (int i = 0; i < 2; i++)
        if (both->of[i].o.transposed)
            attributes[0].val.clusterDim.x = (unsigned)both->of[i].holders;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(SPLIT_THREADS);
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = overlap ? 2 : 1;
    void *argument[] = {(void *)both};
    return cudaLaunchKernelExC(&config, (const void *)split_operands, argument);
}

cudaError_t eco_launch_emulated_prepare(const struct eco_emulated_operand *operand, int32_t k,
                                        bool overlap, cudaStream_t stream)
{
    const both_operands one = {{side_of(operand, k), {}}, k, INT32_MAX};
    return launch_split(&one, blocks_for(&one.of[0]), overlap, stream);
}

cudaError_t eco_launch_emulated_prepare_both(const struct eco_emulated_call *call,
                                             cudaStream_t stream)
{
    both_operands both = {{side_of(&call->a, call->k), side_of(&call->b, call->k)}, call->k, 0};
    both.first = blocks_for(&both.of[0]);
    return launch_split(&both, both.first + blocks_for(&both.of[1]), false, stream);
}

/* Clusters of more than 8 blocks, for long columns, must be enabled. */
cudaError_t eco_emulated_prepare_load(void)
{
    return cudaFuncSetAttribute((const void *)split_operands,
                                cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}
