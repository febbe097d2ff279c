/*
 * Checkpoints: what the reserve keeps for a backward that recomputes the rest.
 */
#include "common/plan/shapes.h"

bool eco_layout_replays(const struct eco_layout *layout)
{
    return layout->training && layout->problem->saving.policy != ECO_SAVE_ALL &&
           !layout->request.plain;
}

bool eco_layout_narrows(const struct eco_layout *layout)
{
    return eco_layout_replays(layout) && layout->problem->saving.policy == ECO_SAVE_NARROW;
}

bool eco_layout_saves(const struct eco_layout *layout)
{
    return layout->training &&
           (layout->back || !eco_layout_replays(layout) || eco_layout_narrows(layout));
}

bool eco_layout_knows_states(const struct eco_layout *layout)
{
    return layout->problem->cell->recipe.n_states == 1 || layout->problem->saving.every == 1;
}

/* Steps done after step t.  Backward never reads the state after the last one. */
static int32_t done(const struct eco_layout *layout, int d, int32_t t)
{
    return eco_problem_reversed(layout->problem, d) ? t : t + 1;
}

/* A state that is saved in its own type is exact. */
static ecornn_type type_of(const struct eco_layout *layout)
{
    const struct eco_saving *saving = &layout->problem->saving;
    const bool exact = saving->policy == ECO_SAVE_EVERY && saving->type == layout->problem->type;
    return exact ? layout->sum : saving->type;
}

/* Are checkpoints an array of all steps?  Without a computation no replay finds the last one. */
static bool keeps_all(const struct eco_layout *layout)
{
    return layout->problem->saving.every == 1 &&
           (eco_layout_is_lean(layout) || eco_layout_narrows(layout));
}

/* Steps after which others may follow.  Rounded states need the last step too, because a row that
 * ends before others has its last step among theirs. */
static int32_t followed(const struct eco_layout *layout)
{
    const bool any = eco_layout_is_lean(layout) && !layout->problem->row_invariant;
    return layout->T - (any || type_of(layout) == layout->sum);
}

bool eco_layout_is_checkpoint(const struct eco_layout *layout, int d, int32_t t)
{
    const int32_t k = done(layout, d, t);
    return keeps_all(layout) ||
           (k > 0 && k <= followed(layout) && k % layout->problem->saving.every == 0);
}

size_t eco_layout_checkpoint_index(const struct eco_layout *layout, int d, int32_t t)
{
    return (size_t)(keeps_all(layout) ? t : done(layout, d, t) / layout->problem->saving.every - 1);
}

bool eco_layout_copies_direct(const struct eco_layout *layout)
{
    const struct eco_saving *saving = &layout->problem->saving;
    return !eco_layout_replays(layout) ||
           (saving->every == 1 && saving->type == layout->problem->type);
}

/* A lean run keeps them like its copies: in the type of rows, or in fewer bits. */
struct eco_layout_rows eco_layout_lean_rows(const struct eco_layout *layout, int state)
{
    const struct eco_saving *saving = &layout->problem->saving;
    struct eco_layout_rows rows = eco_layout_copies(layout, state);
    if (state == 0 || !eco_layout_replays(layout))
        return rows;
    rows.type = saving->type;
    if (saving->every > 1)
        rows.steps = followed(layout) / saving->every;
    if (rows.steps == 0)
        rows.width = 0;
    return rows;
}

struct eco_layout_rows eco_layout_checkpoint_rows(const struct eco_layout *layout, int state)
{
    const struct eco_problem *problem = layout->problem;
    const struct eco_saving *saving = &problem->saving;
    const int32_t steps = keeps_all(layout) ? layout->T : followed(layout) / saving->every;
    const size_t width = (size_t)problem->D * (size_t)eco_problem_width(problem, state);
    return (struct eco_layout_rows){type_of(layout), steps, steps > 0 ? width : 0};
}

int32_t eco_layout_ring(int32_t chunk)
{
    int32_t planes = 2;
    while (planes < chunk + 1)
        planes *= 2;
    return planes;
}

struct eco_layout_rows eco_layout_copies(const struct eco_layout *layout, int state)
{
    const struct eco_problem *problem = layout->problem;
    return (struct eco_layout_rows){layout->type, layout->T,
                                    (size_t)problem->D * (size_t)eco_problem_width(problem, state)};
}

bool eco_layout_is_lean(const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    return layout->request.gpu.lean && (layout->training || problem->resets || problem->states);
}
