/*
 * Persistent kernels, what forward and backward share: a block's share of the work, the layout of
 * shared memory and of the exchange between blocks. See elements.cuh for a thread's share,
 * weights.cuh for R, gather.cuh for operands, mainloop_mma.cuh for products.
 *
 * The numbers of a k block (64 bytes of a row) are permuted: lane 4g + q has the qth 16 bytes. The
 * first matrix instruction takes one half of these, the second the other half. (With pairs one half
 * has the nearest F16 numbers, the other the residuals, and three instructions take them.) So a
 * lane's share of a row is one piece of 16 bytes in R, in the exchange and in shared memory.
 */
#ifndef ECO_GPU_PERSISTENT_BLOCK_CUH
#define ECO_GPU_PERSISTENT_BLOCK_CUH

#include "gpu/persistent/args.h"
#include "gpu/persistent/operand.cuh"

enum {
    PERSISTENT_THREADS = ECO_PERSISTENT_THREADS,
    PERSISTENT_WARPS = ECO_PERSISTENT_WARPS,
    WARPGROUP = ECO_PERSISTENT_WARPGROUP,
    TILES = eco_persistent_tiles(
        ECO_PERSISTENT_MMA),              /* tiles of 16 rows of R of a warp, in most mainloops */
    SCALES_OF_TILE = ECO_PERSISTENT_N / 2 /* scales of 8 batch rows, in units of 8 bytes */
};

/* The usual run of a kernel that was compiled for a plan.  The kernel has no code for odd H and
 * other k blocks, which no run of the plan has; other rows, jobs and pieces take loops.  The
 * module's kernels know nothing of their runs. */
#if defined(PERSISTENT_USUAL)
constexpr struct eco_persistent_usual usual = PERSISTENT_USUAL;
#else
constexpr struct eco_persistent_usual usual = {};
#endif

/* A number as a type. */
template <int N> struct count {
    enum { value = N };
};

/* Scale blocks of 1 << SHIFT units with RUNS numbers each. */
template <int RUNS, int SHIFT> struct scale_block_of {
    enum {
        shift = eco_persistent_run_of(SHIFT),
        runs = RUNS,
        numbers = eco_persistent_scale_block(RUNS, SHIFT, K_BLOCK, PERSISTENT_BACKWARD),
        halves = K_BLOCK_SCALES && eco_persistent_halves(RUNS, SHIFT, K_BLOCK, PERSISTENT_BACKWARD),
        k_blocks = numbers < K_BLOCK ? 1 : numbers / K_BLOCK
    };
};

/* A block of 1 << SHIFT units with ROWS rows of R each, in a cluster of 1 << CLUSTER_LOG2 blocks,
 * as eco_persistent_shape divides it, for product PRODUCT of PRODUCTS in a step. Exchanged rows
 * have RUNS numbers for each unit. */
template <int ROWS, int SHIFT, int CLUSTER_LOG2, int MAINLOOP, int RUNS, int PRODUCT = 0,
          int PRODUCTS = 1>
struct division {
    typedef scale_block_of<RUNS, SHIFT> scale_block;
    enum {
        product = PRODUCT,
        many = MAINLOOP == ECO_PERSISTENT_MMA_MANY,
        wgmma = MAINLOOP == ECO_PERSISTENT_WGMMA,
        direct = eco_persistent_is_direct(MAINLOOP),
        shift = SHIFT,
        blocks = 1 << CLUSTER_LOG2,
        element_rows =
            PERSISTENT_THREADS >> SHIFT, /* batch rows in a pass of all threads over the elements */
        own = ROWS << SHIFT,             /* rows of R of the block's units */
        rows = own << CLUSTER_LOG2,      /* rows of R of the cluster's units */
        there = (rows + ECO_PERSISTENT_M - 1) / ECO_PERSISTENT_M,
        wide = eco_persistent_tiles(MAINLOOP), /* tiles of a warp */
        tiles = wgmma ? eco_persistent_wgmma_tiles(there) : (there + wide - 1) / wide * wide,
        m64_tiles = (tiles + WARPGROUP - 1) / WARPGROUP, /* groups of 64 rows, for WGMMA */
        row_tiles = eco_persistent_direct_tiles(MAINLOOP, INSTRUCTIONS),
        /* in registers */
        k_blocks =
            eco_persistent_k_blocks(MAINLOOP, K_BLOCK_SCALES, scale_block::k_blocks) / PRODUCTS,
        down = tiles / wide,
        across = PERSISTENT_WARPS / down,
        parts = wgmma && m64_tiles == 1 ? PERSISTENT_WARPS / WARPGROUP : across,
        sum_part = eco_persistent_sum_part(tiles),
        sum_row = eco_persistent_sum_row(tiles, parts),
        sum_tile = ECO_PERSISTENT_SUM_AT(ECO_PERSISTENT_N, sum_row),
        /* loads a thread's element before the products, unless that leaves too few registers */
        reads_early =
            direct && (MAINLOOP != ECO_PERSISTENT_DIRECT_WIDE || sizeof(narrow) < sizeof(real)),
        may_alias = many && blocks > 1,
        part_row = eco_persistent_part_row(ROWS, SHIFT)
    };
    static_assert(!reads_early || element_rows >= row_tiles * ECO_PERSISTENT_N,
                  "a thread has an element");
};

