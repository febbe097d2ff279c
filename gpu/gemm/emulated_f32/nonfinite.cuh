/*
 * Converts sums of products of scaled numbers to those of the numbers themselves.
 */
#ifndef ECO_GPU_GEMM_EMULATED_F32_NONFINITE_CUH
#define ECO_GPU_GEMM_EMULATED_F32_NONFINITE_CUH

#include "gpu/gemm/emulated_f32/args.h"
#include "gpu/tile/pow2_scale.cuh"

ECO_DEVICE bool is_nonfinite(float scale)
{
    return !(scale <= __uint_as_float(0x7F7FFFFF));
}

ECO_DEVICE float operand_at(const eco_emulated_operand &o, int32_t row, int32_t k)
{
    return o.data[o.transposed ? (size_t)(k - o.begin) * o.row + row : (size_t)row * o.row + k];
}

/* Recomputes a sum with terms that are not finite, so that it is not finite either: NaN stays,
 * infinity is multiplied by its factors. Called by a whole warp, which stops at NaN. */
ECO_DEVICE float recompute_emulated(const eco_emulated_call &call, int32_t row, int32_t column)
{
    enum { LOOK_EVERY = 4 };
    const int32_t end = min(call.a.k, call.b.k);
    float sum = 0;
    for (int32_t k0 = max(call.a.begin, call.b.begin); k0 < end && !__any_sync(~0u, sum != sum);
         k0 += LOOK_EVERY * 32)
#pragma unroll
        for (int32_t i = 0; i < LOOK_EVERY; i++) {
            const int32_t k = k0 + i * 32 + (int32_t)threadIdx.x % 32;
            if (k < end)
                sum = __fmaf_rn(operand_at(call.a, row, k), operand_at(call.b, column, k), sum);
        }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        sum += __shfl_xor_sync(~0u, sum, lanes);
    return sum;
}

/* The same for kernels that need it in many places. */
[[maybe_unused]] static __device__ __noinline__ float recompute_apart(const eco_emulated_call &call,
                                                                      int32_t row, int32_t column)
{
    return recompute_emulated(call, row, column);
}

/* Called by all threads of a warp: returns the sum, recomputed if it is not finite. */
ECO_DEVICE float replaced(const eco_emulated_call &call, bool nonfinite, int32_t row,
                          int32_t column, float sum)
{
    for (unsigned left = __ballot_sync(~0u, nonfinite); left != 0; left &= left - 1) {
        const int lane = __ffs((int)left) - 1;
        const float x =
            recompute_apart(call, __shfl_sync(~0u, row, lane), __shfl_sync(~0u, column, lane));
        sum = (int)threadIdx.x % 32 == lane ? x : sum;
    }
    return sum;
}

/* A sum divided by two powers of two, without leaving the range in between. */
ECO_DEVICE float divided(float x, float s, float t)
{
    const float f = reciprocal_pow2(s), g = reciprocal_pow2(t);
    return x * fminf(f, g) * fmaxf(f, g);
}

#endif /* ECO_GPU_GEMM_EMULATED_F32_NONFINITE_CUH */
