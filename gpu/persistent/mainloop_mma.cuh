/*
 * The products of a step of algorithm resident: every warp multiplies its share of k and of the
 * rows of R by what was gathered (gather.cuh), and leaves its sums in shared memory.
 */
/* The sums of one tile of R and 8 rows of the batch. */
struct sums {
    float even[4], odd[4]; /* two chains, that do not wait for each other */
#if defined(SCALED_R)
    float total[4];
#endif
};

/* Of operands of one number: one chain is enough where several tiles of the batch take turns, and
 * leaves registers; kernels of many items spill with it. */
template <class CUT> CELL_WORD constexpr int chains_of(int tiles)
{
    return CUT::many || CUT::bundle::halves || tiles == 1 ? 2 : 1;
}

/* d += the tile's rows times 8 rows of the batch, of which a lane has the sums of two; first: of a
 * chain with a scale. */
template <int CHAINS>
CELL_WORD void multiply_item(struct sums *d, struct fragment r, uint4 b, bool first)
{
    const bool begins = ITEM_SCALES && first;
    if (begins)
        multiply_first(d->even, r.first, b.x, b.y);
    else
        multiply_add(d->even, r.first, b.x, b.y);
#if defined(ECO_OPERAND_PAIR)
    if (begins)
        multiply_first(d->odd, r.second, b.x, b.y);
    else
        multiply_add(d->odd, r.second, b.x, b.y);
    multiply_add(d->odd, r.first, b.z, b.w);
#else
    if (begins && CHAINS == 2)
        multiply_first(d->odd, r.second, b.z, b.w);
    else
        multiply_add(CHAINS == 2 ? d->odd : d->even, r.second, b.z, b.w);
#endif
}

/* Matrix instructions cut off where they add, so long chains are less accurate than those of
 * multiply-adds: of pairs a chain ends after two items, or three.  With scales it ends within a
 * bundle: its length divides that of the bundle and the warp's `count` of items. */
template <class CUT> CELL_WORD constexpr int longest_chain(int count)
{
    enum { PAIRS = INSTRUCTIONS == ECO_RESIDENT_PAIR };
    if (!ITEM_SCALES)
        return PAIRS && count > 1 ? 2 : 1;
    int chain = PAIRS ? 3 : 4;
    while (count % chain != 0 || CUT::bundle::items % chain != 0)
        chain--;
    return chain;
}

/* What sums are to be multiplied by, of two rows; of the second half of an item. */
struct back {
    float2 first, second;
};

WORD float of_sum(float2 scale, int i)
{
    return i % 2 ? scale.y : scale.x;
}

/* After the last item of one; its sums are to be multiplied by `scale`, if there are any. */
template <class CUT, int CHAINS> CELL_WORD void end_chain(struct sums *d, const struct back &scale)
{
#if defined(ECO_SCALED)
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const bool both = CHAINS == 2 || INSTRUCTIONS == ECO_RESIDENT_PAIR;
        const float sum = both && !CUT::bundle::halves ? d->even[i] + d->odd[i] : d->even[i];
        d->total[i] = fmaf(sum, of_sum(scale.first, i), d->total[i]);
        if (CUT::bundle::halves)
            d->total[i] = fmaf(d->odd[i], of_sum(scale.second, i), d->total[i]);
    }
#elif defined(ECO_OPERAND_PAIR)
#pragma unroll
    for (int i = 0; i < 4; i++) {
        d->total[i] += d->even[i];
        d->even[i] = 0;
    }
#endif
}

template <int CHAINS> CELL_WORD float sum_in(const struct sums *d, int i)
{
#if defined(ECO_SCALED)
    return d->total[i];
#elif defined(ECO_OPERAND_PAIR)
    return d->total[i] + (d->even[i] + d->odd[i]);
#else
    return CHAINS == 2 ? d->even[i] + d->odd[i] : d->even[i];
#endif
}

/* Fetched of them while others are multiplied: more take registers, and nothing else. */
enum { ITEMS_AHEAD = 4 };

/* A lane's sums of one tile of R and 8 rows of the batch, to shared memory. */
template <class CUT> CELL_WORD void put_four(int at, float4 d, const struct scales *scales)
{
    *floats(at) = unscaled(scales, d.x);
    *floats(at + CUT::sum_row) = unscaled(scales, d.y);
    *floats(at + 8) = unscaled(scales, d.z);
    *floats(at + CUT::sum_row + 8) = unscaled(scales, d.w);
}

template <class CUT, int CHAINS>
CELL_WORD void put_sums(int at, const struct sums *d, const struct scales *scales)
{
    put_four<CUT>(at,
                  make_float4(sum_in<CHAINS>(d, 0), sum_in<CHAINS>(d, 1), sum_in<CHAINS>(d, 2),
                              sum_in<CHAINS>(d, 3)),
                  scales);
}

