/*
 * The verbs PRODUCT and GRADIENTS: large products over all steps of an op. The algorithm decides
 * how to multiply.
 */
#include "cpu/cpu.h"

const struct eco_blocks eco_cpu_one_block = {31, 0, 0};

const void *eco_cpu_bias(const struct eco_cpu_run *run, const struct eco_op *op, int acc)
{
    const int param = run->lowered->acc[acc].vector;
    const size_t before = (size_t)eco_vector_number(&run->problem->cell->recipe, param);
    const void *vectors = eco_bind_weights(run->layout, run->args, op, ECO_WEIGHT_VECTORS);
    return param < 0 ? NULL
                     : eco_cpu_after(run->layout->sum, vectors, before * (size_t)run->problem->H);
}

void eco_cpu_weight_product(void *context, const struct eco_weight_product *product)
{
    struct eco_cpu_run run = *(const struct eco_cpu_run *)context;
    struct eco_op op = *product->op;
    struct eco_multiply m = {.op = &op,
                             .part = product->weight_id,
                             .a_row = product->a.row,
                             .c_row = product->c.row,
                             .c_type = product->c.type,
                             .blocks = product->back ? eco_cpu_one_block
                                                     : eco_layout_acc_blocks(run.layout),
                             .back = product->back,
                             .bias = product->bias,
                             .add = product->add,
                             .alone = product->bias};
    op.t0 = product->t0;
    op.t1 = product->t1;
    for (struct eco_row_range some = {0}; eco_cpu_next_row_range(&run, &op, &some);) {
        m.rows = some.rows;
        m.a = eco_view_at(&product->a, op.t0 + some.step);
        m.c = eco_view_at(&product->c, op.t0 + some.step);
        run.rows = (struct eco_range){0, some.rows};
        run.products->multiply(&run, &m);
    }
}

static int32_t active_rows(const struct eco_cpu_run *run, const struct eco_op *op)
{
    int32_t rows = 0;
    for (struct eco_row_range some = {0}; eco_cpu_next_row_range(run, op, &some);)
        rows += some.rows;
    return rows;
}

/* A CPU has the states before all steps in one array, so every part has all steps. */
void eco_cpu_gradients(void *context, const struct eco_gradients *gradients)
{
    const struct eco_cpu_run *run = context;
    const struct eco_op *op = gradients->op;
    struct eco_multiply part[ECO_MOST_GRADIENTS];
    if (run->args->dweights == NULL)
        return;
    struct eco_multiply all = {.op = op,
                               .rows = active_rows(run, op),
                               .a = eco_view_at(&gradients->dacc, op->t0),
                               .a_row = gradients->dacc.row,
                               .add = eco_cpu_gradient_begin(run, op)};
    eco_cpu_d_vectors(run, &gradients->dvector, &all);
    for (int i = 0; i < gradients->n; i++) {
        part[i] = all;
        part[i].part = gradients->part[i].weight_id;
        part[i].c = eco_view_at(&gradients->part[i].c, op->t0);
        part[i].c_row = gradients->part[i].c.row;
    }
    run->products->weights(run, part, gradients->n);
    if (gradients->u.first != NULL) {
        all.part = ECO_WEIGHT_PROJECT;
        all.a = eco_view_at(&gradients->dh, op->t0);
        all.a_row = gradients->dh.row;
        all.c = eco_view_at(&gradients->u, op->t0);
        all.c_row = gradients->u.row;
        run->products->weights(run, &all, 1);
    }
    eco_cpu_gradient_end(run, op);
}
