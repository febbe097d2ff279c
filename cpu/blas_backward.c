/*
 * Algorithm blas, backward: per step the fused pointwise passes of the gradient and one product
 * back through R; dx and the weight gradients as large products over all steps of the op.
 */
#include "cpu/cpu.h"

#include <string.h>

/* What stays the same over the steps of an op. */
struct step {
    const struct eco_cpu_run *run;
    const struct eco_op *op;
    struct eco_array dacc, operand, doperand, carry[ECO_MAX_STATES];
    struct eco_pointwise call;
};

/* c (+)= dacc R of operand o, over all its accumulators. */
static void multiply_back(const struct step *step, int o, void *c, size_t c_row, bool add)
{
    const struct eco_cpu_run *run = step->run;
    const size_t H = (size_t)run->problem->H;
    const int32_t columns = eco_problem_columns(run->problem, o);
    const void *weights = eco_cpu_weights(
        run, eco_layout_recurrent_weights(run->layout, step->op->layer, step->op->d, o));
    struct eco_span span;
    for (int a = 0; eco_span_next(run->lowered, o, a, &span); a = span.end) {
        eco_cpu_product(
            run, &(struct eco_product){
                     .kind = ECO_PRODUCT_NN,
                     .m = run->args->N,
                     .n = columns,
                     .k = (span.end - span.first) * run->problem->H,
                     .a = eco_cpu_after(run, step->call.dacc, (size_t)span.first * H),
                     .a_row = step->dacc.row,
                     .b = eco_cpu_after(run, weights, (size_t)span.before * H * (size_t)columns),
                     .b_row = (size_t)columns,
                     .c = c,
                     .c_row = c_row,
                     .add = add,
                 });
        eco_cpu_wait(run); /* the next span adds to what this one wrote, cut in another way */
        add = true;
    }
}

static void point_at_step(struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_op *op = step->op;
    struct eco_pointwise *call = &step->call;
    const size_t i = (size_t)(t - op->t0), P = (size_t)run->problem->P;
    const bool last_layer = op->layer == run->problem->L - 1;
    call->t = t;
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_array state = eco_layout_state(run->layout, op->layer, op->d, s);
        call->state[s] =
            eco_cpu_at(run, &state, eco_layout_state_plane(run->layout, op->d, t, false));
        call->next[s] =
            eco_cpu_at(run, &state, eco_layout_state_plane(run->layout, op->d, t, true));
        call->state_row[s] = call->next_row[s] = state.row;
        call->carry[s] = eco_cpu_at(run, &step->carry[s], 0);
        call->carry_row[s] = step->carry[s].row;
    }
    const struct eco_array save = eco_layout_save(run->layout, op->layer, op->d);
    call->save = eco_cpu_at(run, &save, (size_t)t);
    call->save_row = save.row;
    call->dacc = eco_cpu_at(run, &step->dacc, i);
    call->operand = eco_cpu_at(run, &step->operand, i);
    struct eco_rows dy =
        eco_cpu_sequence(run, last_layer ? run->args->dy : NULL, t, (size_t)run->problem->D * P);
    if (!last_layer) {
        const struct eco_array above = eco_layout_dinput(run->layout, op->layer + 1);
        dy = (struct eco_rows){eco_cpu_at(run, &above, (size_t)t), above.row};
    }
    call->dy = dy.data == NULL ? NULL : eco_cpu_after(run, dy.data, (size_t)op->d * P);
    call->dy_row = dy.row;
}

/* ---- projection ------------------------------------------------------------------------------ */

static void add_row(const struct eco_cpu_run *run, void *to, const void *a, const void *b)
{
    for (int32_t i = 0; i < run->problem->P; i++)
        if (run->problem->type == ECORNN_F64)
            ((double *)to)[i] = ((const double *)a)[i] + ((const double *)b)[i];
        else
            ((float *)to)[i] = ((const float *)a)[i] + ((const float *)b)[i];
}

