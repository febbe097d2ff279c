/*
 * A backward product with few rows, C = A B: a block has some columns of C; its warps divide k.
 */
#ifndef ECO_GPU_GEMM_GROUPED_DGRAD_CUH
#define ECO_GPU_GEMM_GROUPED_DGRAD_CUH

#include "gpu/gemm/grouped/block.cuh"
#include "gpu/tile/warp_mainloop.cuh"

enum {
    BACK_UNITS = ECO_GROUPED_BACK_UNITS, /* columns of the matrix that a lane reads at once */
    BACK_TILES = 1,
    BACK_LINE = ECO_GROUPED_BACK_COLUMNS + 4
};
static_assert(ECO_GROUPED_BACK_COLUMNS == 8 * BACK_UNITS && BACK_UNITS == 2,
              "a tile has a row for each column, those of a pair 8 apart");

/* ---- columns of the matrix, transposed in registers ------------------------------------------ */

enum { BACK_WORDS = BACK_UNITS * sizeof(narrow) / sizeof(unsigned) };
struct block_of_columns {
    unsigned of[ROW_PIECE][BACK_WORDS];
};

/* WHOLE: reads all columns as one word, else the existing ones one by one. */
template <bool WHOLE>
ECO_DEVICE void read_columns(const narrow *from, int there, unsigned to[BACK_WORDS])
{
    if constexpr (!WHOLE) {
        __align__(8) narrow x[BACK_UNITS];
#pragma unroll
        for (int u = 0; u < BACK_UNITS; u++)
            x[u] = u < there ? from[u] : to_narrow(0);
        read_columns<true>(x, BACK_UNITS, to);
    } else if constexpr (BACK_WORDS == 2) {
        const uint2 v = there > 0 ? *(const uint2 *)from : make_uint2(0, 0);
        to[0] = v.x, to[1] = v.y;
    } else {
        to[0] = there > 0 ? *(const unsigned *)from : 0;
    }
}

/* One column's ROW_PIECE numbers. */
ECO_DEVICE uint4 transposed(const struct block_of_columns &v, int unit)
{
#if defined(ECO_ROWS_F32)
    return make_uint4(v.of[0][unit], v.of[1][unit], v.of[2][unit], v.of[3][unit]);
#else
    enum { LOWER = 0x5410, UPPER = 0x7632 };
    const int half = unit % 2 ? UPPER : LOWER;
    return make_uint4(
        __byte_perm(v.of[0][0], v.of[1][0], half), __byte_perm(v.of[2][0], v.of[3][0], half),
        __byte_perm(v.of[4][0], v.of[5][0], half), __byte_perm(v.of[6][0], v.of[7][0], half));
#endif
}

/* ---- products -------------------------------------------------------------------------------- */

template <int ACROSS, bool WHOLE> struct back_operands {
    enum { whole = WHOLE };
    const narrow *matrix; /* the lane's columns, `there` of them */
    size_t matrix_row;
    const narrow *row[ACROSS];
    int there, first, end, k, quarter;
    bool aligned;
};
template <int ACROSS> struct back_fetched {
    struct block_of_columns a;
    uint4 b[ACROSS];
};

template <int ACROSS, bool WHOLE>
ECO_DEVICE void fetch_matrix(const struct back_operands<ACROSS, WHOLE> &at, int k_block,
                             struct back_fetched<ACROSS> *to)
{
    const int k = k_block * ROW_K_BLOCK + at.quarter * ROW_PIECE, end = k_block < at.end ? at.k : 0;
    const narrow *from = at.matrix + (size_t)k * at.matrix_row;
#pragma unroll
    for (int i = 0; i < ROW_PIECE; i++, from += at.matrix_row)
        read_columns<WHOLE>(from, k + i < end ? at.there : 0, to->a.of[i]);
}

template <int ACROSS>
ECO_DEVICE void multiply_fetched(const struct back_fetched<ACROSS> &v,
                                 struct warp_sums<BACK_TILES, ACROSS> *sums)
{
    struct fetched<BACK_TILES, ACROSS> both;
    both.a[0][0] = transposed(v.a, 0);
    both.a[0][1] = transposed(v.a, 1);
#pragma unroll
    for (int t = 0; t < ACROSS; t++)
        both.b[t] = v.b[t];
    multiply_fetched(both, sums);
}

/* Stores a thread's sums over all warps, for pairs of columns of C. */
template <int ACROSS>
ECO_DEVICE void finish_back(const struct eco_grouped_job *job, int column, int row,
                            const float *shared)
{
    enum { COLUMNS = ECO_GROUPED_BACK_COLUMNS, ROWS = 8 * ACROSS };
    for (int i = (int)threadIdx.x; i < COLUMNS * ROWS; i += GROUPED_THREADS) {
        const int u = i % COLUMNS, r = i / COLUMNS;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < GROUPED_WARPS; w++)
            sum += shared[(w * ROWS + r) * BACK_LINE + u / 2 + u % 2 * 8];
        if (column + u >= job->n || row + r >= job->m)
            continue;
        if (!is_finite(sum))
            sum = recompute_in_f32((const narrow *)job->a + (size_t)(row + r) * job->a_row, 1,
                                   (const narrow *)job->b + column + u, job->b_row, job->k);
        store(job, (size_t)(row + r) * job->c_row + column + u, sum);
    }
}

template <int ACROSS, bool WHOLE>
ECO_DEVICE void multiply_back(const struct eco_grouped_job *job, int block, float *shared)
{
    enum { COLUMNS = ECO_GROUPED_BACK_COLUMNS, ROWS = 8 * ACROSS };
    typedef struct back_fetched<ACROSS> fetched;
    typedef struct warp_sums<BACK_TILES, ACROSS> sums_of_warp;
    enum { AHEAD = WHOLE ? ahead<fetched>::k_blocks : 1 };
    const int across = (job->n + COLUMNS - 1) / COLUMNS;
    const int column = block % across * COLUMNS, row = block / across * ROWS;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int k_blocks = (job->k + ROW_K_BLOCK - 1) / ROW_K_BLOCK;
    const int own = column + lane / 4 * BACK_UNITS;
    sums_of_warp sums = {};
    struct back_operands<ACROSS, WHOLE> at;
    at.matrix = (const narrow *)job->b + (own < job->n ? own : 0);
    at.matrix_row = job->b_row;
    at.there = WHOLE ? BACK_UNITS : job->n - own;
    at.first = k_blocks * warp / GROUPED_WARPS;
    at.end = k_blocks * (warp + 1) / GROUPED_WARPS;
    at.k = job->k;
    at.quarter = lane % 4;
    at.aligned = job->a_whole;
#pragma unroll
    for (int t = 0; t < ACROSS; t++)
        at.row[t] = (const narrow *)job->a + min(row + t * 8 + lane / 4, job->m - 1) * job->a_row;
    warp_mainloop<fetched, AHEAD>(at, &sums, [] {});
    put_warp_sums<BACK_LINE>(sums, shared + warp * ROWS * BACK_LINE, lane);
    __syncthreads();
    finish_back<ACROSS>(job, column, row, shared);
}

#endif /* ECO_GPU_GEMM_GROUPED_DGRAD_CUH */
