/*
 * Scales floats by powers of two and rounds them to F16; see args.h. A number keeps 11 bits if it
 * is at least 2^-29 of the largest number with the same scale, and fewer bits down to 2^-39.
 * Infinity and NaN do not affect the scale and stay what they are.
 */
#include "gpu/arch/grid_dependency.cuh"
#include "gpu/gemm/scaled_f16/row_max.cuh"
#include "gpu/kernels.h"

enum { CONVERT_BLOCKS = 1056 }; /* of a launch over rows */

static __global__ void __launch_bounds__(ROW_THREADS)
    find_largest(const __grid_constant__ struct eco_scaled_f16_call call)
{
    launch_dependent_grids();
    wait_on_dependent_grids();
    search(call.of[blockIdx.y], (int32_t)blockIdx.x, (int32_t)gridDim.x,
           call.most + blockIdx.y * ECO_SCALED_F16_BLOCKS);
}

/* The scale of a matrix, from what `blocks` blocks found. Called by all threads. */
ECO_DEVICE float power_for(const eco_scaled_f16_call &call, int k, int32_t blocks)
{
    __shared__ float of_warp[MOST_WARPS];
    const int32_t thread = (int32_t)threadIdx.x;
    float most = 0;
#pragma unroll
    for (int32_t i = 0; i < ECO_SCALED_F16_BLOCKS; i += ROW_THREADS)
        most = fmaxf(most,
                     i + thread < blocks ? call.most[k * ECO_SCALED_F16_BLOCKS + i + thread] : 0);
    most = largest_of_block(most, of_warp);
    __syncthreads(); /* the next call writes there */
    return scale_for(most);
}

/* The same; for the first of two factors limited, so that their product stays in range. */
ECO_DEVICE float power_of(const eco_scaled_f16_call &call, int k, int32_t blocks)
{
    const float power = power_for(call, k, blocks);
    if (!call.together || k > 0)
        return power;
    return fminf(power, 0x1p120f * reciprocal_pow2(power_for(call, 1, blocks)));
}

/* Called by one block of each matrix. */
ECO_DEVICE void publish_inverse(const eco_scaled_f16_call &call, int k, float power, int32_t blocks)
{
    float inverse = reciprocal_pow2(power);
    if (call.together && k == 0)
        inverse *= reciprocal_pow2(power_for(call, 1, blocks));
    if (threadIdx.x > 0 || (call.together && k > 0))
        return;
    call.scalars->inverse[k] = inverse;
    call.scalars->zero = 0;
    call.scalars->one = 1;
}

ECO_DEVICE void narrow_row(const eco_scaled_f16_matrix &m, int32_t r, float power, bool fours)
{
    const float *from = m.from + (size_t)r * m.from_row;
    __half *to = (__half *)m.to + (size_t)r * m.to_row;
    const int32_t lane = (int32_t)threadIdx.x % WARP, n = m.columns / FOUR;
    if (fours)
        for (int32_t first = 0; first < n; first += ROW_OF_WARP) {
            stretch x;
            x.read(from, first, n);
#pragma unroll
            for (int i = 0; i < stretch::HELD; i++)
                if (stretch::index(first, i) < n)
                    ((uint2 *)to)[stretch::index(first, i)] = nearest_four(x.of[i], power);
        }
    else
        for (int32_t i = lane; i < m.columns; i += WARP)
            to[i] = __float2half_rn(from[i] * power);
    for (int32_t i = m.columns + lane; i < m.to_row; i += WARP)
        to[i] = __float2half_rn(0);
}

static __global__ void __launch_bounds__(ROW_THREADS)
    narrow_matrix(const __grid_constant__ struct eco_scaled_f16_call call, int32_t searchers)
{
    const int k = (int)blockIdx.y;
    const eco_scaled_f16_matrix &m = call.of[k];
    const bool fours = in_fours(m);
    launch_dependent_grids();
    wait_on_dependent_grids();
    const float power = power_of(call, k, searchers);
    if (blockIdx.x == 0)
        publish_inverse(call, k, power, searchers);
    for (int32_t r = (int32_t)(blockIdx.x * ROW_WARPS + threadIdx.x / WARP); r < m.rows;
         r += (int32_t)gridDim.x * ROW_WARPS)
        /* zeros have the largest scale; keep it finite */
        narrow_row(m, r, fminf(power * inverse_of(m, r), 0x1p127f), fours);
}

