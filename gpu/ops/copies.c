/*
 * The ops that only move rows.  Knows padding and dropout; computes nothing of a cell.
 */
#include "gpu/gemm/packed_weights.h"
#include "gpu/ops/ops.h"

#define ECO_DEVICE_FUNCTION static inline
#include "common/number.h"

/* ---- states in and out ----------------------------------------------------------------------- */

static void move(struct eco_gpu_run *run, const struct eco_move_call *call)
{
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(call, run->stream), "moving rows");
}

/* Copies one state of step t between a plane of ours and the caller's array, if there is one. */
static void move_state(struct eco_gpu_run *run, int s, const struct eco_view *to,
                       const struct eco_view *from, int32_t t)
{
    const struct eco_move_call call = {.to = eco_gpu_plane(to, t),
                                       .from = eco_gpu_plane(from, t),
                                       .steps = 1,
                                       .rows = run->args->N,
                                       .width = eco_problem_width(run->problem, s)};
    if (call.to.data != NULL)
        move(run, &call);
}

static int states(const struct eco_gpu_run *run)
{
    return run->problem->cell->recipe.n_states;
}

void eco_gpu_begin(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    eco_gpu_copy_weights(run, bound->op);
    eco_gpu_fill_rows(run, bound);
    for (int s = 0; s < states(run) && eco_gpu_begins_in_planes(run); s++)
        eco_gpu_patch(run, bound, s, eco_gpu_plane(&bound->before[s], bound->first),
                      eco_gpu_plane(&bound->initial[s], 0), bound->first);
    if (run->args->resets != NULL)
        return;
    for (int s = 0; s < states(run) && !eco_gpu_begins_itself(run, ECO_STEP); s++)
        if (!(eco_gpu_zero_states(run) >> s & 1))
            move_state(run, s, &bound->before[s], &bound->initial[s], bound->first);
}

void eco_gpu_end_state(struct eco_gpu_run *run, const struct eco_bound *bound, int s)
{
    move_state(run, s, &bound->final[s], &bound->next[s], bound->last);
}

/* Copies the states of all steps to the caller, from the copies that a lean run made or, chunk by
 * chunk, from those of a replay. */
void eco_gpu_show_states(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    for (int s = 0; s < states(run) && run->problem->states; s++) {
        const struct eco_move_call call = {
            .to = eco_gpu_plane(&bound->all_states[s], 0),
            .from = eco_gpu_plane(s == 0 ? &bound->y : &bound->checkpoint[s], 0),
            .steps = run->args->T,
            .rows = run->args->N,
            .width = eco_problem_width(run->problem, s),
            .lengths = run->args->lengths};
        if (call.to.data != NULL && (s == 0 || eco_layout_copies_direct(run->layout)))
            move(run, &call);
    }
}

void eco_gpu_end(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    eco_gpu_show_states(run, bound);
    for (int s = 0; s < states(run); s++)
        eco_gpu_end_state(run, bound, s);
}

void eco_gpu_d_begin(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    eco_gpu_copy_weights(run, bound->op);
    eco_gpu_fill_columns(run, bound->op);
    for (int s = 0; s < states(run) && run->args->resets != NULL; s++)
        if (run->args->dreset_state[s] != NULL)
            move_state(run, s, &bound->dstart[s], &(struct eco_view){0}, 0);
    for (int s = 0; s < states(run) && !eco_gpu_begins_itself(run, ECO_D_STEP); s++)
        if (!(eco_gpu_zero_carry(run) >> s & 1))
            move_state(run, s, &bound->carry[s], &bound->initial[s], 0);
}

/* With resets: adds the last contributions to the gradients of starts, and copies these to the
 * caller. */
static void end_starts(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_args *args = run->args;
    const bool resets = args->resets != NULL;
    for (int s = 0; s < states(run) && run->problem->resets; s++) {
        const bool wanted = args->dreset_state[s] != NULL;
        const struct eco_cut_call cut = {.sum = wanted ? eco_gpu_plane(&bound->dstart[s], 0)
                                                       : (struct eco_plane){0},
                                         .carry = eco_gpu_plane(&bound->carry[s], 0),
                                         .resets = eco_gpu_resets_of(run, bound->op, bound->first),
                                         .lengths = args->lengths,
                                         .rows = args->N,
                                         .width = eco_problem_width(run->problem, s),
                                         .t = eco_op_reset(bound->op, bound->first)};
        if (resets && (wanted || args->dinitial[s] != NULL) && run->status == ECORNN_OK)
            eco_gpu_note_cuda(run, eco_launch_cut(&cut, run->stream), "gradients of starts");
        move_state(run, s, &bound->dreset_state[s],
                   resets ? &bound->dstart[s] : &(struct eco_view){0}, 0);
    }
}

void eco_gpu_d_end(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    end_starts(run, bound);
    for (int s = 0; s < states(run); s++)
        move_state(run, s, &bound->final[s], &bound->carry[s], 0);
}

/* ---- gather and scatter ---------------------------------------------------------------------- */

/* A move of the rows of an op's steps, with dropout if the layer has it. */
static struct eco_move_call move_of(const struct eco_gpu_run *run, const struct eco_op *op)
{
    const double p = (double)run->problem->dropout;
    return (struct eco_move_call){.steps = op->t1 - op->t0,
                                  .rows = run->args->N,
                                  .width = eco_problem_input(run->problem, op->layer),
                                  .t0 = op->t0,
                                  .drop = op->layer > 0 && p > 0 && run->args->reserve != NULL,
                                  .layer = op->layer,
                                  .seed = run->args->seed,
                                  .draw_step = run->args->first_step,
                                  .draw_row = run->args->first_row,
                                  .threshold = eco_random_threshold(p),
                                  .scale = 1 / (1 - p)};
}

void eco_gpu_gather(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    struct eco_move_call call = move_of(run, op);
    if (run->args->backward && run->args->dweights == NULL && !eco_layout_replays(run->layout))
        return;
    call.to = eco_gpu_plane(&bound->gather, op->t0);
    call.from = eco_gpu_plane(&bound->x, op->t0);
    call.zeros = (int32_t)call.to.row - call.width;
    call.lengths = op->layer == 0 ? run->args->lengths : NULL;
    move(run, &call);
}

void eco_gpu_d_scatter(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    struct eco_move_call call = move_of(run, bound->op);
    call.add = bound->op->add;
    call.from = eco_gpu_plane(&bound->dgather, bound->op->t0);
    call.to = eco_gpu_plane(&bound->dx, bound->op->t0);
    if (call.to.data != NULL)
        move(run, &call);
}
