/*
 * The products of a step of algorithm resident: what other blocks sent goes to shared memory, from
 * there every warp multiplies its share of k and of the rows of R, and leaves its sums in shared
 * memory.
 */
/* The sums of one tile of R and 8 rows of the batch. */
struct sums {
    float even[4], odd[4]; /* two that do not wait for each other */
#if defined(SCALED_R)
    float total[4];
#endif
};

/* d += the tile's rows times 8 rows of the batch, of which a lane has the sums of two; those are to
 * be multiplied by `scale`, where items have scales. */
WORD void multiply_item(struct sums *d, struct fragment r, uint4 b, float2 scale)
{
#if defined(ECO_SCALED)
    multiply_first(d->even, r.low.x, r.high.x, r.low.y, r.high.y, b.x, b.y);
#if defined(ECO_OPERAND_PAIR)
    multiply_first(d->odd, r.low.z, r.high.z, r.low.w, r.high.w, b.x, b.y);
    multiply_add(d->odd, r.low.x, r.high.x, r.low.y, r.high.y, b.z, b.w);
#else
    multiply_first(d->odd, r.low.z, r.high.z, r.low.w, r.high.w, b.z, b.w);
#endif
#pragma unroll
    for (int i = 0; i < 4; i++)
        d->total[i] = fmaf(d->even[i] + d->odd[i], i % 2 ? scale.y : scale.x, d->total[i]);
#elif defined(ECO_OPERAND_PAIR)
    multiply_add(d->even, r.low.x, r.high.x, r.low.y, r.high.y, b.x, b.y);
    multiply_add(d->odd, r.low.z, r.high.z, r.low.w, r.high.w, b.x, b.y);
    multiply_add(d->odd, r.low.x, r.high.x, r.low.y, r.high.y, b.z, b.w);
#else
    multiply_add(d->even, r.low.x, r.high.x, r.low.y, r.high.y, b.x, b.y);
    multiply_add(d->odd, r.low.z, r.high.z, r.low.w, r.high.w, b.z, b.w);
#endif
}

/* Matrix instructions cut off where they add, so long chains are less accurate than those of
 * multiply-adds: of pairs a chain ends after two items, with scales after each, above. */
WORD void end_chain(struct sums *d, int item)
{
#if defined(ECO_OPERAND_PAIR) && !defined(ECO_SCALED)
    if (item % 2 == 0)
        return;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        d->total[i] += d->even[i];
        d->even[i] = 0;
    }
#endif
}

WORD float sum_in(const struct sums *d, int i)
{
#if defined(ECO_SCALED)
    return d->total[i];
#elif defined(ECO_OPERAND_PAIR)
    return d->total[i] + (d->even[i] + d->odd[i]);
#else
    return d->even[i] + d->odd[i];
#endif
}

/* Of two rows of an item, from there on. */
WORD float2 scale_at(int at)
{
#if defined(ECO_SCALED)
    return *(const float2 *)floats(at);
#else
    return make_float2(1, 1);
#endif
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* What no piece ever fills, and what comes before the first step. */
WORD void clear_operand(const struct memory *memory)
{
    for (int i = memory->operand + (int)threadIdx.x; i < memory->sums / 4; i += THREADS)
        shared[i] = make_uint4(0, 0, 0, 0);
}

/* True in all lanes of the warp or in none. */
WORD bool warp_agrees(bool lane)
{
    return __all_sync(0xffffffffu, lane) != 0;
}

/* Pieces that came, a round of warps apart, the first so many from `piece` on that are left, to be
 * multiplied; all made ready side by side, without a branch between them. */
template <int N>
CELL_WORD void keep_pieces(const struct memory *memory, int piece, int left, int lane,
                           const uint4 v[N][READS])
{
    uint4 *const to = &shared[memory->operand + piece * LANES + lane];
    uint4 kept[N];
#if defined(ECO_SCALED)
    float *const scales = floats(memory->scales + piece * ECO_RESIDENT_N + lane / 4);
    float scale[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        kept[i] = scaled_piece(v[i], &scale[i]);
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i * WARPS < left && lane % 4 == 0)
            scales[i * WARPS * ECO_RESIDENT_N] = scale[i];
#else
#pragma unroll
    for (int i = 0; i < N; i++)
        kept[i] = in_order(v[i][0]);
#endif
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i * WARPS < left)
            to[i * WARPS * LANES] = kept[i];
}

/* Reads `AT_ONCE` pieces a round of warps apart, from `piece` on, until all of them are there, and
 * puts them into shared memory; what never came is NaN, and makes NaN of everything after it.
 * meanwhile() is done while they are on their way. */
