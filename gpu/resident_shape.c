/*
 * How algorithm resident cuts a layer into blocks: every division that fits the chip is predicted,
 * the fastest is taken.  A function of sizes alone.
 */
#include "gpu/resident.h"

enum { WARPS = ECO_RESIDENT_WARPS, LANES = 32, FRAGMENT = 32 /* bytes of a lane */ };

static int32_t up(int32_t a, int32_t b)
{
    return (a + b - 1) / b;
}

static int32_t row_tiles(const struct eco_resident_shape *shape)
{
    return up(shape->group_rows, ECO_RESIDENT_N);
}

static int32_t pairs(const struct eco_resident_shape *shape)
{
    const int32_t rows = ECO_RESIDENT_THREADS >> shape->unit_shift; /* at once */
    return up(row_tiles(shape) * ECO_RESIDENT_N, rows) * ECO_RESIDENT_THREADS;
}

/* A count of items for which there is code. */
static int32_t items_of(int32_t n)
{
    return n <= 2 ? 2 : n <= 4 ? 4 : n <= ECO_RESIDENT_ITEMS ? ECO_RESIDENT_ITEMS : n;
}

static void divide(const struct eco_resident_need *need, struct eco_resident_shape *shape)
{
    const int32_t row_groups = need->backward ? 1 : need->recurrent;
    shape->tiles = up(row_groups << shape->unit_shift, ECO_RESIDENT_M);
    shape->down = up(shape->tiles, 2);
    shape->across = shape->down > WARPS ? 0 : WARPS / shape->down;
    if (shape->across == 0)
        return;
    const int32_t item = ECO_RESIDENT_BYTES / need->operand; /* k of it */
    shape->items = items_of(up(shape->k / item, shape->across));
    shape->kept = shape->items > ECO_RESIDENT_ITEMS ? shape->items - ECO_RESIDENT_ITEMS : 0;
    const size_t rows = (size_t)row_tiles(shape) * ECO_RESIDENT_N;
    const size_t own = need->backward ? (size_t)need->states + (size_t)need->fields
                                      : (size_t)need->accs + 2 * (size_t)need->states;
    shape->shared_bytes =
        (size_t)WARPS * (size_t)shape->kept * 2 * LANES * FRAGMENT +
        rows * (size_t)(shape->across * shape->items) * ECO_RESIDENT_BYTES +
        (size_t)shape->across * rows * ECO_RESIDENT_SUM_ROW((size_t)shape->tiles) * 4 +
        own * (size_t)pairs(shape) * 4;
    shape->exchange_bytes = (size_t)need->steps * (size_t)shape->groups * rows * (size_t)shape->k *
                            (size_t)need->operand;
}

/* Clocks of a step, seen on an H200: what every step waits for, 40 for each KB that a block reads
 * of the others, an item of 32 k and 32 rows of R for 8 rows of the batch 40 from registers and 165
 * from shared memory. */
static double predict(const struct eco_resident_need *need, const struct eco_resident_shape *shape)
{
    const double tiles = row_tiles(shape), kept = shape->kept,
                 rounds = pairs(shape) / ECO_RESIDENT_THREADS;
    const double exchange = 650 + 40. / 1024 * tiles * ECO_RESIDENT_N * shape->k * need->operand;
    const double matrix = tiles * (40 * (shape->items - kept) + 165 * kept) * (need->split ? 2 : 1);
    const double finish = 1080 + 200 * rounds + 40 * shape->across;
    return exchange + matrix + finish + (need->backward ? 300 : 0) + (need->split ? 300 : 0);
}

double eco_resident_shape(const struct eco_resident_need *need, struct eco_resident_shape *best)
{
    static const double us = 1 / 1570.; /* of a clock */
    const int32_t item = ECO_RESIDENT_BYTES / need->operand;
    double least = 0;
    for (int32_t shift = ECO_RESIDENT_SHIFT; shift < ECO_RESIDENT_SHIFT + 4; shift++) {
        struct eco_resident_shape shape = {.unit_shift = shift};
        shape.k = up(need->width, item) * item;
        shape.members = up(need->hidden, 1 << shift);
        const int32_t most = need->blocks / (shape.members * need->jobs);
        if (most == 0)
            continue;
        shape.group_rows = up(need->rows, most);
        shape.groups = up(need->rows, shape.group_rows);
        divide(need, &shape);
        if (shape.across == 0 || shape.shared_bytes > need->block_bytes)
            continue;
        const double time = us * predict(need, &shape);
        if (least > 0 && time >= least)
            continue;
        least = time;
        *best = shape;
    }
    return least;
}
