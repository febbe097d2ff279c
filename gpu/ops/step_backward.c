/*
 * The steps of backward: the fused kernels of the gradient and one product back through R.
 */
#include "gpu/gemm/packed_weights.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/ops/ops.h"
#include "gpu/wide_step/wide_step.h"

/* What stays the same over the steps of an op. */
struct step {
    struct eco_gpu_run *run;
    const struct eco_bound *bound;
    struct eco_stage_call call;
    bool odd;
    int32_t slices; /* of most products with R; see slices_of() */
    bool halves;    /* dacc is stored in F16: */
    struct eco_scaled_f16_steps f16;
};

static void point_at_step(struct step *step, int32_t t)
{
    const struct eco_gpu_run *run = step->run;
    const struct eco_bound *bound = step->bound;
    struct eco_stage_call *call = &step->call;
    step->odd = t % 2 != 0;
    eco_gpu_point_at_states(run, bound, t, call);
    call->zero_carry = t == bound->last ? eco_gpu_zero_carry(run) : 0;
    for (int s = 0; s < call->n_states; s++)
        call->carry[s] = (void *)bound->carry[s].first;
    call->save = eco_view_at(&bound->save, t);
    call->dacc = eco_view_at(&bound->acc, t);
    call->operand = eco_view_at(&bound->operand, t);
    call->dy = eco_view_at(&bound->dy, t);
}

/* Do the products of steps add the carried gradient directly to dh, which already holds dy? Not if
 * dy or the sums of several products would be rounded once more, nor if rows end early or are
 * reset. */
static bool adds_to_dh(const struct eco_gpu_run *run, const struct eco_bound *bound)
{
    struct eco_acc_range span, more;
    return run->problem->projected && eco_args_whole(run->args) && run->args->dstates[0] == NULL &&
           bound->dy.first != NULL && bound->dy.type == bound->h.type &&
           eco_acc_range_next(run->lowered, ECO_WEIGHT_RECURRENT, 0, &span) &&
           !eco_acc_range_next(run->lowered, ECO_WEIGHT_RECURRENT, span.end, &more);
}

static int32_t first_back(const struct eco_op *op)
{
    return op->reversed ? op->t0 : op->t1 - 1;
}

/* Copies dy to dh for the steps of an op whose products add to dh. */
static void begin_dh(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    if (op->t1 - op->t0 <= 1 || !adds_to_dh(run, bound))
        return;
    const struct eco_move_call call = {.to = eco_gpu_plane(&bound->h, op->t0),
                                       .from = eco_gpu_plane(&bound->dy, op->t0),
                                       .steps = op->t1 - op->t0,
                                       .rows = run->args->N,
                                       .width = run->problem->P,
                                       .t0 = op->t0};
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(&call, run->stream), "gradients of a projection");
}

/* Computes the gradient of u = dh P, which replaces the carry in the stages. */
static void project_back(struct step *step, int32_t t)
{
    struct eco_gpu_run *run = step->run;
    const struct eco_bound *bound = step->bound;
    struct eco_stage_call *call = &step->call;
    const ecornn_type sum = run->layout->sum;
    const int32_t then = t + call->then;
    struct eco_project_back_call back = {.dh = eco_gpu_plane(&bound->h, t),
                                         .carry = {call->carry[0], 0, call->carry_row[0], sum},
                                         .dy = {(void *)(uintptr_t)call->dy, 0, call->dy_row,
                                                call->wide_dy ? sum : run->layout->type},
                                         .rows = run->args->N,
                                         .width = run->problem->P,
                                         .t = t,
                                         .lengths = run->args->lengths};
    back.cut = (struct eco_cut_call){
        .sum = {call->dstart[0], 0, call->carry_row[0], sum},
        .carry = back.carry,
        .resets = run->cuts_before ? NULL : eco_gpu_resets_of(run, bound->op, then),
        .lengths = run->args->lengths,
        .t = eco_op_reset(bound->op, then)};
    if (run->status == ECORNN_OK && (t == first_back(bound->op) || !adds_to_dh(run, bound)))
        eco_gpu_note_cuda(run, eco_launch_project_back(&back, run->stream), "a projection back");
    eco_gpu_multiply_back(run, &(struct eco_matmul){.op = bound->op,
                                                    .weight_id = ECO_WEIGHT_PROJECT,
                                                    .rows = run->args->N,
                                                    .a = back.dh.data,
                                                    .a_row = back.dh.row,
                                                    .c = bound->du.first,
                                                    .c_row = bound->du.row});
    call->dnext = (void *)bound->du.first;
    call->dnext_row = bound->du.row;
    call->next[0] = eco_view_at(&bound->u, t);
    call->next_row[0] = bound->u.row;
    call->dy = NULL;
    call->carry[0] = NULL;
}

