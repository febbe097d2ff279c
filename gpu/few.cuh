/*
 * Products of few rows, several in one launch: each block belongs to one.  A matrix whose columns
 * an instruction wants as rows is read as it lies, some neighbouring rows of some neighbouring
 * columns to a thread, and turned in registers.
 */
#include "gpu/arithmetic.cuh"
#include "gpu/few_call.h"

#include "gpu/ahead.cuh"

#include "gpu/fused_multiply.cuh"

enum { THREADS = ECO_FEW_THREADS, WARPS = ECO_FEW_WARPS };

/* ---- columns as rows ------------------------------------------------------------------------- */

/* Of a matrix what a thread reads: UNITS columns of it, from `first` on.  WHOLE: as one; else one
 * by one, those that are there. */
template <int UNITS, bool WHOLE> struct columns {
    const narrow *first;
    size_t row;
    int there;
};

/* PIECE rows of them. */
template <int UNITS> struct block_of_columns {
    enum { words = UNITS * sizeof(narrow) / sizeof(unsigned) };
    unsigned of[PIECE][words];
};

template <int UNITS, bool WHOLE>
static __device__ __forceinline__ struct columns<UNITS, WHOLE>
columns_of(const void *matrix, size_t row, int first, int end) {
    const int there = end - first;
    return {(const narrow *)matrix + (there > 0 ? first : 0), row, there};
}

