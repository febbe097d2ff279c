/*
 * The states of every step for the caller. Forward copies them from the planes after each step;
 * backward adds their gradients to the carried ones before each step.
 */
#include "cpu/cpu.h"

#include <string.h>

static void *row_of(const struct eco_view *view, int32_t t, size_t row)
{
    return eco_cpu_after_mutable(view->type, eco_view_at(view, t), row * view->row);
}

/* Takes the rows that this thread also resets, so that no other thread changes them. */
void eco_cpu_show_states(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t)
{
    const struct eco_range part = eco_cpu_part_of(run, run->rows, 1);
    const int32_t active = eco_cpu_active(run, t);
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const struct eco_view *to = &bound->all_states[s], *from = &bound->next[s];
        const size_t width = (size_t)eco_problem_width(run->problem, s);
        for (int32_t n = part.from; to->first != NULL && n < part.to; n++) {
            void *row = row_of(to, t, (size_t)eco_cpu_row(run, n));
            if (n < active)
                eco_type_move(row, to->type, row_of(from, t, (size_t)n), from->type, width);
            else
                memset(row, 0, width * eco_type_bytes(to->type));
        }
    }
}

void eco_cpu_add_dstates(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t,
                         const struct eco_pointwise *call)
{
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_view *from = &bound->all_states[s], *to = &bound->carry[s];
        const struct eco_range units = eco_cpu_carried_units(run, call, s),
                               rows = eco_cpu_carried_rows(run, call, t, s);
        for (int32_t n = rows.from; from->first != NULL && n < rows.to; n++)
            eco_type_add(
                eco_cpu_after_mutable(to->type, row_of(to, 0, (size_t)n), (size_t)units.from),
                to->type,
                eco_cpu_after(from->type, row_of(from, t, (size_t)eco_cpu_row(run, n)),
                              (size_t)units.from),
                from->type, (size_t)(units.to - units.from));
    }
}
