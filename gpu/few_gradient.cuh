/*
 * The gradient of a matrix over few rows, C = A^T B: a warp has 32 rows and columns of C.
 */
enum {
    UNITS = ECO_FEW_GRADIENT_UNITS,
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