template <int WORDS>
static __device__ __forceinline__ void read_words(const void *from, bool there, unsigned *to)
{
    if constexpr (WORDS == 4) {
        const uint4 v = there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else if constexpr (WORDS == 2) {
        const uint2 v = there ? *(const uint2 *)from : make_uint2(0, 0);
        to[0] = v.x, to[1] = v.y;
    } else {
        to[0] = there ? *(const unsigned *)from : 0;
    }
}

template <int UNITS>
static __device__ __forceinline__ void read_some_columns(const narrow *from, int there,
                                                         unsigned *to)
{
    __align__(16) narrow x[UNITS];
#pragma unroll
    for (int u = 0; u < UNITS; u++)
        x[u] = u < there ? from[u] : to_narrow(0);
    read_words<block_of_columns<UNITS>::words>(x, true, to);
}

/* Rows from k on, zeros from `end` on. */
template <int UNITS, bool WHOLE>
static __device__ __forceinline__ void fetch_columns(const struct columns<UNITS, WHOLE> &at, int k,
                                                     int end, struct block_of_columns<UNITS> *to)
{
    const narrow *from = at.first + (size_t)k * at.row;
#pragma unroll
    for (int i = 0; i < PIECE; i++, from += at.row) {
        if constexpr (WHOLE)
            read_words<block_of_columns<UNITS>::words>(from, k + i < end, to->of[i]);
        else
            read_some_columns<UNITS>(from, k + i < end ? at.there : 0, to->of[i]);
    }
}

/* One column's PIECE numbers. */
template <int UNITS>
static __device__ __forceinline__ uint4 turned(const struct block_of_columns<UNITS> &v, int unit)
{
#if defined(ECO_ROWS_F32)
    return make_uint4(v.of[0][unit], v.of[1][unit], v.of[2][unit], v.of[3][unit]);
#else
    enum { LOWER = 0x5410, UPPER = 0x7632 };
    const int w = unit / 2, half = unit % 2 ? UPPER : LOWER;
    return make_uint4(
        __byte_perm(v.of[0][w], v.of[1][w], half), __byte_perm(v.of[2][w], v.of[3][w], half),
        __byte_perm(v.of[4][w], v.of[5][w], half), __byte_perm(v.of[6][w], v.of[7][w], half));
#endif
}

/* ---- where sums go --------------------------------------------------------------------------- */

WORD float after(const struct eco_few_job *job, size_t at, float sum)
{
    if (!job->add)
        return sum;
    return sum +
           (job->narrow ? to_real(((const narrow *)job->c)[at]) : ((const float *)job->c)[at]);
}

WORD void store(const struct eco_few_job *job, size_t at, float sum)
{
    const float value = after(job, at, sum);
    if (job->narrow)
        ((narrow *)job->c)[at] = to_narrow(value);
    else
        ((float *)job->c)[at] = value;
}

/* Of floats in parts a sum that is not finite is added anew, term by term. */
WORD float sum_anew(const narrow *a, size_t a_step, const narrow *b, size_t b_step, int k)
{
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum = __fmaf_rn(to_real(a[(size_t)i * a_step]), to_real(b[(size_t)i * b_step]), sum);
    return sum;
}

WORD bool is_finite(float sum)
{
    return !IN_PARTS || fabsf(sum) < INFINITY_BEGINS;
}

/* ---- back through a matrix ------------------------------------------------------------------- */

enum { BACK_UNITS = 2, BACK_TILES = 1, BACK_LINE = ECO_FEW_BACK_COLUMNS + 4 };

template <int ACROSS, bool WHOLE> struct back_operands {
    enum { whole = WHOLE };
    struct columns<BACK_UNITS, WHOLE> matrix;
    const narrow *row[ACROSS];
    int first, end, k, quarter;
    bool aligned;
};
template <int ACROSS> struct back_fetched {
    struct block_of_columns<BACK_UNITS> a;
    uint4 b[ACROSS];
};

template <int ACROSS, bool WHOLE>
static __device__ __forceinline__ void fetch_matrix(const struct back_operands<ACROSS, WHOLE> &at,
                                                    int item, struct back_fetched<ACROSS> *to)
{
    fetch_columns(at.matrix, item * ITEM + at.quarter * PIECE, item < at.end ? at.k : 0, &to->a);
}

template <int ACROSS>
static __device__ __forceinline__ void multiply_item(const struct back_fetched<ACROSS> &v,
                                                     struct sums<BACK_TILES, ACROSS> *sums)
{
    struct fetched<BACK_TILES, ACROSS> both;
    both.a[0][0] = turned(v.a, 0);
    both.a[0][1] = turned(v.a, 1);
#pragma unroll
    for (int t = 0; t < ACROSS; t++)
        both.b[t] = v.b[t];
    multiply_item(both, sums);
}

/* A thread's sums of all warps, of columns of C that lie in pairs, the second of each behind. */
template <int ACROSS>
static __device__ __forceinline__ void finish_back(const struct eco_few_job *job, int column,
                                                   int row, const float *shared)
{
    enum { COLUMNS = ECO_FEW_BACK_COLUMNS, ROWS = 8 * ACROSS };
    for (int i = (int)threadIdx.x; i < COLUMNS * ROWS; i += THREADS) {
        const int u = i % COLUMNS, r = i / COLUMNS;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            sum += shared[(w * ROWS + r) * BACK_LINE + u / 2 + u % 2 * 8];
        if (column + u >= job->n || row + r >= job->m)
            continue;
        if (!is_finite(sum))
            sum = sum_anew((const narrow *)job->a + (size_t)(row + r) * job->a_row, 1,
                           (const narrow *)job->b + column + u, job->b_row, job->k);
        store(job, (size_t)(row + r) * job->c_row + column + u, sum);
    }
}

template <int ACROSS, bool WHOLE>
static __device__ __forceinline__ void multiply_back(const struct eco_few_job *job, int block,
                                                     float *shared)
{
    enum { COLUMNS = ECO_FEW_BACK_COLUMNS, ROWS = 8 * ACROSS };
    typedef struct back_fetched<ACROSS> fetched;
    enum { AHEAD = WHOLE ? ahead<fetched>::items : 1 };
    const int across = (job->n + COLUMNS - 1) / COLUMNS;
    const int column = block % across * COLUMNS, row = block / across * ROWS;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int items = (job->k + ITEM - 1) / ITEM;
    struct sums<BACK_TILES, ACROSS> sums = {
    };
    struct back_operands<ACROSS, WHOLE> at;
    at.matrix =
        columns_of<BACK_UNITS, WHOLE>(job->b, job->b_row, column + lane / 4 * BACK_UNITS, job->n);
    at.first = items * warp / WARPS;
    at.end = items * (warp + 1) / WARPS;
    at.k = job->k;
    at.quarter = lane % 4;
    at.aligned = job->a_whole;
#pragma unroll
    for (int t = 0; t < ACROSS; t++)
        at.row[t] = (const narrow *)job->a + min(row + t * 8 + lane / 4, job->m - 1) * job->a_row;
    multiply<fetched, AHEAD>(at, &sums, [] {});
    put_sums<BACK_LINE>(sums, shared + warp * ROWS * BACK_LINE, lane);
    __syncthreads();
    finish_back<ACROSS>(job, column, row, shared);
}

/* ---- gradients of a matrix ------------------------------------------------------------------- */

enum {
    UNITS = 4,
    TILES = 2, /* of a warp: 16 rows of C each */
    ACROSS = 4 /* and 8 columns */
};

/* Columns of C that column c of D's tiles is of, the first of four: so a thread has neighbours, and
 * so have threads. */
WORD int column_of(int c)
{
    return c % 2 * 16 + c / 2 * UNITS;
}

/* Of a thread four rows, and of each four columns twice. */
struct gradient_sums {
    float of[UNITS][2][UNITS];
};

#if defined(ECO_ROWS_F32) && !defined(ECO_FUSED_TF32)
/* Of so few terms floats are multiplied as they are as fast as in parts. */
template <bool WHOLE>
static __device__ __forceinline__ void read_four(const struct columns<UNITS, WHOLE> &at, int k,
                                                 float to[UNITS])
{
    const narrow *const from = at.first + (size_t)k * at.row;
    if constexpr (WHOLE)
        read_words<UNITS>(from, true, (unsigned *)to);
    else
        read_some_columns<UNITS>(from, at.there, (unsigned *)to);
}

template <bool WHOLE>
static __device__ __forceinline__ struct gradient_sums sum_gradient(const struct eco_few_job *job,
                                                                    int row, int column, int lane)
{
    const auto a = columns_of<UNITS, WHOLE>(job->a, job->a_row, row + lane / 4 * UNITS, job->m);
    const auto b = columns_of<UNITS, WHOLE>(job->b, job->b_row, column + lane % 4 * UNITS, job->n),
               c = columns_of<UNITS, WHOLE>(job->b, job->b_row,
                                            column + column_of(1) + lane % 4 * UNITS, job->n);
    struct gradient_sums sums = {};
    wait_for_kernels_ahead();
#pragma unroll 4
    for (int k = 0; k < job->k; k++) {
        float x[UNITS], y[2][UNITS];
        read_four(a, k, x);
        read_four(b, k, y[0]);
        read_four(c, k, y[1]);
#pragma unroll
        for (int i = 0; i < UNITS; i++)
#pragma unroll
            for (int j = 0; j < 2 * UNITS; j++)
                sums.of[i][j / UNITS][j % UNITS] =
                    __fmaf_rn(x[i], y[j / UNITS][j % UNITS], sums.of[i][j / UNITS][j % UNITS]);
    }
    return sums;
}
#else
template <bool WHOLE> struct gradient_operands {
    struct columns<UNITS, WHOLE> a, b;
    int first, end, k, quarter;
};
struct gradient_fetched {
    struct block_of_columns<UNITS> a, b;
};

/* Both are written in the run. */
template <bool WHOLE>
static __device__ __forceinline__ void fetch_matrix(const struct gradient_operands<WHOLE> &, int,
                                                    struct gradient_fetched *)
{
}

template <bool WHOLE>
static __device__ __forceinline__ void fetch_rows(const struct gradient_operands<WHOLE> &at,
                                                  int item, struct gradient_fetched *to)
{
    const int k = item * ITEM + at.quarter * PIECE, end = item < at.end ? at.k : 0;
    fetch_columns(at.a, k, end, &to->a);
    fetch_columns(at.b, k, end, &to->b);
}

WORD void multiply_item(const struct gradient_fetched &v, struct sums<TILES, ACROSS> *sums)
{
    struct fetched<TILES, ACROSS> both;
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        both.a[u / 2][u % 2] = turned(v.a, u);
        both.b[u] = turned(v.b, u);
    }
    multiply_item(both, sums);
}

