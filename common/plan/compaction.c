/*
 * Decides which arrays of a run are compacted and moved back, and where the compacted ones are
 * stored: at the end of the workspace.
 */
#include "common/compaction.h"

#include "common/util.h"

/* ---- memory ---------------------------------------------------------------------------------- */

/* Arrays one after the other; used first to count their bytes. */
struct arena {
    char *base; /* NULL: count only */
    struct eco_size end;
};

static void *take(struct arena *arena, size_t element, size_t rows, size_t width)
{
    const size_t at = arena->end.value;
    const struct eco_size bytes = eco_size_mul(eco_size_mul(eco_size_of(element), rows), width);
    arena->end = eco_size_add(arena->end, eco_size_align(bytes));
    return arena->base == NULL ? NULL : arena->base + at;
}

struct copies {
    void *x, *y, *dy, *dx;
    void *states[ECO_MAX_STATES]; /* backward: their gradients */
};

static struct copies place_copies(struct eco_compact_run *run, const struct eco_layout *layout,
                                  struct arena *arena)
{
    const struct eco_problem *problem = layout->problem;
    const size_t N = (size_t)layout->N, rows = (size_t)layout->T * N, I = (size_t)problem->I,
                 output = (size_t)problem->D * (size_t)problem->P,
                 element = eco_type_bytes(layout->type);
    struct copies copies = {.x = NULL};
    run->counted = take(arena, sizeof *run->counted, rows, 1);
    run->lengths = take(arena, sizeof *run->lengths, N, 1);
    run->run_resets = take(arena, problem->resets ? 1 : 0, rows, 1);
    copies.x = take(arena, element, rows, I);
    copies.y = take(arena, element, rows, output);
    if (layout->training) {
        copies.dy = take(arena, element, rows, output);
        copies.dx = take(arena, element, rows, I);
    }
    for (int s = 0; problem->states && s < problem->cell->recipe.n_states; s++)
        copies.states[s] = take(arena, element, rows * (size_t)problem->L * (size_t)problem->D,
                                (size_t)eco_problem_width(problem, s));
    return copies;
}

struct eco_size eco_compaction_bytes(const struct eco_layout *layout)
{
    struct eco_compact_run unused;
    struct arena arena = {NULL, eco_size_of(0)};
    if (layout->problem->masks || layout->problem->repeats)
        place_copies(&unused, layout, &arena);
    return arena.end;
}

bool eco_needs_compaction(const struct eco_layout *layout, const struct eco_args *args)
{
    const bool padding = layout->problem->repeats && args->lengths != NULL;
    return (args->mask != NULL || padding) && !layout->request.plain;
}

/* ---- moves ----------------------------------------------------------------------------------- */

static void add(struct eco_compact_move *moves, int *count, struct eco_compact_move move)
{
    if (move.from != NULL && move.to != NULL)
        moves[(*count)++] = move;
}

static struct eco_compact_move rows_of(const struct eco_layout *layout, enum eco_compact_kind kind,
                                       bool output)
{
    const struct eco_problem *problem = layout->problem;
    const int32_t lanes = output ? problem->D : 1, width = output ? problem->P : problem->I;
    const size_t row = (size_t)lanes * (size_t)width;
    const bool time_major = problem->order == ECORNN_TIME_MAJOR;
    return (struct eco_compact_move){.kind = kind,
                                     .type = layout->type,
                                     .step = time_major ? (size_t)layout->N * row : row,
                                     .row = time_major ? row : (size_t)layout->T * row,
                                     .lane = (size_t)width,
                                     .lanes = lanes,
                                     .width = width};
}

/* A move of a state of every step; in either order its array has steps outermost. */
static struct eco_compact_move states_of(const struct eco_layout *layout,
                                         enum eco_compact_kind kind, int s)
{
    const struct eco_problem *problem = layout->problem;
    const size_t width = (size_t)eco_problem_width(problem, s), step = (size_t)layout->N * width;
    return (struct eco_compact_move){.kind = kind,
                                     .type = layout->type,
                                     .step = step,
                                     .row = width,
                                     .lane = (size_t)layout->T * step,
                                     .lanes = problem->L * problem->D,
                                     .width = (int32_t)width};
}

static struct eco_compact_move between(struct eco_compact_move move, const void *from, void *to)
{
    move.from = from;
    move.to = to;
    return move;
}

/* The inner run's array, if the caller has one. */
static void *copy_if(const void *callers, void *copy)
{
    return callers == NULL ? NULL : copy;
}

static void add_states(struct eco_compaction *compaction, const struct eco_layout *layout,
                       const struct copies *copies)
{
    struct eco_args *const inside = &compaction->inside;
    for (int s = 0; layout->problem->states && s < layout->problem->cell->recipe.n_states; s++) {
        const struct eco_compact_move sums = states_of(layout, ECO_COMPACT_SUMS, s),
                                      repeats = states_of(layout, ECO_COMPACT_REPEATS, s);
        inside->dstates[s] = copy_if(compaction->args->dstates[s], copies->states[s]);
        inside->states[s] = copy_if(compaction->args->states[s], copies->states[s]);
        add(compaction->in, &compaction->ins,
            between(sums, compaction->args->dstates[s], copies->states[s]));
        add(compaction->out, &compaction->outs,
            between(repeats, inside->states[s], compaction->args->states[s]));
    }
}

void eco_compaction_begin(struct eco_compaction *compaction, const struct eco_layout *layout,
                          const struct eco_args *args)
{
    const struct eco_problem *problem = layout->problem;
    struct arena arena = {(char *)args->workspace + layout->compaction, eco_size_of(0)};
    *compaction = (struct eco_compaction){.args = args,
                                          .inside = *args,
                                          .run = {.T = args->T,
                                                  .N = args->N,
                                                  .mask = args->mask,
                                                  .resets = args->resets,
                                                  .whole = args->lengths,
                                                  .repeats = problem->repeats,
                                                  .directions = problem->D}};
    for (int d = 0; d < problem->D; d++)
        compaction->run.reversed[d] = eco_problem_reversed(problem, d);
    const struct copies copies = place_copies(&compaction->run, layout, &arena);
    struct eco_args *const inside = &compaction->inside;
    if (args->resets == NULL)
        compaction->run.run_resets = NULL;
    inside->mask = NULL;
    inside->lengths = compaction->run.lengths;
    inside->resets = compaction->run.run_resets;
    inside->x = copies.x;
    inside->y = copy_if(args->y, copies.y);
    const struct eco_compact_move x = rows_of(layout, ECO_COMPACT_GATHER, false),
                                  y = rows_of(layout, ECO_COMPACT_GATHER, true),
                                  sums = rows_of(layout, ECO_COMPACT_SUMS, true),
                                  repeats = rows_of(layout, ECO_COMPACT_REPEATS, true),
                                  apart = rows_of(layout, ECO_COMPACT_SCATTER, false);
    add(compaction->in, &compaction->ins, between(x, args->x, copies.x));
    add_states(compaction, layout, &copies);
    if (!args->backward) {
        add(compaction->out, &compaction->outs, between(repeats, inside->y, args->y));
        return;
    }
    inside->dy = copy_if(args->dy, copies.dy);
    inside->dx = copy_if(args->dx, copies.dx);
    add(compaction->in, &compaction->ins, between(y, args->y, inside->y));
    add(compaction->in, &compaction->ins, between(sums, args->dy, copies.dy));
    add(compaction->out, &compaction->outs, between(apart, inside->dx, args->dx));
}
