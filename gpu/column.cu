/*
 * Columns over all rows: biases into the accumulators, and sums of their gradients in an order that
 * depends on nothing but the sizes.
 */
#include "gpu/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* ---- fill ------------------------------------------------------------------------------------ */

template <typename element>
static __global__ void fill_rows(const __grid_constant__ struct eco_columns_call call)
{
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= call.groups * call.hidden)
        return;
    const int32_t place = call.place[i / call.hidden];
    const element *vector = (const element *)call.vectors;
    const element value =
        place < 0 ? (element)0 : vector[(size_t)place * call.hidden + (size_t)(i % call.hidden)];
    element *to = (element *)call.rows_of.data;
    for (int32_t r = (int32_t)blockIdx.y; r < call.rows; r += (int32_t)gridDim.y)
        to[(size_t)r * call.rows_of.row + (size_t)i] = value;
}

cudaError_t eco_launch_fill(const struct eco_columns_call *call, cudaStream_t stream)
{
    enum { THREADS = 256, ROWS_AT_ONCE = 4 };
    void *argument[] = {(void *)call};
    const int32_t columns = call->groups * call->hidden;
    const int32_t down = (call->rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;
    const dim3 grid(((unsigned)columns + THREADS - 1) / THREADS,
                    down < 65535 ? (unsigned)down : 65535);
    const void *kernel = call->vector_type == ECORNN_F64 ? (const void *)fill_rows<double>
                                                         : (const void *)fill_rows<float>;
    if (columns == 0 || call->rows == 0)
        return cudaSuccess;
    return cudaLaunchKernel(kernel, grid, dim3(THREADS), argument, 0, stream);
}

/* ---- sum ------------------------------------------------------------------------------------- */

/* A block sums 32 columns: 32 threads to each, every one its rows in order, then pairs of them. */
enum { ACROSS = 32, DOWN = 32 };

template <typename row, typename element>
static __global__ void sum_columns(const __grid_constant__ struct eco_columns_call call)
{
    __shared__ element share[DOWN][ACROSS + 1];
    const int32_t i = (int32_t)(blockIdx.x * ACROSS + threadIdx.x);
    const bool inside = i < call.groups * call.hidden;
    const int32_t place = inside ? call.place[i / call.hidden] : -1;
    const row *from =
        (const row *)call.rows_of.data + (size_t)(place < 0 ? 0 : place) * call.hidden;
    element sum = 0;
    for (int32_t r = (int32_t)threadIdx.y; place >= 0 && r < call.rows; r += DOWN)
        sum += (element)from[(size_t)r * call.rows_of.row + (size_t)(i % call.hidden)];
    share[threadIdx.y][threadIdx.x] = sum;
    for (unsigned half = DOWN / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.y < half)
            share[threadIdx.y][threadIdx.x] += share[threadIdx.y + half][threadIdx.x];
    }
    if (threadIdx.y > 0 || !inside)
        return;
    element *to = (element *)call.vectors + i;
    *to = call.add ? *to + share[0][threadIdx.x] : share[0][threadIdx.x];
}

cudaError_t eco_launch_sum(const struct eco_columns_call *call, cudaStream_t stream)
{
    void *argument[] = {(void *)call};
    const int32_t columns = call->groups * call->hidden;
    static const void *const kernel[] = {[ECORNN_F32] = (const void *)sum_columns<float, float>,
                                         [ECORNN_F64] = (const void *)sum_columns<double, double>,
                                         [ECORNN_BF16] =
                                             (const void *)sum_columns<__nv_bfloat16, float>,
                                         [ECORNN_F16] = (const void *)sum_columns<__half, float>};
    if (columns == 0)
        return cudaSuccess;
    return cudaLaunchKernel(kernel[call->rows_of.type],
                            dim3(((unsigned)columns + ACROSS - 1) / ACROSS), dim3(ACROSS, DOWN),
                            argument, 0, stream);
}
