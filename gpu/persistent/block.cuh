/*
 * Persistent kernels, what both ways share: how a block finds its share of the work, where things
 * lie in shared memory and in the exchange between blocks.  A thread's: elements.cuh; R:
 * weights.cuh; what it is multiplied by: gather.cuh; products:
 * mainloop_mma.cuh.
 *
 * k is taken in an order of our own: of an item, 64 bytes of a row, lane 4g + q holds the qth 16,
 * of which the first matrix instruction takes one half and the second the other (of pairs the
 * nearest numbers are one half, what they leave the other, and three instructions take them).  So a
 * lane's share of a row is one piece in R, in the exchange and in shared memory.
 */
#ifndef ECO_GPU_PERSISTENT_BLOCK_CUH
#define ECO_GPU_PERSISTENT_BLOCK_CUH

#include "gpu/persistent/args.h"
#include "gpu/persistent/operand.cuh"

enum {
    THREADS = ECO_PERSISTENT_THREADS,
    WARPS = ECO_PERSISTENT_WARPS,
    WARPGROUP = ECO_PERSISTENT_WARPGROUP,
    TILES = ECO_PERSISTENT_TILES(ECO_PERSISTENT_MMA), /* of 16 rows of R, to most warps */
    SCALES_OF_TILE = ECO_PERSISTENT_N / 2             /* of 8 rows of the batch, in 8 bytes */
};

/* How numbers with scales are exchanged: RUNS of a unit in blocks of 1 << SHIFT units. */
template <int RUNS, int SHIFT> struct scale_block_of {
    enum {
        shift = ECO_PERSISTENT_RUN_OF(SHIFT),
        runs = RUNS,
        numbers = ECO_PERSISTENT_SCALE_BLOCK(RUNS, SHIFT, ITEM, PERSISTENT_BACKWARD),
        halves = ITEM_SCALES && ECO_PERSISTENT_HALVES(RUNS, SHIFT, ITEM, PERSISTENT_BACKWARD),
        items = numbers < ITEM ? 1 : numbers / ITEM
    };
};

/* A block of 1 << SHIFT units with so many rows of R each, in a cluster of 1 << SPREAD blocks, as
 * eco_persistent_shape divides it, for one of so many products of a step, of so many numbers of a
 * unit. */
template <int ROWS, int SHIFT, int SPREAD, int FORM, int RUNS, int PRODUCT = 0, int PRODUCTS = 1>
struct division {
    typedef scale_block_of<RUNS, SHIFT> scale_block;
    enum {
        product = PRODUCT,
        many = FORM == ECO_PERSISTENT_MMA_MANY,
        square = FORM == ECO_PERSISTENT_WGMMA,
        direct = ECO_PERSISTENT_IS_DIRECT(FORM),
        shift = SHIFT,
        blocks = 1 << SPREAD,
        element_rows = THREADS >> SHIFT, /* batch rows of which a thread has the first's element */
        own = ROWS << SHIFT,             /* rows of R of its units */
        rows = own << SPREAD,            /* of all units of the cluster */
        there = (rows + ECO_PERSISTENT_M - 1) / ECO_PERSISTENT_M,
        wide = ECO_PERSISTENT_TILES(FORM), /* tiles of a warp */
        tiles = square ? ECO_PERSISTENT_SQUARE_TILES(there) : (there + wide - 1) / wide * wide,
        squares = (tiles + WARPGROUP - 1) / WARPGROUP, /* of 64 rows, where they are */
        row_tiles = ECO_PERSISTENT_DIRECT_TILES(FORM, INSTRUCTIONS),
        /* in registers */
        items = ECO_PERSISTENT_ITEMS(FORM, ITEM_SCALES, scale_block::items) / PRODUCTS,
        down = tiles / wide,
        across = WARPS / down,
        parts = square && squares == 1 ? WARPS / WARPGROUP : across,
        sum_part = ECO_PERSISTENT_SUM_PART(tiles),
        sum_row = ECO_PERSISTENT_SUM_ROW(tiles, parts),
        sum_tile = ECO_PERSISTENT_SUM_AT(ECO_PERSISTENT_N, sum_row),
        /* what a thread's element has, before products: not where that leaves too few registers */
        reads_early =
            direct && (FORM != ECO_PERSISTENT_DIRECT_WIDE || sizeof(narrow) < sizeof(real)),
        may_alias = many && blocks > 1,
        part_row = ECO_PERSISTENT_PART_ROW(ROWS, SHIFT)
    };
    static_assert(!reads_early || element_rows >= row_tiles * ECO_PERSISTENT_N,
                  "a thread has an element");
};

