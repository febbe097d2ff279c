/*
 * Where steps find states.  Forward they lie in planes of the workspace that take turns.  What
 * backward reads of them is kept: the output state is y, the caller's or in lower layers the
 * reserve's; of the others there are rounded copies.  Knows initial states, order and padding.
 */
#include "gpu/view/run.h"

static int32_t first_step(const struct eco_gpu_run *run, const struct eco_op *op)
{
    return op->reversed ? run->args->T - 1 : 0;
}

struct eco_plane eco_gpu_y(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t)
{
    const size_t P = (size_t)run->problem->P;
    const bool last_layer = op->layer == run->problem->L - 1;
    if (!last_layer && run->layout->training) {
        const struct eco_array kept = eco_layout_kept(run->layout, op->layer, op->d, 0);
        return eco_gpu_plane(run, &kept, (size_t)t);
    }
    struct eco_plane y =
        eco_gpu_sequence(run, last_layer ? run->args->y : NULL, t, (size_t)run->problem->D * P);
    if (y.data != NULL)
        y.data = eco_gpu_after(y.data, (size_t)op->d * P, y.type);
    return y;
}

/* ---- backward -------------------------------------------------------------------------------- */

struct eco_plane eco_gpu_dy(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t)
{
    const size_t P = (size_t)run->problem->P;
    const bool last_layer = op->layer == run->problem->L - 1;
    struct eco_plane dy =
        eco_gpu_sequence(run, last_layer ? run->args->dy : NULL, t, (size_t)run->problem->D * P);
    if (!last_layer) {
        const struct eco_array above = eco_layout_dinput(run->layout, op->layer + 1);
        dy = eco_gpu_plane(run, &above, (size_t)t);
    }
    if (dy.data != NULL)
        dy.data = eco_gpu_after(dy.data, (size_t)op->d * P, dy.type);
    return dy;
}

/* Is y not what steps and products read: its rows no neighbours, or not wide enough, or padding
 * where a row's steps, which fall, begin from a state?  One answer for all of a run: launches take
 * both directions. */
static bool is_copied(const struct eco_gpu_run *run)
{
    const struct eco_problem *problem = run->problem;
    const bool falls = problem->direction != ECORNN_FORWARD;
    return (problem->order == ECORNN_BATCH_MAJOR && run->args->N > 1) ||
           eco_wishes_copy(&run->layout->wishes, (size_t)problem->P) ||
           (falls && run->args->lengths != NULL && run->args->initial[0] != NULL);
}

/* The copy: the output state before and after the steps of as many chunks as share their weight
 * gradients.  Steps that rise have the state before them one place ahead of that after them. */
static struct eco_plane history(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t)
{
    const struct eco_array array =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_HISTORY);
    const int32_t begin = op->t0 - (int32_t)eco_layout_dacc_step(run->layout, op);
    return eco_gpu_plane(run, &array, (size_t)(t - begin + (op->reversed ? 0 : 1)));
}

struct eco_plane eco_gpu_next(const struct eco_gpu_run *run, const struct eco_op *op, int s,
                              int32_t t)
{
    if (s == 0)
        return is_copied(run) ? history(run, op, t) : eco_gpu_y(run, op, t);
    const struct eco_array kept = eco_layout_kept(run->layout, op->layer, op->d, s);
    return eco_gpu_plane(run, &kept, (size_t)t);
}

bool eco_gpu_begins(const struct eco_gpu_run *run, const struct eco_op *op, int s, int32_t t)
{
    return t == first_step(run, op) && !(s == 0 && is_copied(run));
}

struct eco_plane eco_gpu_before(const struct eco_gpu_run *run, const struct eco_op *op, int s,
                                int32_t t)
{
    if (eco_gpu_begins(run, op, s, t))
        return eco_gpu_caller_state(run, op, s, run->args->initial[s]);
    return eco_gpu_next(run, op, s, op->reversed ? t + 1 : t - 1);
}

void eco_gpu_copy_history(struct eco_gpu_run *run, const struct eco_op *op)
{
    const int32_t before = op->reversed ? op->t1 : op->t0 - 1;
    const bool inside = before >= 0 && before < run->args->T;
    const int32_t from = inside && !op->reversed ? before : op->t0;
    const struct eco_plane initial = eco_gpu_caller_state(run, op, 0, run->args->initial[0]);
    struct eco_move_call call = {.to = history(run, op, from),
                                 .from = eco_gpu_y(run, op, from),
                                 .padding = op->reversed ? initial : (struct eco_plane){0},
                                 .steps = op->t1 - op->t0 + (int32_t)inside,
                                 .rows = run->args->N,
                                 .width = run->problem->P,
                                 .t0 = from,
                                 .lengths = run->args->lengths};
    call.filled = (int32_t)call.to.row - call.width;
    if (!is_copied(run))
        return;
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(&call, run->stream), "copying states");
    call.to = history(run, op, before);
    call.from = initial;
    call.steps = 1;
    call.lengths = NULL;
    if (!inside && run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(&call, run->stream), "copying states");
}

/* ---- forward --------------------------------------------------------------------------------- */

uint16_t eco_gpu_zero_states(const struct eco_gpu_run *run)
{
    uint16_t zero = 0;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++)
        zero |= (uint16_t)((run->args->initial[s] == NULL) << s);
    /* of rows that have ended a projection's kernel keeps what is there */
    return run->problem->projected && run->args->lengths != NULL ? zero & (uint16_t)~1u : zero;
}

/* ---- both ways ------------------------------------------------------------------------------- */

static void point_at_kept(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t, int s,
                          struct eco_stage_call *call)
{
    const struct eco_plane before = eco_gpu_before(run, op, s, t),
                           next = eco_gpu_next(run, op, s, t);
    const bool zero = before.data == NULL; /* then it is read from where something lies */
    call->state[s] = zero ? next.data : before.data;
    call->next[s] = next.data;
    call->state_row[s] = zero ? next.row : before.row;
    call->next_row[s] = next.row;
    call->zero_states = (uint16_t)((call->zero_states & ~(1u << s)) | (unsigned)zero << s);
}

static void point_at_planes(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t,
                            int s, struct eco_stage_call *call)
{
    const struct eco_array state = eco_layout_state(run->layout, op->layer, op->d, s);
    call->state[s] = eco_gpu_at(run, &state, eco_layout_state_plane(run->layout, op->d, t, false));
    call->next[s] = eco_gpu_at(run, &state, eco_layout_state_plane(run->layout, op->d, t, true));
    call->state_row[s] = call->next_row[s] = state.row;
    if (state.type != run->layout->type) {
        call->wide_states |= (uint16_t)(1u << s);
        call->wide_next |= (uint16_t)(1u << s);
    }
    if (s > 0 && run->layout->training) {
        const struct eco_plane kept = eco_gpu_next(run, op, s, t);
        call->kept[s] = kept.data;
        call->kept_row[s] = kept.row;
    }
}

void eco_gpu_point_at_states(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t,
                             struct eco_stage_call *call)
{
    call->t = t;
    if (!run->args->backward)
        call->zero_states = t == first_step(run, op) ? eco_gpu_zero_states(run) : 0;
    for (int s = 0; s < call->n_states; s++)
        (run->args->backward ? point_at_kept : point_at_planes)(run, op, t, s, call);
}
