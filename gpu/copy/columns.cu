/*
 * Columns over all rows: biases into the accumulators, and sums of their gradients in an order that
 * depends on nothing but the sizes.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/arch/grid_dependency.cuh"
#include "gpu/kernels.h"

/* ---- fill ------------------------------------------------------------------------------------ */

template <typename element>
static __global__ void fill_rows(const __grid_constant__ struct eco_columns_call call)
{
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= call.groups * call.column)
        return;
    const int32_t place = call.place[i / call.column], unit = i % call.column;
    const element *vector = (const element *)call.vectors;
    const element value = place < 0 || unit >= call.hidden
                              ? (element)0
                              : vector[(size_t)place * call.hidden + (size_t)unit];
    element *to = (element *)call.rows_of.data;
    for (int32_t r = (int32_t)blockIdx.y; r < call.rows; r += (int32_t)gridDim.y)
        to[(size_t)r * call.rows_of.row + (size_t)i] = value;
}

cudaError_t eco_launch_fill(const struct eco_columns_call *call, cudaStream_t stream)
{
    enum { THREADS = 256, ROWS_AT_ONCE = 4 };
    void *argument[] = {(void *)call};
    const int32_t columns = call->groups * call->column;
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

/*
 * Rows in parts, a block for each part of 32 * WIDE columns: 8 threads to each, every one its rows
 * in order, then pairs of them.  Parts are added by a second kernel, in order.
 */
enum { ACROSS = 32, DOWN = 8, ROWS_OF_PART = 64, MOST_PARTS = 64 };

/* So many neighbouring columns, read as one. */
template <typename row, int WIDE> struct __align__(sizeof(row) * WIDE) columns
{
    row of[WIDE];
};

template <typename row, typename element, int WIDE>
static __global__ void sum_parts(const __grid_constant__ struct eco_columns_call call, int32_t each)
{
    __shared__ element share[DOWN][ACROSS * WIDE + 1];
    const int32_t i = (int32_t)(blockIdx.x * ACROSS + threadIdx.x) * WIDE;
    const int32_t columns_in_all = call.groups * call.column;
    const int32_t place = i < columns_in_all ? call.place[i / call.column] : -1;
    const row *from = (const row *)call.rows_of.data +
                      (size_t)(place < 0 ? 0 : place) * call.column + (size_t)(i % call.column);
    const int32_t first = (int32_t)blockIdx.y * each;
    const int32_t end = first + each < call.rows ? first + each : call.rows;
    element sum[WIDE] = {0};
    launch_dependent_grids();
#pragma unroll 8
    for (int32_t r = first + (int32_t)threadIdx.y; place >= 0 && r < end; r += DOWN) {
        const columns<row, WIDE> at =
            *(const columns<row, WIDE> *)&from[(size_t)r * call.rows_of.row];
        for (int w = 0; w < WIDE; w++)
            sum[w] += (element)at.of[w];
    }
    for (int w = 0; w < WIDE; w++)
        share[threadIdx.y][threadIdx.x * WIDE + w] = sum[w];
    for (unsigned half = DOWN / 2; half > 0; half /= 2) {
        __syncthreads();
        for (int w = 0; w < WIDE && threadIdx.y < half; w++)
            share[threadIdx.y][threadIdx.x * WIDE + w] +=
                share[threadIdx.y + half][threadIdx.x * WIDE + w];
    }
    element *to = (element *)call.parts + (size_t)blockIdx.y * columns_in_all;
    for (int w = 0; w < WIDE && threadIdx.y == 0 && i < columns_in_all; w++)
        to[i + w] = share[0][threadIdx.x * WIDE + w];
}

template <typename element>
static __global__ void add_parts(const __grid_constant__ struct eco_columns_call call,
                                 int32_t parts)
{
    const int32_t columns_in_all = call.groups * call.column;
    const int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= columns_in_all || i % call.column >= call.hidden)
        return;
    const element *from = (const element *)call.parts + i;
    element *to =
        (element *)call.vectors + (size_t)(i / call.column) * call.hidden + i % call.column;
    element part[MOST_PARTS], sum = 0; /* added one by one, but read side by side */
    wait_on_dependent_grids();
#pragma unroll
    for (int32_t k = 0; k < MOST_PARTS; k++)
        part[k] = k < parts ? from[(size_t)k * columns_in_all] : (element)0;
#pragma unroll
    for (int32_t k = 0; k < MOST_PARTS; k++)
        sum += part[k];
    *to = call.add ? *to + sum : sum;
}