/* Does the cell leave 0 as the gradient of the state before, so that a product with R may replace
 * it instead of adding to it? Not in rows that have ended, where the gradient stays. */
static bool is_replaced(const struct step *step, int state)
{
    const struct eco_gpu_run *run = step->run;
    return eco_wide_leaves_zero(run->lowered, state) && !run->problem->projected &&
           eco_args_whole(run->args);
}

/* ---- products in slices ---------------------------------------------------------------------- */

/*
 * A product of few rows has fewer tiles than the device has multiprocessors. Cut along k it has
 * more, and the next step's kernel adds the slices' sums, each in a plane of the carry. Only that
 * kernel knows planes: the step that is first in time, whose states may be in other arrays, has one
 * carry, and so has the last.
 */
static int32_t slices_of(struct step *step)
{
    const struct eco_gpu_run *run = step->run;
    const struct eco_args *args = run->args;
    const int32_t planes = run->layout->request.gpu.carry_planes;
    if (planes <= 1 || args->T < ECO_WIDE_CUT_STEPS || !eco_args_whole(args) ||
        eco_args_have_dstates(args))
        return 1;
    point_at_step(step, 1); /* any step between the first and the last has the same alignment */
    const bool takes = eco_wide_takes_back(run, &step->call);
    return !takes ? 1 : is_replaced(step, 0) ? planes : planes - 1;
}

/* The planes that step t adds; the first one may have what the cell itself left. */
static int32_t planes_of(const struct step *step, int32_t t)
{
    const struct eco_bound *bound = step->bound;
    return step->slices > 1 && t != bound->first && t != bound->last
               ? step->slices + !is_replaced(step, 0)
               : 1;
}

/* Multiplies dacc of step t into the carry of the step before in time. */
static bool multiply_slices(const struct step *step, int32_t t)
{
    struct eco_gpu_run *run = step->run;
    const struct eco_bound *bound = step->bound;
    const int32_t next = bound->op->reversed ? t + 1 : t - 1;
    const struct eco_view *carry = &bound->carry[0];
    if (step->slices == 1 || t == bound->first || next == bound->first)
        return false;
    const size_t plane = (size_t)run->args->N * carry->row;
    eco_gpu_multiply_back(
        run, &(struct eco_matmul){
                 .op = bound->op,
                 .weight_id = ECO_WEIGHT_RECURRENT,
                 .rows = run->args->N,
                 .a = step->call.dacc,
                 .a_row = step->call.dacc_row,
                 .c = eco_gpu_after(carry->first, is_replaced(step, 0) ? 0 : plane, carry->type),
                 .c_row = carry->row,
                 .c_type = carry->type,
                 .slices = step->slices});
    return true;
}

/* ---- one step -------------------------------------------------------------------------------- */

/* c (+)= dacc R of operand o, over all its accumulators. narrow: rows of c have no padding. */
static void multiply_back(const struct step *step, int o, const struct eco_plane *c, bool narrow,
                          bool add)
{
    eco_gpu_multiply_back(
        step->run, &(struct eco_matmul){.op = step->bound->op,
                                        .weight_id = ECO_WEIGHT_RECURRENT + o,
                                        .rows = step->run->args->N,
                                        .a = step->call.dacc,
                                        .a_row = step->call.dacc_row * (step->halves ? 2 : 1),
                                        .c = c->data,
                                        .c_row = c->row,
                                        .c_type = c->type,
                                        .scaled = step->halves ? &step->f16.recurrent : NULL,
                                        .narrow = narrow,
                                        .add = add,
                                        .odd = step->odd});
}

/* Adds the gradients of the states of every step to the carried ones. With resets, the carried ones
 * are first set to zero in rows that are reset. */
static void add_dstates(const struct step *step, int32_t t)
{
    struct eco_gpu_run *run = step->run;
    const struct eco_bound *bound = step->bound;
    const int32_t then = t + step->call.then;
    for (int s = 0; s < step->call.n_states; s++) {
        const struct eco_view none = {0};
        const int32_t width = eco_problem_width(run->problem, s);
        const struct eco_cut cut = {.op = bound->op,
                                    .sum = step->call.dstart[s] ? bound->dstart[s] : none,
                                    .carry = bound->carry[s],
                                    .t = then,
                                    .width = width};
        const struct eco_move add = {.op = bound->op,
                                     .to = bound->carry[s],
                                     .from = bound->all_states[s],
                                     .t = t,
                                     .steps = 1,
                                     .width = width,
                                     .rows = ECO_ROWS_CLEARED,
                                     .add = true};
        if (eco_gpu_resets_of(run, bound->op, then) != NULL)
            eco_gpu_cut(run, &cut);
        if (add.from.first != NULL)
            eco_gpu_move(run, &add);
    }
}