template <int AT_ONCE, class MEANWHILE>
CELL_WORD void gather_some(const struct eco_resident_call *call, const struct share *share,
                           const struct memory *memory, struct patience *patience,
                           const struct mine *mine, int piece, MEANWHILE meanwhile)
{
    const int left = memory->gathered - piece;
    const uint4 *const from = mine->received + piece * (READS * LANES) + share->lane;
    uint4 v[AT_ONCE][READS];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
        for (int r = 0; r < READS; r++) {
            v[i][r] = make_uint4(0, 0, 0, 0);
            if (i * WARPS < left)
                v[i][r] = read_shared_by_all(from + (i * WARPS * READS + r) * LANES);
        }
    meanwhile();
    for (;;) {
        bool all = true;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
            for (int r = 0; r < READS; r++)
                all &= whole(v[i][r]);
        if (warp_agrees(all || !wait_more(patience, call)))
            break;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
            for (int r = 0; r < READS; r++)
                if (i * WARPS < left)
                    v[i][r] = read_shared_by_all(from + (i * WARPS * READS + r) * LANES);
    }
    keep_pieces<AT_ONCE>(memory, piece, left, share->lane, v);
}

/* More of them in flight cost other code of the kernel registers. */
#if defined(SENT_WORDS) || RESIDENT_BACKWARD
#define PIECES_AT_ONCE (8 / READS)
#else
#define PIECES_AT_ONCE 4
#endif

template <class MEANWHILE>
CELL_WORD void gather(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory, struct patience *patience,
                      const struct mine *mine, MEANWHILE meanwhile)
{
    enum { FEW = 2, SOME = 4, MANY = PIECES_AT_ONCE };
    const int all = memory->gathered;
    const auto nothing = [] {};
    if (all <= FEW * WARPS) {
        gather_some<FEW>(call, share, memory, patience, mine, share->warp, meanwhile);
        return;
    }
    if (MANY > SOME && all <= SOME * WARPS) {
        gather_some<SOME>(call, share, memory, patience, mine, share->warp, meanwhile);
        return;
    }
    gather_some<MANY>(call, share, memory, patience, mine, share->warp, meanwhile);
#pragma unroll 1
    for (int piece = share->warp + MANY * WARPS; piece < all; piece += MANY * WARPS)
        gather_some<MANY>(call, share, memory, patience, mine, piece, nothing);
}

/* Sums of one tile of R and 8 rows of the batch, to shared memory. */
template <class CUT>
CELL_WORD void put_sums(int at, const struct sums *d, const struct scales *scales)
{
    *floats(at) = unscaled(scales, sum_in(d, 0));
    *floats(at + CUT::sum_row) = unscaled(scales, sum_in(d, 1));
    *floats(at + 8) = unscaled(scales, sum_in(d, 2));
    *floats(at + CUT::sum_row + 8) = unscaled(scales, sum_in(d, 3));
}

/* `N` tiles of 8 rows of the batch, `COUNT` items in registers; what is read of them is fetched
 * some items ahead.  Nothing here depends on the warp: no lane waits for a branch. */
template <class CUT, int N, int COUNT>
CELL_WORD void multiply_rows(const struct eco_resident_call *call, const struct share *share,
                             const struct memory *memory, const struct mine *mine,
                             const struct fragment r[CUT::items][TILES], int row_tile, int sum_tile)
{
#if defined(ECO_SCALED)
    enum { MOST = 4 / N };
#else
    enum { MOST = 8 / N };
#endif
    enum { AHEAD = MOST < COUNT ? MOST : COUNT };
    const int next = memory->row_tiles * LANES;
    const int next_scale = memory->row_tiles * ECO_RESIDENT_N;
    const uint4 *b = shared + mine->operand + row_tile * LANES;
    const int scale = mine->scale + row_tile * ECO_RESIDENT_N;
    struct sums d[N][TILES] = {};
    uint4 v[AHEAD][N];
    float2 s[AHEAD][N];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int n = 0; n < N; n++) {
            v[i][n] = b[i * next + n * LANES];
            s[i][n] = scale_at(scale + i * next_scale + n * ECO_RESIDENT_N);
        }
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                multiply_item(&d[n][t], r[i][t], v[i % AHEAD][n], s[i % AHEAD][n]);
                end_chain(&d[n][t], i);
            }
            if (i + AHEAD < COUNT) {
                v[i % AHEAD][n] = b[(i + AHEAD) * next + n * LANES];
                s[i % AHEAD][n] = scale_at(scale + (i + AHEAD) * next_scale + n * ECO_RESIDENT_N);
            }
        }
    if (COUNT == CUT::items)
#pragma unroll 2
        for (int i = CUT::items; i < call->shape.part[CUT::product].items; i++) {
#pragma unroll
            for (int n = 0; n < N; n++) {
                v[0][n] = b[i * next + n * LANES];
                s[0][n] = scale_at(scale + i * next_scale + n * ECO_RESIDENT_N);
            }
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                const struct fragment kept = {*kept_half<CUT>(call, share, i, t, 0),
                                              *kept_half<CUT>(call, share, i, t, 1)};
#pragma unroll
                for (int n = 0; n < N; n++) {
                    multiply_item(&d[n][t], kept, v[0][n], s[0][n]);
                    end_chain(&d[n][t], i);
                }
            }
        }
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            put_sums<CUT>(mine->sums + (sum_tile + n) * ECO_RESIDENT_N * CUT::sum_row +
                              t * ECO_RESIDENT_M,
                          &d[n][t], &mine->scales);
}

