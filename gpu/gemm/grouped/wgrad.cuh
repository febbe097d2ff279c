/*
 * The gradient of a matrix over few rows, C = A^T B. A block has a piece of C; rows of A and B are
 * copied to shared memory, from where each warp multiplies some columns of A by some of B.
 */
#ifndef ECO_GPU_GEMM_GROUPED_WGRAD_CUH
#define ECO_GPU_GEMM_GROUPED_WGRAD_CUH

#include "gpu/arch/cp_async.cuh"
#include "gpu/arch/grid_dependency.cuh"
#include "gpu/gemm/grouped/block.cuh"
#include "gpu/tile/warp_mainloop.cuh"

enum {
    GRADIENT_SIDE = 32, /* of a warp's piece of C */
    GRADIENT_COLUMNS = ECO_GROUPED_GRADIENT_COLUMNS,
    GRADIENT_LINE = GRADIENT_COLUMNS + 8,
    ROWS_AT_ONCE = 128 / sizeof(narrow), /* of A and B, in shared memory */
    GRADIENT_ROOM = 2 * ROWS_AT_ONCE * GRADIENT_LINE * sizeof(narrow) / sizeof(float),
#if !defined(ECO_ROWS_F32)
    GRADIENT_DEPTH = 16, /* rows that are multiplied at once */
#elif defined(ECO_FAST)
    GRADIENT_DEPTH = 8,
#else
    GRADIENT_DEPTH = 1, /* with so few terms plain floats are as fast as split ones */
#endif
    TOGETHER = GRADIENT_DEPTH > 1 ? 1 : 4, /* such rows without a loop */
    RUN = GRADIENT_DEPTH > 1 ? 2 : 4,      /* neighbours in a row of C that a thread has */
    RUNS = 8 / RUN
};
static_assert(+GRADIENT_COLUMNS == +ECO_GROUPED_GRADIENT_ROWS &&
                  GRADIENT_COLUMNS / GRADIENT_SIDE * (GRADIENT_COLUMNS / GRADIENT_SIDE) ==
                      GROUPED_WARPS,
              "a piece of C for each warp");

struct __align__(4 * RUN) run
{
    float of[RUN];
};
/* Four rows of C, as two pairs, so that what an instruction adds to is contiguous. */
struct gradient_sums {
    float of[2][RUNS][2 * RUN];
};

ECO_DEVICE int gradient_row(int i, int lane)
{
    return GRADIENT_DEPTH > 1 ? i * 8 + lane / 4 : lane / 4 * 4 + i;
}

ECO_DEVICE int gradient_column(int run, int lane)
{
    return (run * 4 + lane % 4) * RUN;
}

/* ---- copies to shared memory ----------------------------------------------------------------- */

/* Stores `columns` columns of rows, from `first` on; zeros to the line's end, and from row `there`
 * on. */
template <bool WHOLE>
ECO_DEVICE void put_rows(const narrow *from, size_t row, int columns, int there, int all,
                         narrow *to)
{
    enum { PIECES = GRADIENT_COLUMNS / ROW_PIECE };
#pragma unroll 2
    for (int i = (int)threadIdx.x; i < all * PIECES; i += GROUPED_THREADS) {
        const int r = i / PIECES, c = i % PIECES * ROW_PIECE;
        const int n = r < there ? max(0, min(columns - c, (int)ROW_PIECE)) : 0;
        const narrow *const at = n > 0 ? from + (size_t)r * row + c : from;
        if constexpr (WHOLE)
            cp_async_some_of_16(to + r * GRADIENT_LINE + c, at, n * (int)sizeof(narrow));
        else
            *(uint4 *)(to + r * GRADIENT_LINE + c) = read_row_piece(at, n);
    }
}

/* ---- a warp's products of GRADIENT_DEPTH rows ------------------------------------------------ */

#if !defined(ECO_ROWS_F32)
ECO_DEVICE void multiply_gradient(const narrow *a, const narrow *b, int lane,
                                  struct gradient_sums *sums)
{
    const int low = lane % 8, middle = lane / 8 % 2 * 8, high = lane / 16 * 8;
    a += (low + high) * GRADIENT_LINE + middle;
    b += (low + middle) * GRADIENT_LINE + high;
    const uint4 x[2] = {load_matrices_transposed(a), load_matrices_transposed(a + 16)};
#pragma unroll
    for (int run = 0; run < RUNS; run += 2) {
        const uint4 y = load_matrices_transposed(b + run * 8);
#pragma unroll
        for (int t = 0; t < 2; t++) {
            add_narrow(sums->of[t][run], x[t], y.x, y.y);
            add_narrow(sums->of[t][run + 1], x[t], y.z, y.w);
        }
    }
}
#elif defined(ECO_FAST)
ECO_DEVICE unsigned tf32_at(const narrow *at)
{
    return to_tf32(__float_as_uint(*at));
}

