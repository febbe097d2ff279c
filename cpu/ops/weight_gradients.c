/*
 * The part of backward that follows its steps: dx and the weight gradients, as large products over
 * all steps of an op. The algorithm decides how to multiply.
 */
#include "cpu/cpu.h"

#include <string.h>

/* Clears dx of a cell without W, which no product writes. */
static void clear_rows(const struct eco_cpu_run *run, const struct eco_multiply *multiply)
{
    const struct eco_range part = eco_cpu_part(run, multiply->rows, 1);
    const size_t row = multiply->c_row, rows = (size_t)(part.to - part.from);
    const ecornn_type type = multiply->c_type;
    void *first = eco_cpu_after_mutable(type, multiply->c, (size_t)part.from * row);
    if (!multiply->add)
        memset(first, 0, rows * row * eco_type_bytes(type));
}

/* Adds the gradient of the accumulator that is x itself to dx, after the product has written dx. */
static void add_raw(const struct eco_cpu_run *run, const struct eco_multiply *multiply)
{
    const struct eco_range part = eco_cpu_part(run, multiply->rows, 1);
    const size_t H = (size_t)run->problem->H, column = (size_t)run->lowered->raw * H;
    eco_cpu_wait(run);
    for (int32_t n = part.from; n < part.to; n++)
        eco_type_add(
            eco_cpu_after_mutable(multiply->c_type, multiply->c, (size_t)n * multiply->c_row),
            multiply->c_type,
            eco_cpu_after(run->layout->type, multiply->a, (size_t)n * multiply->a_row + column),
            run->layout->type, H);
}

void eco_cpu_d_input(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    const struct eco_view *dx = &bound->dx;
    const bool product = eco_layout_matrix(run->layout, op->layer, ECO_WEIGHT_INPUT)->n > 0;
    struct eco_multiply multiply = {.op = op,
                                    .part = ECO_WEIGHT_INPUT,
                                    .a_row = bound->acc.row,
                                    .c_row = dx->row,
                                    .back = true,
                                    .blocks = eco_cpu_one_block,
                                    .c_type = dx->type,
                                    .add = op->add && !op->gathered};
    if (dx->first == NULL)
        return;
    for (struct eco_row_range some = {0}; eco_cpu_next_row_range(run, op, &some);) {
        multiply.rows = some.rows;
        multiply.a = eco_view_at(&bound->acc, op->t0 + some.step);
        multiply.c = eco_view_at(dx, op->t0 + some.step);
        (product ? run->products->multiply : clear_rows)(run, &multiply);
        if (run->lowered->raw >= 0)
            add_raw(run, &multiply);
    }
}

/* The projection's gradient: dh^T u. */
static void projection(const struct eco_cpu_run *run, const struct eco_bound *bound,
                       struct eco_multiply multiply)
{
    const int32_t t0 = bound->op->t0;
    multiply.part = ECO_WEIGHT_PROJECT;
    multiply.a = eco_view_at(&bound->h, t0);
    multiply.a_row = bound->h.row;
    multiply.c = eco_view_at(&bound->u, t0);
    multiply.c_row = bound->u.row;
    run->products->weights(run, &multiply, 1);
}

static int32_t active_rows(const struct eco_cpu_run *run, const struct eco_op *op)
{
    int32_t rows = 0;
    for (struct eco_row_range some = {0}; eco_cpu_next_row_range(run, op, &some);)
        rows += some.rows;
    return rows;
}

/* Points a product with dacc of all steps at its other operand: the rows of the input, or those of
 * operand o. */
static void point_at_operand(const struct eco_cpu_run *run, const struct eco_bound *bound, int o,
                             struct eco_multiply *multiply)
{
    const struct eco_operand *operand = &run->lowered->operand[o < 0 ? 0 : o];
    const struct eco_view *view = o < 0                ? &bound->input
                                  : operand->state < 0 ? &bound->operand
                                                       : &bound->before[operand->state];
    const size_t slot =
        o >= 0 && operand->state < 0 ? (size_t)operand->slot * (size_t)run->problem->H : 0;
    multiply->part = o < 0 ? (int)ECO_WEIGHT_INPUT : ECO_WEIGHT_RECURRENT + o;
    multiply->c = eco_cpu_after_mutable(view->type, eco_view_at(view, bound->op->t0), slot);
    multiply->c_row = view->row;
}

void eco_cpu_d_weights(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    const int n = 1 + run->lowered->n_operands;
    struct eco_multiply part[1 + ECO_MAX_OPERANDS];
    if (run->args->dweights == NULL)
        return;
    struct eco_multiply multiply = {.op = op,
                                    .rows = active_rows(run, op),
                                    .a = eco_view_at(&bound->acc, op->t0),
                                    .a_row = bound->acc.row,
                                    .add = eco_cpu_gradient_begin(run, op)};
    eco_cpu_d_vectors(run, bound, &multiply);
    for (int i = 0; i < n; i++) {
        part[i] = multiply;
        point_at_operand(run, bound, i - 1, &part[i]);
    }
    run->products->weights(run, part, n);
    if (run->problem->projected)
        projection(run, bound, multiply);
    eco_cpu_gradient_end(run, op);
}