/* A block's share. */
struct block {
    int job, group, member;
    int row0, rows; /* batch rows of the group */
    int unit0;      /* first unit of the block */
    int rank;       /* in its cluster */
    int item0;      /* first item that it gathers */
    int warp, lane;
    int down, across; /* of a warp that multiplies by itself; else down_of() and across_of() say */
};

template <class CUT> ECO_DEVICE struct block block_of(const struct eco_persistent_call *call)
{
    const struct eco_persistent_shape *shape = &call->shape;
    const int blocks = shape->groups * shape->members;
    struct block block;
    block.job = (int)blockIdx.x / blocks;
    block.group = (int)blockIdx.x % blocks / shape->members;
    block.member = (int)blockIdx.x % shape->members;
    block.row0 = block.group * shape->group_rows;
    block.rows = call->rows - block.row0;
    if (block.rows > shape->group_rows)
        block.rows = shape->group_rows;
    block.unit0 = block.member << CUT::shift;
    block.rank = block.member % CUT::blocks;
    block.item0 = block.rank * shape->part[CUT::product].slice;
    block.warp = (int)threadIdx.x / WARP;
    block.lane = (int)threadIdx.x % WARP;
    block.down = block.warp % CUT::down;
    block.across = block.warp / CUT::down;
    return block;
}

/* Where a warp's tth tile stands: down along the rows of R, across along k.  Of warps that multiply
 * together two neighbours along k add to the same sums. */
template <class CUT> ECO_DEVICE int down_of(const struct block *block, int t)
{
    if (!CUT::square)
        return block->down * CUT::wide + t;
    return (block->warp / WARPGROUP * TILES + t) % CUT::squares * WARPGROUP +
           block->warp % WARPGROUP;
}
template <class CUT> ECO_DEVICE int across_of(const struct block *block, int t)
{
    if (!CUT::square)
        return block->across;
    return (block->warp / WARPGROUP * TILES + t) / CUT::squares;
}

/* Instructions of four warps read 128 bytes at a time, a little sooner where these do not lie in
 * two lines. */
extern __shared__ __align__(128) uint4 shared[];

ECO_DEVICE float *floats(int at)
{
    return (float *)shared + at;
}

/* Of 8 rows of an item, of which a lane has 16 bytes of one, instructions of four warps want the
 * first words of all lanes together, then the second ones. */
