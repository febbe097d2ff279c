/*
 * A run as kernels see it: addresses, the verbs MOVE and CUT, rows that restart within a sequence,
 * and the states of a step. The first failure is kept.
 */
#include "gpu/view/run.h"

void eco_gpu_note_cuda(struct eco_gpu_run *run, cudaError_t error, const char *doing)
{
    if (run->status == ECORNN_OK)
        run->status = eco_cuda_status(error, doing);
}

/* ---- rows and weights as kernels address them ------------------------------------------------ */

void *eco_gpu_after(const void *p, size_t elements, ecornn_type type)
{
    return (void *)((uintptr_t)p + elements * eco_type_bytes(type));
}

struct eco_plane eco_gpu_plane(const struct eco_view *view, int32_t t)
{
    return (struct eco_plane){eco_view_at(view, t), view->step / eco_type_bytes(view->type),
                              view->row, view->type};
}

const void *eco_gpu_weights(const struct eco_gpu_run *run, const struct eco_op *op, int weight_id)
{
    if (!run->layout->request.gpu.widened || weight_id == ECO_WEIGHT_VECTORS)
        return eco_bind_weights(run->layout, run->args, op, weight_id);
    return eco_bind_array(run->layout, run->args, op, ECO_INNER_WIDENED, weight_id).first;
}

bool eco_gpu_reads_bytes(const struct eco_gpu_run *run)
{
    return run->layout->weight == ECORNN_S8 && !run->layout->request.gpu.widened;
}

const float *eco_gpu_scales(const struct eco_gpu_run *run, const struct eco_op *op, int weight_id)
{
    const char *const bytes = eco_bind_weights(run->layout, run->args, op, weight_id);
    return (const float *)(const void *)(bytes + eco_matrix_scales(eco_layout_matrix(
                                                     run->layout, op->layer, weight_id)));
}

int32_t eco_gpu_column(const struct eco_gpu_run *run)
{
    return (int32_t)eco_layout_acc_blocks(run->layout).column;
}

/* ---- resets ---------------------------------------------------------------------------------- */

const uint8_t *eco_gpu_resets(const struct eco_gpu_run *run, int32_t t)
{
    const bool there = run->args->resets != NULL && t >= 0;
    return there ? run->args->resets + (size_t)t * (size_t)run->args->N : NULL;
}

const uint8_t *eco_gpu_resets_of(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t)
{
    const int32_t at = eco_op_reset(op, t);
    return t >= 0 && at < run->args->T ? eco_gpu_resets(run, at) : NULL;
}

struct eco_plane eco_gpu_starts(const struct eco_gpu_run *run, const struct eco_bound *bound, int s)
{
    return run->args->resets != NULL ? eco_gpu_plane(&bound->start[s], 0) : (struct eco_plane){0};
}

uint16_t eco_gpu_zero_states(const struct eco_gpu_run *run)
{
    const struct eco_args *args = run->args;
    uint16_t zero = 0;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const bool starts = args->resets != NULL && args->reset_state[s] != NULL;
        zero |= (uint16_t)((args->initial[s] == NULL && !starts) << s);
    }
    /* a projection's kernel leaves rows that have ended as they are */
    return run->problem->projected && run->args->lengths != NULL ? zero & (uint16_t)~1u : zero;
}

uint16_t eco_gpu_zero_carry(const struct eco_gpu_run *run)
{
    uint16_t zero = 0;
    for (int s = 0; s < run->problem->cell->recipe.n_states && !run->problem->projected; s++)
        zero |= (uint16_t)((run->args->dfinal[s] == NULL && run->args->dstates[s] == NULL) << s);
    return zero;
}

bool eco_gpu_begins_in_planes(const struct eco_gpu_run *run)
{
    const unsigned all = (1u << run->problem->cell->recipe.n_states) - 1;
    return run->args->resets != NULL && eco_gpu_zero_states(run) != all;
}

/* ---- verbs ----------------------------------------------------------------------------------- */

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
                                 .spreads = move->spreads,
                                 .sums = move->sums,
                                 .add = move->add,
                                 .drop = move->drop,
                                 .layer = move->op->layer,
                                 .seed = run->args->seed,
                                 .draw_step = run->args->first_step,
                                 .draw_row = run->args->first_row,
                                 .threshold = move->threshold,
                                 .scale = move->scale};
    call.from.step *= (size_t)move->every;
    /* a caller may leave anything in rows that have ended */
    if (move->rows == ECO_ROWS_CLEARED || (move->rows == ECO_ROWS_LIVE && move->from.caller))
        call.lengths = run->args->lengths;
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
        struct eco_move_call call = call_of(run, move);
        call.orders = run->args->T == 1; /* the gain was measured there alone */
        call.overlap = call.orders && eco_launch_after(&run->launch);
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