/* Is the gradient that the direction's first step leaves for this state not needed? */
static bool is_unwanted(const struct step *step, int32_t t, int state)
{
    const struct eco_args *args = step->run->args;
    return t == step->bound->first && args->dinitial[state] == NULL &&
           args->dreset_state[state] == NULL;
}

/* How step t stores dacc and the gradient of state 0. */
static struct eco_wide_back back_of(const struct step *step, int32_t t)
{
    const struct eco_gpu_run *run = step->run;
    const size_t rows = (size_t)run->args->N;
    struct eco_wide_back back = {.planes = planes_of(step, t),
                                 .plane = rows * step->call.carry_row[0]};
    if (step->halves) {
        back.scales = step->f16.scales + (size_t)(t - step->bound->op->t0) * rows;
        back.before = t == step->bound->last ? NULL : step->f16.last[(t + 1) % 2];
        back.after = step->f16.last[t % 2];
    }
    return back;
}

static void run_step(struct step *step, int32_t t)
{
    struct eco_gpu_run *run = step->run;
    const struct eco_lowered *lowered = run->lowered;
    struct eco_stage_call *call = &step->call;
    const struct eco_bound *bound = step->bound;
    const struct eco_op *op = bound->op;
    point_at_step(step, t);
    run->back = back_of(step, t);
    call->replaced = 0;
    for (int o = 0; o < lowered->n_operands; o++) {
        const int state = lowered->operand[o].state;
        if (state >= 0 && !is_unwanted(step, t, state) && is_replaced(step, state))
            call->replaced |= (uint16_t)(1u << state);
    }
    if (eco_args_have_dstates(run->args))
        add_dstates(step, t);
    if (run->problem->projected)
        project_back(step, t);
    for (int stage = 0; stage < lowered->n_backward; stage++) {
        for (int o = 0; o < lowered->n_operands; o++) {
            const struct eco_operand *operand = &lowered->operand[o];
            const size_t column = (size_t)operand->slot * (size_t)call->column;
            if (operand->state < 0 && operand->backward == stage)
                multiply_back(
                    step, o,
                    &(struct eco_plane){eco_gpu_after(call->doperand, column, run->layout->sum), 0,
                                        call->doperand_row, run->layout->sum},
                    false, false);
        }
        eco_gpu_stage(run, true, stage, call);
    }
    for (int o = 0; o < lowered->n_operands; o++) {
        const int state = lowered->operand[o].state;
        if (state < 0 || is_unwanted(step, t, state) || multiply_slices(step, t))
            continue;
        const int32_t next = op->reversed ? t + 1 : t - 1;
        const bool to_dh =
            o == 0 && state == 0 && next >= op->t0 && next < op->t1 && adds_to_dh(run, bound);
        const struct eco_plane c =
            to_dh ? eco_gpu_plane(&bound->h, next) : eco_gpu_plane(&bound->carry[state], 0);
        multiply_back(step, o, &c, to_dh, !(call->replaced >> state & 1));
        call->replaced &= (uint16_t) ~(1u << state);
        if (step->halves && t == bound->first)
            eco_gpu_scaled_f16_unscale(run, &c, run->problem->H, run->back.scales);
    }
}

void eco_gpu_d_step(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    struct step step = {.run = run, .bound = bound, .call = eco_gpu_call(run, bound)};
    struct eco_stage_call *call = &step.call;
    for (int s = 0; s < call->n_states; s++)
        call->carry_row[s] = bound->carry[s].row;
    call->dacc_row = bound->acc.row;
    call->operand_row = bound->operand.row;
    call->save_row = bound->save.row;
    call->dy_row = bound->dy.row;
    call->wide_dy = bound->dy.type != run->layout->type;
    call->doperand = (void *)bound->doperand.first;
    call->doperand_row = bound->doperand.row;
    eco_gpu_copy_history(run, bound);
    if (run->args->dweights != NULL)
        eco_gpu_patch_states(run, bound, op->t0, op->t1);
    begin_dh(run, bound);
    run->cuts_before = eco_args_have_dstates(run->args);
    step.halves = eco_gpu_halves_back(run);
    if (step.halves)
        step.f16 = eco_gpu_scaled_f16_steps(run, op);
    step.slices = slices_of(&step);
    for (int32_t i = 0; i < op->t1 - op->t0; i++)
        run_step(&step, op->reversed ? op->t0 + i : op->t1 - 1 - i);
}