template <bool WHOLE>
static __device__ __forceinline__ struct gradient_sums sum_gradient(const struct eco_few_job *job,
                                                                    int row, int column, int lane)
{
    struct sums<TILES, ACROSS> d = {
    };
    struct gradient_sums sums;
    const struct gradient_operands<WHOLE> at = {
        columns_of<UNITS, WHOLE>(job->a, job->a_row, row + lane / 4 * UNITS, job->m),
            columns_of<UNITS, WHOLE>(job->b, job->b_row, column + column_of(lane / 4), job->n), 0,
            (job->k + ITEM - 1) / ITEM, job->k, lane % 4
    };
    multiply<struct gradient_fetched, WHOLE ? 2 : 1>(at, &d, [] {});
#pragma unroll
    for (int i = 0; i < UNITS; i++)
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int j = 0; j < UNITS; j++)
                sums.of[i][e][j] = d.d[i / 2][j][i % 2 * 2 + e];
    return sums;
}
#endif

/* Four neighbours of a row of C. */
struct four {
    float *to;
    int there; /* so many of them */
};

WORD struct four four_of(const struct eco_few_job *job, int row, int column)
{
    return {(float *)job->c + (size_t)row * job->c_row + column,
            row < job->m ? job->n - column : 0};
}

WORD void add_four(const struct four &at, float to[UNITS])
{
#pragma unroll
    for (int j = 0; j < UNITS; j++)
        to[j] += j < at.there ? at.to[j] : 0;
}

WORD void store_four(const struct four &at, const float from[UNITS])
{
    if (at.there >= UNITS && (uintptr_t)at.to % sizeof(float4) == 0) {
        *(float4 *)at.to = make_float4(from[0], from[1], from[2], from[3]);
        return;
    }
#pragma unroll
    for (int j = 0; j < UNITS; j++)
        if (j < at.there)
            at.to[j] = from[j];
}