/* Where items of a warp begin, those of the first of some tiles of 8 rows of the batch, and how far
 * one is from the next; scales of bundles, and the first item, of those that the block gathers. */
struct items_at {
    const uint4 *operand;
    int next, scale, next_scale, first;
};

WORD struct items_at items_of(const struct memory *memory, const struct mine *mine, int row_tile)
{
    return {shared + mine->operand + row_tile * LANES, memory->row_tiles * LANES,
            mine->scale + row_tile * ECO_RESIDENT_N, memory->row_tiles * ECO_RESIDENT_N,
            mine->item};
}

/* An item of the nth tile. */
WORD uint4 read_item(const struct items_at *at, int i, int n)
{
    return at->operand[i * at->next + n * LANES];
}

template <class CUT> CELL_WORD struct back read_scale(const struct items_at *at, int i, int n)
{
    if (!ITEM_SCALES)
        return {};
    const int item = at->first + i,
              bundle = CUT::bundle::halves ? 2 * item : item / (int)CUT::bundle::items,
              from = at->scale + bundle * at->next_scale + n * ECO_RESIDENT_N,
              next = CUT::bundle::halves ? from + at->next_scale : from;
    return {*(const float2 *)floats(from), *(const float2 *)floats(next)};
}

/* The items of R that are kept in shared memory. */
template <class CUT, int N>
CELL_WORD void multiply_kept(const struct eco_resident_call *call, const struct share *share,
                             const struct items_at *at, struct sums d[N][TILES])
{
    enum { CHAINS = chains_of<CUT>(N) };
    uint4 v[N];
    struct back s[N];
#pragma unroll 2
    for (int i = CUT::items; i < call->shape.part[CUT::product].items; i++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            v[n] = read_item(at, i, n);
            s[n] = read_scale<CUT>(at, i, n);
        }
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            const struct fragment kept = {*kept_half<CUT>(call, share, i, t, 0),
                                          *kept_half<CUT>(call, share, i, t, 1)};
#pragma unroll
            for (int n = 0; n < N; n++) {
                multiply_item<CHAINS>(&d[n][t], kept, v[n], true);
                if (ITEM_SCALES || i % 2 != 0)
                    end_chain<CUT, CHAINS>(&d[n][t], s[n]);
            }
        }
    }
}

/* `N` tiles of 8 rows of the batch, `COUNT` items in registers, in chains of so many; what is read
 * of them is fetched some items ahead.  Nothing here depends on the warp: no lane waits for a
 * branch. */
template <class CUT, int N, int COUNT, int CHAIN>
CELL_WORD void multiply_rows(const struct eco_resident_call *call, const struct share *share,
                             const struct memory *memory, const struct mine *mine,
                             const struct fragment r[CUT::items][TILES], int row_tile, int sum_tile)
{
    enum { MOST = ITEMS_AHEAD / N, AHEAD = MOST < COUNT ? MOST : COUNT };
    enum { CHAINS = chains_of<CUT>(N) };
    const struct items_at at = items_of(memory, mine, row_tile);
    struct sums d[N][TILES] = {};
    uint4 v[AHEAD][N];
    struct back s[N];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int n = 0; n < N; n++)
            v[i][n] = read_item(&at, i, n);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
        for (int n = 0; n < N; n++) {
            const bool ends = (i + 1) % CHAIN == 0 || (ITEM_SCALES && i + 1 == COUNT);
            if (i % CHAIN == 0)
                s[n] = read_scale<CUT>(&at, i, n);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                multiply_item<CHAINS>(&d[n][t], r[i][t], v[i % AHEAD][n], i % CHAIN == 0);
                if (ends)
                    end_chain<CUT, CHAINS>(&d[n][t], s[n]);
            }
            if (i + AHEAD < COUNT)
                v[i % AHEAD][n] = read_item(&at, i + AHEAD, n);
        }
    if (COUNT == CUT::items)
        multiply_kept<CUT, N>(call, share, &at, d);
    if (CUT::may_be_over && call->shape.over)
        __syncthreads(); /* all of it is multiplied */
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            put_sums<CUT, CHAINS>(mine->sums + (sum_tile + n) * CUT::sum_tile + t * ECO_RESIDENT_M,
                                  &d[n][t], &mine->scales);
}

/* Tiles of 8 rows of the batch from `first` on, up to `end`. */
template <class CUT, int COUNT, int CHAIN>
CELL_WORD void multiply_items(const struct eco_resident_call *call, const struct share *share,
                              const struct memory *memory, const struct mine *mine,
                              const struct fragment r[CUT::items][TILES], int first, int end)
{
    int tile = first;
#pragma unroll 1
    for (; tile + 1 < end; tile += 2)
        multiply_rows<CUT, 2, COUNT, CHAIN>(call, share, memory, mine, r, tile, tile - first);
    if (tile < end)
        multiply_rows<CUT, 1, COUNT, CHAIN>(call, share, memory, mine, r, tile, tile - first);
}

