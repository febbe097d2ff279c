/*
 * Forced choices of plans on a CPU: their texts, refusals, and what a plan prints.
 */
#include "cpu/algo/force.h"

#include <assert.h>

#include "common/util.h"

enum { GRID_BITS = 8 };

bool eco_cpu_read_choice(enum eco_forced_key key, const char *text, int32_t *value)
{
    struct eco_grid grid;
    assert(key == ECO_FORCE_GRID);
    (void)key;
    if (!eco_cpu_read_grid(text, &grid))
        return false;
    *value = (grid.ops << GRID_BITS | grid.rows) << GRID_BITS | grid.units;
    return true;
}

struct eco_grid eco_cpu_unpack_grid(int32_t value)
{
    enum { MASK = (1 << GRID_BITS) - 1 };
    return (struct eco_grid){value >> 2 * GRID_BITS, value >> GRID_BITS & MASK, value & MASK};
}

/* ---- what is impossible ---------------------------------------------------------------------- */

const char *eco_cpu_force_refuses(const struct eco_problem *problem, const char *algorithm,
                                  bool alone)
{
    const int fuse = eco_forced(problem, ECO_FORCE_FUSE, 0),
              own_units = eco_forced(problem, ECO_FORCE_OWN_UNITS, alone);
    if (problem->force.keys == 0)
        return NULL;
    if (eco_force_unfit(&problem->force, algorithm) != NULL)
        return "ECORNN_FORCE asks for what is no choice of it";
    if (eco_forced(problem, ECO_FORCE_BLOCK_STEPS, -1) >= 0 && !problem->cell->lowered.linear.scans)
        return "ECORNN_FORCE asks for block-steps, but the cell is not linear in its states";
    if (own_units > alone)
        return "ECORNN_FORCE: own-units is 1, but the cell has means or a projection";
    if (fuse > 0 && problem->cell->lowered.copies != 0)
        return "ECORNN_FORCE: fuse is 1, but the cell reads x unit by unit";
    if (eco_forced(problem, ECO_FORCE_CARRIED, 0) > eco_cpu_carries_values(problem))
        return "ECORNN_FORCE: carried is 1, but no stage of the cell carries values";
    return fuse > own_units ? "ECORNN_FORCE: fuse is 1, but threads do not own units" : NULL;
}

/* ---- choices of a plan ----------------------------------------------------------------------- */

void eco_cpu_choices(const struct ecornn_plan *plan, struct eco_text *text)
{
    const struct eco_layout_request *request = &plan->request;
    if (eco_cpu_carries_values(&plan->problem))
        eco_choice_write(ECO_FORCE_CARRIED, request->cpu.carried_threads > 0, text);
    eco_choice_write(ECO_FORCE_CHUNK, plan->tape[false][0].chunk, text);
    if (plan->problem.training)
        eco_choice_write(ECO_FORCE_CHUNK_BACK, plan->tape[true][0].chunk, text);
    if (request->cpu.lanes > 0) {
        eco_choice_write(ECO_FORCE_VECTORS, request->cpu.vectors, text);
        eco_choice_write(ECO_FORCE_OWN_UNITS, request->cpu.own_units, text);
        eco_choice_write(ECO_FORCE_FUSE, request->fuse_input, text);
        eco_choice_write(ECO_FORCE_COPY, request->cpu.threads > 0, text);
    }
    if (plan->problem.cell->recipe.matrix)
        eco_choice_write(ECO_FORCE_PRODUCTS, request->cpu.block_steps > 0, text);
    if (request->cpu.lanes > 0 && plan->problem.weight_type == ECORNN_BF16)
        eco_choice_write(ECO_FORCE_WIDE, request->cpu.wide, text);
    eco_force_write(&plan->problem.force, true, text);
}
