/*
 * Algorithm resident, what both ways share: how a block finds its share of the work, keeps its part
 * of R as operands of matrix instructions, and multiplies.
 *
 * k is taken in an order of our own: of 32 neighbouring k lane 4g + q holds 8q to 8q + 7, of which
 * the first matrix instruction takes four and the second the others.  So a lane's share of a row is
 * 16 bytes in one piece, in R, in what blocks exchange and in shared memory.
 */
#include "gpu/arithmetic.cuh"
#include "gpu/resident_call.h"

#include "gpu/matrix.cuh"

enum {
    THREADS = ECO_RESIDENT_THREADS,
    WARPS = ECO_RESIDENT_WARPS,
    ITEMS = ECO_RESIDENT_ITEMS,
    LANES = 32,
    TILES = 2 /* of 16 rows of R, to a warp */
};

#define CELL_WORD     static __device__ __forceinline__
#define CELL(name)    name
#define CELL_FUNCTION template <class PLACE> CELL_WORD
#define CELL_AT       PLACE *

/* What the compiler of cells says of one: how many accumulators, states and saved values it has,
 * how many accumulators with R, and which of these each accumulator is. */
template <int CELL> struct numbers;
#define CELLS_STRUCT(cell, n_accs, n_states, n_saves, n_products, ...)                             \
    template <> struct numbers<cell> {                                                             \
        enum { accs = n_accs, states = n_states, saves = n_saves, products = n_products };         \
        static __device__ constexpr int row(int i)                                                 \
        {                                                                                          \
            constexpr int rows[] = {__VA_ARGS__};                                                  \
            return i < accs ? rows[i] : -1;                                                        \
        }                                                                                          \
    };

/* A block of 1 << SHIFT units with so many rows of R each, as eco_resident_shape divides it. */
template <int ROWS, int SHIFT> struct division {
    enum {
        shift = SHIFT,
        pair_rows = THREADS >> SHIFT, /* batch rows of which a thread has the first's pair */
        tiles = ((ROWS << SHIFT) + ECO_RESIDENT_M - 1) / ECO_RESIDENT_M,
        down = (tiles + TILES - 1) / TILES,
        across = WARPS / down,
        sum_row = ECO_RESIDENT_SUM_ROW(tiles)
    };
};

/* A block's share. */
struct share {
    int job, group, member;
    int row0, rows; /* batch rows of the group */
    int unit0;      /* first unit of the block */
    int warp, lane, down, across;
};

template <class CUT> CELL_WORD struct share share_of(const struct eco_resident_call *call)
{
    const struct eco_resident_shape *shape = &call->shape;
    const int blocks = shape->groups * shape->members;
    struct share share;
    share.job = (int)blockIdx.x / blocks;
    share.group = (int)blockIdx.x % blocks / shape->members;
    share.member = (int)blockIdx.x % shape->members;
    share.row0 = share.group * shape->group_rows;
    share.rows = call->rows - share.row0;
    if (share.rows > shape->group_rows)
        share.rows = shape->group_rows;
    share.unit0 = share.member << CUT::shift;
    share.warp = (int)threadIdx.x / LANES;
    share.lane = (int)threadIdx.x % LANES;
    share.down = share.warp % CUT::down;
    share.across = share.warp / CUT::down;
    return share;
}

extern __shared__ uint4 shared[];

WORD float *floats(int at)
{
    return (float *)shared + at;
}

/* A block's pairs of batch row and unit, units fastest, go to its threads in turn: a thread always
 * has the same unit. */

/* ---- R --------------------------------------------------------------------------------------- */

/* Of two rows, 8 apart, what two matrix instructions read. */
struct fragment {
    uint4 low, high;
};

WORD uint4 piece_from(const operand_bits bits[PIECE])
{
#if defined(ECO_OPERAND_F32)
    return make_uint4(bits[0], bits[1], bits[2], bits[3]);
#else
    return make_uint4(bits[0] | (unsigned)bits[1] << 16, bits[2] | (unsigned)bits[3] << 16,
                      bits[4] | (unsigned)bits[5] << 16, bits[6] | (unsigned)bits[7] << 16);
#endif
}

/* Neighbours of a row that begins at a multiple of 16 bytes, as operands. */
WORD uint4 operands_of(const narrow *row)
{
    const uint4 *from = (const uint4 *)row;
#if defined(ECO_ROWS_F32)
    operand_bits bits[PIECE];
#pragma unroll
    for (int i = 0; i < PIECE / 4; i++) {
        const uint4 v = from[i];
        bits[4 * i] = to_operand(__uint_as_float(v.x));
        bits[4 * i + 1] = to_operand(__uint_as_float(v.y));
        bits[4 * i + 2] = to_operand(__uint_as_float(v.z));
        bits[4 * i + 3] = to_operand(__uint_as_float(v.w));
    }
    return piece_from(bits);
#else
    return *from; /* operands are of the type of rows */
#endif
}

