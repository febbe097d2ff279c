/*
 * Operations on columns over all rows: fills accumulators with biases, and sums their gradients in
 * an order that depends on sizes alone.
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
 * A block takes neighbouring columns, 16 bytes for each thread, and a part of the rows. A thread's
 * rows are as far apart as the parts have threads, so all blocks move through memory together,
 * starting with the rows that backward steps wrote last and that are still in the L2. A thread adds
 * its rows in order, then the threads of a warp are added in pairs, then the warps in order. A
 * second kernel adds the parts.
 */
enum { AT_ONCE = 8 }; /* rows in flight for each thread */

/* Numbers that are loaded together. */
template <typename row> struct __align__(16) columns
{
    row of[16 / sizeof(row)];
};

/* Stores a number of a gradient; padding columns are not stored. */
template <typename element>
ECO_DEVICE void put_sum(const struct eco_columns_call *call, int32_t i, element sum)
{
    const int32_t unit = i % call->column;
    if (i >= call->groups * call->column || unit >= call->hidden)
        return;
    element *to = (element *)call->vectors + (size_t)(i / call->column) * call->hidden + unit;
    *to = call->add ? *to + sum : sum;
}

/* Adds n of AT_ONCE rows to the sums of a thread's columns; returns the next row. */
template <typename row, typename element>
ECO_DEVICE const row *add_rows(element *sum, const row *at, size_t apart, int32_t n)
{
    uint4 part[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++, at += apart)
        part[k] = k < n ? *(const uint4 *)at : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
        for (int w = 0; w < (int)(16 / sizeof(row)); w++)
            sum[w] += (element)((const columns<row> *)&part[k])->of[w];
    return at;
}

/* ACROSS threads for neighbouring columns, DOWN for each. With a single part the sum is final. */
template <typename row, typename element, int ACROSS, int DOWN>
static __global__ void __launch_bounds__(ACROSS *DOWN, 1024 / (ACROSS * DOWN))
    sum_parts(const __grid_constant__ struct eco_columns_call call)
{
    enum { WIDE = 16 / sizeof(row), COLUMNS = ACROSS * WIDE, WARPS = ACROSS * DOWN / WARP };
    __shared__ element share[WARPS][COLUMNS];
    const int32_t thread = (int32_t)threadIdx.x, across = thread % ACROSS,
                  parts = (int32_t)gridDim.y, apart = parts * DOWN,
                  first = (int32_t)blockIdx.y * DOWN + thread / ACROSS;
    const int32_t begin = (int32_t)blockIdx.x * COLUMNS, i = begin + across * WIDE,
                  columns_in_all = call.groups * call.column;
    const int32_t place = i < columns_in_all ? call.place[i / call.column] : -1;
    element sum[WIDE] = {}, all = 0;
    launch_dependent_grids();
    if (place >= 0) {
        const row *at = (const row *)call.rows_of.data + (size_t)first * call.rows_of.row +
                        (size_t)place * call.column + (size_t)(i % call.column);
        int32_t n = first < call.rows ? (call.rows - first - 1) / apart + 1 : 0;
        for (; n > AT_ONCE; n -= AT_ONCE)
            at = add_rows(sum, at, (size_t)apart * call.rows_of.row, AT_ONCE);
        add_rows(sum, at, (size_t)apart * call.rows_of.row, n);
    }
#pragma unroll
    for (int lanes = ACROSS; lanes < WARP; lanes *= 2)
#pragma unroll
        for (int w = 0; w < WIDE; w++)
            sum[w] += __shfl_xor_sync(~0u, sum[w], lanes);
    for (int w = 0; w < WIDE && thread % WARP < ACROSS; w++)
        share[thread / WARP][across * WIDE + w] = sum[w];
    __syncthreads();
    if (thread >= COLUMNS || begin + thread >= columns_in_all)
        return;
#pragma unroll
    for (int k = 0; k < WARPS; k++)
        all += share[k][thread];
    if (parts == 1)
        put_sum(&call, begin + thread, all);
    else
        ((element *)call.parts)[(size_t)blockIdx.y * columns_in_all + begin + thread] = all;
}

/* A block takes 32 columns, with ADDERS threads for each. A thread loads every eighth part at once
 * and adds them in order; then the threads' sums are added. */
enum { MOST_PARTS = 128, ADDERS = 8 };

