/*
 * The steps of backward: fused pointwise passes of the gradient and one product with R. The
 * algorithm decides how to multiply.
 */
#include "cpu/cpu.h"

#include <string.h>

/* What stays the same over the steps of an op. */
struct step {
    const struct eco_cpu_run *run;
    const struct eco_bound *bound;
    struct eco_pointwise call;
};

/* c (+)= dacc R of operand o, over all its accumulators. */
static void multiply_back(const struct step *step, int o, int32_t t, struct eco_multiply to)
{
    const struct eco_cpu_run *run = step->run;
    to.op = step->bound->op;
    to.back = true;
    to.blocks = eco_cpu_one_block;
    to.part = ECO_WEIGHT_RECURRENT + o;
    to.rows = eco_cpu_active(run, t);
    to.t = t;
    to.a = step->call.dacc;
    to.a_row = step->call.dacc_row;
    to.c_type = run->layout->sum;
    to.alone = true;
    run->products->multiply(run, &to);
    eco_cpu_after_product(run);
}

static void point_at_step(struct step *step, int32_t t)
{
    const struct eco_bound *bound = step->bound;
    struct eco_pointwise *call = &step->call;
    call->t = t;
    eco_cpu_point_at_states(bound, t, call);
    call->carry[0] = bound->carry[0].first;
    call->save = eco_view_at(&bound->save, t);
    call->dacc = eco_view_at(&bound->acc, t);
    call->operand = eco_view_at(&bound->operand, t);
    call->dy = eco_view_at(&bound->dy, t);
}

/* ---- projection ------------------------------------------------------------------------------ */

/* dh = carry + dy, rounded once. */
static void add_row(const struct step *step, void *dh, const void *carry, const void *dy)
{
    const struct eco_cpu_run *run = step->run;
    const ecornn_type type = run->layout->type, sum = run->layout->sum;
    for (size_t i = 0; i < (size_t)run->problem->P; i++)
        eco_type_set(dh, i, type,
                     eco_type_get(carry, i, sum) + eco_type_get(dy, i, step->bound->dy.type));
}

/* dh = carry + dy; then the carry is empty. */
static void take_dstep(const struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_pointwise *call = &step->call;
    const ecornn_type type = run->layout->type, sum = run->layout->sum;
    const size_t P = (size_t)run->problem->P;
    const struct eco_range part = eco_cpu_part_of(run, eco_cpu_step_rows(run, t), 1);
    const struct eco_view *h = &step->bound->h;
    void *rows = eco_view_at(h, t);
    for (int32_t n = part.from; n < part.to; n++) {
        void *dh = eco_cpu_after_mutable(type, rows, (size_t)n * h->row);
        void *carry = eco_cpu_after_mutable(sum, call->carry[0], (size_t)n * call->carry_row[0]);
        const size_t y_row = (size_t)(call->y_order ? call->y_order[n] : n);
        if (call->dy != NULL)
            add_row(step, dh, carry,
                    eco_cpu_after(step->bound->dy.type, call->dy, y_row * call->dy_row));
        else
            eco_type_move(dh, type, carry, sum, P);
        memset(carry, 0, P * eco_type_bytes(sum));
    }
    eco_cpu_after_pointwise(run);
}

/* Computes the gradient of u = dh P, which replaces the carry in the pointwise pass. */
static void project_back(struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_bound *bound = step->bound;
    struct eco_pointwise *call = &step->call;
    take_dstep(step, t);
    run->products->multiply(run, &(struct eco_multiply){.op = bound->op,
                                                        .part = ECO_WEIGHT_PROJECT,
                                                        .back = true,
                                                        .blocks = eco_cpu_one_block,
                                                        .rows = eco_cpu_active(run, t),
                                                        .t = t,
                                                        .a = eco_view_at(&bound->h, t),
                                                        .a_row = bound->h.row,
                                                        .c = bound->du.first,
                                                        .c_row = bound->du.row,
                                                        .c_type = bound->du.type});
    eco_cpu_after_product(run);
    call->dnext = bound->du.first;
    call->dnext_row = bound->du.row;
    call->next[0] = eco_view_at(&bound->u, t);
    call->next_row[0] = bound->u.row;
    call->dy = NULL;
    call->carry[0] = NULL;
}

/* ---- one step -------------------------------------------------------------------------------- */

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
    eco_cpu_cut_carries(run, step->bound, t, &step->call);
    eco_cpu_patch_states(run, step->bound, t, &step->call, ECO_PATCH_READ | ECO_PATCH_OTHERS);
    if (run->problem->states)
        eco_cpu_add_dstates(run, step->bound, t, &step->call);
    if (run->problem->projected)
        project_back(step, t);
    for (int stage = 0, next; stage < lowered->n_backward; stage = next) {
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
        next = eco_cell_next_product(lowered, true, stage);
        eco_cpu_pass(run, &step->call, true, (struct eco_range){stage, next});
        eco_cpu_after_step(run);
    }
    for (int o = 0; o < lowered->n_operands; o++) {
        const int state = lowered->operand[o].state;
        if (state >= 0)
            multiply_back(step, o, t,
                          (struct eco_multiply){.c = step->bound->carry[state].first,
                                                .c_row = step->bound->carry[state].row,
                                                .add = true});
    }
}

/* Everything that the steps of an op share. */
static struct step begin(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    struct step step = {.run = run, .bound = bound, .call = eco_cpu_call(run, bound)};
    struct eco_pointwise *call = &step.call;
    for (int s = 0; s < call->n_states; s++) {
        call->carry[s] = bound->carry[s].first;
        call->carry_row[s] = bound->carry[s].row;
    }
    call->dacc_row = bound->acc.row;
    call->operand_row = bound->operand.row;
    call->save_row = bound->save.row;
    call->dy_row = bound->dy.row;
    call->wide_dy = bound->dy.type == run->layout->sum;
    call->doperand = bound->doperand.first;
    call->doperand_row = bound->doperand.row;
    eco_cpu_take_part(run, bound->op->t0, call);
    return step;
}

void eco_cpu_d_step(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    if (run->block_steps > 0) {
        eco_cpu_scan_back(run, bound);
        return;
    }
    struct step step = begin(run, bound);
    for (int32_t i = 0; i < op->t1 - op->t0; i++) {
        const int32_t t = op->reversed ? op->t0 + i : op->t1 - 1 - i;
        eco_cpu_point_at_sums(run, bound, i, &step.call);
        run_step(&step, t);
        step.call.summed = eco_cpu_active(run, t);
    }
}
