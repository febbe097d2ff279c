/*
 * The calls of compaction (compaction.h) in host memory: each thread has some rows of the batch and
 * goes through their steps.
 */
#include "common/compose/compaction.h"

#include <string.h>

#include "common/compose/arena.h"

/* The rows of a move that a thread does. */
struct part {
    const struct eco_compact_run *run;
    const struct eco_compact_move *move;
    int32_t from, to; /* rows */
};

/* ---- numbers --------------------------------------------------------------------------------- */

static void count(const struct eco_compact_run *run, int32_t n)
{
    int32_t counted = 0;
    for (int32_t t = 0; t < run->T; t++) {
        counted += eco_compact_is_counted(run, t, n);
        run->counted[(size_t)t * (size_t)run->N + (size_t)n] = counted;
    }
    run->lengths[n] = counted;
}

/* ---- moves ----------------------------------------------------------------------------------- */

static size_t place_of(const struct eco_compact_move *move, int32_t lane, int32_t t, int32_t n)
{
    return (size_t)lane * move->lane + (size_t)t * move->step + (size_t)n * move->row;
}

static void *row_to(const struct eco_compact_move *move, size_t place)
{
    return eco_after(move->to, place * eco_type_bytes(move->type));
}

static const void *row_from(const struct eco_compact_move *move, size_t place)
{
    return eco_after(move->from, place * eco_type_bytes(move->type));
}

static size_t bytes_of(const struct eco_compact_move *move)
{
    return (size_t)move->width * eco_type_bytes(move->type);
}

static void move_together(const struct part *part, int32_t lane, int32_t t, int32_t n)
{
    const struct eco_compact_move *move = part->move;
    const int32_t k = part->run->counted[(size_t)t * (size_t)part->run->N + (size_t)n] - 1;
    if (eco_compact_is_counted(part->run, t, n))
        memcpy(row_to(move, place_of(move, lane, k, n)), row_from(move, place_of(move, lane, t, n)),
               bytes_of(move));
    else
        memset(row_to(move, place_of(move, lane, eco_compact_past_end(part->run, t, n), n)), 0,
               bytes_of(move));
}

/* Adds the rows of repeated steps to the step t that they repeat. In the direction's order they
 * follow it; the first is t + by. */
static void move_sums(const struct part *part, int32_t lane, int32_t t, int32_t n)
{
    const struct eco_compact_run *run = part->run;
    const struct eco_compact_move *move = part->move;
    const int32_t direction = lane % run->directions, by = run->reversed[direction] ? -1 : 1,
                  k = eco_compact_source(run, direction, t, n);
    int32_t end = t + by;
    move_together(part, lane, t, n);
    if (!eco_compact_is_counted(run, t, n))
        return;
    while (end >= 0 && end < run->T && !eco_compact_is_counted(run, end, n) &&
           eco_compact_source(run, direction, end, n) == k)
        end += by;
    for (int32_t j = 0; end != t + by && j < move->width; j++) {
        double sum = 0;
        for (int32_t s = t; s != end; s += by)
            sum += eco_type_get(move->from, place_of(move, lane, s, n) + (size_t)j, move->type);
        eco_type_set(move->to, place_of(move, lane, k, n) + (size_t)j, move->type, sum);
    }
}

static void move_row(const struct part *part, int32_t lane, int32_t t, int32_t n, int32_t k)
{
    const struct eco_compact_move *move = part->move;
    void *const to = row_to(move, place_of(move, lane, t, n));
    if (k < 0)
        memset(to, 0, bytes_of(move));
    else
        memcpy(to, row_from(move, place_of(move, lane, k, n)), bytes_of(move));
}

static void move_apart(const struct part *part, int32_t lane, int32_t t, int32_t n)
{
    const struct eco_compact_run *run = part->run;
    const int32_t k = run->counted[(size_t)t * (size_t)run->N + (size_t)n] - 1;
    move_row(part, lane, t, n, eco_compact_is_counted(run, t, n) ? k : -1);
}

static void move_repeats(const struct part *part, int32_t lane, int32_t t, int32_t n)
{
    move_row(part, lane, t, n, eco_compact_source(part->run, lane % part->run->directions, t, n));
}

/* ---- both ------------------------------------------------------------------------------------ */

static struct part part_of(const struct eco_compact_run *run, int id, int threads)
{
    return (struct part){.run = run,
                         .from = (int32_t)((int64_t)run->N * id / threads),
                         .to = (int32_t)((int64_t)run->N * (id + 1) / threads)};
}

void eco_count_part(const struct eco_call *call, int id, int threads)
{
    const struct part part = part_of(call->count.run, id, threads);
    for (int32_t n = part.from; n < part.to; n++)
        count(part.run, n);
}

void eco_compact_part(const struct eco_call *call, int id, int threads)
{
    static void (*const by_kind[ECO_COMPACT_KINDS])(const struct part *, int32_t lane, int32_t t,
                                                    int32_t n) = {
        [ECO_COMPACT_GATHER] = move_together,
        [ECO_COMPACT_SUMS] = move_sums,
        [ECO_COMPACT_SCATTER] = move_apart,
        [ECO_COMPACT_REPEATS] = move_repeats};
    struct part part = part_of(call->compact.run, id, threads);
    part.move = call->compact.move;
    for (int32_t lane = 0; lane < part.move->lanes; lane++)
        for (int32_t t = 0; t < part.run->T; t++)
            for (int32_t n = part.from; n < part.to; n++)
                by_kind[part.move->kind](&part, lane, t, n);
}