#include "gpu/persistent/mainloop_wgmma.cuh"

template <class CUT>
CELL_WORD void multiply_some(const struct eco_resident_call *call, const struct share *share,
                             const struct memory *memory, const struct mine *mine,
                             const struct fragment r[CUT::items][TILES], int first, int end)
{
    const int items = call->shape.part[CUT::product].items;
    if constexpr (CUT::square) {
        multiply_by_four<CUT>(call, share, memory, mine, r, first, end);
    } else {
        /* With items in shared memory warps may begin anywhere in a bundle of pairs. */
        enum {
            CHAIN = longest_chain<CUT>(4), /* where warps begin at multiples of it */
            TWO = CHAIN < 2 ? CHAIN : 2,
            SHORT = ITEM_SCALES && INSTRUCTIONS == ECO_RESIDENT_PAIR ? 1 : TWO
        };
        if (CUT::across * CUT::down < WARPS && share->across >= CUT::across)
            return;
        if (CHAIN > SHORT && CUT::items % CHAIN == 0 && items == CUT::items)
            multiply_items<CUT, CUT::items, CHAIN>(call, share, memory, mine, r, first, end);
        else if (CUT::many || items > 4 || (CUT::items <= 4 && items > 2))
            multiply_items<CUT, CUT::items, SHORT>(call, share, memory, mine, r, first, end);
        else if (CUT::items > 4 && items > 2)
            multiply_items<CUT, 4, CHAIN>(call, share, memory, mine, r, first, end);
        else
            multiply_items<CUT, 2, TWO>(call, share, memory, mine, r, first, end);
    }
}

/* How far the sums of a step are from those of the first. */
template <class CUT> CELL_WORD int turn_of(const struct memory *memory, int step)
{
    return CUT::direct ? (step & 1) * (memory->row_tiles * CUT::sum_tile) : 0;
}

/* Adds up the sums of this block's slice of k, and gives each block of the cluster those of its
 * units. */
template <class CUT>
CELL_WORD void share_sums(const struct share *share, const struct memory *memory, int step,
                          int first, int end)
{
    enum { WIDE = 4 }; /* rows of R at once */
    const int from = memory->sums + turn_of<CUT>(memory, step),
              to = memory->parts + ((step & 1) * CUT::blocks + share->rank) * memory->part_across +
                   first * ECO_RESIDENT_N * CUT::part_row;
    const int all = (end - first) * ECO_RESIDENT_N * (CUT::rows / WIDE);
#pragma unroll 2
    for (int i = (int)threadIdx.x; i < all; i += THREADS) {
        const int row = i % (CUT::rows / WIDE) * WIDE, n = i / (CUT::rows / WIDE);
        const int at = from + ECO_RESIDENT_SUM_AT(n, CUT::sum_row) + row;
        float4 sum = *(const float4 *)floats(at);
#pragma unroll
        for (int k = 1; k < CUT::parts; k++) {
            const float4 v = *(const float4 *)floats(at + k * CUT::sum_part);
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
    if (CUT::may_be_over && call->shape.over)
        __syncthreads(); /* sums are read, others may be gathered */
    else
        __syncwarp();
    wait_for_bytes(step);
}

/* Where the sums of batch row n begin; beyond the last one those of the last. */
template <class CUT>
CELL_WORD int sums_at(const struct memory *memory, const struct mine *mine, int step, int n)
{
    const int last = memory->row_tiles * ECO_RESIDENT_N - 1, row = n < last ? n : last;
    if (CUT::blocks == 1)
        return mine->pair_sums + ECO_RESIDENT_SUM_AT(row, CUT::sum_row) +
               turn_of<CUT>(memory, step);
    return mine->pair_sums + (step & 1) * CUT::blocks * memory->part_across + row * CUT::part_row;
}

#include "gpu/persistent/mainloop_direct.cuh"

/* The sum of a pair's products with the block's row `row` of its units. */
template <class CUT> CELL_WORD float sum_of(const struct memory *memory, int at, int row)
{
    enum { PARTS = CUT::blocks == 1 ? (int)CUT::parts : (int)CUT::blocks };
    const int apart = CUT::blocks == 1 ? (int)CUT::sum_part : memory->part_across;
    float sum = *floats(at + (row << CUT::shift));
#pragma unroll
    for (int k = 1; k < PARTS; k++)
        sum += *floats(at + (row << CUT::shift) + k * apart);
    return sum;
}
