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

/* The row of the times of a step's parts. */
static enum eco_persistent_costs row_of(const struct eco_persistent_need *need,
                                        const struct eco_persistent_shape *shape)
{
    const bool two = need->instructions == ECO_PERSISTENT_PAIR;
    if (eco_persistent_is_direct(shape->mainloop) && need->backward)
        return ECO_COST_DIRECT_BACK;
    if (eco_persistent_is_direct(shape->mainloop) && two)
        return shape->mainloop == ECO_PERSISTENT_DIRECT && !need->scaled ? ECO_COST_DIRECT_TWO
                                                                         : ECO_COST_WIDE_TWO;
    if (eco_persistent_is_direct(shape->mainloop))
        return ECO_COST_DIRECT;
    if (need->backward)
        return (enum eco_persistent_costs)(ECO_COST_BACK + need->scaled * (1 + two));
    if (shape->mainloop == ECO_PERSISTENT_WGMMA)
        return (enum eco_persistent_costs)(ECO_COST_WGMMA + two);
    return (enum eco_persistent_costs)(ECO_COST_FORWARD + (two || need->scaled));
}

/* Clocks that a warpgroup needs for its k blocks. Each instruction takes four N tiles, or two at
 * the end: 7 tiles are a four and a four, 5 tiles a four and a two. */
static double wgmma_clocks(const struct eco_gpu_rates *rates,
                           const struct eco_persistent_product *part, int32_t tiles)
{
    static const double kept = 0.7; /* extra for a k block in shared memory */
    const int32_t left = tiles % 4;
    return (part->k_blocks + kept * part->in_shared) *
           (rates->wgmma[0] * (tiles / 4 + (left == 3)) +
            (left == 1 || left == 2 ? rates->wgmma[1] : 0));
}

/* KB that a block reads from the other blocks. Direct warps read the same operands `down` times,
 * each repetition at half the price. */
static double kbytes_of(const struct eco_persistent_product *part,
                        const struct eco_persistent_shape *shape)
{
    const bool direct = eco_persistent_is_direct(shape->mainloop);
    const double rows = direct ? shape->group_rows
                               : eco_persistent_row_tiles(shape) * ECO_PERSISTENT_N,
                 again = direct ? 0.5 * (part->down - 1) : 0;
    return (1 + again) * rows * part->slice * ECO_PERSISTENT_BYTES / 1024;
}

/* Clocks of product o and the stage that follows it. */
static double predict_product(const struct eco_persistent_need *need, int o,
                              const struct eco_persistent_shape *shape)
{
    const enum eco_persistent_costs row = row_of(need, shape);
    const struct eco_gpu_rates *rates = need->rates;
    const struct eco_persistent_product *part = &shape->product[o];
    const double tiles = eco_persistent_row_tiles(shape), kept = part->in_shared,
                 rounds = eco_persistent_pairs(shape) / ECO_PERSISTENT_THREADS;
    const bool pair = need->instructions == ECO_PERSISTENT_PAIR && !need->backward;
    const double products = pair ? 1.5 : 1, in_shared = pair ? 1.2 : 1;
    const double parts = shape->cluster_log2 > 0 ? 1 << shape->cluster_log2 : part->parts,
                 bundles = (double)part->k_blocks * (ECO_PERSISTENT_BYTES / need->operand) /
                           eco_persistent_bundle(need, o, shape);
    const bool scales =
        eco_persistent_is_direct(shape->mainloop) && !need->backward && need->scaled;
    const double scale = scales ? rates->scale_block : 0;
    const double multiplied =
        shape->mainloop == ECO_PERSISTENT_WGMMA
            ? products * wgmma_clocks(rates, part, eco_persistent_row_tiles(shape))
            : tiles * products *
                      (rates->k_block_registers[row] * (part->k_blocks - kept) +
                       in_shared * rates->k_block_shared[row] * kept) +
                  tiles * scale * bundles;
    const double time =
        rates->exchange[row] + rates->gathered_kb[row] * kbytes_of(part, shape) +
        tiles * rates->tile[row] + multiplied +
        rounds * (rates->round[row] + (need->backward ? 0 : rates->partial_sum) *
                                          eco_persistent_row_groups(need, o) * parts);
    return time + (shape->cluster_log2 > 0 ? rates->cluster_exchange[row] +
                                                 rates->cluster_sums[row] * tiles * part->down
                                           : 0);
}

/* Clocks of exchanging sums for means, between stages of the cell's text. */
static double predict_hand_overs(const struct eco_persistent_need *need,
                                 const struct eco_persistent_shape *shape)
{
    const enum eco_persistent_costs row = row_of(need, shape);
    const struct eco_gpu_rates *rates = need->rates;
    const double rounds = eco_persistent_pairs(shape) / ECO_PERSISTENT_THREADS,
                 kbytes = eco_persistent_means(need, shape) * ECO_PERSISTENT_PIECE_BYTES / 1024.;
    return need->hand_overs * (rates->exchange[row] + rounds * rates->round[row]) +
           kbytes * rates->gathered_kb[row];
}

static double predict(const struct eco_persistent_need *need,
                      const struct eco_persistent_shape *shape)
{
    double time = 0;
    for (int o = 0; o < need->products; o++)
        time += predict_product(need, o, shape);
    return need->hand_overs > 0 ? time + predict_hand_overs(need, shape) : time;
}

