/*
 * Matrices of 8 bits: quantised as common/quantise.c does, widened, and multiplied.
 */
#include "gpu/arch/grid_dependency.cuh"
#include "gpu/arch/memory.cuh"
#include "gpu/copy/element.cuh"
#include "gpu/gemm/bytes/bytes.h"

/* ---- quantising: a block for each row -------------------------------------------------------- */

enum { QUANTISE_THREADS = 128, MOST_INTEGER = 127, LEAST_INTEGER = -128 };

/* The largest size in the row; NaN if a number is not finite. */
static __device__ double largest_size(const struct eco_plane *from, int32_t columns)
{
    __shared__ double sizes[QUANTISE_THREADS];
    double most = 0;
    bool odd = false;
    for (int32_t i = (int32_t)threadIdx.x; i < columns; i += QUANTISE_THREADS) {
        const double size = fabs(get(from, (size_t)i));
        odd |= !isfinite(size);
        most = fmax(most, size);
    }
    sizes[threadIdx.x] = most;
    if (__syncthreads_or(odd))
        return NAN;
    for (int half = QUANTISE_THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            sizes[threadIdx.x] = fmax(sizes[threadIdx.x], sizes[threadIdx.x + half]);
        __syncthreads();
    }
    return sizes[0];
}

static __device__ bool are_multiples(const struct eco_plane *from, int32_t columns, double scale)
{
    for (int32_t i = (int32_t)threadIdx.x; i < columns; i += QUANTISE_THREADS) {
        const double q = get(from, (size_t)i) / scale, whole = rint(q);
        if (fabs(q - whole) > 0x1p-15 || whole > MOST_INTEGER || whole < LEAST_INTEGER)
            return false;
    }
    return true;
}

static __device__ float scale_of_row(const struct eco_plane *from, int32_t columns)
{
    const double most = largest_size(from, columns);
    for (int q = 1; q <= -LEAST_INTEGER && most > 0; q++)
        if (__syncthreads_and(are_multiples(from, columns, most / q)))
            return (float)(most / q);
    return (float)(most / MOST_INTEGER);
}

static __global__ void __launch_bounds__(QUANTISE_THREADS)
    quantise(const __grid_constant__ struct eco_bytes_rows call)
{
    const size_t row = blockIdx.x;
    struct eco_plane from = {.type = call.type};
    from.data = (char *)call.from + row * call.from_row *
                                        (call.type == ECORNN_F64   ? sizeof(double)
                                         : call.type == ECORNN_F32 ? sizeof(float)
                                                                   : sizeof(uint16_t));
    const float scale = scale_of_row(&from, call.columns);
    for (int32_t i = (int32_t)threadIdx.x; i < call.columns; i += QUANTISE_THREADS)
        call.to[row * call.to_row + (size_t)i] =
            (int8_t)(scale > 0 ? (int)rintf((float)get(&from, (size_t)i) / scale) : 0);
    if (threadIdx.x == 0)
        call.scale[row] = scale;
}

cudaError_t eco_launch_quantise(const struct eco_bytes_rows *rows, cudaStream_t stream)
{
    void *argument[] = {(void *)rows};
    return rows->rows == 0 ? cudaSuccess
                           : cudaLaunchKernel((const void *)quantise, dim3((unsigned)rows->rows),
                                              dim3(QUANTISE_THREADS), argument, 0, stream);
}

/* ---- widening -------------------------------------------------------------------------------- */

enum { WIDEN_THREADS = 256, WIDEN_BLOCKS = 4096 };

static __global__ void widen_rows(float *to, const int8_t *from, const float *scale, int32_t rows,
                                  int32_t columns)
{
    const int64_t all = (int64_t)rows * columns;
    for (int64_t i = (int64_t)blockIdx.x * WIDEN_THREADS + threadIdx.x; i < all;
         i += (int64_t)gridDim.x * WIDEN_THREADS)
        to[i] = scale[i / columns] * (float)from[i];
}