/* Tiles of 8 rows of the batch from `first` on, up to `end`. */
template <class CUT, int COUNT>
CELL_WORD void multiply_items(const struct eco_resident_call *call, const struct share *share,
                              const struct memory *memory, const struct mine *mine,
                              const struct fragment r[CUT::items][TILES], int first, int end)
{
    int tile = first;
#pragma unroll 1
    for (; tile + 1 < end; tile += 2)
        multiply_rows<CUT, 2, COUNT>(call, share, memory, mine, r, tile, tile - first);
    if (tile < end)
        multiply_rows<CUT, 1, COUNT>(call, share, memory, mine, r, tile, tile - first);
}

template <class CUT>
CELL_WORD void multiply_some(const struct eco_resident_call *call, const struct share *share,
                             const struct memory *memory, const struct mine *mine,
                             const struct fragment r[CUT::items][TILES], int first, int end)
{
    const int items = call->shape.part[CUT::product].items;
    if (share->across >= CUT::across)
        return;
    if (CUT::many)
        multiply_items<CUT, CUT::items>(call, share, memory, mine, r, first, end);
    else if (items <= 2)
        multiply_items<CUT, 2>(call, share, memory, mine, r, first, end);
    else if (CUT::items > 4 && items <= 4)
        multiply_items<CUT, 4>(call, share, memory, mine, r, first, end);
    else
        multiply_items<CUT, CUT::items>(call, share, memory, mine, r, first, end);
}

/* Adds up the sums of this block's slice of k, and gives each block of the cluster those of its
 * units. */
template <class CUT>
CELL_WORD void share_sums(const struct share *share, const struct memory *memory, int step,
                          int first, int end)
{
    enum { WIDE = 4 }; /* rows of R at once */
    const int from = memory->sums,
              to = memory->parts + ((step & 1) * CUT::blocks + share->rank) * memory->part_across +
                   first * ECO_RESIDENT_N * CUT::part_row;
    const int all = (end - first) * ECO_RESIDENT_N * (CUT::rows / WIDE);
#pragma unroll 2
    for (int i = (int)threadIdx.x; i < all; i += THREADS) {
        const int row = i % (CUT::rows / WIDE) * WIDE, n = i / (CUT::rows / WIDE);
        const int at = from + n * CUT::sum_row + row;
        float4 sum = *(const float4 *)floats(at);
#pragma unroll
        for (int k = 1; k < CUT::across; k++) {
            const float4 v = *(const float4 *)floats(at + k * memory->sum_across);
            sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
        }
        send_in_cluster(row / CUT::own, floats(to + n * CUT::part_row + row % CUT::own), step, sum);
    }
}

/* The products of a step; its sums are there for all threads when it returns. */
template <class CUT>
CELL_WORD void multiply(const struct eco_resident_call *call, const struct share *share,
                        const struct memory *memory, const struct mine *mine,
                        const struct fragment r[CUT::items][TILES], int step)
{
    const int all = memory->row_tiles;
    if (CUT::blocks == 1) {
        multiply_some<CUT>(call, share, memory, mine, r, 0, all);
        wait_for_copies();
        __syncthreads();
        return;
    }
    if (threadIdx.x == 0)
        expect_bytes(step, CUT::blocks * all * ECO_RESIDENT_N * CUT::own * sizeof(float));
#pragma unroll 1
    for (int first = 0; first < all; first += call->shape.chunk) {
        const int end = min(first + call->shape.chunk, all);
        if (first > 0)
            __syncthreads();
        multiply_some<CUT>(call, share, memory, mine, r, first, end);
        __syncthreads();
        share_sums<CUT>(share, memory, step, first, end);
    }
    wait_for_copies();
    wait_for_bytes(step);
}

/* Where the sums of batch row n begin; beyond the last one those of the last. */
template <class CUT>
CELL_WORD int sums_at(const struct memory *memory, const struct mine *mine, int step, int n)
{
    const int last = memory->row_tiles * ECO_RESIDENT_N - 1, row = n < last ? n : last;
    if (CUT::blocks == 1)
        return mine->pair_sums + row * CUT::sum_row;
    return mine->pair_sums + (step & 1) * CUT::blocks * memory->part_across + row * CUT::part_row;
}

/* The sum of a pair's products with the block's row `row` of its units. */
template <class CUT> CELL_WORD float sum_of(const struct memory *memory, int at, int row)
{
    const int parts = CUT::blocks == 1 ? (int)CUT::across : (int)CUT::blocks,
              apart = CUT::blocks == 1 ? memory->sum_across : memory->part_across;
    float sum = *floats(at + (row << CUT::shift));
#pragma unroll
    for (int k = 1; k < parts; k++)
        sum += *floats(at + (row << CUT::shift) + k * apart);
    return sum;
}
