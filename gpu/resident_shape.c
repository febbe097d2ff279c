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
    return shape->group_rows << shape->unit_shift;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void divide_forward(const struct eco_resident_need *need, struct eco_resident_shape *shape)
{
    shape->tiles = up(need->recurrent << shape->unit_shift, ECO_RESIDENT_M);
    shape->down = up(shape->tiles, 2);
    shape->across = shape->down > WARPS ? 0 : WARPS / shape->down;
    if (shape->across == 0)
        return;
    shape->items = up(shape->k / ECO_RESIDENT_K, shape->across);
    shape->kept = shape->items > ECO_RESIDENT_ITEMS ? shape->items - ECO_RESIDENT_ITEMS : 0;
    const size_t rows = (size_t)row_tiles(shape) * ECO_RESIDENT_N;
    shape->shared_bytes =
        (size_t)WARPS * (size_t)shape->kept * 2 * LANES * FRAGMENT + rows * (size_t)shape->k * 2 +
        (size_t)shape->across * rows * ECO_RESIDENT_SUM_ROW((size_t)shape->tiles) * 4 +
        ((size_t)need->accs + 2 * (size_t)need->states) * (size_t)pairs(shape) * 4;
    shape->exchange_bytes =
        (size_t)need->steps * (size_t)shape->groups * rows * (size_t)shape->k * 2;
}

/* Clocks of a step; rates and latencies measured on an H200 (doc/performance.md). */
static double predict_forward(const struct eco_resident_shape *shape)
{
    const double warps = shape->down * shape->across;
    const double items = warps * shape->items * row_tiles(shape);
    const double matrix = items * 4 * 8.5 / 4;
    const double words = items * 4 + warps * 16 * shape->kept * up(row_tiles(shape), 2);
    const double exchange = 640 + 0.042 * shape->group_rows * shape->k * 2 + 4 * shape->members;
    return exchange + 350 + (matrix > words ? matrix : words) +
           700 * up(pairs(shape), ECO_RESIDENT_THREADS);
}

/* ---- backward -------------------------------------------------------------------------------- */

static void divide_backward(const struct eco_resident_need *need, struct eco_resident_shape *shape)
{
    shape->items = up(need->recurrent << shape->unit_shift, ECO_RESIDENT_K);
    shape->across = shape->items > 8 ? 0 : 1;
    if (shape->across == 0)
        return;
    const int32_t tiles = up(shape->k / ECO_RESIDENT_M, WARPS);
    const int32_t held = ECO_RESIDENT_FRAGMENTS / shape->items;
    shape->kept = tiles > held ? tiles - held : 0;
    shape->tiles = tiles;
    const size_t fields = (size_t)need->fields + (size_t)need->states;
    shape->shared_bytes =
        (size_t)WARPS * (size_t)shape->kept * (size_t)shape->items * LANES * FRAGMENT +
        2 * (size_t)row_tiles(shape) * (size_t)shape->items * LANES * 16 +
        fields * (size_t)pairs(shape) * 4 + (ECO_RESIDENT_THREADS + (size_t)pairs(shape)) * 4;
    shape->exchange_bytes = 2 * (size_t)shape->groups * (size_t)shape->members *
                            (size_t)shape->members * (size_t)pairs(shape) * 4;
}

static double predict_backward(const struct eco_resident_shape *shape)
{
    const double items = (double)WARPS * shape->tiles * shape->items * row_tiles(shape);
    const double matrix = items * 2 * 8.5 / 4;
    const double words = (double)WARPS * shape->kept * shape->items * 8 * row_tiles(shape);
    const double send = (double)WARPS * shape->tiles * row_tiles(shape) * 12;
    const double exchange = 800 + 0.042 * shape->group_rows * shape->k * 4 + 30 * shape->members;
    return exchange + 350 + (matrix > words ? matrix : words) + send +
           700 * up(pairs(shape), ECO_RESIDENT_THREADS);
}

/* ---- both ------------------------------------------------------------------------------------ */

double eco_resident_shape(const struct eco_resident_need *need, struct eco_resident_shape *best)
{
    static const double us = 1 / 1600.; /* of a clock */
    double least = 0;
    for (int32_t shift = ECO_RESIDENT_SHIFT; shift < ECO_RESIDENT_SHIFT + 4; shift++) {
        struct eco_resident_shape shape = {.unit_shift = shift};
        shape.k = up(need->hidden, ECO_RESIDENT_K) * ECO_RESIDENT_K;
        /* Backward every member waits for the others: it has a unit to wait for. */
        shape.members = up(need->backward ? need->hidden : shape.k, 1 << shift);
        const int32_t most = need->blocks / (shape.members * need->jobs);
        if (most == 0)
            continue;
        shape.group_rows = up(need->rows, most);
        shape.groups = up(need->rows, shape.group_rows);
        (need->backward ? divide_backward : divide_forward)(need, &shape);
        if (shape.across == 0 || shape.shared_bytes > need->block_bytes)
            continue;
        const double time = us * (need->backward ? predict_backward : predict_forward)(&shape);
        if (least > 0 && time >= least)
            continue;
        least = time;
        *best = shape;
    }
    return least;
}
