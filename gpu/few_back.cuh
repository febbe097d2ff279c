/*
 * A product back through a matrix, C = A B with few rows: a block has some columns of C, its warps
 * share k.
 */
enum { BACK_UNITS = ECO_FEW_BACK_UNITS, BACK_TILES = 1, BACK_LINE = ECO_FEW_BACK_COLUMNS + 4 };
static_assert(ECO_FEW_BACK_COLUMNS == 8 * BACK_UNITS && BACK_UNITS == 2,
              "a tile has a row for each column, those of a pair 8 apart");

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