cudaError_t eco_launch_widen_bytes(float *to, const int8_t *from, const float *scale, int32_t rows,
                                   int32_t columns, cudaStream_t stream)
{
    void *arguments[] = {&to, (void *)&from, (void *)&scale, &rows, &columns};
    const int64_t blocks = ((int64_t)rows * columns + WIDEN_THREADS - 1) / WIDEN_THREADS;
    if (blocks == 0)
        return cudaSuccess;
    return cudaLaunchKernel((const void *)widen_rows,
                            dim3(blocks < WIDEN_BLOCKS ? (unsigned)blocks : WIDEN_BLOCKS),
                            dim3(WIDEN_THREADS), arguments, 0, stream);
}

/* ---- the product: a warp has a few rows of B and up to eight of A -----------------------------
 */

enum {
    WARPS = 4,
    B_ROWS = 4, /* of a warp */
    MOST = 8,   /* rows of A */
    PART = 8    /* k of a lane that are loaded at once */
};

/* Numbers beyond the end are 0. whole: parts are aligned, and k is a multiple of them. */
template <bool whole> ECO_DEVICE uint2 load_part(const int8_t *b, int32_t k, int32_t end)
{
    uint2 part = load_8_relaxed_if(whole && k < end, b + k);
#pragma unroll
    for (int i = 0; i < PART && !whole; i++)
        (i < 4 ? part.x : part.y) |= (uint32_t)(uint8_t)b[min(k + i, end - 1)] << 8 * (i % 4);
    return part;
}

template <bool whole>
ECO_DEVICE void load_floats(float (&x)[PART], const float *a, int32_t k, int32_t end)
{
#pragma unroll
    for (int i = 0; i < PART; i += 4) {
        const uint4 four = whole ? load_16_if(k < end, a + k + i) : make_uint4(0, 0, 0, 0);
        x[i] = __uint_as_float(four.x);
        x[i + 1] = __uint_as_float(four.y);
        x[i + 2] = __uint_as_float(four.z);
        x[i + 3] = __uint_as_float(four.w);
    }
#pragma unroll
    for (int i = 0; i < PART && !whole; i++)
        x[i] = k + i < end ? a[k + i] : 0;
}

/* The integer in byte i of a word whose sign bits are inverted: 0x4B000000 is 2^23. */
ECO_DEVICE float byte_of(uint32_t word, int i)
{
    return __uint_as_float(__byte_perm(word, 0x4B000000, 0x7440 | i)) - (0x1p23f + 128);
}

template <int rows>
ECO_DEVICE void multiply_part(float *sum, uint2 part, const float (&x)[rows][PART])
{
#pragma unroll
    for (int i = 0; i < PART; i++) {
        const float q = byte_of((i < 4 ? part.x : part.y) ^ 0x80808080, i % 4);
#pragma unroll
        for (int n = 0; n < rows; n++)
            sum[n] = fmaf(q, x[n][i], sum[n]);
    }
}

/* The sums over all lanes of `count` numbers, in one order for any count: lane i gets number
 * i / (WARP / count). */
template <int count> ECO_DEVICE float sum_of_warp(float (&value)[count])
{
#pragma unroll
    for (int level = 0; level < 5; level++) {
        const int half = count >> (level + 1), other = WARP / 2 >> level;
        const bool upper = ((int)threadIdx.x & other) != 0;
        if (half == 0)
            value[0] += __shfl_xor_sync(~0u, value[0], other);
#pragma unroll
        for (int i = 0; i < count / 2; i++)
            if (i < half) {
                const float given = upper ? value[i] : value[i + half];
                value[i] =
                    (upper ? value[i + half] : value[i]) + __shfl_xor_sync(~0u, given, other);
            }
    }
    return value[0];
}

ECO_DEVICE void store_sum(const struct eco_bytes_product *call, int32_t row, int32_t column,
                          float sum)
{
    if (row >= call->m || column >= call->n)
        return;
    float *const c = call->c + (size_t)row * call->c_row + column;
    const float before = call->add ? *c : call->bias ? call->bias[column] : 0;
    *c = fmaf(call->scale[column], sum, before);
}