template <bool WHOLE>
static __device__ __forceinline__ void multiply_gradient(const struct eco_few_job *job, int block)
{
    enum { M = 32, N = 32, DOWN = ECO_FEW_GRADIENT_ROWS / M, WARPS_ACROSS = WARPS / DOWN };
    const int across = (job->n + ECO_FEW_GRADIENT_COLUMNS - 1) / ECO_FEW_GRADIENT_COLUMNS;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int row = block / across * ECO_FEW_GRADIENT_ROWS + warp / WARPS_ACROSS * M,
              column = block % across * ECO_FEW_GRADIENT_COLUMNS + warp % WARPS_ACROSS * N;
    if (row >= job->m || column >= job->n)
        return;
    struct gradient_sums sums = sum_gradient<WHOLE>(job, row, column, lane);
    struct four to[UNITS][2];
#pragma unroll
    for (int i = 0; i < 2 * UNITS; i++)
        to[i / 2][i % 2] =
            four_of(job, row + lane / 4 * UNITS + i / 2, column + column_of(lane % 4 * 2 + i % 2));
#pragma unroll
    for (int i = 0; i < 2 * UNITS && job->add; i++)
        add_four(to[i / 2][i % 2], sums.of[i / 2][i % 2]);
#pragma unroll
    for (int i = 0; i < 2 * UNITS; i++)
        store_four(to[i / 2][i % 2], sums.of[i / 2][i % 2]);
}

/* ---- zeros ----------------------------------------------------------------------------------- */

/* Of numbers that no kernel ahead in the run touches. */
WORD void clear(const struct eco_few_job *job, int block)
{
    enum { EACH = ECO_FEW_ZEROS / THREADS / 4 };
    const size_t first = (size_t)block * ECO_FEW_ZEROS, all = (size_t)job->m * job->n;
    float *const to = (float *)job->c;
    if (first + ECO_FEW_ZEROS <= all && job->a_whole) {
#pragma unroll
        for (int i = 0; i < EACH; i++)
            ((float4 *)(to + first))[i * THREADS + threadIdx.x] = make_float4(0, 0, 0, 0);
        return;
    }
    for (size_t i = first + threadIdx.x; i < all && i < first + ECO_FEW_ZEROS; i += THREADS)
        to[i] = 0;
}

/* ---- sums of columns ------------------------------------------------------------------------- */

/* Warps share the rows, always the same ones. */
WORD void sum_columns(const struct eco_few_job *job, int block, float *shared)
{
    enum { COLUMNS = ECO_FEW_SUM_COLUMNS };
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int i = block * COLUMNS + lane, group = i / job->n, unit = i % job->n;
    const bool there = group < job->m;
    const narrow *const from =
        (const narrow *)job->a + (there ? (size_t)group * job->b_row + unit : 0);
    float sum = 0;
    wait_for_kernels_ahead();
#pragma unroll 8
    for (int r = warp; r < job->k; r += WARPS)
        sum += to_real(from[(size_t)r * job->a_row]);
    shared[warp * COLUMNS + lane] = sum;
    __syncthreads();
    if (warp > 0 || !there)
        return;
#pragma unroll
    for (int w = 1; w < WARPS; w++)
        sum += shared[w * COLUMNS + lane];
    store(job, (size_t)group * job->c_row + unit, sum);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <int SHAPE>
static __global__ void __launch_bounds__(THREADS)
    few(const __grid_constant__ struct eco_few_call call)
{
#if __CUDA_ARCH__ >= 800
    enum { ACROSS_BACK = 1 << SHAPE };
    __shared__ float shared[WARPS * 8 * ACROSS_BACK * BACK_LINE];
    int block = (int)blockIdx.x, j = 0;
    let_next_start(); /* which reads no more than matrices before it waits */
    while (block >= call.job[j].blocks)
        block -= call.job[j++].blocks;
    const struct eco_few_job *const job = &call.job[j];
    const bool whole = job->a_whole && job->b_whole;
    if (job->kind == ECO_FEW_ZERO) {
        clear(job, block);
        if (blockIdx.x == 0) /* who comes next waits for this launch, and so for those ahead */
            wait_for_kernels_ahead();
    } else if (job->kind == ECO_FEW_SUM)
        sum_columns(job, block, shared);
    else if (job->kind == ECO_FEW_BACK && whole)
        multiply_back<ACROSS_BACK, true>(job, block, shared);
    else if (job->kind == ECO_FEW_BACK)
        multiply_back<ACROSS_BACK, false>(job, block, shared);
    else if (whole)
        multiply_gradient<true>(job, block);
    else
        multiply_gradient<false>(job, block);
#endif
}

static const void *const kernels[ECO_FEW_SHAPES] = {(const void *)few<0>, (const void *)few<1>,
                                                    (const void *)few<2>};
