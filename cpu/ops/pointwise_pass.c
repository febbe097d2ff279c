/*
 * What pointwise passes forward and backward have in common: the call, the states it points at, the
 * part of the plane that a thread does, and where threads wait.
 */
#include "cpu/cpu.h"

struct eco_pointwise eco_cpu_call(const struct eco_cpu_run *run, const struct eco_op *op)
{
    const struct eco_array mean =
        eco_layout_scratch(run->layout, run->args->backward, op->layer, op->d, ECO_SCRATCH_MEAN);
    const struct eco_lowered *lowered = run->lowered;
    const bool narrow = run->layout->type != run->layout->sum; /* else all are, and nobody asks */
    unsigned wide = 0;
    for (int s = 0; narrow && s < run->problem->cell->recipe.n_states; s++)
        if (eco_layout_state(run->layout, op->layer, op->d, s).type == run->layout->sum)
            wide |= 1u << s;
    return (struct eco_pointwise){
        .wide_states = wide,
        .hidden = run->problem->H,
        .n_states = run->problem->cell->recipe.n_states,
        .order = run->order,
        .y_order = op->layer == run->problem->L - 1 ? run->order : NULL,
        .training = run->args->reserve != NULL,
        .seed = run->args->seed,
        .layer = op->layer,
        .direction = op->d,
        .vector = eco_cpu_weights(
            run, eco_layout_weights(run->layout, op->layer, op->d, ECO_PART_VECTORS)),
        .mean = lowered->has_means ? eco_cpu_at(run, &mean, 0) : NULL,
        .mean_row = mean.row,
    };
}

struct eco_states eco_cpu_states(const struct eco_cpu_run *run, const struct eco_op *op)
{
    struct eco_states states = {
        .before = eco_layout_state_plane(run->layout, op->d, 0, false),
        .next = eco_layout_state_plane(run->layout, op->d, 0, true),
    };
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const struct eco_array state = eco_layout_state(run->layout, op->layer, op->d, s);
        states.plane[s] = eco_cpu_steps(run, &state);
    }
    return states;
}

void eco_cpu_point_at_states(const struct eco_states *states, int32_t t, struct eco_pointwise *call)
{
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_steps *plane = &states->plane[s];
        call->state[s] = eco_step_at(plane, (size_t)t + states->before);
        call->next[s] = eco_step_at(plane, (size_t)t + states->next);
        call->state_row[s] = call->next_row[s] = plane->row;
    }
}

void eco_cpu_take_part(const struct eco_cpu_run *run, int32_t t, struct eco_pointwise *call)
{
    const struct eco_share rows = eco_cpu_step_rows(run, t);
    const int32_t H = run->problem->H;
    const bool by_rows =
        !run->own_units && (rows.to - rows.from >= 4 * run->count || run->lowered->has_means);
    const struct eco_share row = by_rows ? eco_cpu_part_of(run, rows, 1) : rows;
    const struct eco_share unit =
        by_rows ? (struct eco_share){0, H} : eco_cpu_part(run, H, run->unit_group);
    call->row0 = row.from;
    call->row1 = row.to;
    call->unit0 = unit.from;
    call->unit1 = unit.to;
}

void eco_cpu_after_pointwise(const struct eco_cpu_run *run)
{
    eco_cpu_wait(run);
}

void eco_cpu_after_product(const struct eco_cpu_run *run)
{
    if (!run->own_units)
        eco_cpu_wait(run);
}
