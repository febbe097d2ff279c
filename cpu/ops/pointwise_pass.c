/*
 * The common part of forward and backward pointwise passes: the call, the states that it points at,
 * each thread's part of the plane, and the points at which threads wait.
 */
#include "cpu/cpu.h"

struct eco_pointwise eco_cpu_call(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    const bool narrow =
        run->layout->type != run->layout->sum; /* otherwise every type is the type of sums */
    unsigned wide = 0;
    for (int s = 0; narrow && s < run->problem->cell->recipe.n_states; s++)
        if (bound->next[s].type == run->layout->sum)
            wide |= 1u << s;
    return (struct eco_pointwise){
        .wide_states = wide,
        .hidden = run->problem->H,
        .n_states = run->problem->cell->recipe.n_states,
        .outputs = run->problem->cell->recipe.n_outputs,
        .order = run->order,
        .y_order = op->layer == run->problem->L - 1 ? run->order : NULL,
        .training = run->args->reserve != NULL,
        .seed = run->args->seed,
        .layer = op->layer,
        .direction = op->d,
        .first_step = run->args->first_step,
        .first_row = run->args->first_row,
        .vector = eco_bind_weights(run->layout, run->args, op, ECO_WEIGHT_VECTORS),
        .mean = run->lowered->has_means ? bound->mean.first : NULL,
        .mean_row = bound->mean.row,
        .mean_units = run->problem->cell->recipe.head_means ? eco_problem_head(run->problem) : 0,
    };
}

void eco_cpu_point_at_states(const struct eco_bound *bound, int32_t t, struct eco_pointwise *call)
{
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_view *before = &bound->before[s], *next = &bound->next[s];
        call->state[s] = eco_view_at(before, t);
        call->next[s] = eco_view_at(next, t);
        call->state_row[s] = before->row;
        call->next_row[s] = next->row;
    }
}

bool eco_cpu_by_rows(const struct eco_cpu_run *run, int32_t rows, int threads)
{
    return !run->own_units && (rows >= 4 * threads || run->lowered->has_means);
}

void eco_cpu_take_part(const struct eco_cpu_run *run, int32_t t, struct eco_pointwise *call)
{
    const struct eco_range active = eco_cpu_step_rows(run, t),
                           rows = run->scans ? run->rows : active;
    const int32_t H = run->problem->H;
    const bool by_rows = eco_cpu_by_rows(run, rows.to - rows.from, run->count);
    struct eco_range row = by_rows ? eco_cpu_part_of(run, rows, 1) : rows;
    const struct eco_range unit =
        by_rows ? (struct eco_range){0, H} : eco_cpu_part(run, H, run->unit_group);
    row.to = row.to < active.to ? row.to : active.to;
    call->row0 = row.from;
    call->row1 = row.to;
    call->unit0 = unit.from;
    call->unit1 = unit.to;
}

bool eco_cpu_is_interpreted(const struct eco_problem *problem)
{
    return problem->cell->builtin < 0 || problem->cell->recipe.head_means;
}

eco_pointwise_kernel eco_cpu_stage_kernel(const struct eco_cpu_run *run, bool backward, int stage)
{
    if (eco_cpu_is_interpreted(run->problem))
        return run->kernels->interpret;
    const struct eco_cell_kernels *cell = &run->kernels->cell[run->problem->cell->builtin];
    return backward ? cell->backward[stage] : cell->forward[stage];
}

/* The number of rows that go through all stages while they are in the cache. Stages do not carry
 * values if there is no memory for even one row. */
static int32_t rows_of(const struct eco_cpu_run *run, bool backward, struct eco_pointwise *call)
{
    enum { NEAR_ROWS = 4 };
    const int32_t rows = run->layout->request.cpu.carried_rows[backward];
    call->carried = rows > 0 ? eco_cpu_scratch(run) : NULL;
    call->carried_column = eco_layout_carried_column(run->problem);
    call->carried_row = call->carried_column * (size_t)run->lowered->n_columns[backward];
    return rows > 0 ? rows : NEAR_ROWS;
}

/* Means also separate stages, but a mean depends on its own row only, so threads need not wait. */
void eco_cpu_pass(const struct eco_cpu_run *run, struct eco_pointwise *call, bool backward,
                  struct eco_range stage)
{
    const struct eco_program *program = backward ? run->lowered->backward : run->lowered->forward;
    const struct eco_range rows = {call->row0, call->row1};
    const bool several = stage.to - stage.from > 1;
    const int32_t some = several ? rows_of(run, backward, call) : rows.to - rows.from;
    for (int32_t row = rows.from; row < rows.to; row += some) {
        call->row0 = row;
        call->row1 = rows.to - row < some ? rows.to : row + some;
        for (int k = stage.from; k < stage.to; k++) {
            call->program = &program[k];
            eco_cpu_stage_kernel(run, backward, k)(call);
        }
    }
    call->row0 = rows.from, call->row1 = rows.to;
    call->carried = NULL;
}

void eco_cpu_after_pointwise(const struct eco_cpu_run *run)
{
    eco_cpu_wait(run);
}

void eco_cpu_after_step(const struct eco_cpu_run *run)
{
    if (!run->scans || run->args->resets != NULL || run->problem->states)
        eco_cpu_wait(run);
}

void eco_cpu_after_product(const struct eco_cpu_run *run)
{
    if (!run->own_units || run->helps)
        eco_cpu_wait(run);
}
