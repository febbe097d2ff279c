/*
 * Appends arrays to a block, such as states and saved values to the workspace and the reserve.
 */
#include "common/plan/cursor.h"

#include "common/util.h"

struct eco_series eco_put(struct eco_cursor *cursor, int count, struct eco_layout_rows rows)
{
    const size_t N = (size_t)cursor->N;
    if (rows.width == 0 || count == 0)
        return (struct eco_series){
            .first = {.block = cursor->block, .offset = cursor->end.value, .type = rows.type},
            .count = count};
    const struct eco_size bytes = eco_size_align(eco_layout_product_bytes(
        rows.type, (size_t)(rows.steps > 0 ? rows.steps : 1), N, rows.width));
    const struct eco_series series = {.first = {.block = cursor->block,
                                                .offset = cursor->end.value,
                                                .step = rows.steps > 0 ? N * rows.width : 0,
                                                .row = rows.width,
                                                .type = rows.type},
                                      .bytes = bytes.value,
                                      .count = count};
    cursor->end = eco_size_add(cursor->end, eco_size_mul(bytes, (size_t)count));
    return series;
}

struct eco_series eco_put_bytes(struct eco_cursor *cursor, int count, struct eco_size bytes)
{
    bytes = eco_size_align(bytes);
    const struct eco_series series = {
        .first = {.block = cursor->block, .offset = cursor->end.value},
        .bytes = bytes.value,
        .count = count};
    cursor->end = eco_size_add(cursor->end, eco_size_mul(bytes, (size_t)count));
    return series;
}

bool eco_layout_overlaps(const struct eco_layout *layout, bool backward)
{
    return layout->request.wavefront || (layout->request.lockstep && !backward);
}

/* Alternating planes.  Only the layer above needs all planes of the output state; two are enough
 * otherwise, since a thread may write the next plane while others read the previous one. */
static void put_turns(struct eco_layout *layout, struct eco_cursor *cursor, int s, int32_t planes)
{
    const int count = eco_layout_overlaps(layout, layout->back) ? layout->problem->L : 1;
    layout->last_state[s] = eco_put(cursor, count, eco_layout_turn_planes(layout, s, planes));
    layout->last_state[s].first.wrap = (size_t)planes;
    layout->state[s] = layout->last_state[s];
}

/* What the layers above the first read in a run that is not lean: planes of the output state, or,
 * if these are wide, arrays of their own. */
static void put_sequence(struct eco_layout *layout, struct eco_cursor *cursor, int count)
{
    const bool wide = eco_problem_wide_output(layout->problem);
    if (layout->training && !eco_layout_replays(layout) && !wide) {
        layout->sequence = layout->state[0];
        return;
    }
    layout->sequence = eco_put(cursor, count, eco_layout_sequence_rows(layout));
    if (!layout->back && count > 0 && !wide)
        layout->state[0] = layout->sequence;
}

void eco_put_states(struct eco_layout *layout, struct eco_cursor *cursor)
{
    const struct eco_problem *problem = layout->problem;
    const int lower = problem->L - 1;
    const bool keeps = layout->training || layout->request.wavefront;
    for (int s = 0; s < problem->cell->recipe.n_states; s++) {
        const struct eco_layout_rows all = eco_layout_planes(layout, s, layout->T + 2);
        if (layout->training && !eco_layout_is_lean(layout)) {
            layout->state[s] = eco_put(cursor, problem->L, all);
            layout->last_state[s] = layout->state[s];
            continue;
        }
        put_turns(layout, cursor, s, 2);
    }
    if (!eco_layout_is_lean(layout))
        put_sequence(layout, cursor, keeps || lower < 2 ? lower : 2);
}

void eco_put_states_of_chunk(struct eco_layout *layout, struct eco_cursor *cursor,
                             struct eco_cursor *reserve)
{
    const struct eco_problem *problem = layout->problem;
    for (int s = 0; s < problem->cell->recipe.n_states; s++) {
        if (s > 0)
            layout->checkpoint[s] =
                eco_put(reserve, problem->L, eco_layout_checkpoint_rows(layout, s));
        if (!layout->back) {
            put_turns(layout, cursor, s, eco_layout_ring(layout->chunk));
            continue;
        }
        layout->state[s] = eco_put(cursor, layout->request.wavefront ? problem->L : 1,
                                   eco_layout_planes(layout, s, layout->chunk_backward + 2));
        layout->state[s].first.chunked = true;
        layout->last_state[s] = layout->state[s];
    }
    put_sequence(layout, reserve, problem->L - 1);
}

void eco_put_values(struct eco_layout *layout, struct eco_cursor *cursor)
{
    const struct eco_problem *problem = layout->problem;
    const bool replays = eco_layout_replays(layout), keeps = layout->training && !replays,
               narrows = eco_layout_narrows(layout);
    const int pairs = problem->L * problem->D;
    const int lanes = keeps || eco_layout_overlaps(layout, layout->back) ? pairs : problem->D;
    const int32_t steps = keeps          ? layout->T
                          : layout->back ? layout->chunk_backward
                          : narrows      ? layout->chunk
                                         : 0;
    const size_t H = (size_t)problem->H;
    const size_t saves = (size_t)problem->cell->lowered.n_saves * H;
    if (eco_layout_saves(layout))
        layout->save = eco_put(cursor, lanes, (struct eco_layout_rows){layout->type, steps, saves});
    if (problem->projected)
        layout->output = eco_put(cursor, lanes, (struct eco_layout_rows){layout->type, steps, H});
    layout->save.first.chunked = layout->output.first.chunked =
        replays && (layout->back || narrows);
}

void eco_put_narrowed(struct eco_layout *layout, struct eco_cursor *reserve)
{
    const struct eco_problem *problem = layout->problem;
    const int pairs = problem->L * problem->D;
    struct eco_layout_rows rows = {problem->saving.type, layout->T,
                                   (size_t)problem->cell->lowered.n_saves * (size_t)problem->H};
    layout->kept_save = eco_put(reserve, pairs, rows);
    rows.width = problem->projected ? (size_t)problem->H : 0;
    layout->kept_output = eco_put(reserve, pairs, rows);
}

void eco_put_checkpoints(struct eco_layout *layout, struct eco_cursor *cursor)
{
    const struct eco_problem *problem = layout->problem;
    const int states = eco_layout_copies_states(layout) ? problem->cell->recipe.n_states : 1;
    for (int s = 0; s < states; s++)
        layout->checkpoint[s] =
            eco_put(cursor, s == 0 ? problem->L - 1 : problem->L, eco_layout_lean_rows(layout, s));
}

void eco_put_recent(struct eco_layout *layout, struct eco_cursor *cursor)
{
    const int count = layout->request.wavefront ? layout->problem->L : 1;
    for (int s = 1; s < layout->problem->cell->recipe.n_states; s++) {
        struct eco_layout_rows rows = eco_layout_copies(layout, s);
        rows.steps = layout->back ? layout->chunk_backward + 1 : layout->chunk;
        layout->recent[s] = eco_put(cursor, count, rows);
        rows.type = layout->last_state[s].first.type;
        if (!layout->back || eco_layout_knows_states(layout))
            continue;
        rows.steps += eco_ceil_div(layout->chunk_backward, layout->problem->saving.every) - 1;
        layout->scan[s] = eco_put(cursor, count, rows);
    }
}
