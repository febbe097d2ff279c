/*
 * A block's share of k if the blocks of a cluster share a tile.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_SLICE_CUH
#define ECO_GPU_GEMM_EMULATED_F32_SLICE_CUH

#include "gpu/arch/cluster.cuh"
#include "gpu/gemm/emulated_f32/operand.cuh"

/* The stages of its tile that a block takes, in order. */
struct slice {
    int32_t first, step, stages, all; /* all: of the tile */

    __device__ __forceinline__ int32_t stage_of(int32_t i) const
    {
        return first + i * step;
    }
};

ECO_DEVICE slice slice_of(const eco_emulated_call &call)
{
    const int32_t rank = (int32_t)cluster_rank(), blocks = (int32_t)cluster_blocks(),
                  all = (call.k + DEPTH - 1) / DEPTH, from = all * rank / blocks,
                  to = all * (rank + 1) / blocks;
    if (call.from_end)
        return {to - 1, -1, to - from, all};
    return {from, 1, to - from, all};
}

#endif /* ECO_GPU_GEMM_EMULATED_F32_SLICE_CUH */
