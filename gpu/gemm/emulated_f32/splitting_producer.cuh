/*
 * States as an operand of a step's product of pairs. Some warps load them, scale the 64 numbers of
 * a row in a stage by a power of two to near 2^15, split them, and store the k tiles in the stage.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_SPLITTING_PRODUCER_CUH
#define ECO_GPU_GEMM_EMULATED_F32_SPLITTING_PRODUCER_CUH

#include "gpu/gemm/emulated_f32/pipeline.cuh"
#include "gpu/gemm/emulated_f32/slice.cuh"
#include "gpu/tile/f16_pair.cuh"
#include "gpu/tile/pow2_scale.cuh"

enum {
    EIGHTS_OF_ROW = DEPTH / GROUP, /* of a row in a stage, one for each thread */
    AHEAD = 4                      /* stages in flight, including the current one */
};

/* A thread's share: an eighth of some rows of a stage. whole: eighths are aligned and complete. */
template <class kind, bool whole> struct splitter {
    static constexpr int at_once = kind::filling / EIGHTS_OF_ROW,
                         held = kind::columns / at_once; /* rows */
    static_assert(held * at_once == kind::columns, "threads share rows evenly");
    const eco_emulated_operand *o;
    slice s;
    int32_t first;   /* first row of B */
    int row, eighth; /* of the thread */

    __device__ __forceinline__ void load(int32_t i, float (&x)[held][GROUP]) const
    {
        const int32_t k = (s.stage_of(i) * EIGHTS_OF_ROW + eighth) * GROUP;
#pragma unroll
        for (int h = 0; h < held; h++) {
            const int32_t n = first + row + h * at_once,
                          there = i < s.stages && n < o->rows ? o->k - k : 0;
            const float *at = o->data + (size_t)n * o->row + k;
            if constexpr (whole)
                load_whole_eight(at, there > 0, x[h]);
            else
                load_eight(at, there, x[h]);
        }
    }

    /* Eight threads share a row. */
    __device__ __forceinline__ void keep(char *to, float *scales,
                                         const float (&x)[held][GROUP]) const
    {
#pragma unroll
        for (int h = 0; h < held; h++) {
            const int n = row + h * at_once;
            unsigned most = size_of_eight(x[h]);
#pragma unroll
            for (int lanes = EIGHTS_OF_ROW / 2; lanes > 0; lanes /= 2)
                most = max(most, __shfl_xor_sync(~0u, most, lanes));
            const float scale = scale_for(__uint_as_float(most));
            char *const at = to + n * LINE_BYTES + (eighth ^ n % 8) * 16;
            split_eight(x[h], scale, (uint4 *)at, (uint4 *)(at + kind::b_bytes));
            if (eighth == 0)
                scales[n] = reciprocal_pow2(scale);
        }
    }
};

template <class kind, bool whole>
ECO_DEVICE splitter<kind, whole> splitter_of(const eco_emulated_operand &o, const slice &s,
                                             int32_t first)
{
    const int thread = (int)threadIdx.x - kind::consumers;
    return {&o, s, first, thread / EIGHTS_OF_ROW, thread % EIGHTS_OF_ROW};
}

#endif /* ECO_GPU_GEMM_EMULATED_F32_SPLITTING_PRODUCER_CUH */