static uint64_t places_of(const struct eco_persistent_need *need)
{
    return need->shapes & eco_persistent_made(need->products, need->recurrent[0], need->backward,
                                              need->instructions, need->scaled);
}

/* Microseconds of a step. */
static double time_of(const struct eco_persistent_need *need,
                      const struct eco_persistent_shape *shape)
{
    static const double us = 1 / 1570.; /* of a clock */
    return us * predict(need, shape);
}

double eco_persistent_shape(const struct eco_persistent_need *need,
                            struct eco_persistent_shape *best)
{
    const uint64_t made = places_of(need);
    double least = 0;
    for (int32_t i = 0; i < ECO_PERSISTENT_SHAPES; i++) {
        struct eco_persistent_shape shape;
        if (!(made >> i & 1) || !eco_persistent_divide(need, i, &shape))
            continue;
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

struct all_rising {
    const struct eco_persistent_need *need;
    struct rising kinds[ECO_PERSISTENT_SHAPES];
    int n;
};

static void begin_rising(const struct eco_persistent_need *need, struct all_rising *all)
{
    const uint64_t made = places_of(need);
    *all = (struct all_rising){.need = need};
    for (int place = 0; place < ECO_PERSISTENT_SHAPES; place++) {
        struct eco_persistent_shape shape = eco_persistent_at(place);
        const int32_t most = made >> place & 1 ? eco_persistent_most_groups(need, &shape) : 0;
        if (most > 0)
            all->kinds[all->n++] = (struct rising){.place = place, .most = most};
    }
}

static void rise(const struct eco_persistent_need *need, struct rising *kind, int32_t group_rows)
{
    if (group_rows <= kind->until)
        return;
    struct eco_persistent_shape shape = eco_persistent_at(kind->place);
    eco_persistent_most_groups(need, &shape);
    shape.group_rows = group_rows;
    shape.groups = 1;
    kind->time = eco_persistent_divide_groups(need, &shape) ? time_of(need, &shape) : 0;
    kind->group_bytes = shape.exchange_bytes;
    kind->until = eco_persistent_is_direct(shape.mainloop)
                      ? group_rows
                      : eco_persistent_row_tiles(&shape) * ECO_PERSISTENT_N;
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
        *fewer = eco_larger(*fewer, all);
        bytes->most = eco_larger(bytes->most, all);
    }
}

/* The fastest kind for `rows` rows, or NULL; reduces *last to rows up to which nothing changes. */
static const struct rising *best_for(struct all_rising *all, int32_t rows, int32_t *last)
{
    const struct rising *best = NULL;
    for (int k = 0; k < all->n; k++) {
        struct rising *kind = &all->kinds[k];
        rise(all->need, kind, eco_ceil_div(rows, kind->most));
        *last = smaller((int64_t)kind->until * kind->most, *last);
        if (kind->time > 0 && (best == NULL || kind->time < best->time))
            best = kind;
    }
    return best;
}

static void exchange_of(const struct eco_persistent_need *need, struct eco_by_rows *bytes)
{
    struct all_rising all;
    begin_rising(need, &all);
    for (int32_t rows = 1, last; all.n > 0 && rows <= need->rows; rows = last + 1) {
        last = eco_fewer_rows(need->rows, eco_fewer_index(need->rows, rows));
        const struct rising *best = best_for(&all, rows, &last);
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

/* More than ECO_PERSISTENT_CHOICES have not been seen: then the last one is for all further rows.
 */
static void add_choice(struct eco_persistent_choices *choices, struct eco_persistent_choice choice)
{
    const struct eco_persistent_choice *last = &choices->of[choices->n - (choices->n > 0)];
    if (choices->n == 0 || (choices->n < ECO_PERSISTENT_CHOICES &&
                            (last->place != choice.place || last->batched != choice.batched)))
        choices->of[choices->n++] = choice;
    else
        choices->of[choices->n - 1].rows = choice.rows;
}

void eco_persistent_choose(const struct eco_persistent_need *need, int32_t jobs,
                           struct eco_persistent_choices *choices)
{
    struct eco_persistent_need of[ECO_PERSISTENT_JOBS];
    struct all_rising all[ECO_PERSISTENT_JOBS];
    for (int32_t k = 0; k < jobs; k++) {
        of[k] = *need;
        of[k].jobs = k + 1;
        begin_rising(&of[k], &all[k]);
        choices[k].n = 0;
    }
    for (int32_t rows = 1, last; rows <= need->rows; rows = last + 1) {
        const struct rising *best[ECO_PERSISTENT_JOBS];
        last = need->rows;
        for (int32_t k = 0; k < jobs; k++)
            best[k] = best_for(&all[k], rows, &last);
        for (int32_t k = 0; k < jobs; k++) {
            const struct rising *half = best[k / 2];
            add_choice(&choices[k], (struct eco_persistent_choice){
                                        .rows = last,
                                        .place = (int8_t)(best[k] == NULL ? -1 : best[k]->place),
                                        .batched = best[k] != NULL && half != NULL &&
                                                   best[k]->time <= 2 * half->time});
        }
    }
}