ECO_DEVICE void multiply_gradient(const narrow *a, const narrow *b, int lane,
                                  struct gradient_sums *sums)
{
    const int row = lane % 4 * GRADIENT_LINE + lane / 4, next = row + 4 * GRADIENT_LINE;
    uint4 x[2];
#pragma unroll
    for (int t = 0; t < 2; t++)
        x[t] = make_uint4(tf32_at(a + row + t * 16), tf32_at(a + row + t * 16 + 8),
                          tf32_at(a + next + t * 16), tf32_at(a + next + t * 16 + 8));
#pragma unroll
    for (int run = 0; run < RUNS; run++) {
        const unsigned low = tf32_at(b + row + run * 8), high = tf32_at(b + next + run * 8);
#pragma unroll
        for (int t = 0; t < 2; t++)
            mma_tf32(sums->of[t][run], x[t], low, high);
    }
}
#else
ECO_DEVICE void multiply_gradient(const narrow *a, const narrow *b, int lane,
                                  struct gradient_sums *sums)
{
    const float4 v = *(const float4 *)(a + gradient_row(0, lane));
    const float x[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int run = 0; run < RUNS; run++) {
        const struct run y = *(const struct run *)(b + gradient_column(run, lane));
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < RUN; j++) {
                float *const sum = &sums->of[i / 2][run][i % 2 * RUN + j];
                *sum = __fmaf_rn(x[i], y.of[j], *sum);
            }
    }
}
#endif

/* ---- storing sums ---------------------------------------------------------------------------- */

/* A complete piece of C. */
ECO_DEVICE void store_all(float *c, size_t row, bool add, int lane, struct gradient_sums *sums)
{
    struct run *to[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        to[i] = (struct run *)(c + gradient_row(i, lane) * row) + lane % 4;
#pragma unroll
    for (int i = 0; i < 4 * RUNS && add; i++)
#pragma unroll
        for (int j = 0; j < RUN; j++)
            sums->of[i / RUNS / 2][i % RUNS][i / RUNS % 2 * RUN + j] +=
                to[i / RUNS][i % RUNS * 4].of[j];
#pragma unroll
    for (int i = 0; i < 4 * RUNS; i++) {
        struct run sum;
#pragma unroll
        for (int j = 0; j < RUN; j++)
            sum.of[j] = sums->of[i / RUNS / 2][i % RUNS][i / RUNS % 2 * RUN + j];
        to[i / RUNS][i % RUNS * 4] = sum;
    }
}

/* A piece with fewer rows and columns. */
ECO_DEVICE void store_some(float *c, size_t row, bool add, int rows, int columns,
                           const struct gradient_sums &sums)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < RUNS * RUN; j++) {
            const int r = gradient_row(i, lane), s = gradient_column(j / RUN, lane) + j % RUN;
            float *const to = c + r * row + s;
            const float sum = sums.of[i / 2][j / RUN][i % 2 * RUN + j % RUN];
            if (r < rows && s < columns)
                *to = add ? *to + sum : sum;
        }
}

template <bool WHOLE>
ECO_DEVICE void multiply_gradient(const struct eco_grouped_job *job, int block, float *shared)
{
    enum { ACROSS = GRADIENT_COLUMNS / GRADIENT_SIDE };
    const int across = (job->n + GRADIENT_COLUMNS - 1) / GRADIENT_COLUMNS;
    const int row = block / across * ECO_GROUPED_GRADIENT_ROWS,
              column = block % across * GRADIENT_COLUMNS;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int down = warp / ACROSS * GRADIENT_SIDE, right = warp % ACROSS * GRADIENT_SIDE;
    narrow *const a = (narrow *)shared, *const b = a + ROWS_AT_ONCE * GRADIENT_LINE;
    struct gradient_sums sums = {};
    wait_on_dependent_grids();
#pragma unroll 1
    for (int k = 0; k < job->k; k += ROWS_AT_ONCE) {
        const int there = min(job->k - k, (int)ROWS_AT_ONCE);
        const int all = (there + GRADIENT_DEPTH - 1) / GRADIENT_DEPTH * GRADIENT_DEPTH;
        if (k > 0)
            __syncthreads();
        put_rows<WHOLE>((const narrow *)job->a + k * job->a_row + row, job->a_row, job->m - row,
                        there, all, a);
        put_rows<WHOLE>((const narrow *)job->b + k * job->b_row + column, job->b_row,
                        job->n - column, there, all, b);
        cp_async_wait_all();
        __syncthreads();
#pragma unroll TOGETHER
        for (int d = 0; d < all; d += GRADIENT_DEPTH)
            multiply_gradient(a + d * GRADIENT_LINE + down, b + d * GRADIENT_LINE + right, lane,
                              &sums);
    }
    const int rows = job->m - row - down, columns = job->n - column - right;
    float *const c = (float *)job->c + (row + down) * job->c_row + column + right;
    if (rows >= GRADIENT_SIDE && columns >= GRADIENT_SIDE &&
        (uintptr_t)c % sizeof(struct run) == 0 && job->c_row % RUN == 0)
        store_all(c, job->c_row, job->add, lane, &sums);
    else
        store_some(c, job->c_row, job->add, rows, columns, sums);
}

#endif /* ECO_GPU_GEMM_GROUPED_WGRAD_CUH */
