/*
 * How algorithm persistent divides a layer among blocks: it predicts the time of every division
 * that fits the chip and takes the fastest. A function of sizes alone.
 *
 * Example: LSTM, H=512, N=64, BF16 forward on 132 multiprocessors. With blocks of 32 units a group
 * has 16 blocks, so 8 groups fit: each takes 8 batch rows, gathers 8 KB in a step and has one tile
 * of sums. With 64 units a group has 8 blocks, so 16 groups fit: each takes 4 rows, which still are
 * one tile, and its blocks have twice the rows of R to multiply. The prediction weighs the two.
 */
#include "gpu/persistent/persistent.h"
#include "common/util.h"
#include "gpu/device/rates.h"

#include <assert.h>

const char *const eco_persistent_mainloops[ECO_PERSISTENT_MAINLOOPS] = {
    [ECO_PERSISTENT_MMA] = "mma",
    [ECO_PERSISTENT_MMA_MANY] = "mma-many",
    [ECO_PERSISTENT_DIRECT] = "direct",
    [ECO_PERSISTENT_DIRECT_WIDE] = "direct-wide",
    [ECO_PERSISTENT_WGMMA] = "wgmma"};

enum {
    WARPS = ECO_PERSISTENT_WARPS,
    LANES = 32,
    FOUR = ECO_PERSISTENT_WARPGROUP,
    FRAGMENT = 32,          /* bytes of a lane */
    PIECE_BYTES = 16,       /* bytes that a thread exchanges at a time */
    READ_WANTED = 192 << 10 /* bytes of R to load at a time */
};

static int32_t row_tiles(const struct eco_persistent_shape *shape)
{
    return eco_ceil_div(shape->group_rows, ECO_PERSISTENT_N);
}

static int32_t pairs(const struct eco_persistent_shape *shape)
{
    const int32_t rows = ECO_PERSISTENT_THREADS >> shape->unit_shift; /* batch rows at once */
    return eco_ceil_div(row_tiles(shape) * ECO_PERSISTENT_N, rows) * ECO_PERSISTENT_THREADS;
}

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

/* Numbers in a scale block of product o. */
static int32_t bundle_of(const struct eco_persistent_need *need, int o,
                         const struct eco_persistent_shape *shape)
{
    return eco_persistent_scale_block(eco_persistent_runs(need, o), shape->unit_shift,
                                      ECO_PERSISTENT_BYTES / need->operand, need->backward);
}

/* Rows of R for each unit of a block. */
static int32_t row_groups(const struct eco_persistent_need *need, int o)
{
    return need->backward ? 1 : need->recurrent[o];
}

