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

/* A block's share. */
struct share {
    int job, group, member;
    int row0, rows; /* batch rows of the group */
    int unit0;      /* first unit of the block */
    int warp, lane, down, across;
};

WORD struct share share_of(const struct eco_resident_call *call)
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
    share.unit0 = share.member << shape->unit_shift;
    share.warp = (int)threadIdx.x / LANES;
    share.lane = (int)threadIdx.x % LANES;
    share.down = share.warp % shape->down;
    share.across = share.warp / shape->down;
    return share;
}

extern __shared__ uint4 shared[];

WORD float *floats(int at)
{
    return (float *)shared + at;
}

/* A block's pairs of batch row and unit, units fastest, go to its threads in turn: a thread always
 * has the same unit. */
WORD int unit_of_thread(const struct eco_resident_call *call)
{
    return (int)threadIdx.x & ((1 << call->shape.unit_shift) - 1);
}

/* ---- R --------------------------------------------------------------------------------------- */

/* Of two rows, 8 apart, what two matrix instructions read. */
struct fragment {
    uint4 low, high;
};

WORD unsigned pair_of(operand_bits low, operand_bits high)
{
    return low | (unsigned)high << 16;
}

/* Eight neighbours of a row as operands, zeros beyond its end; `even`: rows begin at multiples of
 * 16 bytes. */
WORD uint4 operands_of(const narrow *row, int k, int width, bool even)
{
    operand_bits bits[8];
    if (even && k + 8 <= width) {
        const uint4 *from = (const uint4 *)(row + k);
#if defined(ECO_ROWS_F32)
        const uint4 a = from[0], b = from[1];
        const unsigned word[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 8; i++)
            bits[i] = to_operand(__uint_as_float(word[i]));
#else
        return *from; /* operands are of the type of rows */
#endif
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            bits[i] = k + i < width ? to_operand(to_real(row[k + i])) : (operand_bits)0;
    }
    return make_uint4(pair_of(bits[0], bits[1]), pair_of(bits[2], bits[3]),
                      pair_of(bits[4], bits[5]), pair_of(bits[6], bits[7]));
}

/* d += the tile's rows times 8 rows of the batch, in two sums that do not wait for each other. */
WORD void multiply_item(float even[4], float odd[4], const struct fragment *r, uint4 b)
{
    multiply_add(even, r->low.x, r->high.x, r->low.y, r->high.y, b.x, b.y);
    multiply_add(odd, r->low.z, r->high.z, r->low.w, r->high.w, b.z, b.w);
}

