/*
 * The kernel around a stage of a cell: the loop over units and rows, and what the printed text
 * needs to make a kernel of each stage (stage_kernel.inc). Compiled with the module for built-in
 * cells (stages.cuh) and at run time for others.
 */
#ifndef ECO_GPU_CELL_STAGE_LOOP_CUH
#define ECO_GPU_CELL_STAGE_LOOP_CUH

#include "gpu/arch/grid_dependency.cuh"
#include "gpu/cell/words.cuh"

/* ---- the loop around a stage ----------------------------------------------------------------- */

/* Adds up the first `means` sums of a row or head over the block's threads, always in the same
 * pairs. */
ECO_DEVICE void means_end(struct element *at, int means, int32_t head)
{
    const struct eco_stage_call *call = at->call;
    const size_t place = at->row * call->mean_row + (size_t)head * call->head_means;
    __shared__ double share[ECO_STAGE_THREADS];
    for (int m = 0; m < means; m++) {
        if (!(call->means >> m & 1))
            continue;
        share[threadIdx.x] = at->sum[m];
        for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half)
                share[threadIdx.x] += share[threadIdx.x + half];
        }
        if (threadIdx.x == 0)
            ((real *)call->mean)[place + (size_t)m] = (real)(share[0] / (double)call->head);
        __syncthreads();
    }
}

/* n_means: a constant, so that stages without means have no code for them. A block takes the heads
 * of a row one at a time. */
#define STAGE_LOOP(at, call_, stage, mask, n_means)                                                \
    wait_on_dependent_grids();                                                                     \
    launch_dependent_grids();                                                                      \
    const bool by_head = (n_means) > 0 && (call_)->means;                                          \
    const int32_t heads_ = by_head ? (call_)->heads : 1,                                           \
                  from_ = by_head ? (int32_t)blockIdx.z : 0,                                       \
                  by_ = by_head ? (int32_t)gridDim.z : 1;                                          \
    for (int32_t row = blockIdx.y; row < (call_)->rows; row += gridDim.y)                          \
        for (int32_t head = from_; head < heads_; head += by_) {                                   \
            double sum[(n_means) + 1] = {0};                                                       \
            struct element at = {                                                                  \
                call_, (size_t)row, 0, (size_t)(call_)->hidden, (size_t)(call_)->column, sum};     \
            const size_t begin = heads_ > 1 ? (size_t)head * (size_t)(call_)->head : 0,            \
                         end = heads_ > 1 ? begin + (size_t)(call_)->head : at.hidden;             \
            const bool masked = row_masked(call_, row, (call_)->t);                                \
            for (size_t unit = begin + (blockIdx.x * blockDim.x + threadIdx.x); unit < end;        \
                 unit += gridDim.x * blockDim.x) {                                                 \
                at.unit = unit;                                                                    \
                int32_t k = 0;                                                                     \
                do {                                                                               \
                    at.row = (size_t)(row + (call_)->first_row + k * (call_)->step_rows);          \
                    if (HAS_RESETS && (call_)->cuts)                                               \
                        cut_carries(&at);                                                          \
                    if (k == 0 && !(call_)->step_t                                                 \
                            ? masked                                                               \
                            : row_masked(call_, row, (call_)->t + k * (call_)->step_t))            \
                        mask(&at);                                                                 \
                    else                                                                           \
                        stage(&at);                                                                \
                } while (++k < (call_)->steps);                                                    \
            }                                                                                      \
            if (!masked && (n_means) > 0)                                                          \
                means_end(&at, n_means, head);                                                     \
        }

/* ---- kernels --------------------------------------------------------------------------------- */

/* Kernels that are found by name have external linkage. */
#ifndef CELL_LINKAGE
#define CELL_LINKAGE static
#define CELL_KNOWN   1
#endif
/* Least number of blocks for each multiprocessor. For built-in cells in F32, on devices with 2048
 * threads for each multiprocessor, it is what their registers allow, so that a large layer fits at
 * once. */
#if defined(CELL_KNOWN) && !defined(ECO_ROWS_F64) &&                                               \
    (__CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1100))
#define STAGE_BLOCKS(backward) ((backward) ? 5 : 8)
#else
#define STAGE_BLOCKS(backward) 2
#endif
#define JOIN_(a, b)       a##b
#define JOIN(a, b)        JOIN_(a, b)
#define CELL_KERNEL(name) JOIN(name, _kernel)
#define CELL_TEMPLATE     "gpu/cell/stage_kernel.inc"

#endif /* ECO_GPU_CELL_STAGE_LOOP_CUH */