template <int rows, bool whole>
static __global__ void __launch_bounds__(WARPS *WARP, rows > 4 ? 3 : 4)
    bytes_product(const __grid_constant__ struct eco_bytes_product call)
{
    const int32_t first = (int32_t)((blockIdx.x * WARPS + threadIdx.x / WARP) * B_ROWS),
                  row = (int32_t)blockIdx.y * rows;
    const int8_t *b[B_ROWS];
    const float *a[rows];
    enum { PARTS = rows > 2 ? 2 : 4, BYTES_TILE = PARTS * PART * WARP };
    const int lane = (int)threadIdx.x % WARP;
    float sum[B_ROWS * rows] = {}, x[rows][PART];
    uint2 tile[PARTS][B_ROWS];
    if (first >= call.n)
        return;
#pragma unroll
    for (int r = 0; r < B_ROWS; r++)
        b[r] = call.b + (size_t)min(first + r, call.n - 1) * call.b_row;
#pragma unroll
    for (int n = 0; n < rows; n++)
        a[n] = call.a + (size_t)min(row + n, call.m - 1) * call.a_row;
    for (int32_t k = lane * PART; k < call.k + lane * PART; k += BYTES_TILE) {
#pragma unroll
        for (int p = 0; p < PARTS; p++)
#pragma unroll
            for (int r = 0; r < B_ROWS; r++)
                tile[p][r] = load_part<whole>(b[r], k + p * WARP * PART, call.k);
        if (k == lane * PART) { /* A is there */
            wait_on_dependent_grids();
            launch_dependent_grids();
        }
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
#pragma unroll
            for (int n = 0; n < rows; n++)
                load_floats<whole>(x[n], a[n], k + p * WARP * PART, call.k);
#pragma unroll
            for (int r = 0; r < B_ROWS; r++)
                multiply_part<rows>(&sum[r * rows], tile[p][r], x);
        }
    }
    const float all = sum_of_warp(sum);
    const int shared = WARP / (B_ROWS * rows), number = lane / shared;
    if (lane % shared == 0)
        store_sum(&call, row + number % rows, first + number / rows, all);
}

template <int rows> static const void *multiply_of(bool whole)
{
    return whole ? (const void *)bytes_product<rows, true>
                 : (const void *)bytes_product<rows, false>;
}

static const void *multiply_kernel(int rows, bool whole)
{
    return rows == 1   ? multiply_of<1>(whole)
           : rows == 2 ? multiply_of<2>(whole)
           : rows == 4 ? multiply_of<4>(whole)
                       : multiply_of<MOST>(whole);
}

cudaError_t eco_launch_bytes_product(const struct eco_bytes_product *product, bool overlap,
                                     cudaStream_t stream)
{
    enum { GROUPS = 65535 };
    struct eco_bytes_product call = *product;
    int rows = 1;
    while (rows < MOST && rows < call.m)
        rows *= 2;
    const bool whole = ((call.b_row | (size_t)call.k | call.a_row | (size_t)call.b) % PART |
                        (size_t)call.a % sizeof(uint4)) == 0;
    cudaError_t error = cudaSuccess;
    for (int32_t left = call.m; error == cudaSuccess && left > 0; left -= call.m) {
        call.m = left < GROUPS * rows ? left : GROUPS * rows;
        void *argument[] = {&call};
        const unsigned columns = WARPS * B_ROWS;
        error = eco_launch(multiply_kernel(rows, whole),
                           dim3(((unsigned)call.n + columns - 1) / columns,
                                (unsigned)((call.m + rows - 1) / rows)),
                           dim3(WARPS * WARP), argument, overlap, stream);
        call.a += (size_t)call.m * call.a_row;
        call.c += (size_t)call.m * call.c_row;
    }
    return error;
}
