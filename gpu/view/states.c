/*
 * Sets the states of a step in a stage's call; copies y for backward steps where needed.
 */
#include "gpu/view/run.h"

/* ---- backward -------------------------------------------------------------------------------- */

static void move(struct eco_gpu_run *run, const struct eco_move_call *call)
{
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(call, run->stream), "copying states");
}

void eco_gpu_copy_history(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    const struct eco_view *history = &bound->next[0];
    const int32_t before = op->reversed ? op->t1 : op->t0 - 1;
    const bool inside = before >= 0 && before < run->args->T;
    const int32_t from = inside && !op->reversed ? before : op->t0;
    if (!bound->copied)
        return;
    const struct eco_plane initial = eco_gpu_plane(&bound->before_first[0], bound->first);
    struct eco_move_call call = {.to = eco_gpu_plane(history, from),
                                 .from = eco_gpu_plane(&bound->y, from),
                                 .padding = op->reversed ? initial : (struct eco_plane){0},
                                 .steps = op->t1 - op->t0 + (int32_t)inside,
                                 .rows = run->args->N,
                                 .width = run->problem->P,
                                 .t0 = from,
                                 .lengths = run->args->lengths};
    call.zeros = (int32_t)call.to.row - call.width;
    move(run, &call);
    call.to = eco_gpu_plane(history, before);
    call.from = initial;
    call.steps = 1;
    call.lengths = NULL;
    if (!inside)
        move(run, &call);
}

static void point_at_kept(const struct eco_bound *bound, int32_t t, int s,
                          struct eco_stage_call *call)
{
    const struct eco_plane before = eco_gpu_plane(eco_bound_before(bound, s, t), t),
                           next = eco_gpu_plane(&bound->next[s], t);
    const bool zero = before.data == NULL; /* then any valid address is read */
    call->state[s] = zero ? next.data : before.data;
    call->next[s] = next.data;
    call->state_row[s] = zero ? next.row : before.row;
    call->next_row[s] = next.row;
    call->zero_states = (uint16_t)((call->zero_states & ~(1u << s)) | (unsigned)zero << s);
}

/* ---- forward and backward -------------------------------------------------------------------- */

static void point_at_planes(const struct eco_gpu_run *run, const struct eco_bound *bound, int32_t t,
                            int s, struct eco_stage_call *call)
{
    const struct eco_view *next = &bound->next[s];
    call->state[s] = eco_view_at(&bound->before[s], t);
    call->next[s] = eco_view_at(next, t);
    call->state_row[s] = call->next_row[s] = next->row;
    if (next->type != run->layout->type) {
        call->wide_states |= (uint16_t)(1u << s);
        call->wide_next |= (uint16_t)(1u << s);
    }
    if (s > 0 && eco_layout_copies_states(run->layout)) {
        call->kept[s] = eco_view_at(&bound->checkpoint[s], t);
        call->kept_row[s] = bound->checkpoint[s].row;
    }
}

void eco_gpu_point_at_states(const struct eco_gpu_run *run, const struct eco_bound *bound,
                             int32_t t, struct eco_stage_call *call)
{
    call->t = call->reset_t = t;
    call->resets = eco_gpu_resets(run, t);
    if (!run->args->backward)
        call->zero_states = t == bound->first ? eco_gpu_zero_states(run) : 0;
    for (int s = 0; s < call->n_states; s++) {
        if (run->args->backward)
            point_at_kept(bound, t, s, call);
        else
            point_at_planes(run, bound, t, s, call);
    }
}
