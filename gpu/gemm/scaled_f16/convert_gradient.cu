/*
 * Converts dacc to F16 in place, each row with its own power of two. A row stays in the registers
 * of a block, so one pass over memory suffices, which also sums the columns of the old values.
 */
#include "gpu/arch/grid_dependency.cuh"
#include "gpu/gemm/scaled_f16/row_max.cuh"
#include "gpu/kernels.h"

template <int fours> struct row_of_dacc {
    float4 of[fours];

    __device__ __forceinline__ void read(const eco_scaled_f16_dacc_call &call, int32_t r)
    {
        const float *row = call.data + (size_t)r * call.row;
#pragma unroll
        for (int i = 0; i < fours; i++) {
            const int32_t column = (i * (int32_t)blockDim.x + (int32_t)threadIdx.x) * FOUR;
            of[i] =
                r < call.rows && column < call.columns ? *(const float4 *)(row + column) : float4{};
        }
    }

    /* A row that is F16 already. */
    __device__ __forceinline__ void widen(const eco_scaled_f16_dacc_call &call, int32_t r)
    {
        const uint2 *row = (const uint2 *)(call.data + (size_t)r * call.row);
        const float inverse = r < call.rows ? reciprocal_pow2(call.scales[r]) : 0;
#pragma unroll
        for (int i = 0; i < fours; i++) {
            const int32_t four = i * (int32_t)blockDim.x + (int32_t)threadIdx.x;
            const uint2 both = r < call.rows && four * FOUR < call.columns ? row[four] : uint2{};
            const float2 low = __half22float2(*(const __half2 *)&both.x),
                         high = __half22float2(*(const __half2 *)&both.y);
            of[i] =
                make_float4(low.x * inverse, low.y * inverse, high.x * inverse, high.y * inverse);
        }
    }

    __device__ __forceinline__ float largest() const
    {
        float most = 0;
#pragma unroll
        for (int i = 0; i < fours; i++)
            most = fmaxf(most, largest_of(of[i]));
        return most;
    }

    __device__ __forceinline__ void add(const row_of_dacc &other)
    {
#pragma unroll
        for (int i = 0; i < fours; i++)
            of[i] = make_float4(of[i].x + other.of[i].x, of[i].y + other.of[i].y,
                                of[i].z + other.of[i].z, of[i].w + other.of[i].w);
    }

    __device__ __forceinline__ void write(const eco_scaled_f16_dacc_call &call, int32_t r,
                                          float scale) const
    {
        uint2 *const row = (uint2 *)(call.data + (size_t)r * call.row);
#pragma unroll
        for (int i = 0; i < fours; i++) {
            const int32_t four = i * (int32_t)blockDim.x + (int32_t)threadIdx.x;
            if (four * FOUR < call.columns)
                row[four] = nearest_four(of[i], scale);
        }
    }
};

/* A row is loaded while the previous one is stored. */
template <int fours>
static __global__ void __launch_bounds__(MOST_THREADS)
    narrow_dacc(const __grid_constant__ struct eco_scaled_f16_dacc_call call)
{
    __shared__ float of_warp[2][MOST_WARPS];
    const int32_t step = call.blocks;
    row_of_dacc<fours> row, next, sum = {};
    launch_dependent_grids();
    wait_on_dependent_grids();
    if ((int32_t)blockIdx.x >= call.blocks) {
        search(call.beside, (int32_t)blockIdx.x - call.blocks, call.searchers, call.most);
        return;
    }
    for (int32_t r = (int32_t)blockIdx.x; call.narrowed && r < call.rows; r += step) {
        row.widen(call, r);
        sum.add(row);
    }
    if (!call.narrowed)
        next.read(call, (int32_t)blockIdx.x);
    for (int32_t r = (int32_t)blockIdx.x, turn = 0; !call.narrowed && r < call.rows;
         r += step, turn ^= 1) {
        row = next;
        next.read(call, r + step);
        sum.add(row);
        /* now all threads have read the row, too */
        const float scale = scale_for(largest_of_block(row.largest(), of_warp[turn]));
        if (threadIdx.x == 0)
            call.scales[r] = scale;
        row.write(call, r, scale);
    }
#pragma unroll
    for (int i = 0; i < fours; i++) {
        const int32_t column = (i * (int32_t)blockDim.x + (int32_t)threadIdx.x) * FOUR;
        if (column < call.columns)
            *(float4 *)(call.sums + (size_t)blockIdx.x * call.columns + column) = sum.of[i];
    }
}

cudaError_t eco_launch_scaled_f16_dacc(const struct eco_scaled_f16_dacc_call *call, bool overlap,
                                       cudaStream_t stream)
{
    static const struct {
        int32_t fours, threads;
        const void *kernel;
    } kernels[] = {{1, 256, (const void *)narrow_dacc<1>},
                   {2, 256, (const void *)narrow_dacc<2>},
                   {2, 512, (const void *)narrow_dacc<2>},
                   {4, 512, (const void *)narrow_dacc<4>},
                   {8, MOST_THREADS, (const void *)narrow_dacc<8>}};
    static_assert(8 * MOST_THREADS * FOUR >= ECO_SCALED_F16_MOST_COLUMNS, "a row fits a block");
    void *argument[] = {(void *)call};
    int k = 0;
    while (kernels[k].fours * kernels[k].threads * FOUR < call->columns)
        k++;
    if (call->rows == 0)
        return cudaSuccess;
    return eco_launch(kernels[k].kernel, dim3((unsigned)(call->blocks + call->searchers)),
                      dim3((unsigned)kernels[k].threads), argument, overlap, stream);
}
