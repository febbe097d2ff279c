/*
 * The steps of backward: fused pointwise passes of the gradient and one product back through R.
 * How to multiply is the algorithm's business.
 */
#include "cpu/cpu.h"

#include <string.h>

/* What stays the same over the steps of an op. */
struct step {
    const struct eco_cpu_run *run;
    const struct eco_op *op;
    struct eco_steps dacc, operand, save, dy;
    struct eco_states states;
    struct eco_rows carry[ECO_MAX_STATES];
    struct eco_pointwise call;
};

/* c (+)= dacc R of operand o, over all its accumulators. */
static void multiply_back(const struct step *step, int o, int32_t t, struct eco_multiply to)
{
    const struct eco_cpu_run *run = step->run;
    to.op = step->op;
    to.back = true;
    to.blocks = eco_cpu_one_block;
    to.part = ECO_PART_RECURRENT + o;
    to.rows = eco_cpu_active(run, t);
    to.t = t;
    to.a = step->call.dacc;
    to.a_row = step->call.dacc_row;
    to.c_type = run->layout->sum;
    run->products->multiply(run, &to);
    eco_cpu_after_product(run);
}

static void point_at_step(struct step *step, int32_t t)
{
    struct eco_pointwise *call = &step->call;
    const size_t i = (size_t)(t - step->op->t0);
    call->t = t;
    eco_cpu_point_at_states(&step->states, t, call);
    call->carry[0] = (void *)(uintptr_t)step->carry[0].data;
    call->save = eco_step_at(&step->save, (size_t)t);
    call->dacc = eco_step_at(&step->dacc, i);
    call->operand = eco_step_at(&step->operand, i);
    call->dy = eco_step_at(&step->dy, (size_t)t);
}

/* ---- projection ------------------------------------------------------------------------------ */

/* dh = carry + dy, rounded once. */
static void add_row(const struct step *step, void *dh, const void *carry, const void *dy)
{
    const struct eco_cpu_run *run = step->run;
    const ecornn_type type = run->layout->type, sum = run->layout->sum;
    for (size_t i = 0; i < (size_t)run->problem->P; i++)
        eco_type_set(dh, i, type, eco_type_get(carry, i, sum) + eco_type_get(dy, i, step->dy.type));
}

/* dh = carry + dy; the carry starts anew. */
static void take_dstep(const struct step *step, int32_t t, const struct eco_array *dstep)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_pointwise *call = &step->call;
    const ecornn_type type = run->layout->type, sum = run->layout->sum;
    const size_t P = (size_t)run->problem->P;
    const struct eco_share part = eco_cpu_part_of(run, eco_cpu_step_rows(run, t), 1);
    void *rows = eco_cpu_at(run, dstep, (size_t)(t - step->op->t0));
    for (int32_t n = part.from; n < part.to; n++) {
        void *dh = eco_cpu_after_mutable(type, rows, (size_t)n * dstep->row);
        void *carry = eco_cpu_after_mutable(sum, call->carry[0], (size_t)n * call->carry_row[0]);
        const size_t y_row = (size_t)(call->y_order ? call->y_order[n] : n);
        if (call->dy != NULL)
            add_row(step, dh, carry, eco_cpu_after(step->dy.type, call->dy, y_row * call->dy_row));
        else
            eco_type_move(dh, type, carry, sum, P);
        memset(carry, 0, P * eco_type_bytes(sum));
    }
    eco_cpu_after_pointwise(run);
}

/* Gradient of u = dh P, in place of the carry for the pointwise pass. */
static void project_back(struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_op *op = step->op;
    struct eco_pointwise *call = &step->call;
    const struct eco_array dstep =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_STEP);
    const struct eco_array du =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DOUTPUT);
    const struct eco_array u = eco_layout_output(run->layout, op->layer, op->d);
    take_dstep(step, t, &dstep);
    run->products->multiply(
        run, &(struct eco_multiply){.op = op,
                                    .part = ECO_PART_PROJECT,
                                    .back = true,
                                    .blocks = eco_cpu_one_block,
                                    .rows = eco_cpu_active(run, t),
                                    .t = t,
                                    .a = eco_cpu_at(run, &dstep, (size_t)(t - op->t0)),
                                    .a_row = dstep.row,
                                    .c = eco_cpu_at(run, &du, 0),
                                    .c_row = du.row,
                                    .c_type = du.type});
    eco_cpu_after_product(run);
    call->dnext = eco_cpu_at(run, &du, 0);
    call->dnext_row = du.row;
    call->next[0] = eco_cpu_at(run, &u, (size_t)t);
    call->next_row[0] = u.row;
    call->dy = NULL;
    call->carry[0] = NULL;
}

