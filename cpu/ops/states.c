/*
 * The states of every step for the caller. Forward copies them from the planes after each step;
 * backward adds their gradients to the carried ones before each step.
 */
#include "cpu/cpu.h"

/* Moves the rows that this thread also resets, so that no other thread changes them. */
void eco_cpu_show_states(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t)
{
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const struct eco_move move = {.op = bound->op,
                                      .to = bound->all_states[s],
                                      .to_t = t,
                                      .from = bound->next[s],
                                      .t = t,
                                      .steps = 1,
                                      .every = 1,
                                      .width = eco_problem_width(run->problem, s),
                                      .rows = ECO_ROWS_CLEARED};
        if (move.to.first != NULL)
            eco_cpu_move((void *)(uintptr_t)run, &move);
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
                eco_cpu_after_mutable(to->type, eco_cpu_row_at(run, to, 0, n), (size_t)units.from),
                to->type,
                eco_cpu_after(from->type, eco_cpu_row_at(run, from, t, n), (size_t)units.from),
                from->type, (size_t)(units.to - units.from));
    }
}
