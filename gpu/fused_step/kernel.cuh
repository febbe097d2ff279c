/*
 * A step in one launch. A block multiplies the input and the state of some batch rows by the rows
 * of W and R of some units, and runs the cell's text for these. The warps divide k; each loads its
 * operands from memory into the registers of matrix instructions, once in a block. Matrices, which
 * the run does not write, are loaded before the preceding kernels have ended.
 *
 * The numbers of a k block (64 bytes of a row) are permuted as in persistent/block.cuh: lane 4g + q
 * has the qth 16 bytes.
 */
#ifndef ECO_GPU_FUSED_STEP_KERNEL_CUH
#define ECO_GPU_FUSED_STEP_KERNEL_CUH

#define ECO_FUSED 1
#include "gpu/cell/numbers.cuh"
#include "gpu/cell/words.cuh"
#include "gpu/fused_step/args.h"
#include "gpu/tile/warp_mainloop.cuh"
#include "gpu/cell/cells.inc"

/* ---- a block --------------------------------------------------------------------------------- */

enum {
    FUSED_THREADS = ECO_FUSED_THREADS,
    FUSED_WARPS = ECO_FUSED_WARPS,
    PROJECTION = ECO_FUSED_PROJECTION
};

/* For a projection, too, whose sums are the state. */
template <> struct cell_traits<PROJECTION> {
    enum { accs = 1, states = 1, products = 1 };
};
CELLS_PERSISTENT(CELLS_STRUCT)

template <int NUMBER, int SHAPE> struct fused_block {
    enum {
        accs = cell_traits<NUMBER>::accs,
        states = cell_traits<NUMBER>::states,
        units = ECO_FUSED_UNITS(accs),
        tiles = ECO_FUSED_TILES(accs),
        across = ECO_FUSED_ACROSS(SHAPE),
        columns = ECO_FUSED_COLUMNS(SHAPE),
        line = ECO_FUSED_LINE(accs),
        pairs = (units * columns + FUSED_THREADS - 1) /
                FUSED_THREADS /* elements of a thread, each a unit of a row */
    };
    typedef struct warp_operands<tiles, across> operands;
    typedef struct warp_sums<tiles, across> sums;
    typedef struct fetched<tiles, across> fetched;
    enum { ahead = ::ahead<fetched>::k_blocks };
};

/* The operands of a warp. Missing rows are replaced by others; their sums are not used. */
template <class BLOCK>
ECO_DEVICE typename BLOCK::operands operands_of_warp(const struct eco_fused_call &call, int warp,
                                                     int lane)
{
    const int first = call.source[0].warps, second = warp >= first;
    const struct eco_fused_source &source = call.source[second];
    const int rank = warp - (second ? first : 0);
    const int k_blocks = (source.k + ROW_K_BLOCK - 1) / ROW_K_BLOCK;
    typename BLOCK::operands at;
    at.first = k_blocks * rank / source.warps;
    at.end = k_blocks * (rank + 1) / source.warps;
    at.k = source.k;
    at.matrix_row = source.matrix_row;
    at.quarter = lane % 4;
    at.aligned = source.aligned;
#pragma unroll
    for (int t = 0; t < BLOCK::tiles; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int of_block = t * ECO_FUSED_M + half * 8 + lane / 4,
                      acc = of_block / BLOCK::units,
                      unit = (int)blockIdx.x * BLOCK::units + of_block % BLOCK::units,
                      group = acc < BLOCK::accs ? source.group[acc] : -1;
            const bool there = group >= 0 && unit < call.stage.hidden;
            const size_t row = there ? (size_t)group * (size_t)call.stage.column + unit : 0;
            at.matrix[t][half] = (const narrow *)source.matrix + row * source.matrix_row;
        }
#pragma unroll
    for (int t = 0; t < BLOCK::across; t++) {
        const int n = (int)blockIdx.y * BLOCK::columns + t * ECO_FUSED_N + lane / 4;
        at.row[t] = (const narrow *)source.rows + min(n, call.stage.rows - 1) * source.row;
    }
    return at;
}

/* ---- units ----------------------------------------------------------------------------------- */

/* A thread's pth pair of unit and batch row. */
template <class BLOCK>
ECO_DEVICE struct element element_at(const struct eco_fused_call &call, int p)
{
    const int i = (int)threadIdx.x + p * FUSED_THREADS;
    return {&call.stage,
            (size_t)blockIdx.y * BLOCK::columns + i / BLOCK::units,
            (size_t)blockIdx.x * BLOCK::units + i % BLOCK::units,
            (size_t)call.stage.hidden,
            (size_t)call.stage.column,
            NULL};
}

/* What is loaded of an element while products are in flight. */
template <class BLOCK> struct early {
    vec bias[BLOCK::accs], state[BLOCK::states];
};

