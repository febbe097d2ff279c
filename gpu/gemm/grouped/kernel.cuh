/*
 * Products with few rows, several in one launch: each block belongs to one.
 */
#ifndef ECO_GPU_GEMM_GROUPED_KERNEL_CUH
#define ECO_GPU_GEMM_GROUPED_KERNEL_CUH

#include "gpu/gemm/grouped/dgrad.cuh"
#include "gpu/gemm/grouped/wgrad.cuh"
#include "gpu/kernels.h"

/* ---- zeros ----------------------------------------------------------------------------------- */

/* Zeroes numbers that no preceding kernel of the run touches. */
ECO_DEVICE void clear(const struct eco_grouped_job *job, int block)
{
    enum { EACH = ECO_GROUPED_ZEROS / GROUPED_THREADS / 4 };
    static_assert(ECO_GROUPED_ZEROS % (4 * GROUPED_THREADS) == 0, "whole rounds of all threads");
    const size_t first = (size_t)block * ECO_GROUPED_ZEROS, all = (size_t)job->m * job->n;
    float *const to = (float *)job->c;
    if (first + ECO_GROUPED_ZEROS <= all && job->a_whole) {
#pragma unroll
        for (int i = 0; i < EACH; i++)
            ((float4 *)(to + first))[i * GROUPED_THREADS + threadIdx.x] = make_float4(0, 0, 0, 0);
        return;
    }
    for (size_t i = first + threadIdx.x; i < all && i < first + ECO_GROUPED_ZEROS;
         i += GROUPED_THREADS)
        to[i] = 0;
}

/* ---- sums of columns ------------------------------------------------------------------------- */

/* Warps divide the rows in a fixed way. */
ECO_DEVICE void sum_columns(const struct eco_grouped_job *job, int block, float *shared)
{
    enum { COLUMNS = ECO_GROUPED_SUM_COLUMNS };
    static_assert(COLUMNS == 32 && COLUMNS <= 8 * BACK_LINE, "shared has a place for each");
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int i = block * COLUMNS + lane, group = i / job->n, unit = i % job->n;
    const bool there = group < job->m;
    const narrow *const from =
        (const narrow *)job->a + (there ? (size_t)group * job->b_row + unit : 0);
    float sum = 0;
    wait_on_dependent_grids();
#pragma unroll 8
    for (int r = warp; r < job->k; r += GROUPED_WARPS)
        sum += to_real(from[(size_t)r * job->a_row]);
    shared[warp * COLUMNS + lane] = sum;
    __syncthreads();
    if (warp > 0 || !there)
        return;
#pragma unroll
    for (int w = 1; w < GROUPED_WARPS; w++)
        sum += shared[w * COLUMNS + lane];
    store(job, (size_t)group * job->c_row + unit, sum);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <int SHAPE>
static __global__ void __launch_bounds__(GROUPED_THREADS)
    few(const __grid_constant__ struct eco_grouped_call call)
{
#if __CUDA_ARCH__ >= 800
    enum { ACROSS_BACK = 1 << SHAPE };
    enum { BACK_ROOM = GROUPED_WARPS * 8 * ACROSS_BACK * BACK_LINE };
    __shared__ __align__(16) float shared[+BACK_ROOM > +GRADIENT_ROOM ? BACK_ROOM : GRADIENT_ROOM];
    int block = (int)blockIdx.x, j = 0;
    launch_dependent_grids(); /* the next kernel reads only matrices before it waits */
    while (block >= call.job[j].blocks)
        block -= call.job[j++].blocks;
    const struct eco_grouped_job *const job = &call.job[j];
    const bool whole = job->a_whole && job->b_whole;
    if (job->kind == ECO_GROUPED_ZERO) {
        clear(job, block);
        if (blockIdx.x ==
            0) /* the next kernel waits for this launch, and so for its predecessors */
            wait_on_dependent_grids();
    } else if (job->kind == ECO_GROUPED_SUM)
        sum_columns(job, block, shared);
    else if (job->kind == ECO_GROUPED_BACK && whole)
        multiply_back<ACROSS_BACK, true>(job, block, shared);
    else if (job->kind == ECO_GROUPED_BACK)
        multiply_back<ACROSS_BACK, false>(job, block, shared);
    else if (whole)
        multiply_gradient<true>(job, block, shared);
    else
        multiply_gradient<false>(job, block, shared);
#endif
}

static const void *const grouped_kernels[ECO_GROUPED_SHAPES] = {
    (const void *)few<0>, (const void *)few<1>, (const void *)few<2>};

#endif /* ECO_GPU_GEMM_GROUPED_KERNEL_CUH */