/* Start of each array in shared memory, in floats (`operand`: in 16 bytes). Must agree with
 * eco_persistent_shape. */
struct memory {
    int operand; /* [across, k blocks, rows / 8, lanes] uint4; preceded by fragments of R */
    int scales;  /* [scale blocks, rows], if there are scales; room for all k blocks */
    int sums;    /* [tiles of a chunk, sum_tile]: partial sums */
    int parts; /* [2, blocks, rows, part_row]: sums of the cluster's blocks, for even and odd steps
                */
    int lengths;  /* [rows] int32_t */
    int rest;     /* arrays of forward or backward */
    int means;    /* [means, rows] of a cell with means, behind these */
    int elements; /* elements of all threads */
    int row_tiles, part_across;
};

/* Positions of a thread's first element, and in the exchange. */
struct thread {
    int unit, n;
    int rows;              /* batch rows in which the unit exists */
    int element_sums;      /* in shared memory, of batch row 0 */
    int came;              /* in shared memory: the first piece that it gathers */
    int sent_unit;         /* position of its unit in the exchange */
    operand_bits *sent;    /* the group's exchange of the current step */
    const uint4 *received; /* the first piece that this lane reads of the previous step */
#if defined(ECO_RESETS)
    uint32_t restarts; /* bits of its first batch row, see ask_resets() */
#endif
};

/* The share of a warp in a product of a step. */
struct product_share {
    int down, across; /* position of the warp in the grid; with WGMMA use down_of(), across_of() */
    int k_block0;     /* first k block that the block gathers */
    int gathered, scale_blocks; /* pieces that it gathers; scale blocks of a row */
    int first_scale; /* distance of a thread's first scale from its first piece, in 8 bytes */
    int operand, scale, sums; /* the warp's, in shared memory */
    int k_block; /* the first k block that the warp multiplies, among the gathered ones */
};

/* Counts unsuccessful reads of the exchange. */
struct spin_timeout {
    unsigned tries;
    unsigned until; /* time in units of 2^16 ns; NOT_YET: no long wait so far */
};

/* What a thread knows of its block, and of the step in hand. */
struct block_context {
    const struct eco_persistent_call *call;
    int job, group, member;
    int row0, rows; /* batch rows of the group */
    int unit0;      /* first unit of the block */
    int rank;       /* in its cluster */
    int warp, lane;
    int step;
    bool idle; /* all rows of the group have ended */
    struct memory memory;
    struct thread thread;
    struct product_share product[ECO_PERSISTENT_PRODUCTS];
    struct scales scales;
    struct spin_timeout spin_timeout;
};

ECO_DEVICE const struct eco_persistent_job *job_of(const struct block_context *block)
{
    return &block->call->job[block->job];
}

template <class DIVISION>
ECO_DEVICE const struct eco_persistent_product *product_of(const struct block_context *block)
{
    return &block->call->shape.product[DIVISION::product];
}

/* The k blocks of a warp.  Not for direct kernels with several tiles of rows: theirs depend on the
 * number of rows, which `usual` does not know. */
template <class DIVISION> ECO_DEVICE int k_blocks_of_warp(const struct block_context *block)
{
    const int known = usual.k_blocks[DIVISION::product];
    return known > 0 ? known : product_of<DIVISION>(block)->k_blocks;
}

/* Does a warp keep k blocks of R in shared memory, too? */
template <class DIVISION> ECO_DEVICE constexpr bool may_keep_in_shared(void)
{
    const int known = usual.k_blocks[DIVISION::product];
    return !DIVISION::direct && (known == 0 || known > DIVISION::k_blocks);
}

template <class DIVISION>
ECO_DEVICE const struct product_share *share_of(const struct block_context *block)
{
    return &block->product[DIVISION::product];
}

/* The positions of the block and the thread. */
ECO_DEVICE struct block_context block_of(const struct eco_persistent_call *call)
{
    const struct eco_persistent_shape *shape = &call->shape;
    const int blocks = shape->groups * shape->members;
    struct block_context block;
    block.call = call;
    block.job = (int)blockIdx.x / blocks;
    block.group = (int)blockIdx.x % blocks / shape->members;
    block.member = (int)blockIdx.x % shape->members;
    block.row0 = block.group * shape->group_rows;
    block.rows = call->rows - block.row0;
    if (block.rows > shape->group_rows)
        block.rows = shape->group_rows;
    block.warp = (int)threadIdx.x / WARP;
    block.lane = (int)threadIdx.x % WARP;
    block.spin_timeout = {0, 0};
    return block;
}

