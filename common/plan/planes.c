/*
 * How states are stored: in planes over the steps, or, in a lean run, as copies.
 */
#include "common/plan/shapes.h"

bool eco_layout_is_lean(const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    return layout->request.gpu.lean && (layout->training || problem->resets || problem->states);
}

bool eco_layout_copies_states(const struct eco_layout *layout)
{
    return layout->request.gpu.lean && (layout->training || layout->problem->states);
}

size_t eco_layout_state_plane(const struct eco_layout *layout, int d, int32_t t, bool next)
{
    if (next)
        return (size_t)t + 1;
    return eco_problem_reversed(layout->problem, d) ? (size_t)t + 2 : (size_t)t;
}

/* Does a product read it: of this layer or, if planes of the output state are y, of the next? */
static bool is_read(const struct eco_layout *layout, int state)
{
    const struct eco_lowered *lowered = &layout->problem->cell->lowered;
    for (int o = 0; o < lowered->n_operands; o++)
        if (lowered->operand[o].state == state)
            return true;
    return state == 0 && !eco_problem_wide_output(layout->problem);
}

size_t eco_layout_plane_part(const struct eco_layout *layout, int state)
{
    const size_t width = (size_t)eco_problem_width(layout->problem, state);
    return is_read(layout, state) ? eco_request_row(&layout->request, width) : width;
}

size_t eco_layout_alias_padded(const struct eco_layout *layout, size_t width)
{
    const size_t element = eco_type_bytes(layout->type),
                 alias_bytes = layout->request.cpu.alias_bytes;
    const bool aliases = width > 0 && alias_bytes > 0 && width * element % alias_bytes == 0;
    return width + (aliases ? ECO_ALIGNMENT / element : 0);
}

/* Planes with rows of this width; rows that products read get alias padding. */
static struct eco_layout_rows planes(const struct eco_layout *layout, int state, int32_t steps,
                                     size_t width)
{
    if (!is_read(layout, state))
        return (struct eco_layout_rows){layout->sum, steps, width};
    return (struct eco_layout_rows){layout->type, steps, eco_layout_alias_padded(layout, width)};
}

struct eco_layout_rows eco_layout_planes(const struct eco_layout *layout, int state, int32_t count)
{
    const struct eco_problem *problem = layout->problem;
    const size_t row = (size_t)problem->D * (size_t)eco_problem_width(problem, state);
    return planes(layout, state, count, eco_request_row(&layout->request, row));
}

struct eco_layout_rows eco_layout_sequence_rows(const struct eco_layout *layout)
{
    const size_t row = (size_t)layout->problem->D * (size_t)layout->problem->P;
    return (struct eco_layout_rows){
        layout->type, layout->T + 2,
        eco_layout_alias_padded(layout, eco_request_row(&layout->request, row))};
}

struct eco_layout_rows eco_layout_turn_planes(const struct eco_layout *layout, int state,
                                              int32_t count)
{
    const size_t D = (size_t)layout->problem->D;
    return planes(layout, state, count, D * eco_layout_plane_part(layout, state));
}

struct eco_layout_rows eco_layout_copies(const struct eco_layout *layout, int state)
{
    const struct eco_problem *problem = layout->problem;
    return (struct eco_layout_rows){layout->type, layout->T,
                                    (size_t)problem->D * (size_t)eco_problem_width(problem, state)};
}

struct eco_layout_rows eco_layout_reset_rows(const struct eco_layout *layout, int state,
                                             bool backward)
{
    const bool lean = eco_layout_is_lean(layout), read = is_read(layout, state);
    const size_t width = (size_t)eco_problem_width(layout->problem, state);
    struct eco_layout_rows rows =
        planes(layout, state, 0, eco_request_row(&layout->request, width));
    if (lean)
        rows.type = layout->type;
    if (backward && read)
        rows.steps = layout->weights_steps;
    if (lean && !read)
        rows.width = 0;
    return rows;
}
