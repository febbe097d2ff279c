/*
 * Divides a layer among blocks as a given kernel needs it; see division.h.
 */
#include "gpu/persistent/division.h"

enum {
    WARPS = ECO_PERSISTENT_WARPS,
    LANES = 32,
    FOUR = ECO_PERSISTENT_WARPGROUP,
    FRAGMENT = 32,          /* bytes of a lane */
    PIECE_BYTES = 16,       /* bytes that a thread exchanges at a time */
    READ_WANTED = 192 << 10 /* bytes of R to load at a time */
};

/* Most k blocks of a product in a warp's registers. `bundle` is the k blocks of a scale block. */
static int32_t held(const struct eco_persistent_need *need, int32_t mainloop, int32_t bundle)
{
    return eco_persistent_k_blocks(mainloop, need->scaled, bundle) / need->products;
}

/* Rounds the k blocks of a warp up to a number that has code. `even`: scale blocks of single
 * numbers have an even number of k blocks, so a warp needs that, too. */
static int32_t k_blocks_of(int32_t n, int32_t most, int32_t mainloop, bool even)
{
    const int32_t more = even ? eco_ceil_div(n, 2) * 2 : n;
    const bool few = mainloop != ECO_PERSISTENT_MMA_MANY;
    if (eco_persistent_is_direct(mainloop))
        return eco_persistent_direct_k_blocks(n, most);
    return n <= 2 && few ? 2 : n <= 4 && few ? 4 : n <= most ? most : more;
}

static size_t sums_bytes(const struct eco_persistent_shape *shape)
{
    const size_t turns = eco_persistent_is_direct(shape->mainloop) ? 2 : 1;
    return turns * (size_t)shape->chunk * (size_t)shape->sums * sizeof(float);
}

/* Shared memory of a row in a k block: its operands, and scales of the one or two scale blocks. */
static size_t k_block_bytes(const struct eco_persistent_need *need,
                            const struct eco_persistent_shape *shape)
{
    const int32_t of_k_block = ECO_PERSISTENT_BYTES / need->operand;
    const bool halves = eco_persistent_halves(eco_persistent_runs(need, 0), shape->unit_shift,
                                              of_k_block, need->backward);
    return ECO_PERSISTENT_BYTES + (need->scaled ? (halves ? 2 : 1) * sizeof(float) : 0);
}