/* dh = carry + dy, 0 in masked rows; the carry of the others starts anew. */
static void take_dstep(const struct step *step, int32_t t, const struct eco_array *dstep)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_pointwise *call = &step->call;
    const size_t bytes = (size_t)run->problem->P * run->layout->element;
    const struct eco_part part = eco_cpu_part(run, run->args->N, 1);
    void *rows = eco_cpu_at(run, dstep, (size_t)(t - step->op->t0));
    for (int32_t n = part.from; n < part.to; n++) {
        void *dh = eco_cpu_after_mutable(run, rows, (size_t)n * dstep->row);
        void *carry = eco_cpu_after_mutable(run, call->carry[0], (size_t)n * call->carry_row[0]);
        if (run->args->lengths != NULL && t >= run->args->lengths[n]) {
            memset(dh, 0, bytes);
            continue;
        }
        if (call->dy != NULL)
            add_row(run, dh, carry, eco_cpu_after(run, call->dy, (size_t)n * call->dy_row));
        else
            memcpy(dh, carry, bytes);
        memset(carry, 0, bytes);
    }
    eco_cpu_wait(run);
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
    eco_cpu_product(
        run, &(struct eco_product){
                 .kind = ECO_PRODUCT_NN,
                 .m = run->args->N,
                 .n = run->problem->H,
                 .k = run->problem->P,
                 .a = eco_cpu_at(run, &dstep, (size_t)(t - op->t0)),
                 .a_row = dstep.row,
                 .b = eco_cpu_weights(run, eco_layout_projection(run->layout, op->layer, op->d)),
                 .b_row = (size_t)run->problem->H,
                 .c = eco_cpu_at(run, &du, 0),
                 .c_row = du.row,
             });
    eco_cpu_wait(run);
    call->dnext = eco_cpu_at(run, &du, 0);
    call->dnext_row = du.row;
    call->next[0] = eco_cpu_at(run, &u, (size_t)t);
    call->next_row[0] = u.row;
    call->dy = NULL;
    call->carry[0] = NULL;
}

/* ---- one step -------------------------------------------------------------------------------- */

static void run_stage(const struct step *step, int stage)
{
    const struct eco_cpu_run *run = step->run;
    struct eco_pointwise call = step->call;
    call.last = stage == run->lowered->n_backward - 1;
    call.program = &run->lowered->backward[stage];
    eco_blas_take_part(run, &call);
    const int builtin = run->problem->cell->builtin;
    const eco_pointwise_kernel kernel = builtin >= 0 ? run->kernels->cell[builtin].backward[stage]
                                                     : run->kernels->interpret_backward;
    kernel(&call);
    eco_cpu_wait(run);
}

static void run_step(struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_lowered *lowered = run->lowered;
    const size_t H = (size_t)run->problem->H;
    point_at_step(step, t);
    if (run->problem->projected)
        project_back(step, t);
    for (int stage = 0; stage < lowered->n_backward; stage++) {
        for (int o = 0; o < lowered->n_operands; o++) {
            const struct eco_operand *operand = &lowered->operand[o];
            if (operand->state >= 0 || operand->backward != stage)
                continue;
            void *slot = eco_cpu_at(run, &step->doperand, 0);
            multiply_back(step, o, eco_cpu_after_mutable(run, slot, (size_t)operand->slot * H),
                          step->doperand.row, false);
        }
        run_stage(step, stage);
    }
    for (int o = 0; o < lowered->n_operands; o++) {
        const int state = lowered->operand[o].state;
        if (state >= 0)
            multiply_back(step, o, eco_cpu_at(run, &step->carry[state], 0), step->carry[state].row,
                          true);
    }
}

