/*
 * The verbs MOVE and CUT, a launch each.
 */
#include "gpu/view/run.h"

static struct eco_patch_call patch_of(const struct eco_gpu_run *run, const struct eco_move *move)
{
    const int32_t t = eco_op_reset(move->op, move->t);
    return (struct eco_patch_call){.to = eco_gpu_plane(&move->to, move->to_t),
                                   .from = eco_gpu_plane(&move->from, move->t),
                                   .start = eco_gpu_plane(&move->start, 0),
                                   .resets = eco_gpu_resets(run, t),
                                   .lengths = run->args->lengths,
                                   .steps = move->steps,
                                   .rows = run->args->N,
                                   .width = move->width,
                                   .t0 = t,
                                   .end = run->args->T,
                                   .zeros = move->pads ? (int32_t)move->to.row - move->width : 0};
}

static struct eco_move_call call_of(const struct eco_gpu_run *run, const struct eco_move *move)
{
    struct eco_move_call call = {.to = eco_gpu_plane(&move->to, move->to_t),
                                 .from = eco_gpu_plane(&move->from, move->t),
                                 .steps = move->steps,
                                 .rows = run->args->N,
                                 .width = move->width,
                                 .t0 = move->t,
                                 .zeros = move->pads ? (int32_t)move->to.row - move->width : 0,
                                 .add = move->add,
                                 .drop = move->drop,
                                 .layer = move->op->layer,
                                 .seed = run->args->seed,
                                 .draw_step = run->args->first_step,
                                 .draw_row = run->args->first_row,
                                 .threshold = move->threshold,
                                 .scale = move->scale};
    call.from.step *= (size_t)move->every;
    call.lengths = move->rows == ECO_ROWS_CLEARED ? run->args->lengths : NULL;
    return call;
}

/* Arrays of a GPU have a row's last state in the plane after the run's last step. */
void eco_gpu_move(void *context, const struct eco_move *move)
{
    struct eco_gpu_run *run = context;
    if (run->status != ECORNN_OK)
        return;
    if (move->resets) {
        const struct eco_patch_call call = patch_of(run, move);
        eco_gpu_note_cuda(run, eco_launch_patch(&call, run->stream), "resetting states");
    } else {
        const struct eco_move_call call = call_of(run, move);
        eco_gpu_note_cuda(run, eco_launch_move(&call, run->stream), "moving rows");
    }
}

void eco_gpu_cut(void *context, const struct eco_cut *cut)
{
    struct eco_gpu_run *run = context;
    const struct eco_cut_call call = {.sum = eco_gpu_plane(&cut->sum, 0),
                                      .carry = eco_gpu_plane(&cut->carry, 0),
                                      .resets = eco_gpu_resets_of(run, cut->op, cut->t),
                                      .lengths = run->args->lengths,
                                      .rows = run->args->N,
                                      .width = cut->width,
                                      .t = eco_op_reset(cut->op, cut->t)};
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_cut(&call, run->stream), "gradients of starts");
}
