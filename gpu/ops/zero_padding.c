/*
 * Fills the padding of rows with zeros. Code that writes whole rows, such as the gathered input or
 * a copy of y, writes their padding itself.
 */
#include "gpu/ops/ops.h"

/* Sets the padding of rows to 0. It follows the `width` elements of each of `times` rows, which are
 * `row` elements apart. */
static void fill(struct eco_gpu_run *run, const struct eco_view *view, size_t width, size_t row,
                 size_t times)
{
    const struct eco_gaps_call call = {
        .data = eco_gpu_after(view->first, width, view->type),
        .row = row,
        .width = (int32_t)(eco_request_row(&run->layout->request, width) - width),
        .times = (int64_t)times,
        .bytes = eco_type_bytes(view->type)};
    if (call.width > 0 && run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_gaps(&call, run->stream), "filling up rows");
}

/* Fills the padding of columns that are H wide, in `steps` steps. */
static void fill_columns(struct eco_gpu_run *run, const struct eco_op *op, enum eco_scratch scratch,
                         int32_t steps)
{
    const struct eco_view view = eco_bind_scratch(run->layout, run->args, op, scratch);
    const size_t column = (size_t)eco_gpu_column(run);
    fill(run, &view, (size_t)run->problem->H, column,
         view.row / column * (size_t)steps * (size_t)run->layout->N);
}

/* Are planes used in turn? Then each direction has its own padded part of a row;
 * otherwise the layer above reads both directions as one row. */
static bool takes_turns(const struct eco_view *planes)
{
    return planes->mask != SIZE_MAX;
}

bool eco_gpu_fills_state(const struct eco_gpu_run *run, const struct eco_view *planes)
{
    return run->problem->D == 1 || takes_turns(planes);
}

static void fill_planes(struct eco_gpu_run *run, const struct eco_op *op,
                        const struct eco_view *state, int32_t width)
{
    const bool turns = takes_turns(state);
    const size_t planes = turns ? state->mask + 1 : (size_t)run->layout->T + 2;
    const size_t parts = turns ? 1 : (size_t)run->problem->D;
    if (turns || op->d == 0)
        fill(run, state, parts * (size_t)width, state->row, planes * (size_t)run->layout->N);
}

void eco_gpu_fill_rows(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const bool persistent = eco_gpu_is_batched(run, ECO_STEP);
    if (!run->layout->request.gpu.padded)
        return;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        bool read = s == 0 && !takes_turns(&bound->before[0]);
        for (int o = 0; o < run->lowered->n_operands; o++)
            read |= !persistent && run->lowered->operand[o].state == s;
        if (read)
            fill_planes(run, bound->op, &bound->before[s], eco_problem_width(run->problem, s));
    }
    fill_columns(run, bound->op, ECO_SCRATCH_OPERAND, 1);
}

void eco_gpu_fill_columns(struct eco_gpu_run *run, const struct eco_op *op)
{
    fill_columns(run, op, ECO_SCRATCH_DACC, run->layout->weights_steps);
    fill_columns(run, op, ECO_SCRATCH_OPERAND, run->layout->weights_steps);
}