template <typename element>
static __global__ void __launch_bounds__(WARP *ADDERS)
    add_parts(const __grid_constant__ struct eco_columns_call call, int32_t parts)
{
    __shared__ element share[ADDERS][WARP];
    const int32_t columns_in_all = call.groups * call.column, adder = (int32_t)threadIdx.y;
    const int32_t i = (int32_t)(blockIdx.x * WARP + threadIdx.x);
    const element *from = (const element *)call.parts + i;
    element part[MOST_PARTS / ADDERS], sum = 0;
    wait_on_dependent_grids();
#pragma unroll
    for (int32_t k = 0; k < MOST_PARTS / ADDERS; k++)
        part[k] = i < columns_in_all && k * ADDERS + adder < parts
                      ? from[(size_t)(k * ADDERS + adder) * columns_in_all]
                      : (element)0;
#pragma unroll
    for (int32_t k = 0; k < MOST_PARTS / ADDERS; k++)
        sum += part[k];
    share[adder][threadIdx.x] = sum;
    __syncthreads();
    if (adder > 0)
        return;
#pragma unroll
    for (int32_t k = 1; k < ADDERS; k++)
        sum += share[k][threadIdx.x];
    put_sum(&call, i, sum);
}

/* Threads of a block across and down. */
enum { LINE = 8, LINES = 32, FEW_ACROSS = 2, FEW_DOWN = 256 };

/* Up to this number of rows one kernel is as fast as two. */
enum { FEW_ROWS = 1024 };

/* n / each, rounded up. */
static int32_t shares(int32_t n, int32_t each)
{
    return n / each + (n % each > 0);
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Enough parts to fill a large device, whichever device it is, so that bits are the same
 * everywhere; more parts if a thread would add too many rows in a chain. */
static int32_t parts_for(int32_t rows, int32_t blocks, size_t room)
{
    enum { BLOCKS = 264, LEAST_ROWS = 4, MOST_ROWS = 64 };
    const int32_t enough = least(BLOCKS / blocks, shares(rows, LINES * LEAST_ROWS)),
                  chains = shares(rows, LINES * MOST_ROWS);
    const int32_t parts = least(enough > chains ? enough : chains, MOST_PARTS);
    return room < (size_t)parts ? (int32_t)room : parts;
}

template <typename row, typename element>
static cudaError_t launch_sum(const struct eco_columns_call *call, bool overlap,
                              cudaStream_t stream)
{
    enum { WIDE = 16 / sizeof(row), OF_BLOCK = LINE * WIDE, OF_FEW = FEW_ACROSS * WIDE };
    const int32_t columns = call->groups * call->column,
                  blocks = (columns + OF_BLOCK - 1) / OF_BLOCK,
                  parts = parts_for(call->rows, blocks,
                                    call->parts_bytes / ((size_t)columns * sizeof(element)));
    void *summed[] = {(void *)call}, *added[] = {(void *)call, (void *)&parts};
    if (call->column % WIDE != 0 || call->rows_of.row % WIDE != 0)
        return cudaErrorInvalidValue; /* rows must be whole groups */
    if (call->rows <= FEW_ROWS)
        return cudaLaunchKernel((const void *)sum_parts<row, element, FEW_ACROSS, FEW_DOWN>,
                                dim3(((unsigned)columns + OF_FEW - 1) / OF_FEW),
                                dim3(FEW_ACROSS * FEW_DOWN), summed, 0, stream);
    if (parts == 0)
        return cudaErrorInvalidValue;
    const cudaError_t error = cudaLaunchKernel((const void *)sum_parts<row, element, LINE, LINES>,
                                               dim3((unsigned)blocks, (unsigned)parts),
                                               dim3(LINE * LINES), summed, 0, stream);
    if (error != cudaSuccess || parts == 1)
        return error;
    return eco_launch((const void *)add_parts<element>, dim3(((unsigned)columns + WARP - 1) / WARP),
                      dim3(WARP, ADDERS), added, overlap, stream);
}

cudaError_t eco_launch_sum(const struct eco_columns_call *call, bool overlap, cudaStream_t stream)
{
    if (call->groups * call->column == 0)
        return cudaSuccess;
    switch (call->rows_of.type) {
    case ECORNN_F64:
        return launch_sum<double, double>(call, overlap, stream);
    case ECORNN_BF16:
        return launch_sum<__nv_bfloat16, float>(call, overlap, stream);
    case ECORNN_F16:
        return launch_sum<__half, float>(call, overlap, stream);
    default:
        return launch_sum<float, float>(call, overlap, stream);
    }
}
