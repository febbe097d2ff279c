/*
 * Rows of floats that are converted to F16: their largest and nearest numbers.
 */
#ifndef ECO_GPU_GEMM_SCALED_F16_ROW_MAX_CUH
#define ECO_GPU_GEMM_SCALED_F16_ROW_MAX_CUH

#include <cuda_fp16.h>

#include "gpu/gemm/scaled_f16/args.h"
#include "gpu/tile/pow2_scale.cuh"

enum {
    FOUR = 4,
    ROW_THREADS = 256,
    ROW_WARPS = ROW_THREADS / WARP,
    MOST_THREADS = 512, /* of a block for dacc */
    MOST_WARPS = MOST_THREADS / WARP
};

/* Magnitude; 0 if not finite. */
ECO_DEVICE float finite_size(float x)
{
    const float size = fabsf(x);
    return size < __uint_as_float(0x7F800000) ? size : 0;
}

ECO_DEVICE float largest_of(float4 x)
{
    return fmaxf(fmaxf(finite_size(x.x), finite_size(x.y)),
                 fmaxf(finite_size(x.z), finite_size(x.w)));
}

ECO_DEVICE float largest_of_warp(float most)
{
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, lanes));
    return most;
}

ECO_DEVICE uint2 nearest_four(float4 x, float scale)
{
    const __half2 a = __floats2half2_rn(x.x * scale, x.y * scale),
                  b = __floats2half2_rn(x.z * scale, x.w * scale);
    return make_uint2(*(const unsigned *)&a, *(const unsigned *)&b);
}

/* The largest of what warps have found; called by all threads. */
ECO_DEVICE float largest_of_block(float most, float (&of_warp)[MOST_WARPS])
{
    const int32_t thread = (int32_t)threadIdx.x, warps = (int32_t)blockDim.x / WARP;
    most = largest_of_warp(most);
    if (thread % WARP == 0)
        of_warp[thread / WARP] = most;
    __syncthreads();
    for (int i = 0; i < warps; i++)
        most = fmaxf(most, of_warp[i]);
    return most;
}

/* ---- rows, a warp each ----------------------------------------------------------------------- */

/* Can rows be read in groups of four? */
ECO_DEVICE bool in_fours(const eco_scaled_f16_matrix &m)
{
    return ((uintptr_t)m.from | m.from_row * sizeof(float)) % 16 == 0 && m.columns % FOUR == 0;
}

ECO_DEVICE float inverse_of(const eco_scaled_f16_matrix &m, int32_t row)
{
    return m.scales == nullptr ? 1 : reciprocal_pow2(m.scales[row]);
}

/* What a lane loads of a row at a time: groups of four, adjacent within a warp. */
struct stretch {
    enum { HELD = 4 };
    float4 of[HELD];

    ECO_DEVICE int32_t index(int32_t first, int i)
    {
        return first + i * WARP + (int32_t)threadIdx.x % WARP;
    }

    /* Zeros from `end` on. */
    __device__ __forceinline__ void read(const float *row, int32_t first, int32_t end)
    {
#pragma unroll
        for (int i = 0; i < HELD; i++)
            of[i] = index(first, i) < end ? ((const float4 *)row)[index(first, i)] : float4{};
    }
};
enum { ROW_OF_WARP = stretch::HELD * WARP };

ECO_DEVICE float largest_of_row(const eco_scaled_f16_matrix &m, int32_t r, bool fours)
{
    const float *row = m.from + (size_t)r * m.from_row;
    const int32_t n = m.columns / FOUR;
    float most = 0;
    if (fours)
        for (int32_t first = 0; first < n; first += ROW_OF_WARP) {
            stretch x;
            x.read(row, first, n);
#pragma unroll
            for (int i = 0; i < stretch::HELD; i++)
                most = fmaxf(most, largest_of(x.of[i]));
        }
    else
        for (int32_t i = (int32_t)threadIdx.x % WARP; i < m.columns; i += WARP)
            most = fmaxf(most, finite_size(row[i]));
    return most;
}

/* Searches this block's share of a matrix; called by all threads. */
ECO_DEVICE void search(const eco_scaled_f16_matrix &m, int32_t block, int32_t blocks,
                       float *most_of_blocks)
{
    __shared__ float of_warp[MOST_WARPS];
    const int32_t warps = (int32_t)blockDim.x / WARP, warp = (int32_t)threadIdx.x / WARP;
    const bool fours = in_fours(m);
    float most = 0;
    for (int32_t r = block * warps + warp; r < m.rows; r += blocks * warps) {
        const float of_row = m.bounded ? 1 : largest_of_row(m, r, fours);
        most = fmaxf(most, fminf(of_row * inverse_of(m, r), __uint_as_float(0x7F7FFFFF)));
    }
    most = largest_of_block(most, of_warp);
    if (threadIdx.x == 0)
        most_of_blocks[block] = most;
}

#endif /* ECO_GPU_GEMM_SCALED_F16_ROW_MAX_CUH */