/* ---- one step -------------------------------------------------------------------------------- */

static void run_stage(struct step *step, int stage)
{
    const struct eco_cpu_run *run = step->run;
    step->call.program = &run->lowered->backward[stage];
    const int builtin = run->problem->cell->builtin;
    const eco_pointwise_kernel kernel =
        builtin >= 0 ? run->kernels->cell[builtin].backward[stage] : run->kernels->interpret;
    kernel(&step->call);
    eco_cpu_after_pointwise(run);
}

static void run_step(struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_lowered *lowered = run->lowered;
    const size_t H = (size_t)run->problem->H;
    if (run->active != NULL) {
        if (run->active[t] == 0)
            return;
        eco_cpu_take_part(run, t, &step->call);
    }
    point_at_step(step, t);
    if (run->problem->projected)
        project_back(step, t);
    for (int stage = 0; stage < lowered->n_backward; stage++) {
        for (int o = 0; o < lowered->n_operands; o++) {
            const struct eco_operand *operand = &lowered->operand[o];
            if (operand->state >= 0 || operand->backward != stage)
                continue;
            multiply_back(step, o, t,
                          (struct eco_multiply){
                              .c = (void *)(uintptr_t)eco_cpu_after(
                                  run->layout->sum, step->call.doperand, (size_t)operand->slot * H),
                              .c_row = step->call.doperand_row});
        }
        run_stage(step, stage);
    }
    for (int o = 0; o < lowered->n_operands; o++) {
        const int state = lowered->operand[o].state;
        if (state >= 0)
            multiply_back(step, o, t,
                          (struct eco_multiply){.c = (void *)(uintptr_t)step->carry[state].data,
                                                .c_row = step->carry[state].row,
                                                .add = true});
    }
}

static struct eco_steps scratch_steps(const struct eco_cpu_run *run, const struct eco_op *op,
                                      enum eco_scratch scratch)
{
    const struct eco_array array = eco_layout_scratch(run->layout, true, op->layer, op->d, scratch);
    return eco_cpu_steps(run, &array);
}

/* dy of the last layer is the caller's, that of others the dx of the layer above. */
static struct eco_steps dy_steps(const struct eco_cpu_run *run, const struct eco_op *op)
{
    const size_t P = (size_t)run->problem->P, column = (size_t)op->d * P;
    if (op->layer == run->problem->L - 1)
        return eco_cpu_sequence_steps(run, run->args->dy, (size_t)run->problem->D * P, column);
    const struct eco_array above = eco_layout_dinput(run->layout, op->layer + 1);
    struct eco_steps steps = eco_cpu_steps(run, &above);
    steps.first = eco_cpu_after_mutable(steps.type, steps.first, column);
    return steps;
}

/* Everything that the steps of an op share. */
static struct step begin(const struct eco_cpu_run *run, const struct eco_op *op)
{
    const struct eco_steps doperand = scratch_steps(run, op, ECO_SCRATCH_DOPERAND);
    const struct eco_array save = eco_layout_save(run->layout, op->layer, op->d);
    struct step step = {.run = run,
                        .op = op,
                        .call = eco_cpu_call(run, op),
                        .states = eco_cpu_states(run, op),
                        .dacc = scratch_steps(run, op, ECO_SCRATCH_DACC),
                        .operand = scratch_steps(run, op, ECO_SCRATCH_OPERAND),
                        .save = eco_cpu_steps(run, &save),
                        .dy = dy_steps(run, op)};
    for (int s = 0; s < step.call.n_states; s++) {
        const struct eco_array carry = eco_layout_carry(run->layout, op->layer, op->d, s);
        step.carry[s] = (struct eco_rows){eco_cpu_at(run, &carry, 0), carry.row, carry.type};
        step.call.carry[s] = eco_cpu_at(run, &carry, 0);
        step.call.carry_row[s] = carry.row;
    }
    step.call.dacc_row = step.dacc.row;
    step.call.operand_row = step.operand.row;
    step.call.save_row = step.save.row;
    step.call.dy_row = step.dy.row;
    step.call.wide_dy = step.dy.type == run->layout->sum;
    step.call.doperand = doperand.first;
    step.call.doperand_row = doperand.row;
    eco_cpu_take_part(run, op->t0, &step.call);
    return step;
}

void eco_cpu_d_step(const struct eco_cpu_run *run, const struct eco_op *op)
{
    struct step step = begin(run, op);
    for (int32_t i = 0; i < op->t1 - op->t0; i++)
        run_step(&step, op->reversed ? op->t0 + i : op->t1 - 1 - i);
}