/* Reads what is wanted (a bit for each) of pieces a round of warps apart. */
template <int N>
static __device__ __forceinline__ void ask(const uint4 *from, unsigned wanted, uint4 v[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        if (wanted >> i & 1)
            v[i] = read_shared_by_all(from + i * WARPS * LANES);
}

/* Asks again until all of it is there; what never came is NaN, and makes NaN of everything after
 * it. */
template <int N>
static __device__ __forceinline__ void read_all(const struct eco_resident_call *call,
                                                struct patience *patience, const uint4 *from,
                                                unsigned wanted, uint4 v[N])
{
    for (;;) {
        bool all = true;
#pragma unroll
        for (int i = 0; i < N; i++)
            all &= !(wanted >> i & 1) || whole(v[i]);
        if (all || !wait_more(patience, call))
            return;
        ask<N>(from, wanted, v);
    }
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Where the arrays begin, in floats or in groups of four; as eco_resident_shape counts them. */
struct memory {
    int operand; /* [tiles of 8 rows, k / 32, lanes] uint4; before it kept fragments of R */
    int sums;    /* [across, rows, sum_row] */
    int rest;    /* each way's own */
    int pairs, sum_row, sum_across, row_tiles;
};

WORD struct memory memory_of(const struct eco_resident_call *call)
{
    const struct eco_resident_shape *shape = &call->shape;
    struct memory m;
    m.row_tiles = (shape->group_rows + ECO_RESIDENT_N - 1) / ECO_RESIDENT_N;
    m.pairs = shape->group_rows << shape->unit_shift;
    m.sum_row = ECO_RESIDENT_SUM_ROW(shape->tiles);
    m.sum_across = m.row_tiles * ECO_RESIDENT_N * m.sum_row;
    m.operand = WARPS * shape->kept * TILES * LANES * 2;
    m.sums = (m.operand + m.row_tiles * (shape->k / ECO_RESIDENT_K) * LANES) * 4;
    m.rest = m.sums + shape->across * m.sum_across;
    return m;
}

/* A fragment that this warp keeps here. */
WORD struct fragment *kept_fragment(const struct eco_resident_call *call, const struct share *share,
                                    int item, int tile)
{
    return (struct fragment *)shared +
           ((share->warp * call->shape.kept + item - ITEMS) * TILES + tile) * LANES + share->lane;
}

/* ---- the exchange ---------------------------------------------------------------------------- */

/* Pieces are exchanged as they lie in shared memory: [steps, groups, rows / 8, k / 32, lanes] of 16
 * bytes. */
WORD operand_bits *exchange_of(const struct eco_resident_call *call, const struct share *share,
                               const struct memory *memory)
{
    return (operand_bits *)call->job[share->job].exchange +
           (int64_t)share->group * memory->row_tiles * ECO_RESIDENT_N * call->shape.k;
}

/* Where in a group's exchange one unit of one row lies. */
WORD int exchanged_at(const struct eco_resident_call *call, unsigned n, unsigned unit)
{
    const unsigned pieces = (unsigned)call->shape.k / ECO_RESIDENT_K;
    const unsigned piece = n / ECO_RESIDENT_N * pieces + unit / ECO_RESIDENT_K;
    const unsigned lane = n % ECO_RESIDENT_N * 4 + unit % ECO_RESIDENT_K / 8;
    return (int)((piece * LANES + lane) * 8 + unit % 8);
}

/* ---- what a thread has for all steps --------------------------------------------------------- */

/* Places of a thread's first pair, and of those of its warp's products. */
struct mine {
    int unit, n;
    int pair_sums, items, operand, sums; /* in shared memory */
    operand_bits *sent;                  /* of the group, in the step at hand */
    const uint4 *received;               /* in the step before */
};

/* Kept in a register: the compiler would rather calculate it anew in every step. */
WORD int pinned(int value)
{
    asm volatile("" : "+r"(value));
    return value;
}

WORD struct mine mine_of(const struct eco_resident_call *call, const struct share *share,
                         const struct memory *memory)
{
    const struct eco_resident_shape *shape = &call->shape;
    const int pieces = shape->k / ECO_RESIDENT_K, first = share->across * shape->items;
    const int u = unit_of_thread(call);
    struct mine mine;
    mine.n = pinned((int)threadIdx.x >> shape->unit_shift);
    mine.unit = pinned(share->unit0 + u);
    mine.pair_sums = pinned(memory->sums + mine.n * memory->sum_row + u);
    mine.items = pinned(pieces - first < shape->items ? pieces - first : shape->items);
    mine.operand = pinned(memory->operand + first * LANES + share->lane);
    mine.sums = pinned(memory->sums + share->across * memory->sum_across +
                       share->lane % 4 * 2 * memory->sum_row +
                       share->down * TILES * ECO_RESIDENT_M + share->lane / 4);
    mine.sent = exchange_of(call, share, memory);
    mine.received = (const uint4 *)mine.sent;
    return mine;
}

/* After a step: the next one's part of the exchange. */
WORD void advance(const struct eco_resident_call *call, const struct memory *memory,
                  struct mine *mine, int step)
{
    const int64_t pieces =
        (int64_t)call->shape.groups * memory->row_tiles * (call->shape.k / ECO_RESIDENT_K) * LANES;
    mine->sent += pieces * 8;
    if (step > 0)
        mine->received += pieces;
}

/* What fills up the rows of the exchange belongs to the last unit. */
WORD void send_padding(const struct eco_resident_call *call, const struct mine *mine, int n)
{
    if (mine->unit == call->hidden - 1)
        for (int k = call->width; k < call->shape.k; k++)
            write_shared_by_all(mine->sent + exchanged_at(call, (unsigned)n, (unsigned)k), 0);
}

/* The sum of a pair's products with the block's row `row` of its units. */
template <int ACROSS>
CELL_WORD float sum_of(const struct eco_resident_call *call, const struct memory *memory, int at,
                       int row)
{
    float sum = 0;
#pragma unroll
    for (int k = 0; k < ACROSS; k++)
        sum += *floats(at + (row << call->shape.unit_shift) + k * memory->sum_across);
    return sum;
}

/* ---- R --------------------------------------------------------------------------------------- */

/* The share of this lane in item `item` of its warp, tile `tile` of its two. */
static __device__ __noinline__ struct fragment
read_fragment(const struct eco_resident_call *call, const struct share *share, int item, int tile)
{
    const struct eco_resident_shape *shape = &call->shape;
    const int units = 1 << shape->unit_shift, rows = shape->tiles * ECO_RESIDENT_M;
    const int k = (share->across * shape->items + item) * ECO_RESIDENT_K + share->lane % 4 * 8;
    const int first = (share->down * TILES + tile) * ECO_RESIDENT_M + share->lane / 4;
    uint4 half[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int r = first + i * 8, unit = share->unit0 + (r & (units - 1));
        const int acc = r >> shape->unit_shift;
        const bool there = r < rows && acc < call->row_groups && unit < call->hidden &&
                           item < shape->items && share->across < shape->across;
        const narrow *row = (const narrow *)call->job[share->job].recurrent +
                            ((int64_t)acc * call->hidden + unit) * call->width;
        half[i] = operands_of(row, there ? k : call->width, call->width, call->even);
    }
    struct fragment fragment = {half[0], half[1]};
    return fragment;
}

/* This block's part of R; the share of a lane: in registers and in shared memory. */
CELL_WORD void read_fragments(const struct eco_resident_call *call, const struct share *share,
                              struct fragment r[ITEMS][TILES])
{
#pragma unroll
    for (int i = 0; i < ITEMS; i++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            r[i][t] = read_fragment(call, share, i, t);
    for (int i = ITEMS; i < ITEMS + call->shape.kept; i++)
        for (int t = 0; t < TILES; t++)
            *kept_fragment(call, share, i, t) = read_fragment(call, share, i, t);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Reads pieces that all blocks of the group sent; meanwhile() is done while they are on their way.
 */
template <int AT_ONCE, class MEANWHILE>
CELL_WORD void gather_some(const struct eco_resident_call *call, const struct share *share,
                           const struct memory *memory, struct patience *patience,
                           const struct mine *mine, MEANWHILE meanwhile)
{
    const int pieces = call->shape.k / ECO_RESIDENT_K, all = memory->row_tiles * pieces;
    const int full = share->rows / ECO_RESIDENT_N * pieces; /* pieces of which every row is there */
    const int limit = share->lane / 4 < share->rows % ECO_RESIDENT_N ? all : full;
#pragma unroll 1
    for (int piece = share->warp; piece < all; piece += AT_ONCE * WARPS) {
        const int at = piece * LANES + share->lane;
        unsigned wanted = 0;
        uint4 v[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            wanted |= piece + i * WARPS < limit ? 1u << i : 0;
            v[i] = make_uint4(0, 0, 0, 0);
        }
        ask<AT_ONCE>(mine->received + at, wanted, v);
        if (piece == share->warp)
            meanwhile();
        read_all<AT_ONCE>(call, patience, mine->received + at, wanted, v);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (piece + i * WARPS < all)
                shared[memory->operand + at + i * WARPS * LANES] = v[i];
    }
    if (share->warp >= all)
        meanwhile();
}

template <class MEANWHILE>
CELL_WORD void gather(const struct eco_resident_call *call, const struct share *share,
                      const struct memory *memory, struct patience *patience,
                      const struct mine *mine, MEANWHILE meanwhile)
{
    enum { FEW = 2, MANY = 4 };
    if (memory->row_tiles * (call->shape.k / ECO_RESIDENT_K) <= FEW * WARPS)
        gather_some<FEW>(call, share, memory, patience, mine, meanwhile);
    else
        gather_some<MANY>(call, share, memory, patience, mine, meanwhile);
}

/* Sums of one tile of R and 8 rows of the batch, to shared memory. */
WORD void put_sums(const struct memory *memory, int at, const float even[4], const float odd[4])
{
    *floats(at) = even[0] + odd[0];
    *floats(at + memory->sum_row) = even[1] + odd[1];
    *floats(at + 8) = even[2] + odd[2];
    *floats(at + memory->sum_row + 8) = even[3] + odd[3];
}

/* `N` tiles of 8 rows of the batch; what is read of them is fetched an item ahead. */
template <int N>
CELL_WORD void multiply_rows(const struct eco_resident_call *call, const struct share *share,
                             const struct memory *memory, const struct mine *mine,
                             const struct fragment r[ITEMS][TILES], int row_tile)
{
    const int pieces = call->shape.k / ECO_RESIDENT_K, items = mine->items;
    const uint4 *b = shared + mine->operand + row_tile * pieces * LANES;
    float even[N][TILES][4] = {}, odd[N][TILES][4] = {};
    uint4 v[N];
#pragma unroll
    for (int n = 0; n < N; n++)
        v[n] = b[n * pieces * LANES];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        if (i >= items)
            break;
#pragma unroll
        for (int n = 0; n < N; n++) {
            const uint4 here = v[n];
            v[n] = b[(n * pieces + i + 1) * LANES];
#pragma unroll
            for (int t = 0; t < TILES; t++)
                multiply_item(even[n][t], odd[n][t], &r[i][t], here);
        }
    }
#pragma unroll 1
    for (int i = ITEMS; i < items; i++) {
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            const struct fragment kept = *kept_fragment(call, share, i, t);
#pragma unroll
            for (int n = 0; n < N; n++)
                multiply_item(even[n][t], odd[n][t], &kept, v[n]);
        }
#pragma unroll
        for (int n = 0; n < N; n++)
            v[n] = b[(n * pieces + i + 1) * LANES];
    }
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            put_sums(memory,
                     mine->sums + (row_tile + n) * ECO_RESIDENT_N * memory->sum_row +
                         t * ECO_RESIDENT_M,
                     even[n][t], odd[n][t]);
}

WORD void multiply(const struct eco_resident_call *call, const struct share *share,
                   const struct memory *memory, const struct mine *mine,
                   const struct fragment r[ITEMS][TILES])
{
    int tile = 0;
    if (share->across >= call->shape.across)
        return;
    for (; tile + 1 < memory->row_tiles; tile += 2)
        multiply_rows<2>(call, share, memory, mine, r, tile);
    if (tile < memory->row_tiles)
        multiply_rows<1>(call, share, memory, mine, r, tile);
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

/* Warps along k for a block of 1 << SHIFT units with so many rows of R each, as eco_resident_shape
 * divides them. */
template <int ROWS, int SHIFT> struct division {
    enum {
        tiles = ((ROWS << SHIFT) + ECO_RESIDENT_M - 1) / ECO_RESIDENT_M,
        across = WARPS / ((tiles + TILES - 1) / TILES)
    };
};

/* A row of the list of kernels (kernels.h), RESIDENT_KERNEL being the template. */
#define RESIDENT_KERNELS(cell, ...)                                                                \
    {cell,                                                                                         \
     {(const void *)RESIDENT_KERNEL<cell, 3>, (const void *)RESIDENT_KERNEL<cell, 4>,              \
      (const void *)RESIDENT_KERNEL<cell, 5>, (const void *)RESIDENT_KERNEL<cell, 6>}},
