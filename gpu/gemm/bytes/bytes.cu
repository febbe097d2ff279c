/*
 * Matrices of 8 bits: quantised as common/quantise.c does, widened, and multiplied.
 */
#include "gpu/arch/grid_dependency.cuh"
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
    B_ROWS = 4, /* rows of B of a warp */
    MOST = 8,   /* rows of A */
    PART = 4,   /* k of a lane that are loaded at once */
    PARTS = 4,  /* such parts before they are multiplied */
    BYTES_TILE = PARTS * PART * WARP
};

struct bytes {
    uint32_t of[PARTS][B_ROWS];
};

/* whole: parts are aligned words, and k is a multiple of them. */
template <bool whole> ECO_DEVICE uint32_t load_part(const int8_t *b, int32_t k, int32_t end)
{
    if (whole)
        return k < end ? __ldcg((const unsigned *)(const void *)(b + k)) : 0;
    uint32_t word = 0;
    for (int i = 0; i < PART; i++)
        word |= k + i < end ? (uint32_t)(uint8_t)b[k + i] << 8 * i : 0;
    return word;
}

template <bool whole> ECO_DEVICE float4 load_floats(const float *a, int32_t k, int32_t end)
{
    if (whole)
        return k < end ? *(const float4 *)(a + k) : make_float4(0, 0, 0, 0);
    return make_float4(k < end ? a[k] : 0, k + 1 < end ? a[k + 1] : 0, k + 2 < end ? a[k + 2] : 0,
                       k + 3 < end ? a[k + 3] : 0);
}

/* The integer in byte i of a word whose sign bits are inverted: 0x4B000000 is 2^23. */
ECO_DEVICE float byte_of(uint32_t word, int i)
{
    return __uint_as_float(__byte_perm(word, 0x4B000000, 0x7440 | i)) - (0x1p23f + 128);
}

template <bool whole>
ECO_DEVICE void load_tile(struct bytes *tile, const int8_t *const b[B_ROWS], int32_t first,
                          int32_t end)
{
#pragma unroll
    for (int p = 0; p < PARTS; p++)
#pragma unroll
        for (int r = 0; r < B_ROWS; r++)
            tile->of[p][r] =
                load_part<whole>(b[r], first + (p * WARP + (int)threadIdx.x % WARP) * PART, end);
}

template <int rows, bool whole>
ECO_DEVICE void multiply_tile(float (&sum)[B_ROWS][rows], const struct bytes *tile,
                              const float *const a[rows], int32_t first, int32_t end)
{
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const int32_t k = first + (p * WARP + (int)threadIdx.x % WARP) * PART;
        float4 x[rows];
#pragma unroll
        for (int n = 0; n < rows; n++)
            x[n] = load_floats<whole>(a[n], k, end);
#pragma unroll
        for (int r = 0; r < B_ROWS; r++) {
            const uint32_t word = tile->of[p][r] ^ 0x80808080;
            const float q[PART] = {byte_of(word, 0), byte_of(word, 1), byte_of(word, 2),
                                   byte_of(word, 3)};
#pragma unroll
            for (int n = 0; n < rows; n++)
                sum[r][n] =
                    fmaf(q[3], x[n].w,
                         fmaf(q[2], x[n].z, fmaf(q[1], x[n].y, fmaf(q[0], x[n].x, sum[r][n]))));
        }
    }
}

/* Each lane gets the sum of all. */
ECO_DEVICE float sum_of_warp(float value)
{
#pragma unroll
    for (int other = WARP / 2; other > 0; other /= 2)
        value += __shfl_xor_sync(~0u, value, other);
    return value;
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
static __global__ void __launch_bounds__(WARPS *WARP)
    bytes_product(const __grid_constant__ struct eco_bytes_product call)
{
    const int32_t first = (int32_t)((blockIdx.x * WARPS + threadIdx.x / WARP) * B_ROWS),
                  row = (int32_t)blockIdx.y * rows;
    const int8_t *b[B_ROWS];
    const float *a[rows];
    float sum[B_ROWS][rows] = {};
    struct bytes tile, next;
    if (first >= call.n)
        return;
#pragma unroll
    for (int r = 0; r < B_ROWS; r++)
        b[r] = call.b + (size_t)min(first + r, call.n - 1) * call.b_row;
#pragma unroll
    for (int n = 0; n < rows; n++)
        a[n] = call.a + (size_t)min(row + n, call.m - 1) * call.a_row;
    if (!call.early)
        wait_on_dependent_grids();
    load_tile<whole>(&tile, b, 0, call.k);
    if (call.early)
        wait_on_dependent_grids();
    launch_dependent_grids();
    for (int32_t k = 0; k < call.k; k += BYTES_TILE) {
        load_tile<whole>(&next, b, k + BYTES_TILE, call.k);
        multiply_tile<rows, whole>(sum, &tile, a, k, call.k);
        tile = next;
    }
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int r = 0; r < B_ROWS; r++)
#pragma unroll
        for (int n = 0; n < rows; n++) {
            const float all = sum_of_warp(sum[r][n]);
            if (lane == (r * rows + n) % WARP)
                store_sum(&call, row + n, first + r, all);
        }
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
                        (size_t)call.a % sizeof(float4)) == 0;
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