/* Places the block among the units, and the warp in the grid of a product. */
template <class DIVISION> ECO_DEVICE void place_warp(struct block_context *block)
{
    block->unit0 = block->member << DIVISION::shift;
    block->rank = block->member % DIVISION::blocks;
    struct product_share *const share = &block->product[DIVISION::product];
    share->k_block0 = block->rank * product_of<DIVISION>(block)->slice;
    share->down = block->warp % DIVISION::down;
    share->across = block->warp / DIVISION::down;
}

/* Position of a warp's tth tile: down along the rows of R, across along k. With WGMMA two
 * neighbours along k add to the same sums. */
template <class DIVISION> ECO_DEVICE int down_of(const struct block_context *block, int t)
{
    if (!DIVISION::wgmma)
        return share_of<DIVISION>(block)->down * DIVISION::wide + t;
    return (block->warp / WARPGROUP * TILES + t) % DIVISION::m64_tiles * WARPGROUP +
           block->warp % WARPGROUP;
}
template <class DIVISION> ECO_DEVICE int across_of(const struct block_context *block, int t)
{
    if (!DIVISION::wgmma)
        return share_of<DIVISION>(block)->across;
    return (block->warp / WARPGROUP * TILES + t) / DIVISION::m64_tiles;
}

/* wgmma reads 128 bytes at a time, slightly faster if they are in one line. */
extern __shared__ __align__(128) uint4 shared[];

ECO_DEVICE float *floats(int at)
{
    return (float *)shared + at;
}

/* Stores a lane's 16 bytes of 8 rows of a k block. wgmma needs the first words of all lanes
 * together, then the second words, and so on. */
