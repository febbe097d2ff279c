/*
 * A step in one launch: a block multiplies the input and the state of some batch rows by the rows
 * of W and R of some units, and finishes these in the cell's text.  Warps share k, each reads what
 * it multiplies from memory into the registers of matrix instructions, once in the block; what is
 * not written in the run, the matrices, is read before kernels ahead have ended.
 *
 * k is taken in an order of our own, as in resident.cuh: of an item, 64 bytes of a row, lane 4g + q
 * holds the qth 16.
 */
#define ECO_FUSED 1
#include "gpu/cell.cuh"

#include "gpu/fused_call.h"
#include "gpu/fused_multiply.cuh"

/* ---- accumulators ---------------------------------------------------------------------------- */

/* Of pairs a sum that is not finite is added anew, term by term, as multiply-adds would have it. */
WORD float sum_anew(const struct place *at, const struct eco_fused_source *source, int group)
{
    const size_t of = (size_t)group * at->column + at->unit;
    const narrow *const a = (const narrow *)source->matrix + of * (size_t)source->matrix_row;
    const narrow *const b = (const narrow *)source->rows + at->row * source->row;
    float sum = 0;
    for (int32_t k = 0; k < source->k; k++)
        sum = __fmaf_rn(to_real(a[k]), to_real(b[k]), sum);
    return sum;
}

/* Of source s, parts of so many warps. */
WORD float sum_of(const struct place *at, int s, int acc)
{
    const struct eco_fused_source *source = &at->fused->source[s];
    const int group = source->group[acc], first = s == 0 ? 0 : at->fused->source[0].warps;
    const float *from = at->sums + first * at->apart + acc * at->units;
    float sum = 0;
    if (group < 0 || source->warps == 0)
        return 0;
    for (int w = 0; w < source->warps; w++)
        sum += from[w * at->apart];
    if (SPLITS && !(fabsf(sum) < INFINITY_BEGINS))
        sum = sum_anew(at, source, group);
    return sum;
}

WORD vec load_acc(struct place *at, int i)
{
    const int bias = at->fused->bias[i];
    const vec sum = sum_of(at, 0, i) + sum_of(at, 1, i);
    return bias < 0 ? sum : sum + load_vector(at, bias);
}

#undef CELL_TEMPLATE
#undef CELL_KERNEL
#define CELL_TEMPLATE "gpu/nothing.cuh"
#include "gpu/cells.inc"

/* ---- a block --------------------------------------------------------------------------------- */

enum { PROJECTION = ECO_FUSED_PROJECTION };
template <int CELL> struct numbers;
template <> struct numbers<PROJECTION> {
    enum { accs = 1, products = 1 };
};
#define FUSED_NUMBERS(cell, n_accs, n_states, n_saves, n_first, n_second, ...)                     \
    template <> struct numbers<cell> {                                                             \
        enum { accs = n_accs, products = n_second > 0 ? 2 : 1 };                                   \
    };
CELLS_RESIDENT(FUSED_NUMBERS)

template <int NUMBER, int SHAPE> struct block_of {
    enum {
        accs = numbers<NUMBER>::accs,
        units = ECO_FUSED_UNITS(accs, SHAPE),
        tiles = ECO_FUSED_TILES(accs, SHAPE),
        across = ECO_FUSED_ACROSS(SHAPE),
        beside = ECO_FUSED_BESIDE(SHAPE),
        columns = ECO_FUSED_COLUMNS(SHAPE),
        line = ECO_FUSED_LINE(accs, SHAPE)
    };
    typedef struct sums<tiles, across> sums;
};

/* What a warp multiplies. */
template <class BLOCK>
static __device__ __forceinline__ struct operands<BLOCK::tiles, BLOCK::across>
operands_of(const struct eco_fused_call &call, int warp, int lane) {
    const int deep = warp / BLOCK::beside, second = deep >= call.source[0].warps;
    const struct eco_fused_source &source = call.source[second];
    const int rank = deep - (second ? call.source[0].warps : 0);
    const int items = (source.k + ITEM - 1) / ITEM;
    operands<BLOCK::tiles, BLOCK::across> at;
    at.first = items * rank / source.warps;
    at.end = items * (rank + 1) / source.warps;
    at.k = source.k;
    at.matrix_row = source.matrix_row;
    at.aligned = source.aligned;
    at.quarter = lane % 4;
#pragma unroll
    for (int t = 0; t < BLOCK::tiles; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int of_block = t * ECO_FUSED_M + half * 8 + lane / 4;
            const int acc = of_block / BLOCK::units,
                      unit = (int)blockIdx.x * BLOCK::units + of_block % BLOCK::units,
                      group = acc < BLOCK::accs ? source.group[acc] : -1;
            const bool there = group >= 0 && unit < call.stage.hidden;
            const size_t row = there ? (size_t)group * (size_t)call.stage.column + unit : 0;
            at.matrix[t][half] = (const narrow *)source.matrix + row * source.matrix_row;
        }
    const int n = ((int)blockIdx.y * BLOCK::columns) +
                  warp % BLOCK::beside * (BLOCK::across * ECO_FUSED_N) + lane / 4;
#pragma unroll
    for (int t = 0; t < BLOCK::across; t++) /* the last one again, where there are no more */
        at.row[t] = (const narrow *)source.rows +
                    min(n + t * ECO_FUSED_N, call.stage.rows - 1) * source.row;
    return at;
}