void eco_blas_d_step(const struct eco_cpu_run *run, const struct eco_op *op)
{
    struct step step = {.run = run, .op = op};
    step.dacc = eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DACC);
    step.operand = eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_OPERAND);
    step.doperand = eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DOPERAND);
    step.call = eco_blas_call(run, op);
    for (int s = 0; s < step.call.n_states; s++)
        step.carry[s] = eco_layout_carry(run->layout, op->layer, op->d, s);
    step.call.dacc_row = step.dacc.row;
    step.call.operand_row = step.operand.row;
    step.call.doperand = eco_cpu_at(run, &step.doperand, 0);
    step.call.doperand_row = step.doperand.row;
    for (int32_t i = 0; i < op->t1 - op->t0; i++)
        run_step(&step, op->reversed ? op->t0 + i : op->t1 - 1 - i);
}

/* ---- over all steps of the op ---------------------------------------------------------------- */

void eco_blas_d_input(const struct eco_cpu_run *run, const struct eco_op *op)
{
    const struct eco_array dacc =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DACC);
    const size_t H = (size_t)run->problem->H, N = (size_t)run->args->N;
    const int32_t I = eco_problem_input(run->problem, op->layer);
    const void *weights =
        eco_cpu_weights(run, eco_layout_input_weights(run->layout, op->layer, op->d));
    void *dx = NULL;
    bool add = op->add;
    if (op->layer == 0 && run->args->dx == NULL)
        return;
    if (op->gathered) {
        const struct eco_array gather =
            eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_GATHER);
        dx = eco_cpu_at(run, &gather, 0);
        add = false;
    } else if (op->layer > 0) {
        const struct eco_array dinput = eco_layout_dinput(run->layout, op->layer);
        dx = eco_cpu_at(run, &dinput, (size_t)op->t0);
    } else {
        dx = eco_cpu_after_mutable(run, run->args->dx, (size_t)op->t0 * N * (size_t)I);
    }
    struct eco_product product = {.kind = ECO_PRODUCT_NN,
                                  .m = (op->t1 - op->t0) * run->args->N,
                                  .n = I,
                                  .a_row = dacc.row,
                                  .b_row = (size_t)I,
                                  .c = dx,
                                  .c_row = (size_t)I,
                                  .add = add};
    struct eco_span span;
    for (int a = 0; eco_span_next(run->lowered, -1, a, &span); a = span.end) {
        product.k = (span.end - span.first) * run->problem->H;
        product.a = eco_cpu_after(run, eco_cpu_at(run, &dacc, 0), (size_t)span.first * H);
        product.b = eco_cpu_after(run, weights, (size_t)span.before * H * (size_t)I);
        eco_cpu_product(run, &product);
        eco_cpu_wait(run); /* the next span adds to it, cut in another way */
        product.add = true;
    }
}

/* Weight gradients of one (layer, direction) over the rows of the op. */
struct gradients {
    const struct eco_cpu_run *run;
    const void *dacc; /* [rows, row] */
    size_t row;
    int32_t rows;
    bool add;
};

static void *gradient_at(const struct gradients *g, size_t offset)
{
    return (char *)g->run->args->dweights + offset;
}

/* d of W (operand < 0) or of an operand's R: dacc^T e, by spans. */
static void multiply_weights(const struct gradients *g, int operand, struct eco_rows e,
                             int32_t columns, size_t offset)
{
    const struct eco_cpu_run *run = g->run;
    const size_t H = (size_t)run->problem->H;
    struct eco_span span;
    for (int a = 0; eco_span_next(run->lowered, operand, a, &span); a = span.end)
        eco_cpu_product(run,
                        &(struct eco_product){
                            .kind = ECO_PRODUCT_TN,
                            .m = (span.end - span.first) * run->problem->H,
                            .n = columns,
                            .k = g->rows,
                            .a = eco_cpu_after(run, g->dacc, (size_t)span.first * H),
                            .a_row = g->row,
                            .b = e.data,
                            .b_row = e.row,
                            .c = eco_cpu_after_mutable(run, gradient_at(g, offset),
                                                       (size_t)span.before * H * (size_t)columns),
                            .c_row = (size_t)columns,
                            .add = g->add,
                        });
}