/* The same where rows begin anywhere, and zeros from the `there`th on. */
WORD uint4 some_operands_of(const narrow *row, int there)
{
    operand_bits bits[PIECE];
#pragma unroll
    for (int i = 0; i < PIECE; i++)
        bits[i] = i < there ? to_operand(to_real(row[i])) : (operand_bits)0;
    return piece_from(bits);
}

/* The sums of one tile of R and 8 rows of the batch. */
struct sums {
    float even[4], odd[4]; /* two that do not wait for each other; split: of high parts, others */
#if defined(ECO_SPLIT)
    float total[4];
#endif
};

/* d += the tile's rows times 8 rows of the batch.  Split: what is lost by leaving out the product
 * of the two rests is less than rounding. */
WORD void multiply_item(struct sums *d, struct fragment r, uint4 b)
{
#if defined(ECO_SPLIT)
    unsigned a[8] = {r.low.x, r.high.x, r.low.y, r.high.y, r.low.z, r.high.z, r.low.w, r.high.w},
             high[8], v[4] = {b.x, b.y, b.z, b.w}, v_high[4];
#pragma unroll
    for (int i = 0; i < 8; i++)
        high[i] = split(&a[i]);
#pragma unroll
    for (int i = 0; i < 4; i++)
        v_high[i] = split(&v[i]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const unsigned *const h = high + 4 * i, *const l = a + 4 * i;
        multiply_add(d->even, h[0], h[1], h[2], h[3], v_high[2 * i], v_high[2 * i + 1]);
        multiply_add(d->odd, l[0], l[1], l[2], l[3], v_high[2 * i], v_high[2 * i + 1]);
        multiply_add(d->odd, h[0], h[1], h[2], h[3], v[2 * i], v[2 * i + 1]);
        multiply_add(d->odd, l[0], l[1], l[2], l[3], v[2 * i], v[2 * i + 1]);
    }
#else
    multiply_add(d->even, r.low.x, r.high.x, r.low.y, r.high.y, b.x, b.y);
    multiply_add(d->odd, r.low.z, r.high.z, r.low.w, r.high.w, b.z, b.w);
#endif
}

/* Matrix instructions cut off where they add, so long chains are less accurate than those of
 * multiply-adds: in full accuracy a chain ends after two items. */