/* Of so few rows that one kernel sums them as fast as two: 32 threads to a column, every one its
 * rows in order, then pairs of them. */
enum { FEW_ROWS = 1024 };

template <typename row, typename element>
static __global__ void __launch_bounds__(ACROSS *ACROSS)
    sum_few(const __grid_constant__ struct eco_columns_call call)
{
    __shared__ element share[ACROSS][ACROSS + 1];
    const int32_t i = (int32_t)(blockIdx.x * ACROSS + threadIdx.x);
    const int32_t group = i / call.column, unit = i % call.column;
    const int32_t place = group < call.groups ? call.place[group] : -1;
    const row *from = (const row *)call.rows_of.data +
                      (size_t)(place < 0 ? 0 : place) * call.column + (size_t)unit;
    element sum = 0;
    launch_dependent_grids();
#pragma unroll 16
    for (int32_t r = (int32_t)threadIdx.y; r < call.rows; r += ACROSS)
        sum += place < 0 ? (element)0 : (element)from[(size_t)r * call.rows_of.row];
    share[threadIdx.y][threadIdx.x] = sum;
    for (unsigned half = ACROSS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.y < half)
            share[threadIdx.y][threadIdx.x] += share[threadIdx.y + half][threadIdx.x];
    }
    if (threadIdx.y > 0 || group >= call.groups || unit >= call.hidden)
        return;
    element *to = (element *)call.vectors + (size_t)group * call.hidden + unit;
    *to = (call.add ? *to : (element)0) + share[0][threadIdx.x];
}

template <typename row, typename element>
static cudaError_t launch_sum(const struct eco_columns_call *call, int32_t parts, bool overlap,
                              cudaStream_t stream)
{
    enum { WIDE = 8 / sizeof(row), THREADS = 256, OF_BLOCK = ACROSS * WIDE };
    const unsigned columns = (unsigned)(call->groups * call->column);
    int32_t each = (call->rows + parts - 1) / parts;
    void *few[] = {(void *)call};
    if (call->column % WIDE != 0 || call->rows_of.row % WIDE != 0)
        return cudaErrorInvalidValue; /* rows lie in whole groups */
    if (call->rows <= FEW_ROWS)
        return cudaLaunchKernel((const void *)sum_few<row, element>,
                                dim3((columns + ACROSS - 1) / ACROSS), dim3(ACROSS, ACROSS), few, 0,
                                stream);
    void *summed[] = {(void *)call, &each}, *added[] = {(void *)call, &parts};
    const cudaError_t error =
        cudaLaunchKernel((const void *)sum_parts<row, element, WIDE>,
                         dim3((columns + OF_BLOCK - 1) / OF_BLOCK, (unsigned)parts),
                         dim3(ACROSS, DOWN), summed, 0, stream);
    if (error != cudaSuccess)
        return error;
    return eco_launch((const void *)add_parts<element>, dim3((columns + THREADS - 1) / THREADS),
                      dim3(THREADS), added, overlap, stream);
}

cudaError_t eco_launch_sum(const struct eco_columns_call *call, bool overlap, cudaStream_t stream)
{
    const size_t columns = (size_t)call->groups * (size_t)call->column;
    if (columns == 0)
        return cudaSuccess;
    const size_t room = call->parts_bytes / (columns * (call->vector_type == ECORNN_F64 ? 8 : 4));
    int32_t parts = (call->rows + ROWS_OF_PART - 1) / ROWS_OF_PART;
    parts = parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : parts;
    if ((size_t)parts > room)
        parts = (int32_t)room;
    if (parts == 0)
        return cudaErrorInvalidValue;
    switch (call->rows_of.type) {
    case ECORNN_F64:
        return launch_sum<double, double>(call, parts, overlap, stream);
    case ECORNN_BF16:
        return launch_sum<__nv_bfloat16, float>(call, parts, overlap, stream);
    case ECORNN_F16:
        return launch_sum<__half, float>(call, parts, overlap, stream);
    default:
        return launch_sum<float, float>(call, parts, overlap, stream);
    }
}