static void recurrent_weights(const struct gradients *g, const struct eco_op *op, int o)
{
    const struct eco_cpu_run *run = g->run;
    const struct eco_operand *operand = &run->lowered->operand[o];
    struct eco_rows e;
    if (operand->state >= 0) {
        const struct eco_array state =
            eco_layout_state(run->layout, op->layer, op->d, operand->state);
        const size_t plane = eco_layout_state_plane(run->layout, op->d, op->t0, false);
        e = (struct eco_rows){eco_cpu_at(run, &state, plane), state.row};
    } else {
        const struct eco_array slots =
            eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_OPERAND);
        e = (struct eco_rows){eco_cpu_after(run, eco_cpu_at(run, &slots, 0),
                                            (size_t)operand->slot * (size_t)run->problem->H),
                              slots.row};
    }
    multiply_weights(g, o, e, eco_problem_columns(run->problem, o),
                     eco_layout_recurrent_weights(run->layout, op->layer, op->d, o));
}

/* Which column of dacc holds the gradient of vector parameter `param`. */
static int vector_column(const struct eco_lowered *lowered, int param)
{
    for (int a = 0; a < lowered->n_accs; a++)
        if (lowered->acc[a].vector == param)
            return a;
    for (int i = 0; i < lowered->n_extra; i++)
        if (lowered->extra[i] == param)
            return lowered->n_accs + i;
    return -1;
}

static void vectors(const struct gradients *g, const struct eco_op *op)
{
    const struct eco_cpu_run *run = g->run;
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    const size_t H = (size_t)run->problem->H;
    const struct eco_part part = eco_cpu_part(run, run->problem->H, 16);
    const size_t n = (size_t)(part.to - part.from);
    char *vector = gradient_at(g, eco_layout_vectors(run->layout, op->layer, op->d));
    for (int i = 0; i < recipe->n_params; i++) {
        if (recipe->param[i].kind != ECO_PARAM_VECTOR)
            continue;
        const int column = vector_column(run->lowered, i);
        void *sum = eco_cpu_after_mutable(run, vector, (size_t)part.from);
        if (!g->add)
            memset(sum, 0, n * run->layout->element);
        if (column >= 0)
            run->kernels->add_columns(
                sum, eco_cpu_after(run, g->dacc, (size_t)column * H + (size_t)part.from), g->row,
                g->rows, (int32_t)n);
        vector = eco_cpu_after_mutable(run, vector, H);
    }
}

static void projection(const struct gradients *g, const struct eco_op *op)
{
    const struct eco_cpu_run *run = g->run;
    const struct eco_array dstep =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_STEP);
    const struct eco_array u = eco_layout_output(run->layout, op->layer, op->d);
    eco_cpu_product(run,
                    &(struct eco_product){
                        .kind = ECO_PRODUCT_TN,
                        .m = run->problem->P,
                        .n = run->problem->H,
                        .k = g->rows,
                        .a = eco_cpu_at(run, &dstep, 0),
                        .a_row = dstep.row,
                        .b = eco_cpu_at(run, &u, (size_t)op->t0),
                        .b_row = u.row,
                        .c = gradient_at(g, eco_layout_projection(run->layout, op->layer, op->d)),
                        .c_row = (size_t)run->problem->H,
                        .add = g->add,
                    });
}

void eco_blas_d_weights(const struct eco_cpu_run *run, const struct eco_op *op)
{
    if (run->args->dweights == NULL)
        return;
    const struct eco_array dacc =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DACC);
    const struct gradients g = {.run = run,
                                .dacc = eco_cpu_at(run, &dacc, 0),
                                .row = dacc.row,
                                .rows = (op->t1 - op->t0) * run->args->N,
                                .add = op->add || run->args->accumulate};
    multiply_weights(&g, -1, eco_cpu_product_input(run, op),
                     eco_problem_input(run->problem, op->layer),
                     eco_layout_input_weights(run->layout, op->layer, op->d));
    for (int o = 0; o < run->lowered->n_operands; o++)
        recurrent_weights(&g, op, o);
    vectors(&g, op);
    if (run->problem->projected)
        projection(&g, op);
}
