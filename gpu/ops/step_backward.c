/*
 * The backward operations: per step the fused kernels of the gradient and one product back through
 * R; dx as a large product over all steps of the op.
 */
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/ops/ops.h"

/* What stays the same over the steps of an op. */
struct step {
    struct eco_gpu_run *run;
    const struct eco_op *op;
    struct eco_array dacc, operand, carry[ECO_MAX_STATES];
    struct eco_stage_call call;
    bool odd;
};

static void point_at_step(struct step *step, int32_t t)
{
    const struct eco_gpu_run *run = step->run;
    const struct eco_op *op = step->op;
    struct eco_stage_call *call = &step->call;
    const size_t i = eco_layout_dacc_step(run->layout, op) + (size_t)(t - op->t0);
    step->odd = t % 2 != 0;
    eco_gpu_point_at_states(run, op, t, call);
    call->zero_carry = t == (op->reversed ? 0 : run->args->T - 1) ? eco_gpu_zero_carry(run) : 0;
    for (int s = 0; s < call->n_states; s++) {
        call->carry[s] = eco_gpu_at(run, &step->carry[s], 0);
        call->carry_row[s] = step->carry[s].row;
    }
    const struct eco_array save = eco_layout_save(run->layout, op->layer, op->d);
    call->save = eco_gpu_at(run, &save, (size_t)t);
    call->save_row = save.row;
    call->dacc = eco_gpu_at(run, &step->dacc, i);
    call->operand = eco_gpu_at(run, &step->operand, i);
    const struct eco_plane dy = eco_gpu_dy(run, op, t);
    call->dy = dy.data;
    call->dy_row = dy.row;
    call->wide_dy = dy.type != run->layout->type;
}

/* Of the op's steps: the gradient of a projection, dh, of step t. */
static struct eco_plane dh_plane(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t)
{
    const struct eco_array dstep =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_STEP);
    return eco_gpu_plane(run, &dstep, eco_layout_dacc_step(run->layout, op) + (size_t)(t - op->t0));
}

/* Do products of steps add what comes from behind to dh, where dy is already?  Not where that is
 * rounded once more, dy or the sums of several products, nor where rows end early. */
static bool adds_to_dh(const struct eco_gpu_run *run, const struct eco_op *op)
{
    const struct eco_plane dy = eco_gpu_dy(run, op, op->t0);
    struct eco_span span, more;
    return run->problem->projected && run->args->lengths == NULL && dy.data != NULL &&
           dy.type == dh_plane(run, op, op->t0).type &&
           eco_span_next(run->lowered, ECO_PART_RECURRENT, 0, &span) &&
           !eco_span_next(run->lowered, ECO_PART_RECURRENT, span.end, &more);
}

static int32_t first_back(const struct eco_op *op)
{
    return op->reversed ? op->t0 : op->t1 - 1;
}

/* Of all steps but the first. */
static void begin_dh(struct eco_gpu_run *run, const struct eco_op *op)
{
    const struct eco_move_call call = {.to = dh_plane(run, op, op->t0),
                                       .from = eco_gpu_dy(run, op, op->t0),
                                       .steps = op->t1 - op->t0,
                                       .rows = run->args->N,
                                       .width = run->problem->P,
                                       .t0 = op->t0};
    if (op->t1 - op->t0 > 1 && adds_to_dh(run, op) && run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(&call, run->stream), "gradients of a projection");
}

/* The gradient of u = dh P, in place of the carry for the stages. */
static void project_back(struct step *step, int32_t t)
{
    struct eco_gpu_run *run = step->run;
    const struct eco_op *op = step->op;
    struct eco_stage_call *call = &step->call;
    const struct eco_array du =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DOUTPUT);
    const struct eco_array u = eco_layout_output(run->layout, op->layer, op->d);
    const ecornn_type sum = run->layout->sum;
    const struct eco_project_back_call back = {
        .dh = dh_plane(run, op, t),
        .carry = {call->carry[0], 0, call->carry_row[0], sum},
        .dy = {(void *)(uintptr_t)call->dy, 0, call->dy_row,
               call->wide_dy ? sum : run->layout->type},
        .rows = run->args->N,
        .width = run->problem->P,
        .t = t,
        .lengths = run->args->lengths};
    if (run->status == ECORNN_OK && (t == first_back(op) || !adds_to_dh(run, op)))
        eco_gpu_note_cuda(run, eco_launch_project_back(&back, run->stream), "a projection back");
    eco_gpu_multiply_back(run, &(struct eco_matmul){.op = op,
                                                    .part = ECO_PART_PROJECT,
                                                    .rows = run->args->N,
                                                    .a = back.dh.data,
                                                    .a_row = back.dh.row,
                                                    .c = eco_gpu_at(run, &du, 0),
                                                    .c_row = du.row});
    call->dnext = eco_gpu_at(run, &du, 0);
    call->dnext_row = du.row;
    call->next[0] = eco_gpu_at(run, &u, (size_t)t);
    call->next_row[0] = u.row;
    call->dy = NULL;
    call->carry[0] = NULL;
}

/* c (+)= dacc R of operand o, over all its accumulators; narrow: rows of c have no room for whole
 * groups. */