WORD void end_chain(struct sums *d, int item)
{
#if defined(ECO_SPLIT)
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
#if defined(ECO_SPLIT)
    return d->total[i] + (d->even[i] + d->odd[i]);
#else
    return d->even[i] + d->odd[i];
#endif
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Where the arrays begin, in floats or in groups of four; as eco_resident_shape counts them. */
struct memory {
    int operand; /* [across, items, rows / 8, lanes] uint4; before it kept fragments of R */
    int sums;    /* [across, rows, sum_row] */
    int rest;    /* each way's own */
    int pairs;   /* for all threads */
    int row_tiles, gathered, sum_across; /* gathered: pieces */
};

template <class CUT> CELL_WORD struct memory memory_of(const struct eco_resident_call *call)
{
    const struct eco_resident_shape *shape = &call->shape;
    struct memory m;
    m.row_tiles = (shape->group_rows + ECO_RESIDENT_N - 1) / ECO_RESIDENT_N;
    m.pairs = (m.row_tiles * ECO_RESIDENT_N + CUT::pair_rows - 1) / CUT::pair_rows * THREADS;
    m.gathered = m.row_tiles * (shape->k / ITEM);
    m.sum_across = m.row_tiles * ECO_RESIDENT_N * CUT::sum_row;
    m.operand = WARPS * shape->kept * TILES * LANES * 2;
    m.sums = (m.operand + m.row_tiles * CUT::across * shape->items * LANES) * 4;
    m.rest = m.sums + CUT::across * m.sum_across;
    return m;
}

/* Half a fragment that this warp keeps here: rows of a tile, or those 8 below. */
WORD uint4 *kept_half(const struct eco_resident_call *call, const struct share *share, int item,
                      int tile, int half)
{
    const int kept = share->warp * call->shape.kept + item - ITEMS;
    return shared + ((kept * TILES + tile) * 2 + half) * LANES + share->lane;
}

/* ---- the exchange ---------------------------------------------------------------------------- */

/* Pieces are exchanged as they lie in shared memory: [steps, groups, k / 32, rows / 8, lanes] of 16
 * bytes. */
WORD operand_bits *exchange_of(const struct eco_resident_call *call, const struct share *share,
                               const struct memory *memory)
{
    return (operand_bits *)call->job[share->job].exchange +
           (int64_t)share->group * memory->row_tiles * ECO_RESIDENT_N * call->shape.k;
}

/* Where in a group's exchange one unit of its first row lies. */
WORD int unit_at(const struct memory *memory, unsigned unit)
{
    const unsigned piece = unit / ITEM * (unsigned)memory->row_tiles;
    return (int)((piece * LANES + unit % ITEM / PIECE) * PIECE + unit % PIECE);
}

/* And a row, from there on. */
WORD int row_at(int n)
{
    return n * ITEM;
}

/* ---- what a thread has for all steps --------------------------------------------------------- */

/* Places of a thread's first pair, and of those of its warp's products. */
struct mine {
    int unit, n;
    int rows, sends;              /* of the batch, in which the unit exists; which it is sent of */
    int pair_sums, operand, sums; /* in shared memory; pair_sums: of batch row 0 */
    int sent_unit;                /* where its unit lies in the exchange */
    bool pads;                    /* of the last unit: also what fills up a row */
    operand_bits *sent;           /* of the group, in the step at hand */
    const uint4 *received;        /* in the step before */
};

/* Kept in a register: the compiler would rather calculate it anew in every step. */
WORD int pinned(int value)
{
    asm volatile("" : "+r"(value));
    return value;
}

template <class CUT>
CELL_WORD struct mine mine_of(const struct eco_resident_call *call, const struct share *share,
                              const struct memory *memory)
{
    const int u = (int)threadIdx.x & ((1 << CUT::shift) - 1);
    struct mine mine;
    mine.n = pinned((int)threadIdx.x >> CUT::shift);
    mine.unit = pinned(share->unit0 + u);
    mine.rows = pinned(mine.unit < call->hidden ? share->rows : 0);
    mine.sends = pinned(mine.unit < call->hidden ? memory->row_tiles * ECO_RESIDENT_N : 0);
    mine.pair_sums = pinned(memory->sums + u);
    mine.operand =
        pinned(memory->operand + share->across * call->shape.items * memory->row_tiles * LANES +
               share->lane);
    mine.sums = pinned(memory->sums + share->across * memory->sum_across +
                       share->lane % 4 * 2 * CUT::sum_row + share->down * TILES * ECO_RESIDENT_M +
                       share->lane / 4);
    mine.sent_unit = pinned(unit_at(memory, (unsigned)mine.unit));
    mine.pads = mine.unit == call->hidden - 1 && call->width < call->shape.k;
    mine.sent = exchange_of(call, share, memory);
    mine.received = (const uint4 *)mine.sent;
    return mine;
}

/* After a step: the next one's part of the exchange. */
WORD void advance(const struct eco_resident_call *call, const struct memory *memory,
                  struct mine *mine, int step)
{
    const int64_t pieces =
        (int64_t)call->shape.groups * memory->row_tiles * (call->shape.k / ITEM) * LANES;
    mine->sent += pieces * PIECE;
    if (step > 0)
        mine->received += pieces;
}

/* What fills up the rows of the exchange belongs to the last unit. */
WORD void send_padding(const struct eco_resident_call *call, const struct memory *memory,
                       const struct mine *mine, int n)
{
    for (int k = call->width; k < call->shape.k; k++)
        write_shared_by_all(mine->sent + unit_at(memory, (unsigned)k) + row_at(n), 0);
}

/* Where the sums of batch row n begin; beyond the last one those of the last. */
template <class CUT>
CELL_WORD int sums_at(const struct memory *memory, const struct mine *mine, int n)
{
    const int last = memory->row_tiles * ECO_RESIDENT_N - 1;
    return mine->pair_sums + (n < last ? n : last) * CUT::sum_row;
}

/* The sum of a pair's products with the block's row `row` of its units. */
template <class CUT> CELL_WORD float sum_of(const struct memory *memory, int at, int row)
{
    float sum = *floats(at + (row << CUT::shift));
#pragma unroll
    for (int k = 1; k < CUT::across; k++)
        sum += *floats(at + (row << CUT::shift) + k * memory->sum_across);
    return sum;
}

/* ---- R --------------------------------------------------------------------------------------- */

/* Row `first + 8 half` of the block's part of R, as far as it is one: `there` elements from k on.
 */
struct piece {
    const narrow *at;
    int there;
};

WORD struct piece piece_of(const struct eco_resident_call *call, const struct share *share,
                           int item, int tile, int half)
{
    const struct eco_resident_shape *shape = &call->shape;
    const int shift = shape->unit_shift, units = 1 << shift;
    const int k = (share->across * shape->items + item) * ITEM + share->lane % 4 * PIECE;
    const int r = (share->down * TILES + tile) * ECO_RESIDENT_M + half * 8 + share->lane / 4;
    const int unit = share->unit0 + (r & (units - 1)), group = r >> shift;
    const bool there = r < shape->tiles * ECO_RESIDENT_M && group < call->row_groups &&
                       unit < call->hidden && k < call->width;
    const narrow *const first = (const narrow *)call->job[share->job].recurrent;
    struct piece piece = {first, 0};
    if (there) {
        piece.at = first + ((int64_t)group * call->hidden + unit) * call->width + k;
        piece.there = call->width - k;
    }
    return piece;
}

/* What is not there is read from where something is: no branches, so that reads need not wait for
 * each other. */
WORD uint4 read_even(struct piece piece)
{
    const uint4 v = operands_of(piece.at);
    const unsigned all = piece.there > 0 ? ~0u : 0;
    return make_uint4(v.x & all, v.y & all, v.z & all, v.w & all);
}

static __device__ __noinline__ uint4 read_some(struct piece piece)
{
    return some_operands_of(piece.at, piece.there);
}

/* This block's part of R; the share of a lane: in registers and in shared memory. */
template <bool EVEN>
CELL_WORD void read_all(const struct eco_resident_call *call, const struct share *share,
                        struct fragment r[ITEMS][TILES])
{
    const auto read = [&](int item, int tile, int half) {
        const struct piece piece = piece_of(call, share, item, tile, half);
        return EVEN ? read_even(piece) : read_some(piece);
    };
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            r[i][t].low = read(i, t, 0);
            r[i][t].high = read(i, t, 1);
        }
#pragma unroll 2
    for (int i = ITEMS; i < ITEMS + call->shape.kept; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *kept_half(call, share, i, t, half) = read(i, t, half);
}

CELL_WORD void read_fragments(const struct eco_resident_call *call, const struct share *share,
                              struct fragment r[ITEMS][TILES])
{
    if (call->even)
        read_all<true>(call, share, r);
    else
        read_all<false>(call, share, r);
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

/* Reads `AT_ONCE` pieces a round of warps apart, from `piece` on, until all of them are there, and
 * puts them into shared memory; what never came is NaN, and makes NaN of everything after it.
 * meanwhile() is done while they are on their way. */
template <int AT_ONCE, class MEANWHILE>
CELL_WORD void gather_some(const struct eco_resident_call *call, const struct share *share,
                           const struct memory *memory, struct patience *patience,
                           const struct mine *mine, int piece, MEANWHILE meanwhile)
{
    const int at = piece * LANES + share->lane, left = memory->gathered - piece;
    const uint4 *const from = mine->received + at;
    uint4 v[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        v[i] = make_uint4(0, 0, 0, 0);
        if (i * WARPS < left)
            v[i] = read_shared_by_all(from + i * WARPS * LANES);
    }
    meanwhile();
    for (;;) {
        bool all = true;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            all &= whole(v[i]);
        if (warp_agrees(all || !wait_more(patience, call)))
            break;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (i * WARPS < left)
                v[i] = read_shared_by_all(from + i * WARPS * LANES);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        if (i * WARPS < left)
            shared[memory->operand + at + i * WARPS * LANES] = v[i];
}

template <class MEANWHILE>
CELL_WORD void gather(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory, struct patience *patience,
                      const struct mine *mine, MEANWHILE meanwhile)
{
    enum { FEW = 2, MANY = 4 };
    const int all = memory->gathered;
    const auto nothing = [] {};
    if (all <= FEW * WARPS) {
        gather_some<FEW>(call, share, memory, patience, mine, share->warp, meanwhile);
        return;
    }
    gather_some<MANY>(call, share, memory, patience, mine, share->warp, meanwhile);
#pragma unroll 1
    for (int piece = share->warp + MANY * WARPS; piece < all; piece += MANY * WARPS)
        gather_some<MANY>(call, share, memory, patience, mine, piece, nothing);
}

/* Sums of one tile of R and 8 rows of the batch, to shared memory. */
template <class CUT> CELL_WORD void put_sums(int at, const struct sums *d)
{
    *floats(at) = sum_in(d, 0);
    *floats(at + CUT::sum_row) = sum_in(d, 1);
    *floats(at + 8) = sum_in(d, 2);
    *floats(at + CUT::sum_row + 8) = sum_in(d, 3);
}

/* `N` tiles of 8 rows of the batch, `COUNT` items in registers; what is read of them is fetched
 * some items ahead.  Nothing here depends on the warp: no lane waits for a branch. */
template <class CUT, int N, int COUNT>
CELL_WORD void multiply_rows(const struct eco_resident_call *call, const struct share *share,
                             const struct memory *memory, const struct mine *mine,
                             const struct fragment r[ITEMS][TILES], int row_tile)
{
    enum { AHEAD = 8 / N < COUNT ? 8 / N : COUNT };
    const int next = memory->row_tiles * LANES;
    const uint4 *b = shared + mine->operand + row_tile * LANES;
    struct sums d[N][TILES] = {};
    uint4 v[AHEAD][N];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int n = 0; n < N; n++)
            v[i][n] = b[i * next + n * LANES];
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                multiply_item(&d[n][t], r[i][t], v[i % AHEAD][n]);
                end_chain(&d[n][t], i);
            }
            if (i + AHEAD < COUNT)
                v[i % AHEAD][n] = b[(i + AHEAD) * next + n * LANES];
        }
    if (COUNT == ITEMS)
#pragma unroll 2
        for (int i = ITEMS; i < call->shape.items; i++) {
#pragma unroll
            for (int n = 0; n < N; n++)
                v[0][n] = b[i * next + n * LANES];
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                const struct fragment kept = {*kept_half(call, share, i, t, 0),
                                              *kept_half(call, share, i, t, 1)};
#pragma unroll
                for (int n = 0; n < N; n++) {
                    multiply_item(&d[n][t], kept, v[0][n]);
                    end_chain(&d[n][t], i);
                }
            }
        }
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            put_sums<CUT>(mine->sums + (row_tile + n) * ECO_RESIDENT_N * CUT::sum_row +
                              t * ECO_RESIDENT_M,
                          &d[n][t]);
}