ECO_DEVICE void put_words(uint4 *to, int lane, uint4 v)
{
    unsigned *const word = (unsigned *)(to - lane) + lane;
    word[0] = v.x;
    word[WARP] = v.y;
    word[2 * WARP] = v.z;
    word[3 * WARP] = v.w;
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Pieces of all of R in shared memory. */
ECO_DEVICE int pieces_in_shared(const struct eco_persistent_shape *shape)
{
    return PERSISTENT_WARPS * shape->in_shared * TILES * WARP * 2;
}

/* What a group gathers in a step for product `o`, in 16 bytes: numbers; numbers and scales. */
ECO_DEVICE int numbers_sent_of(const struct block_context *block, int o)
{
    return block->memory.row_tiles * (block->call->shape.product[o].k / K_BLOCK) * WARP;
}

/* Scale blocks in the first `k_blocks` k blocks. */
template <class DIVISION>
ECO_DEVICE int scale_blocks_before(const struct block_context *block, int k_blocks)
{
    return min(k_blocks * K_BLOCK / (int)DIVISION::scale_block::numbers,
               eco_persistent_scale_blocks(block->call->hidden, DIVISION::shift));
}

template <class DIVISION> ECO_DEVICE int64_t sent_of(const struct block_context *block)
{
    const int scale_blocks =
        scale_blocks_before<DIVISION>(block, product_of<DIVISION>(block)->k / K_BLOCK);
    return numbers_sent_of(block, DIVISION::product) +
           (K_BLOCK_SCALES ? scale_blocks * block->memory.row_tiles * SCALES_OF_TILE / 2 : 0);
}

/* The first piece that a lane gathers, and the first scales, as a distance from it in 8 bytes. In
 * direct mainloops a lane reads the scales of two rows, else the block's threads share the
 * scales. */
template <class DIVISION> ECO_DEVICE int first_k_block(const struct block_context *block)
{
    return across_of<DIVISION>(block, 0) * product_of<DIVISION>(block)->k_blocks;
}

template <class DIVISION> ECO_DEVICE int first_piece(const struct block_context *block)
{
    const int row_tiles = block->memory.row_tiles;
    const int own = DIVISION::direct ? first_k_block<DIVISION>(block) * row_tiles : block->warp;
    return (share_of<DIVISION>(block)->k_block0 * row_tiles + own) * WARP + block->lane;
}

template <class DIVISION> ECO_DEVICE int scale_offset(const struct block_context *block)
{
    const int row_tiles = block->memory.row_tiles;
    const int behind = numbers_sent_of(block, DIVISION::product) - first_piece<DIVISION>(block);
    const int k_block = share_of<DIVISION>(block)->k_block0 +
                        (DIVISION::direct ? first_k_block<DIVISION>(block) : 0),
              own = DIVISION::direct ? block->lane % 4 : (int)threadIdx.x;
    return 2 * behind + scale_blocks_before<DIVISION>(block, k_block) * row_tiles * SCALES_OF_TILE +
           own;
}

template <class DIVISION> ECO_DEVICE struct memory memory_of(const struct block_context *block)
{
    const struct eco_persistent_shape *shape = &block->call->shape;
    struct memory m;
    m.row_tiles = (shape->group_rows + ECO_PERSISTENT_N - 1) / ECO_PERSISTENT_N;
    m.elements = (m.row_tiles * ECO_PERSISTENT_N + DIVISION::element_rows - 1) /
                 DIVISION::element_rows * PERSISTENT_THREADS;
    m.part_across = m.row_tiles * ECO_PERSISTENT_N * DIVISION::part_row;
    m.operand = pieces_in_shared(shape);
    m.scales = (m.operand + m.row_tiles * shape->room * WARP) * 4;
    m.sums = m.scales;
#if defined(ECO_SCALED)
    m.sums +=
        m.row_tiles * ECO_PERSISTENT_N * shape->room * (DIVISION::scale_block::halves ? 2 : 1);
#endif
    const int turns = DIVISION::direct ? 2 : 1;
    m.parts = m.sums + (shape->aliased ? 0 : turns * shape->chunk * shape->sums);
    if (shape->aliased)
        m.sums = m.operand * 4;
    m.lengths = m.parts + (DIVISION::blocks > 1 ? 2 * DIVISION::blocks * m.part_across : 0);
    m.rest = m.lengths + m.row_tiles * ECO_PERSISTENT_N;
    return m;
}

/* The rest of a product's share, when shared memory is laid out. */
template <class DIVISION> ECO_DEVICE void begin_share(struct block_context *block)
{
    const struct memory *const memory = &block->memory;
    const struct eco_persistent_product *part = product_of<DIVISION>(block);
    struct product_share *const share = &block->product[DIVISION::product];
    const int taken = max(min(part->k / K_BLOCK - share->k_block0, part->slice), 0);
    share->gathered = memory->row_tiles * taken;
    share->scale_blocks = scale_blocks_before<DIVISION>(block, share->k_block0 + taken) -
                          scale_blocks_before<DIVISION>(block, share->k_block0);
    share->first_scale = 0;
    if (K_BLOCK_SCALES)
        share->first_scale = pinned(scale_offset<DIVISION>(block));
    share->k_block = first_k_block<DIVISION>(block);
    share->operand = pinned(memory->operand + share->k_block * memory->row_tiles * WARP +
                            (DIVISION::wgmma ? 0 : block->lane));
    share->scale = memory->scales + block->lane % 4 * 2;
    const int of_sums = across_of<DIVISION>(block, 0) / (DIVISION::across / DIVISION::parts);
    share->sums = pinned(memory->sums + of_sums * DIVISION::sum_part +
                         ECO_PERSISTENT_SUM_AT(block->lane % 4 * 2, DIVISION::sum_row) +
                         down_of<DIVISION>(block, 0) * ECO_PERSISTENT_M + block->lane / 4);
}

/* ---- the exchange ---------------------------------------------------------------------------- */

/* Pieces are exchanged in the order of shared memory: [steps, groups, k blocks, rows / 8, lanes] of
 * 16 bytes, after those of a group its scales [scale blocks, rows] floats. Padding of rows and
 * units is written before the first step (exchange_init.cu). */

/* Position of number k of row 0 in a group's exchange. If two scale blocks share a k block, each
 * has the numbers of one matrix instruction. */
template <class SCALE_BLOCK> ECO_DEVICE int number_at(const struct block_context *block, unsigned k)
{
    const unsigned of_k_block =
        SCALE_BLOCK::halves ? k % 16 / 4 * PIECE + k % K_BLOCK / 16 * 4 + k % 4 : k % K_BLOCK;
    return (int)((k / K_BLOCK * (unsigned)block->memory.row_tiles * WARP + of_k_block / PIECE) *
                     PIECE +
                 of_k_block % PIECE);
}

/* Distance of row n from row 0. */
ECO_DEVICE int row_at(int n)
{
    return n * K_BLOCK;
}

/* Index of a unit's number of exchanged accumulator `run`. */
template <class SCALE_BLOCK>
ECO_DEVICE unsigned number_of(const struct block_context *block, int run, int unit)
{
    if (!K_BLOCK_SCALES)
        return (unsigned)(run * block->call->column + unit);
    const int shift = SCALE_BLOCK::shift;
    return (unsigned)((unit >> shift) * (int)SCALE_BLOCK::numbers + (run << shift) +
                      (unit & ((1 << shift) - 1)));
}

#endif /* ECO_GPU_PERSISTENT_BLOCK_CUH */