ECO_DEVICE void put_words(uint4 *to, int lane, uint4 v)
{
    unsigned *const word = (unsigned *)(to - lane) + lane;
    word[0] = v.x;
    word[WARP] = v.y;
    word[2 * WARP] = v.z;
    word[3 * WARP] = v.w;
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Where the arrays begin, in floats or in groups of four; as eco_persistent_shape counts them. */
struct memory {
    int operand;  /* [across, items, rows / 8, lanes] uint4; before it kept fragments of R */
    int scales;   /* [scale blocks, rows], where there are any; room for those of all items */
    int sums;     /* [tiles of a chunk, sum_tile]: parts of sums */
    int parts;    /* [2, blocks, rows, part_row]: sums of the cluster's blocks, of steps in turn */
    int lengths;  /* [rows] int32_t */
    int rest;     /* each way's own */
    int elements; /* for all threads */
    int row_tiles, part_across;
    int gathered, scale_blocks; /* pieces; their scales for a row */
    int first_scale; /* of scales a thread's first, from its first piece on, in 8 bytes */
};

/* Pieces of all that is kept of R. */
ECO_DEVICE int pieces_in_shared(const struct eco_persistent_shape *shape)
{
    return WARPS * shape->in_shared * TILES * WARP * 2;
}

/* Of a group and a step, what product `o` reads, in 16 bytes: the numbers; with their scales. */
ECO_DEVICE int numbers_sent_of(const struct eco_persistent_call *call, int row_tiles, int o)
{
    return row_tiles * (call->shape.part[o].k / ITEM) * WARP;
}

/* Of those that there are, so many are in so many items. */
template <class CUT>
ECO_DEVICE int scale_blocks_before(const struct eco_persistent_call *call, int items)
{
    return min(items * ITEM / (int)CUT::scale_block::numbers,
               ECO_PERSISTENT_SCALE_BLOCKS(call->hidden, CUT::shift));
}

template <class CUT>
ECO_DEVICE int64_t sent_of(const struct eco_persistent_call *call, const struct memory *memory)
{
    const int scale_blocks =
        scale_blocks_before<CUT>(call, call->shape.part[CUT::product].k / ITEM);
    return numbers_sent_of(call, memory->row_tiles, CUT::product) +
           (ITEM_SCALES ? scale_blocks * memory->row_tiles * SCALES_OF_TILE / 2 : 0);
}

/* Where a lane's first piece lies there, and from that its first scales, in 8 bytes: of who
 * multiplies what it gathers those of two rows, else a thread's of all. */
template <class CUT>
ECO_DEVICE int first_item(const struct eco_persistent_call *call, const struct block *block)
{
    return across_of<CUT>(block, 0) * call->shape.part[CUT::product].items;
}

template <class CUT>
ECO_DEVICE int first_piece(const struct eco_persistent_call *call, const struct block *block,
                           int row_tiles)
{
    const int own = CUT::direct ? first_item<CUT>(call, block) * row_tiles : block->warp;
    return (block->item0 * row_tiles + own) * WARP + block->lane;
}

template <class CUT>
ECO_DEVICE int scale_place(const struct eco_persistent_call *call, const struct block *block,
                           int row_tiles)
{
    const int behind =
        numbers_sent_of(call, row_tiles, CUT::product) - first_piece<CUT>(call, block, row_tiles);
    const int item = block->item0 + (CUT::direct ? first_item<CUT>(call, block) : 0),
              own = CUT::direct ? block->lane % 4 : (int)threadIdx.x;
    return 2 * behind + scale_blocks_before<CUT>(call, item) * row_tiles * SCALES_OF_TILE + own;
}

template <class CUT>
ECO_DEVICE struct memory memory_of(const struct eco_persistent_call *call,
                                   const struct block *block)
{
    const struct eco_persistent_shape *shape = &call->shape;
    struct memory m;
    m.row_tiles = (shape->group_rows + ECO_PERSISTENT_N - 1) / ECO_PERSISTENT_N;
    m.elements =
        (m.row_tiles * ECO_PERSISTENT_N + CUT::element_rows - 1) / CUT::element_rows * THREADS;
    const struct eco_persistent_part *part = &shape->part[CUT::product];
    const int left = part->k / ITEM - block->item0;
    const int taken = max(min(left, part->slice), 0);
    m.gathered = m.row_tiles * taken;
    m.scale_blocks = scale_blocks_before<CUT>(call, block->item0 + taken) -
                     scale_blocks_before<CUT>(call, block->item0);
    m.first_scale = 0;
    if (ITEM_SCALES)
        m.first_scale = pinned(scale_place<CUT>(call, block, m.row_tiles));
    m.part_across = m.row_tiles * ECO_PERSISTENT_N * CUT::part_row;
    m.operand = pieces_in_shared(shape);
    m.scales = (m.operand + m.row_tiles * shape->room * WARP) * 4;
    m.sums = m.scales;
#if defined(ECO_SCALED)
    m.sums += m.row_tiles * ECO_PERSISTENT_N * shape->room * (CUT::scale_block::halves ? 2 : 1);
#endif
    const int turns = CUT::direct ? 2 : 1;
    m.parts = m.sums + (shape->aliased ? 0 : turns * shape->chunk * shape->sums);
    if (shape->aliased)
        m.sums = m.operand * 4;
    m.lengths = m.parts + (CUT::blocks > 1 ? 2 * CUT::blocks * m.part_across : 0);
    m.rest = m.lengths + m.row_tiles * ECO_PERSISTENT_N;
    return m;
}

/* ---- the exchange ---------------------------------------------------------------------------- */

/* Pieces are exchanged as they lie in shared memory: [steps, groups, items, rows / 8, lanes] of 16
 * bytes, behind those of a group their scales: [scale blocks, rows] floats.  What is nobody's,
 * beyond rows and units, is there before the first step (exchange_init.cu). */

/* Where in a group's exchange number k of its first row lies.  If scale blocks are half an item,
 * one's numbers are those of one matrix instruction. */
template <class SCALE_BLOCK> ECO_DEVICE int number_at(const struct memory *memory, unsigned k)
{
    const unsigned of_item =
        SCALE_BLOCK::halves ? k % 16 / 4 * PIECE + k % ITEM / 16 * 4 + k % 4 : k % ITEM;
    return (int)((k / ITEM * (unsigned)memory->row_tiles * WARP + of_item / PIECE) * PIECE +
                 of_item % PIECE);
}

/* And a row, from there on. */
ECO_DEVICE int row_at(int n)
{
    return n * ITEM;
}

/* A unit's number of accumulator `run` of those that are exchanged. */
template <class SCALE_BLOCK>
ECO_DEVICE unsigned number_of(const struct eco_persistent_call *call, int run, int unit)
{
    if (!ITEM_SCALES)
        return (unsigned)(run * call->column + unit);
    const int shift = SCALE_BLOCK::shift;
    return (unsigned)((unit >> shift) * (int)SCALE_BLOCK::numbers + (run << shift) +
                      (unit & ((1 << shift) - 1)));
}

#endif /* ECO_GPU_PERSISTENT_BLOCK_CUH */