template <class CUT, int COUNT>
CELL_WORD void multiply_items(const struct eco_resident_call *call, const struct share *share,
                              const struct memory *memory, const struct mine *mine,
                              const struct fragment r[ITEMS][TILES])
{
    int tile = 0;
#pragma unroll 1
    for (; tile + 1 < memory->row_tiles; tile += 2)
        multiply_rows<CUT, 2, COUNT>(call, share, memory, mine, r, tile);
    if (tile < memory->row_tiles)
        multiply_rows<CUT, 1, COUNT>(call, share, memory, mine, r, tile);
}

template <class CUT>
CELL_WORD void multiply(const struct eco_resident_call *call, const struct share *share,
                        const struct memory *memory, const struct mine *mine,
                        const struct fragment r[ITEMS][TILES])
{
    if (share->across >= CUT::across)
        return;
    if (call->shape.items <= 2)
        multiply_items<CUT, 2>(call, share, memory, mine, r);
    else if (call->shape.items <= 4)
        multiply_items<CUT, 4>(call, share, memory, mine, r);
    else
        multiply_items<CUT, ITEMS>(call, share, memory, mine, r);
}

/* A value of a row, without a branch. */
WORD void write_row(bool wanted, narrow *at, narrow v)
{
#if defined(ECO_ROWS_F32)
    write_word_if(wanted, at, __float_as_uint(to_real(v)));
#else
    write_half_if(wanted, at, v.bits);
#endif
}

/* ---- words of a cell that are the same both ways --------------------------------------------- */

template <class PLACE> CELL_WORD vec load_vector(PLACE *at, int k)
{
    return ((const real *)at->job->vector)[(int64_t)k * at->call->hidden + at->unit];
}

template <class PLACE> CELL_WORD vec v_bernoulli(PLACE *at, int which, double probability)
{
    const struct eco_resident_call *call = at->call;
    if (!call->training)
        return (real)probability;
    const struct eco_coordinates where = {call->seed,
                                          at->job->layer,
                                          at->job->direction,
                                          1u + which,
                                          (uint32_t)(at->job->t + at->step * at->job->t_step),
                                          (uint32_t)at->row};
    return draw(&where, (uint32_t)at->unit, probability);
}

/* A row of the list of kernels (kernels.h), RESIDENT_KERNEL being the template. */
#define RESIDENT_KERNELS(cell, ...)                                                                \
    {cell,                                                                                         \
     {(const void *)RESIDENT_KERNEL<cell, 3>, (const void *)RESIDENT_KERNEL<cell, 4>,              \
      (const void *)RESIDENT_KERNEL<cell, 5>, (const void *)RESIDENT_KERNEL<cell, 6>}},