template <class BLOCK>
ECO_DEVICE void read_early(const struct eco_fused_call &call,
                           struct early<BLOCK> early[BLOCK::pairs])
{
#pragma unroll
    for (int p = 0; p < BLOCK::pairs; p++) {
        struct element at = element_at<BLOCK>(call, p);
        at.row = min((int)at.row, call.stage.rows - 1); /* of another row if it does not exist */
        at.unit = min((int)at.unit, call.stage.hidden - 1);
#pragma unroll
        for (int a = 0; a < BLOCK::accs; a++)
            early[p].bias[a] = call.bias[a] >= 0 ? load_vector(&at, call.bias[a]) : 0;
#pragma unroll
        for (int s = 0; s < BLOCK::states; s++)
            early[p].state[s] = state_before(&at, s);
    }
}

extern __shared__ float shared[]; /* [warps, columns, line] */

/* One source's contribution to an accumulator. */
ECO_DEVICE float recompute_source(const struct element *at, const struct eco_fused_source *source,
                                  int acc)
{
    const int group = source->group[acc];
    const size_t of = (size_t)group * at->column + at->unit;
    return recompute_in_f32((const narrow *)source->matrix + of * (size_t)source->matrix_row, 1,
                            (const narrow *)source->rows + at->row * source->row, 1,
                            group >= 0 ? source->k : 0);
}

/* The sum of all warps whose source the accumulator has; from: the first warp's. */
template <class BLOCK>
ECO_DEVICE float sum_of_warps(const struct eco_fused_call &call, const struct element *at,
                              const float *from, int acc)
{
    float sum = 0;
#pragma unroll
    for (int w = 0; w < FUSED_WARPS; w++) {
        const bool there = call.source[w >= call.source[0].warps].group[acc] >= 0;
        const float part = from[w * (BLOCK::columns * BLOCK::line) + acc * BLOCK::units];
        sum += there ? part : 0;
    }
    if (!is_finite(sum))
        sum =
            recompute_source(at, &call.source[0], acc) + recompute_source(at, &call.source[1], acc);
    return sum;
}

template <int NUMBER> ECO_DEVICE void finish(struct element *at)
{
    if constexpr (NUMBER == PROJECTION)
        store_next(at, 0, load_acc(at, 0));
#define CELLS_CASE(cell, stage, name)                                                              \
    if constexpr (NUMBER == cell && stage == 0)                                                    \
        name(at);
    CELLS_forward(CELLS_CASE)
#undef CELLS_CASE
}

template <int NUMBER, class BLOCK>
ECO_DEVICE void finish_block(const struct eco_fused_call &call,
                             const struct early<BLOCK> early[BLOCK::pairs])
{
#pragma unroll
    for (int p = 0; p < BLOCK::pairs; p++) {
        struct element at = element_at<BLOCK>(call, p);
        const int i = (int)threadIdx.x + p * FUSED_THREADS;
        const float *const from = shared + i / BLOCK::units * BLOCK::line + i % BLOCK::units;
        vec acc[BLOCK::accs];
        if (i >= BLOCK::units * BLOCK::columns || at.unit >= at.hidden ||
            (int)at.row >= call.stage.rows)
            continue;
#pragma unroll
        for (int a = 0; a < BLOCK::accs; a++)
            acc[a] = sum_of_warps<BLOCK>(call, &at, from, a) + early[p].bias[a];
        at.acc = acc;
        at.before = early[p].state;
        if (row_masked(&call.stage, (int)at.row, call.stage.t))
            mask_forward(&at);
        else
            finish<NUMBER>(&at);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <int NUMBER, int SHAPE> ECO_DEVICE void run_step(const struct eco_fused_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_FUSED_VERSION
    typedef fused_block<NUMBER, SHAPE> block;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    struct early<block> early[block::pairs];
    typename block::sums sums = {};
    launch_dependent_grids(); /* the next kernel reads only matrices before it waits */
    warp_mainloop<typename block::fetched, block::ahead>(
        operands_of_warp<block>(call, warp, lane), &sums, [&] { read_early<block>(call, early); });
    put_warp_sums<block::line>(sums, shared + warp * block::columns * block::line, lane);
    __syncthreads();
    finish_block<NUMBER, block>(call, early);
#endif
}

#define FUSED(linkage, name, number, shape)                                                        \
    linkage __global__ void __launch_bounds__(FUSED_THREADS, 2)                                    \
        name(const __grid_constant__ struct eco_fused_call call)                                   \
    {                                                                                              \
        run_step<number, shape>(call);                                                             \
    }

#endif /* ECO_GPU_FUSED_STEP_KERNEL_CUH */