static void multiply_back(const struct step *step, int o, const struct eco_plane *c, bool narrow,
                          bool add)
{
    eco_gpu_multiply_back(step->run, &(struct eco_matmul){.op = step->op,
                                                          .part = ECO_PART_RECURRENT + o,
                                                          .rows = step->run->args->N,
                                                          .a = step->call.dacc,
                                                          .a_row = step->call.dacc_row,
                                                          .c = c->data,
                                                          .c_row = c->row,
                                                          .c_type = c->type,
                                                          .narrow = narrow,
                                                          .add = add,
                                                          .odd = step->odd});
}

uint16_t eco_gpu_zero_carry(const struct eco_gpu_run *run)
{
    uint16_t zero = 0;
    for (int s = 0; s < run->problem->cell->recipe.n_states && !run->problem->projected; s++)
        zero |= (uint16_t)((run->args->dfinal[s] == NULL) << s);
    return zero;
}

/* Does nobody want what the direction's first step leaves of a state's gradient? */
static bool is_unwanted(const struct step *step, int32_t t, int state)
{
    const int32_t first = step->op->reversed ? step->run->args->T - 1 : 0;
    return t == first && step->run->args->dinitial[state] == NULL;
}

static void run_step(struct step *step, int32_t t)
{
    struct eco_gpu_run *run = step->run;
    const struct eco_lowered *lowered = run->lowered;
    const struct eco_stage_call *call = &step->call;
    point_at_step(step, t);
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
        if (state < 0 || is_unwanted(step, t, state))
            continue;
        const int32_t next = step->op->reversed ? t + 1 : t - 1;
        const bool to_dh = o == 0 && state == 0 && next >= step->op->t0 && next < step->op->t1 &&
                           adds_to_dh(run, step->op);
        const struct eco_plane c =
            to_dh ? dh_plane(run, step->op, next) : eco_gpu_plane(run, &step->carry[state], 0);
        multiply_back(step, o, &c, to_dh, true);
    }
}

void eco_gpu_d_step(struct eco_gpu_run *run, const struct eco_op *op)
{
    struct step step = {.run = run, .op = op};
    const struct eco_array doperand =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DOPERAND);
    step.dacc = eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DACC);
    step.operand = eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_OPERAND);
    step.call = eco_gpu_call(run, op);
    for (int s = 0; s < step.call.n_states; s++)
        step.carry[s] = eco_layout_carry(run->layout, op->layer, op->d, s);
    step.call.dacc_row = step.dacc.row;
    step.call.operand_row = step.operand.row;
    step.call.doperand = eco_gpu_at(run, &doperand, 0);
    step.call.doperand_row = doperand.row;
    eco_gpu_copy_history(run, op);
    begin_dh(run, op);
    for (int32_t i = 0; i < op->t1 - op->t0; i++)
        run_step(&step, op->reversed ? op->t0 + i : op->t1 - 1 - i);
}

/* ---- over all steps of the op ---------------------------------------------------------------- */

/* Where dx of the op's rows goes: a dense matrix; data NULL: nobody wants it. */
static struct eco_plane dx_plane(const struct eco_gpu_run *run, const struct eco_op *op)
{
    const size_t I = (size_t)eco_problem_input(run->problem, op->layer), N = (size_t)run->args->N;
    struct eco_plane dx = {.row = I, .step = N * I, .type = run->layout->type};
    if (op->layer == 0 && run->args->dx == NULL)
        return dx;
    if (op->gathered) {
        const struct eco_array gather =
            eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DGATHER);
        return eco_gpu_plane(run, &gather, 0);
    }
    if (op->layer > 0) {
        const struct eco_array dinput = eco_layout_dinput(run->layout, op->layer);
        return eco_gpu_plane(run, &dinput, (size_t)op->t0);
    }
    dx.data = eco_gpu_after(run->args->dx, (size_t)op->t0 * N * I, dx.type);
    return dx;
}

void eco_gpu_d_input(struct eco_gpu_run *run, const struct eco_op *op)
{
    const struct eco_array dacc =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DACC);
    const struct eco_plane dx = dx_plane(run, op);
    const bool add = op->add && !op->gathered;
    if (dx.data == NULL)
        return;
    if (eco_layout_matrix(run->layout, op->layer, ECO_PART_INPUT)->n > 0) {
        const struct eco_matmul matmul = {
            .op = op,
            .part = ECO_PART_INPUT,
            .rows = (op->t1 - op->t0) * run->args->N,
            .a = eco_gpu_at(run, &dacc, eco_layout_dacc_step(run->layout, op)),
            .a_row = dacc.row,
            .c = dx.data,
            .c_row = dx.row,
            .c_type = dx.type,
            .add = add};
        if (eco_gpu_halves_back(run, op)) {
            eco_gpu_scaled_f16_dacc(run, op, true);
            eco_gpu_scaled_f16_dx(run, &matmul);
        } else {
            eco_gpu_multiply_back(run, &matmul);
        }
        return;
    }
    /* A cell without W: there is no product to write it. */
    const struct eco_move_call clear = {.to = dx,
                                        .steps = op->t1 - op->t0,
                                        .rows = run->args->N,
                                        .width = eco_problem_input(run->problem, op->layer)};
    if (!add && run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(&clear, run->stream), "clearing dx");
}