cudaError_t eco_launch_scaled_f16(const struct eco_scaled_f16_call *call, bool overlap,
                                  cudaStream_t stream)
{
    int32_t rows = 1;
    for (int k = 0; k < call->n; k++)
        rows = call->of[k].rows > rows ? call->of[k].rows : rows;
    const int32_t needed = (rows + ROW_WARPS - 1) / ROW_WARPS;
    int32_t searchers = call->searchers;
    cudaError_t error = cudaSuccess;
    void *argument[] = {(void *)call, &searchers};
    if (searchers == 0) {
        searchers = needed < ECO_SCALED_F16_BLOCKS ? needed : ECO_SCALED_F16_BLOCKS;
        error = eco_launch((const void *)find_largest, dim3((unsigned)searchers, (unsigned)call->n),
                           dim3(ROW_THREADS), argument, overlap, stream);
    }
    if (error != cudaSuccess)
        return error;
    const int32_t blocks = needed < CONVERT_BLOCKS ? needed : CONVERT_BLOCKS;
    return eco_launch((const void *)narrow_matrix, dim3((unsigned)blocks, (unsigned)call->n),
                      dim3(ROW_THREADS), argument, overlap, stream);
}

/* ---- products with converted dacc ------------------------------------------------------------ */

ECO_DEVICE void widen_row(const eco_scaled_f16_back_call &call, int32_t r, bool fours)
{
    const float *from = call.from + (size_t)r * call.from_row;
    float *to = call.to + (size_t)r * call.to_row;
    const float inverse = reciprocal_pow2(call.scales[r]);
    const int32_t n = call.columns / FOUR;
    if (!fours) {
        for (int32_t i = (int32_t)threadIdx.x % WARP; i < call.columns; i += WARP)
            to[i] = (call.add ? to[i] : 0) + from[i] * inverse;
        return;
    }
    for (int32_t first = 0; first < n; first += ROW_OF_WARP) {
        stretch x, old;
        x.read(from, first, n);
        old.read(to, first, call.add ? n : 0);
#pragma unroll
        for (int i = 0; i < stretch::HELD; i++)
            if (stretch::index(first, i) < n)
                ((float4 *)to)[stretch::index(first, i)] = make_float4(
                    old.of[i].x + x.of[i].x * inverse, old.of[i].y + x.of[i].y * inverse,
                    old.of[i].z + x.of[i].z * inverse, old.of[i].w + x.of[i].w * inverse);
    }
}

static __global__ void __launch_bounds__(ROW_THREADS)
    widen_back(const __grid_constant__ struct eco_scaled_f16_back_call call)
{
    const bool fours = (((uintptr_t)call.from | (uintptr_t)call.to) % 16 |
                        (call.from_row | call.to_row | (size_t)call.columns) % FOUR) == 0;
    launch_dependent_grids();
    wait_on_dependent_grids();
    for (int32_t r = (int32_t)(blockIdx.x * ROW_WARPS + threadIdx.x / WARP); r < call.rows;
         r += (int32_t)gridDim.x * ROW_WARPS)
        widen_row(call, r, fours);
}

cudaError_t eco_launch_scaled_f16_back(const struct eco_scaled_f16_back_call *call, bool overlap,
                                       cudaStream_t stream)
{
    void *argument[] = {(void *)call};
    const int32_t needed = (call->rows + ROW_WARPS - 1) / ROW_WARPS;
    if (call->rows == 0)
        return cudaSuccess;
    return eco_launch((const void *)widen_back,
                      dim3((unsigned)(needed < CONVERT_BLOCKS ? needed : CONVERT_BLOCKS)),
                      dim3(ROW_THREADS), argument, overlap, stream);
}