/* Shared memory of a block, in bytes. */
static size_t shared_bytes(const struct eco_persistent_need *need,
                           const struct eco_persistent_shape *shape)
{
    const size_t rows = (size_t)eco_persistent_row_tiles(shape) * ECO_PERSISTENT_N,
                 parts = (size_t)2 << shape->cluster_log2;
    const size_t own = need->backward ? (size_t)need->states + (size_t)need->fields
                                      : (size_t)need->accs + 2 * (size_t)need->states;
    const size_t biases = need->backward ? 0 : (size_t)need->accs << shape->unit_shift;
    const size_t kept = (size_t)WARPS * (size_t)shape->in_shared * 2 * LANES * FRAGMENT;
    const size_t rest =
        rows * (size_t)shape->room * k_block_bytes(need, shape) +
        (shape->aliased ? 0 : sums_bytes(shape)) +
        (shape->cluster_log2 > 0 ? parts * rows *
                                       (size_t)eco_persistent_part_row(
                                           eco_persistent_row_groups(need, 0), shape->unit_shift) *
                                       4
                                 : 0) +
        rows * sizeof(int32_t) +
        (own * (size_t)eco_persistent_pairs(shape) + biases + rows * (size_t)need->means) * 4;
    /* R passes through this memory before the first step, faster if more is loaded at a time. */
    const size_t least =
                     eco_larger(kept + ECO_PERSISTENT_READ_BYTES / 2, ECO_PERSISTENT_READ_BYTES),
                 wanted = READ_WANTED < need->block_bytes ? READ_WANTED : need->block_bytes;
    return eco_larger(eco_larger(kept + rest, least), wanted);
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Divides the rows of R of product o among warps; false if they do not fit. */
static bool divide_rows(const struct eco_persistent_need *need, int o,
                        const struct eco_persistent_shape *shape,
                        struct eco_persistent_product *part)
{
    const int32_t wide = eco_persistent_tiles(shape->mainloop),
                  tiles = eco_ceil_div(eco_persistent_row_groups(need, o)
                                           << shape->unit_shift << shape->cluster_log2,
                                       ECO_PERSISTENT_M);
    part->tiles = eco_ceil_div(tiles, wide) * wide;
    if (shape->mainloop == ECO_PERSISTENT_WGMMA)
        part->tiles = eco_persistent_wgmma_tiles(tiles);
    part->down = part->tiles / wide;
    if (part->down > WARPS)
        return false;
    part->across = WARPS / part->down;
    part->parts = part->across;
    if (shape->mainloop == ECO_PERSISTENT_WGMMA && part->tiles == FOUR)
        part->parts = WARPS / FOUR;
    return true;
}

/* Divides product o; false if it does not fit. */
static bool divide_product(const struct eco_persistent_need *need, int o,
                           struct eco_persistent_shape *shape)
{
    const int32_t k_block =
        ECO_PERSISTENT_BYTES / need->operand; /* numbers of a row in a k block */
    struct eco_persistent_product *part = &shape->product[o];
    const int32_t numbers = eco_persistent_bundle(need, o, shape),
                  bundle = need->scaled && numbers > k_block ? numbers / k_block
                                                             : 1, /* k blocks of a scale block */
        bundles = eco_persistent_scale_blocks(need->hidden, shape->unit_shift),
                  most = held(need, shape->mainloop, bundle);
    part->k = eco_ceil_div(need->scaled ? bundles * numbers : need->width[o], k_block) * k_block;
    if (!divide_rows(need, o, shape, part))
        return false;
    part->slice =
        eco_ceil_div(eco_ceil_div(part->k / k_block, 1 << shape->cluster_log2), bundle) * bundle;
    const int32_t k_blocks = eco_ceil_div(part->slice, part->across);
    if (shape->mainloop == ECO_PERSISTENT_MMA_MANY &&
        k_blocks <= held(need, ECO_PERSISTENT_MMA, bundle))
        return false;
    part->k_blocks = k_blocks_of(k_blocks, most, shape->mainloop,
                                 need->instructions == ECO_PERSISTENT_PLAIN && bundle % 2 == 0);
    part->in_shared = larger(part->k_blocks - most, 0);
    if (shape->mainloop == ECO_PERSISTENT_WGMMA && eco_persistent_row_tiles(shape) == 1)
        return false;
    if (eco_persistent_is_direct(shape->mainloop)) {
        if (part->in_shared > 0 ||
            eco_persistent_row_tiles(shape) >
                eco_persistent_direct_tiles(shape->mainloop, need->instructions))
            return false;
        if (eco_persistent_row_tiles(shape) > 1)
            part->k_blocks = most; /* there is code for these */
    }
    shape->in_shared += part->in_shared;
    shape->room = larger(shape->room, part->across * part->k_blocks);
    shape->sums = larger(
        shape->sums,
        ECO_PERSISTENT_SUM_AT(ECO_PERSISTENT_N, eco_persistent_sum_row(part->tiles, part->parts)));
    shape->exchange_bytes += (size_t)need->steps * (size_t)shape->groups *
                             (size_t)eco_persistent_row_tiles(shape) * ECO_PERSISTENT_N *
                             ((size_t)part->k * (size_t)need->operand +
                              (need->scaled ? (size_t)bundles * sizeof(float) : 0));
    return true;
}

/* May sums overwrite the operands? Only clusters with MMA_MANY have code for it. Every warp must
 * multiply all batch rows at once, and the sums must fit where each step gathers new operands. */
static bool may_be_over(const struct eco_persistent_need *need,
                        const struct eco_persistent_shape *shape)
{
    const struct eco_persistent_product *part = &shape->product[0];
    const int32_t k_blocks = part->k / (ECO_PERSISTENT_BYTES / need->operand),
                  last = k_blocks - ((1 << shape->cluster_log2) - 1) *
                                        part->slice; /* fewest k blocks of a block */
    return shape->mainloop == ECO_PERSISTENT_MMA_MANY && shape->cluster_log2 > 0 &&
           eco_persistent_row_tiles(shape) <= 2 && part->down * part->across == WARPS && last > 0 &&
           (size_t)last * (size_t)eco_persistent_row_tiles(shape) * ECO_PERSISTENT_N *
                   ECO_PERSISTENT_BYTES >=
               sums_bytes(shape);
}

int32_t eco_persistent_parts(const struct eco_persistent_shape *shape)
{
    return shape->members * larger((1 << shape->unit_shift) / LANES, 1);
}

int32_t eco_persistent_means(const struct eco_persistent_need *need,
                             const struct eco_persistent_shape *shape)
{
    return need->sums * eco_persistent_row_tiles(shape) * ECO_PERSISTENT_N *
           eco_ceil_div(eco_persistent_parts(shape), 4);
}

size_t eco_persistent_reset_bytes(const struct eco_persistent_need *need,
                                  const struct eco_persistent_shape *shape)
{
    return need->restarts
               ? (size_t)need->steps * (size_t)shape->groups *
                     (size_t)eco_persistent_row_tiles(shape) * ECO_PERSISTENT_N * sizeof(uint32_t)
               : 0;
}

bool eco_persistent_divide_groups(const struct eco_persistent_need *need,
                                  struct eco_persistent_shape *shape)
{
    for (int o = 0; o < need->products; o++)
        if (!divide_product(need, o, shape))
            return false;
    shape->exchange_bytes += (size_t)need->steps * (size_t)shape->groups * PIECE_BYTES *
                             (size_t)eco_persistent_means(need, shape);
    shape->exchange_bytes += eco_persistent_reset_bytes(need, shape);
    if (need->sums > 0 && eco_persistent_parts(shape) > ECO_PERSISTENT_MOST_PARTS)
        return false;
    /* Only clusters can sum some of the batch rows at a time, because they store the sums
     * elsewhere. */
    shape->chunk = eco_persistent_row_tiles(shape);
    shape->shared_bytes = shared_bytes(need, shape);
    while (shape->shared_bytes > need->block_bytes && shape->cluster_log2 > 0 && shape->chunk > 2) {
        shape->chunk = eco_ceil_div(shape->chunk, 4) * 2;
        shape->shared_bytes = shared_bytes(need, shape);
    }
    if (shape->shared_bytes > need->block_bytes && may_be_over(need, shape)) {
        shape->aliased = true;
        shape->shared_bytes = shared_bytes(need, shape);
    }
    return shape->shared_bytes <= need->block_bytes;
}

/* Can the blocks of a group be one cluster? A kernel that uses clusters itself numbers its blocks
 * from the first of the hardware cluster, so the two must be the same size. */
static bool fits_cluster_launch(const struct eco_persistent_need *need,
                                const struct eco_persistent_shape *shape)
{
    return need->cluster_launch == 0 ||
           (shape->members <= need->cluster_launch &&
            (shape->cluster_log2 == 0 || shape->members == 1 << shape->cluster_log2));
}

int32_t eco_persistent_most_groups(const struct eco_persistent_need *need,
                                   struct eco_persistent_shape *shape)
{
    const int32_t cluster_units = 1 << shape->unit_shift << shape->cluster_log2;
    shape->members = eco_ceil_div(need->hidden, cluster_units) << shape->cluster_log2;
    if (!fits_cluster_launch(need, shape))
        return 0;
    const int32_t counted = need->cluster_launch > 0 ? need->most_groups[shape->members - 1] : 0,
                  all = need->blocks[shape->cluster_log2] / shape->members,
                  most = (counted > all ? counted : all) / need->jobs;
    if (most == 0)
        return 0;
    return need->groups > 0 && need->groups < most ? need->groups : most;
}

bool eco_persistent_divide(const struct eco_persistent_need *need, int place,
                           struct eco_persistent_shape *shape)
{
    *shape = eco_persistent_at(place);
    const int32_t most = eco_persistent_most_groups(need, shape);
    if (most == 0)
        return false;
    shape->group_rows = eco_ceil_div(need->rows, most);
    shape->groups = eco_ceil_div(need->rows, shape->group_rows);
    return eco_persistent_divide_groups(need, shape);
}