static size_t larger_size(size_t a, size_t b)
{
    return a > b ? a : b;
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
    const size_t rows = (size_t)row_tiles(shape) * ECO_PERSISTENT_N,
                 parts = (size_t)2 << shape->cluster_log2;
    const size_t own = need->backward ? (size_t)need->states + (size_t)need->fields
                                      : (size_t)need->accs + 2 * (size_t)need->states;
    const size_t biases = need->backward ? 0 : (size_t)need->accs << shape->unit_shift;
    const size_t kept = (size_t)WARPS * (size_t)shape->in_shared * 2 * LANES * FRAGMENT;
    const size_t rest =
        rows * (size_t)shape->room * k_block_bytes(need, shape) +
        (shape->aliased ? 0 : sums_bytes(shape)) +
        (shape->cluster_log2 > 0
             ? parts * rows *
                   (size_t)eco_persistent_part_row(row_groups(need, 0), shape->unit_shift) * 4
             : 0) +
        rows * sizeof(int32_t) +
        (own * (size_t)pairs(shape) + biases + rows * (size_t)need->means) * 4;
    /* R passes through this memory before the first step, faster if more is loaded at a time. */
    const size_t least =
                     larger_size(kept + ECO_PERSISTENT_READ_BYTES / 2, ECO_PERSISTENT_READ_BYTES),
                 wanted = READ_WANTED < need->block_bytes ? READ_WANTED : need->block_bytes;
    return larger_size(larger_size(kept + rest, least), wanted);
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
                  tiles =
                      eco_ceil_div(row_groups(need, o) << shape->unit_shift << shape->cluster_log2,
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
    const int32_t numbers = bundle_of(need, o, shape),
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
    if (shape->mainloop == ECO_PERSISTENT_WGMMA && row_tiles(shape) == 1)
        return false;
    if (eco_persistent_is_direct(shape->mainloop)) {
        if (part->in_shared > 0 ||
            row_tiles(shape) > eco_persistent_direct_tiles(shape->mainloop, need->instructions))
            return false;
        if (row_tiles(shape) > 1)
            part->k_blocks = most; /* there is code for these */
    }
    shape->in_shared += part->in_shared;
    shape->room = larger(shape->room, part->across * part->k_blocks);
    shape->sums = larger(
        shape->sums,
        ECO_PERSISTENT_SUM_AT(ECO_PERSISTENT_N, eco_persistent_sum_row(part->tiles, part->parts)));
    shape->exchange_bytes += (size_t)need->steps * (size_t)shape->groups *
                             (size_t)row_tiles(shape) * ECO_PERSISTENT_N *
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
           row_tiles(shape) <= 2 && part->down * part->across == WARPS && last > 0 &&
           (size_t)last * (size_t)row_tiles(shape) * ECO_PERSISTENT_N * ECO_PERSISTENT_BYTES >=
               sums_bytes(shape);
}

/* Partial sums of a row's sum: one for each block, or for each 32 units of it. */
static int32_t parts_of_sums(const struct eco_persistent_shape *shape)
{
    return shape->members * larger((1 << shape->unit_shift) / LANES, 1);
}

int32_t eco_persistent_means(const struct eco_persistent_need *need,
                             const struct eco_persistent_shape *shape)
{
    return need->sums * row_tiles(shape) * ECO_PERSISTENT_N * eco_ceil_div(parts_of_sums(shape), 4);
}

/* Divides all products; false if they do not fit. */
static bool divide(const struct eco_persistent_need *need, struct eco_persistent_shape *shape)
{
    for (int o = 0; o < need->products; o++)
        if (!divide_product(need, o, shape))
            return false;
    shape->exchange_bytes += (size_t)need->steps * (size_t)shape->groups * PIECE_BYTES *
                             (size_t)eco_persistent_means(need, shape);
    if (need->sums > 0 && parts_of_sums(shape) > ECO_PERSISTENT_MOST_PARTS)
        return false;
    /* Only clusters can sum some of the batch rows at a time, because they store the sums
     * elsewhere. */
    shape->chunk = row_tiles(shape);
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

/* Clocks of a step, fitted so that divisions are ordered as measured on an H200. */
static const struct eco_persistent_cost *cost_of(const struct eco_persistent_need *need,
                                                 const struct eco_persistent_shape *shape)
{
    const struct eco_persistent_cost *costs = need->rates->persistent;
    const bool two = need->instructions == ECO_PERSISTENT_PAIR;
    if (eco_persistent_is_direct(shape->mainloop))
        return &costs[need->backward ? ECO_COST_DIRECT_BACK
                      : !two         ? ECO_COST_DIRECT
                      : shape->mainloop == ECO_PERSISTENT_DIRECT && !need->scaled
                          ? ECO_COST_DIRECT_TWO
                          : ECO_COST_WIDE_TWO];
    if (need->backward)
        return &costs[!need->scaled ? ECO_COST_BACK
                      : two         ? ECO_COST_BACK_TWO
                                    : ECO_COST_BACK_SCALED];
    if (shape->mainloop == ECO_PERSISTENT_WGMMA)
        return &costs[two ? ECO_COST_WGMMA_TWO : ECO_COST_WGMMA];
    return &costs[two || need->scaled ? ECO_COST_FORWARD_TWO : ECO_COST_FORWARD];
}

/* Clocks that a warpgroup needs for its k blocks. Each instruction takes four N tiles, or two at
 * the end: 7 tiles are a four and a four, 5 tiles a four and a two. */
static double wgmma_clocks(const struct eco_gpu_rates *rates,
                           const struct eco_persistent_product *part, int32_t tiles)
{
    static const double kept = 0.7; /* extra for a k block in shared memory */
    const int32_t left = tiles % 4;
    return (part->k_blocks + kept * part->in_shared) *
           (rates->wgmma_four_tiles * (tiles / 4 + (left == 3)) +
            (left == 1 || left == 2 ? rates->wgmma_two_tiles : 0));
}

/* KB that a block reads from the other blocks. Direct warps read the same operands `down` times,
 * each repetition at half the price. */
static double kbytes_of(const struct eco_persistent_product *part,
                        const struct eco_persistent_shape *shape)
{
    const bool direct = eco_persistent_is_direct(shape->mainloop);
    const double rows = direct ? shape->group_rows : row_tiles(shape) * ECO_PERSISTENT_N,
                 again = direct ? 0.5 * (part->down - 1) : 0;
    return (1 + again) * rows * part->slice * ECO_PERSISTENT_BYTES / 1024;
}

/* Clocks of product o and the stage that follows it. */
static double predict_product(const struct eco_persistent_need *need, int o,
                              const struct eco_persistent_shape *shape)
{
    const struct eco_persistent_cost *cost = cost_of(need, shape);
    const struct eco_persistent_product *part = &shape->product[o];
    const double tiles = row_tiles(shape), kept = part->in_shared,
                 rounds = pairs(shape) / ECO_PERSISTENT_THREADS;
    const bool pair = need->instructions == ECO_PERSISTENT_PAIR && !need->backward;
    const double products = pair ? 1.5 : 1, in_shared = pair ? 1.2 : 1;
    const double parts = shape->cluster_log2 > 0 ? 1 << shape->cluster_log2 : part->parts,
                 bundles = (double)part->k_blocks * (ECO_PERSISTENT_BYTES / need->operand) /
                           bundle_of(need, o, shape);
    const bool scales =
        eco_persistent_is_direct(shape->mainloop) && !need->backward && need->scaled;
    const double scale = scales ? need->rates->scale_block : 0;
    const double multiplied = shape->mainloop == ECO_PERSISTENT_WGMMA
                                  ? products * wgmma_clocks(need->rates, part, row_tiles(shape))
                                  : tiles * products *
                                            (cost->k_block_registers * (part->k_blocks - kept) +
                                             in_shared * cost->k_block_shared * kept) +
                                        tiles * scale * bundles;
    const double time = cost->exchange + cost->gathered_kb * kbytes_of(part, shape) +
                        tiles * cost->tile + multiplied +
                        rounds * (cost->round + cost->partial_sum * row_groups(need, o) * parts);
    return time + (shape->cluster_log2 > 0
                       ? cost->cluster_exchange + cost->cluster_sums * tiles * part->down
                       : 0);
}

/* Clocks of exchanging sums for means, between stages of the cell's text. */
static double predict_hand_overs(const struct eco_persistent_need *need,
                                 const struct eco_persistent_shape *shape)
{
    const struct eco_persistent_cost *cost = cost_of(need, shape);
    const double rounds = pairs(shape) / ECO_PERSISTENT_THREADS,
                 kbytes = eco_persistent_means(need, shape) * PIECE_BYTES / 1024.;
    return need->hand_overs * (cost->exchange + rounds * cost->round) + kbytes * cost->gathered_kb;
}

static double predict(const struct eco_persistent_need *need,
                      const struct eco_persistent_shape *shape)
{
    double time = 0;
    for (int o = 0; o < need->products; o++)
        time += predict_product(need, o, shape);
    return need->hand_overs > 0 ? time + predict_hand_overs(need, shape) : time;
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

static uint64_t places_of(const struct eco_persistent_need *need)
{
    return need->shapes & eco_persistent_made(need->products, need->recurrent[0], need->backward,
                                              need->instructions, need->scaled);
}

/* Sets shape->members; returns how many groups fit. */
static int32_t most_groups(const struct eco_persistent_need *need,
                           struct eco_persistent_shape *shape)
{
    const int32_t cluster_units = 1 << shape->unit_shift << shape->cluster_log2;
    shape->members = eco_ceil_div(need->hidden, cluster_units) << shape->cluster_log2;
    const int32_t most = need->blocks[shape->cluster_log2] / (shape->members * need->jobs);
    if (most == 0 || !fits_cluster_launch(need, shape))
        return 0;
    return need->groups > 0 && need->groups < most ? need->groups : most;
}

/* Microseconds of a step, once the groups are known; 0 if it does not fit. */
static double time_of(const struct eco_persistent_need *need, struct eco_persistent_shape *shape)
{
    static const double us = 1 / 1570.; /* of a clock */
    return divide(need, shape) ? us * predict(need, shape) : 0;
}

double eco_persistent_shape(const struct eco_persistent_need *need,
                            struct eco_persistent_shape *best)
{
    const uint64_t made = places_of(need);
    double least = 0;
    for (int32_t i = 0; i < ECO_PERSISTENT_SHAPES; i++) {
        struct eco_persistent_shape shape = eco_persistent_at(i);
        const int32_t most = made >> i & 1 ? most_groups(need, &shape) : 0;
        if (most == 0)
            continue;
        shape.group_rows = eco_ceil_div(need->rows, most);
        shape.groups = eco_ceil_div(need->rows, shape.group_rows);
        const double time = time_of(need, &shape);
        if (!(time > 0) || (least > 0 && time >= least))
            continue;
        least = time;
        *best = shape;
    }
    return least;
}

/* ---- all numbers of rows --------------------------------------------------------------------- */

/* The time of one kind of kernel as the rows of a run grow. It depends on the rows of a group
 * alone, mostly on their tiles, so it is computed once for each of these. */
struct rising {
    int place;
    int32_t most;       /* groups */
    int32_t until;      /* group rows up to which time and bytes hold */
    double time;        /* 0: does not fit */
    size_t group_bytes; /* exchanged in a step by a group */
};

static int begin_rising(const struct eco_persistent_need *need,
                        struct rising kinds[ECO_PERSISTENT_SHAPES])
{
    const uint64_t made = places_of(need);
    int n = 0;
    for (int place = 0; place < ECO_PERSISTENT_SHAPES; place++) {
        struct eco_persistent_shape shape = eco_persistent_at(place);
        const int32_t most = made >> place & 1 ? most_groups(need, &shape) : 0;
        if (most > 0)
            kinds[n++] = (struct rising){.place = place, .most = most};
    }
    return n;
}

static void rise(const struct eco_persistent_need *need, struct rising *kind, int32_t group_rows)
{
    if (group_rows <= kind->until)
        return;
    struct eco_persistent_shape shape = eco_persistent_at(kind->place);
    most_groups(need, &shape);
    shape.group_rows = group_rows;
    shape.groups = 1;
    kind->time = time_of(need, &shape);
    kind->group_bytes = shape.exchange_bytes;
    kind->until = eco_persistent_is_direct(shape.mainloop) ? group_rows
                                                           : row_tiles(&shape) * ECO_PERSISTENT_N;
}

static int32_t smaller(int64_t a, int32_t b)
{
    return a < b ? (int32_t)a : b;
}

/* Runs of first to last rows all take this kind and share one entry of `bytes`. */
static void add_exchange(const struct rising *kind, int32_t planned, int32_t first, int32_t last,
                         struct eco_by_rows *bytes)
{
    const int32_t place = eco_fewer_index(planned, first);
    size_t *const fewer = place < ECO_FEWER ? &bytes->fewer[place] : &bytes->most;
    for (int32_t rows = first; rows <= last; rows++) {
        const int32_t each = eco_ceil_div(rows, kind->most);
        rows =
            smaller((int64_t)each * kind->most, last); /* the most rows with groups of this size */
        const size_t all = (size_t)eco_ceil_div(rows, each) * kind->group_bytes;
        *fewer = larger_size(*fewer, all);
        bytes->most = larger_size(bytes->most, all);
    }
}

static void exchange_of(const struct eco_persistent_need *need, struct eco_by_rows *bytes)
{
    struct rising kinds[ECO_PERSISTENT_SHAPES];
    const int n = begin_rising(need, kinds);
    for (int32_t rows = 1, last; n > 0 && rows <= need->rows; rows = last + 1) {
        const int32_t place = eco_fewer_index(need->rows, rows);
        const struct rising *best = NULL;
        last = eco_fewer_rows(need->rows, place);
        for (int k = 0; k < n; k++) {
            rise(need, &kinds[k], eco_ceil_div(rows, kinds[k].most));
            last = smaller((int64_t)kinds[k].until * kinds[k].most, last);
            if (kinds[k].time > 0 && (best == NULL || kinds[k].time < best->time))
                best = &kinds[k];
        }
        if (best != NULL)
            add_exchange(best, need->rows, rows, last, bytes);
    }
}

void eco_persistent_exchange(const struct eco_persistent_need *need, int32_t jobs,
                             struct eco_by_rows *bytes)
{
    struct eco_persistent_need all = *need;
    assert(need->steps == 1);
    *bytes = (struct eco_by_rows){.most = 0};
    for (all.jobs = 1; all.jobs <= jobs; all.jobs++)
        exchange_of(&all, bytes);
}
