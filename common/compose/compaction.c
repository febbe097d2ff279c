/*
 * Decides which arrays of a run are compacted and moved back, and where the compacted ones are
 * stored: at the end of the workspace.
 */
#include "common/compose/compaction.h"

#include "common/compose/arena.h"

/* ---- memory ---------------------------------------------------------------------------------- */

/* The next array [rows,width] from the base of the arena; base NULL: only counts its bytes. */
struct blocks {
    char *base;
    struct eco_arena arena;
};

static void *take(struct blocks *blocks, size_t element, size_t rows, size_t width)
{
    const size_t at = eco_arena_take(&blocks->arena, eco_arena_numbers(element, rows, width, 1));
    return eco_after(blocks->base, at);
}

struct copies {
    void *x, *y, *dy, *dx;
    void *states[ECO_MAX_STATES]; /* backward: their gradients */
    void *resets;
};

static struct copies place_copies(struct eco_compact_run *run, const struct eco_layout *layout,
                                  struct blocks *blocks)
{
    const struct eco_problem *problem = layout->problem;
    const size_t N = (size_t)layout->N, rows = (size_t)layout->T * N, I = (size_t)problem->I,
                 output = (size_t)problem->D * (size_t)problem->Y,
                 element = eco_type_bytes(layout->type);
    struct copies copies = {.x = NULL};
    run->counted = take(blocks, sizeof *run->counted, rows, 1);
    run->lengths = take(blocks, sizeof *run->lengths, N, 1);
    copies.resets = take(blocks, problem->resets ? 1 : 0, rows, 1);
    copies.x = take(blocks, element, rows, I);
    copies.y = take(blocks, element, rows, output);
    if (layout->training) {
        copies.dy = take(blocks, element, rows, output);
        copies.dx = take(blocks, element, rows, I);
    }
    for (int s = 0; problem->states && s < problem->cell->recipe.n_states; s++)
        copies.states[s] = take(blocks, element, rows * (size_t)problem->L * (size_t)problem->D,
                                (size_t)eco_problem_width(problem, s));
    return copies;
}

struct eco_size eco_compaction_bytes(const struct eco_layout *layout)
{
    struct eco_compact_run unused;
    struct blocks blocks = {.base = NULL};
    if (layout->problem->masks || layout->problem->repeats)
        place_copies(&unused, layout, &blocks);
    return blocks.arena.end;
}

bool eco_needs_compaction(const struct eco_layout *layout, const struct eco_args *args)
{
    const bool padding = layout->problem->repeats && args->lengths != NULL;
    return (args->mask != NULL || padding) && !layout->request.plain;
}

/* ---- moves ----------------------------------------------------------------------------------- */

static void add(struct eco_compaction *compaction, bool out, struct eco_compact_move move)
{
    struct eco_call *const call =
        out ? &compaction->out[compaction->outs] : &compaction->in[compaction->ins];
    if (move.from == NULL || move.to == NULL)
        return;
    compaction->move[compaction->moves] = move;
    *call = (struct eco_call){
        ECO_CALL_COMPACT, {.compact = {&compaction->run, &compaction->move[compaction->moves++]}}};
    ++*(out ? &compaction->outs : &compaction->ins);
}

static struct eco_compact_move rows_of(const struct eco_layout *layout, enum eco_compact_kind kind,
                                       bool output)
{
    const struct eco_problem *problem = layout->problem;
    const int32_t lanes = output ? problem->D : 1, width = output ? problem->Y : problem->I;
    const size_t row = (size_t)lanes * (size_t)width;
    const bool time_major = !problem->batch_major;
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

/* A move of bytes that steps have: [T,N] also where x is [N,T,I]. */
static struct eco_compact_move marks_of(const struct eco_layout *layout)
{
    return (struct eco_compact_move){.kind = ECO_COMPACT_GATHER,
                                     .type = ECORNN_S8,
                                     .step = (size_t)layout->N,
                                     .row = 1,
                                     .lanes = 1,
                                     .width = 1};
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
        add(compaction, false, between(sums, compaction->args->dstates[s], copies->states[s]));
        add(compaction, true, between(repeats, inside->states[s], compaction->args->states[s]));
    }
}

void eco_compaction_begin(struct eco_compaction *compaction, const struct eco_layout *layout,
                          const struct eco_args *args)
{
    const struct eco_problem *problem = layout->problem;
    struct blocks blocks = {.base = (char *)args->workspace + layout->compaction};
    *compaction = (struct eco_compaction){.args = args,
                                          .inside = *args,
                                          .run = {.T = args->T,
                                                  .N = args->N,
                                                  .mask = args->mask,
                                                  .whole = args->lengths,
                                                  .repeats = problem->repeats,
                                                  .directions = problem->D}};
    for (int d = 0; d < problem->D; d++)
        compaction->run.reversed[d] = eco_problem_reversed(problem, d);
    const struct copies copies = place_copies(&compaction->run, layout, &blocks);
    struct eco_args *const inside = &compaction->inside;
    inside->mask = NULL;
    inside->lengths = compaction->run.lengths;
    inside->resets = copy_if(args->resets, copies.resets);
    inside->x = copies.x;
    inside->y = copy_if(args->y, copies.y);
    const struct eco_compact_move x = rows_of(layout, ECO_COMPACT_GATHER, false),
                                  y = rows_of(layout, ECO_COMPACT_GATHER, true),
                                  sums = rows_of(layout, ECO_COMPACT_SUMS, true),
                                  repeats = rows_of(layout, ECO_COMPACT_REPEATS, true),
                                  apart = rows_of(layout, ECO_COMPACT_SCATTER, false);
    compaction->in[compaction->ins++] =
        (struct eco_call){ECO_CALL_COUNT, {.count = {&compaction->run, args}}};
    add(compaction, false, between(x, args->x, copies.x));
    add(compaction, false, between(marks_of(layout), args->resets, copies.resets));
    add_states(compaction, layout, &copies);
    if (!args->backward) {
        add(compaction, true, between(repeats, inside->y, args->y));
        return;
    }
    inside->dy = copy_if(args->dy, copies.dy);
    inside->dx = copy_if(args->dx, copies.dx);
    add(compaction, false, between(y, args->y, inside->y));
    add(compaction, false, between(sums, args->dy, copies.dy));
    add(compaction, true, between(apart, inside->dx, args->dx));
}