extern __shared__ float shared[];

/* [deep, columns, line] */
template <class BLOCK>
static __device__ __forceinline__ void put_sums(const typename BLOCK::sums &sums, int warp,
                                                int lane)
{
    float *const to = shared +
                      ((warp / BLOCK::beside) * BLOCK::columns +
                       warp % BLOCK::beside * (BLOCK::across * ECO_FUSED_N) + lane % 4 * 2) *
                          BLOCK::line +
                      lane / 4;
#pragma unroll
    for (int n = 0; n < BLOCK::across; n++)
#pragma unroll
        for (int t = 0; t < BLOCK::tiles; t++) {
            float *const at = to + n * ECO_FUSED_N * BLOCK::line + t * ECO_FUSED_M;
            const float *const d = sums.d[t][n];
            at[0] = d[0];
            at[BLOCK::line] = d[1];
            at[8] = d[2];
            at[BLOCK::line + 8] = d[3];
        }
}

/* ---- the cell -------------------------------------------------------------------------------- */

template <int NUMBER> static __device__ __forceinline__ void finish(struct place *at)
{
    if constexpr (NUMBER == PROJECTION)
        store_next(at, 0, load_acc(at, 0));
#define CELLS_CASE(k, name)                                                                        \
    if constexpr (NUMBER == k)                                                                     \
        name(at);
    CELLS_forward_0(CELLS_CASE)
#undef CELLS_CASE
}

template <int NUMBER, class BLOCK>
static __device__ __forceinline__ void finish_all(const struct eco_fused_call &call)
{
    for (int i = (int)threadIdx.x; i < BLOCK::units * BLOCK::columns; i += ECO_FUSED_THREADS) {
        const int unit = (int)blockIdx.x * BLOCK::units + i % BLOCK::units, n = i / BLOCK::units,
                  row = (int)blockIdx.y * BLOCK::columns + n;
        if (unit >= call.stage.hidden || row >= call.stage.rows)
            continue;
        struct place at = {&call.stage,
                           (size_t)row,
                           (size_t)unit,
                           (size_t)call.stage.hidden,
                           (size_t)call.stage.column,
                           NULL};
        at.fused = &call;
        at.sums = shared + n * BLOCK::line + i % BLOCK::units;
        at.apart = BLOCK::columns * BLOCK::line;
        at.units = BLOCK::units;
        if (row_masked(&call.stage, row))
            mask_forward(&at);
        else
            finish<NUMBER>(&at);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <int NUMBER, int SHAPE>
static __device__ __forceinline__ void run_step(const struct eco_fused_call &call)
{
#if __CUDA_ARCH__ >= 10 * ECO_FUSED_VERSION
    typedef block_of<NUMBER, SHAPE> block;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    typename block::sums sums = {};
    let_next_start(); /* which reads no more than matrices before it waits */
    multiply<block::tiles, block::across>(operands_of<block>(call, warp, lane), &sums);
    put_sums<block>(sums, warp, lane);
    __syncthreads();
    finish_all<NUMBER, block>(call);
#endif
}

#define FUSED(linkage, name, number, shape)                                                        \
    linkage __global__ void __launch_bounds__(ECO_FUSED_THREADS, 1)                                \
        name(const __grid_constant__ struct eco_fused_call call)                                   \
    {                                                                                              \
        run_step<number, shape>(call);                                                             \
    }

/* ---- the module's ---------------------------------------------------------------------------- */

#if !defined(ECO_FUSED_ALONE) /* else kernels by name, of a cell compiled at run time */
template <int NUMBER, int SHAPE>
FUSED(static, fused, NUMBER, SHAPE)

template <int NUMBER, int SHAPE>
static const void *kernel_of(void)
{
    typedef numbers<NUMBER> cell;
    if constexpr (cell::products == 1 && ECO_FUSED_MADE(cell::accs, SHAPE))
        return (const void *)fused<NUMBER, SHAPE>;
    return nullptr;
}
#define FUSED_KERNELS(cell, ...)                                                                   \
    {cell,                                                                                         \
     numbers<cell>::accs,                                                                          \
     {kernel_of<cell, 0>(), kernel_of<cell, 1>(), kernel_of<cell, 2>(), kernel_of<cell, 3>()}},

static const struct eco_fused_kernel kernels[] = {
    FUSED_KERNELS(ECO_FUSED_PROJECTION) CELLS_RESIDENT(FUSED_KERNELS){ECO_FUSED_END, 0, {}}};
#endif