/* ---- states with starts ---------------------------------------------------------------------- */

/* The states before the direction's first step are elsewhere. */
void eco_gpu_patch_states(struct eco_gpu_run *run, const struct eco_bound *bound, int32_t t0,
                          int32_t t1)
{
    for (int s = 0; run->args->resets != NULL && s < run->problem->cell->recipe.n_states; s++) {
        const bool begins = bound->begins[s] && t0 <= bound->first && bound->first < t1;
        const int32_t from = t0 + (int32_t)(begins && bound->first == t0),
                      end = t1 - (int32_t)(begins && bound->first != t0);
        struct eco_move move = {.op = bound->op,
                                .to = bound->with_resets[s],
                                .to_t = from,
                                .from = bound->before[s],
                                .t = from,
                                .start = bound->start[s],
                                .steps = end - from,
                                .every = 1,
                                .width = eco_problem_width(run->problem, s),
                                .resets = true,
                                .pads = true};
        if (move.to.first == NULL)
            continue;
        if (move.steps > 0)
            eco_gpu_move(run, &move);
        move.from = bound->before_first[s];
        move.to_t = move.t = bound->first;
        move.steps = 1;
        if (begins)
            eco_gpu_move(run, &move);
    }
}

/* ---- copies of y for backward steps ---------------------------------------------------------- */

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

/* ---- the caller's states --------------------------------------------------------------------- */

void eco_gpu_point_at_initial(const struct eco_gpu_run *run, const struct eco_op *op,
                              uint16_t which, struct eco_stage_call *call)
{
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_view from =
            eco_bind_caller_state(run->layout, run->args, op, s, run->args->initial[s]);
        const bool zero = from.first == NULL; /* then any valid address is read */
        if (!(which >> s & 1))
            continue;
        call->state[s] = zero ? call->next[s] : from.first;
        call->state_row[s] = zero ? call->next_row[s] : from.row;
        call->zero_states |= (uint16_t)((unsigned)zero << s);
        call->wide_states &= (uint16_t) ~(1u << s);
    }
}

void eco_gpu_point_at_final(const struct eco_gpu_run *run, const struct eco_bound *bound,
                            uint16_t which, struct eco_stage_call *call)
{
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_view to =
            eco_bind_caller_state(run->layout, run->args, bound->op, s, run->args->final[s]);
        if (to.first == NULL || !(which >> s & 1))
            continue;
        if (bound->next[s].mask != SIZE_MAX) {
            call->next[s] = (void *)to.first;
            call->next_row[s] = to.row;
            call->wide_next &= (uint16_t) ~(1u << s);
        } else {
            call->y = (void *)to.first;
            call->y_row = to.row;
        }
    }
}

/* May a step of inference address the caller's array of state s in place of a plane? Training reads
 * planes again; a projection knows only planes; rows that end early or start again are left out. */
static bool can_address(const struct eco_gpu_run *run, const struct eco_bound *bound, int s,
                        const void *array)
{
    const struct eco_problem *problem = run->problem;
    const size_t row = (size_t)eco_problem_width(problem, s) * eco_type_bytes(run->layout->type);
    return array != NULL && run->args->reserve == NULL && eco_args_whole(run->args) &&
           !problem->projected && bound->next[s].mask != SIZE_MAX &&
           (row | (uintptr_t)array) % 16 == 0;
}

uint16_t eco_gpu_begins_at_caller(const struct eco_gpu_run *run, const struct eco_bound *bound)
{
    uint16_t which = 0;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++)
        which |= (uint16_t)(can_address(run, bound, s, run->args->initial[s]) << s);
    return which;
}

/* A later stage may read what an earlier one writes, in the type of planes. A step in place, which
 * also ends the run, must have read the output state before it writes it: not if blocks of one
 * launch read each other's units. */
uint16_t eco_gpu_ends_at_caller(const struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_gpu_plan *own = run->plan->context;
    const struct eco_args *args = run->args;
    const bool in_place = args->T == 1 && args->final[0] == args->initial[0],
               one_launch = eco_step_shape_for(&own->steps, args->N).wide >= 0;
    uint16_t which = 0;
    for (int s = 0; s < run->problem->cell->recipe.n_states && run->lowered->n_forward == 1; s++)
        if (s > 0 || !in_place || !one_launch)
            which |= (uint16_t)(can_address(run, bound, s, args->final[s]) << s);
    return which;
}
