/*
 * A block of a launch of products with few rows: its threads, and how sums are stored.
 */
#ifndef ECO_GPU_GEMM_GROUPED_BLOCK_CUH
#define ECO_GPU_GEMM_GROUPED_BLOCK_CUH

#include "gpu/gemm/grouped/args.h"
#include "gpu/tile/rows.cuh"

enum { GROUPED_THREADS = ECO_GROUPED_THREADS, GROUPED_WARPS = ECO_GROUPED_WARPS };

ECO_DEVICE float after(const struct eco_grouped_job *job, size_t at, float sum)
{
    if (!job->add)
        return sum;
    return sum +
           (job->narrow ? to_real(((const narrow *)job->c)[at]) : ((const float *)job->c)[at]);
}

ECO_DEVICE void store(const struct eco_grouped_job *job, size_t at, float sum)
{
    const float value = after(job, at, sum);
    if (job->narrow)
        ((narrow *)job->c)[at] = to_narrow(value);
    else
        ((float *)job->c)[at] = value;
}

#endif /* ECO_GPU_GEMM_GROUPED_BLOCK_CUH */
