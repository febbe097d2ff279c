/*
 * Decides which arrays of a run are compacted and moved back, and where the compacted ones are
 * stored: at the end of the workspace.
 */
#include "common/compose/compaction.h"

#include "common/compose/arena.h"
#include "common/run_arrays.h"

/* Is the array compacted in runs of this layout? Those with steps are, but the mask itself, and
 * states of every step going back, which reads none. */
static bool is_moved(const struct eco_layout *layout, bool backward,
                     const struct eco_run_array *array)
{
    const bool forward_only = array->output && !array->gradient && (array->letters & ECO_L) != 0;
    return (array->letters & ECO_T) != 0 && array->at != offsetof(struct eco_args, mask) &&
           (array->flag & ~layout->problem->flags) == 0 && (backward || !array->gradient) &&
           !(backward && forward_only);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static struct eco_run_shape shape_of(const struct eco_layout *layout,
                                     const struct eco_run_array *array, int s)
{
    return eco_run_array_shape(array, layout->problem, s, layout->T, layout->N);
}

/* Places the arrays of the run, and pointer s of a compacted array; returns the latter. */
static void *take_array(struct eco_arena *arena, const struct eco_layout *layout,
                        const struct eco_run_array *array, int s)
{
    const struct eco_run_shape shape = shape_of(layout, array, s);
    return eco_arena_array(arena, eco_arena_numbers(shape.element,
                                                    (size_t)shape.steps * (size_t)shape.rows,
                                                    (size_t)shape.lanes * (size_t)shape.width, 1));
}

static void take_run(struct eco_arena *arena, const struct eco_layout *layout,
                     struct eco_compact_run *run)
{
    const size_t N = (size_t)layout->N;
    run->counted =
        eco_arena_array(arena, eco_arena_numbers(sizeof *run->counted, (size_t)layout->T, N, 1));
    run->lengths = eco_arena_array(arena, eco_arena_numbers(sizeof *run->lengths, N, 1, 1));
}

static int count_of(const struct eco_layout *layout, const struct eco_run_array *array)
{
    return array->count > 1 ? layout->problem->cell->recipe.n_states : 1;
}

struct eco_size eco_compaction_bytes(const struct eco_layout *layout)
{
    struct eco_compact_run unused;
    struct eco_arena arena = {.base = NULL};
    if (!layout->problem->masks && !layout->problem->repeats)
        return arena.end;
    take_run(&arena, layout, &unused);
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        for (int s = 0; s < count_of(layout, &eco_run_array[a]); s++)
            if (is_moved(layout, layout->training, &eco_run_array[a]))
                take_array(&arena, layout, &eco_run_array[a], s);
    return arena.end;
}

bool eco_needs_compaction(const struct eco_layout *layout, const struct eco_args *args)
{
    const bool padding = layout->problem->repeats && args->lengths != NULL;
    return (args->mask != NULL || padding) && !layout->request.plain;
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* States of every step, lengths and marks have steps outermost in either order. */
static struct eco_compact_move move_of(const struct eco_layout *layout,
                                       const struct eco_run_array *array, int s)
{
    const struct eco_run_shape shape = shape_of(layout, array, s);
    const bool inner = (array->letters & (ECO_I | ECO_Y)) != 0;
    const size_t width = (size_t)shape.width, row = inner ? (size_t)shape.lanes * width : width,
                 N = (size_t)layout->N, T = (size_t)layout->T;
    const bool row_major = inner && layout->problem->batch_major;
    return (struct eco_compact_move){.type = shape.type != 0 ? shape.type : ECORNN_S8,
                                     .step = row_major ? row : N * row,
                                     .row = row_major ? T * row : row,
                                     .lane = inner ? width : T * N * row,
                                     .lanes = shape.lanes,
                                     .width = shape.width};
}

/* Moves a caller's array in before the run, or out after it, if it is given. */
static void add(struct eco_compaction *compaction, const struct eco_run_array *array, int s,
                struct eco_compact_move move, void *copy)
{
    const bool backward = compaction->args->backward,
               out = array->output && array->gradient == backward;
    void *const given = eco_after(eco_run_array_get(compaction->args, array, s), 0);
    struct eco_call *const call =
        out ? &compaction->out[compaction->outs] : &compaction->in[compaction->ins];
    if (given == NULL)
        return;
    move.from = out ? copy : given;
    move.to = out ? given : copy;
    move.kind = out               ? array->gradient ? ECO_COMPACT_SCATTER : ECO_COMPACT_REPEATS
                : array->gradient ? ECO_COMPACT_SUMS
                                  : ECO_COMPACT_GATHER;
    eco_run_array_set(&compaction->inside, array, s, copy);
    compaction->move[compaction->moves] = move;
    *call = (struct eco_call){
        ECO_CALL_COMPACT, {.compact = {&compaction->run, &compaction->move[compaction->moves++]}}};
    ++*(out ? &compaction->outs : &compaction->ins);
}

void eco_compaction_begin(struct eco_compaction *compaction, const struct eco_layout *layout,
                          const struct eco_args *args)
{
    const struct eco_problem *problem = layout->problem;
    struct eco_arena arena = {.base = (char *)args->workspace + layout->compaction};
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
    take_run(&arena, layout, &compaction->run);
    compaction->inside.mask = NULL;
    compaction->inside.lengths = compaction->run.lengths;
    compaction->in[compaction->ins++] =
        (struct eco_call){ECO_CALL_COUNT, {.count = {&compaction->run, args}}};
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        for (int s = 0; s < count_of(layout, &eco_run_array[a]); s++)
            if (is_moved(layout, args->backward, &eco_run_array[a]))
                add(compaction, &eco_run_array[a], s, move_of(layout, &eco_run_array[a], s),
                    take_array(&arena, layout, &eco_run_array[a], s));
}
