/*
 * Products with dense weights through CBLAS: one call for every run of neighbouring accumulators.
 */
#include "cpu/cpu.h"

#include <string.h>

/* This thread's rows of acc = bias, or 0. */
static void fill_bias(const struct eco_cpu_run *run, const struct eco_multiply *multiply)
{
    const size_t H = (size_t)run->problem->H, c_row = multiply->c_row;
    const struct eco_range rows = eco_cpu_part(run, multiply->rows, 1);
    const int32_t count = rows.to - rows.from;
    char *to = eco_cpu_after_mutable(run->layout->sum, multiply->c, (size_t)rows.from * c_row);
    for (int a = 0; a < run->lowered->n_accs;
         a++, to = eco_cpu_after_mutable(run->layout->sum, to, H)) {
        const void *bias = eco_cpu_bias(run, multiply->op, a);
        for (int32_t n = 0; n < count; n++) {
            void *row = eco_cpu_after_mutable(run->layout->sum, to, (size_t)n * c_row);
            if (bias != NULL)
                memcpy(row, bias, H * eco_type_bytes(run->layout->sum));
            else
                memset(row, 0, H * eco_type_bytes(run->layout->sum));
        }
    }
}

/* Units and columns of one matrix of the part. */
static struct eco_matrix matrix_of(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    return *eco_layout_matrix(run->layout, m->op->layer, m->part);
}

/* A product with the blocks of heads, each by one thread, the only one that adds to an element. */
static void multiply_head(const struct eco_cpu_run *run, const struct eco_dense_product *whole,
                          int32_t number, int32_t head)
{
    const int32_t n = eco_problem_head(run->problem);
    const size_t across = (size_t)head * (size_t)n,
                 down = (size_t)number * (size_t)run->problem->H + across;
    const ecornn_type type = run->layout->sum;
    struct eco_cpu_run alone = *run;
    struct eco_dense_product p = *whole;
    alone.id = 0, alone.count = 1;
    p.n = n;
    if (p.kind == ECO_PRODUCT_TN)
        p.m = n;
    else
        p.k = n;
    p.add = p.add || (p.kind == ECO_PRODUCT_NN && number > 0);
    p.a = eco_cpu_after(type, p.a, p.kind == ECO_PRODUCT_NT ? across : down);
    p.b = eco_cpu_after(type, p.b, p.kind == ECO_PRODUCT_TN ? across : down * p.b_row + across);
    p.c = eco_cpu_after_mutable(type, p.c,
                                p.kind == ECO_PRODUCT_NT   ? down
                                : p.kind == ECO_PRODUCT_NN ? across
                                                           : down * p.c_row + across);
    eco_cpu_product(&alone, &p);
}

/* A product with a part; with heads only their blocks. */
static void multiply_part(const struct eco_cpu_run *run, const struct eco_multiply *m,
                          const struct eco_dense_product *p)
{
    const int32_t heads = run->problem->heads, H = run->problem->H;
    if (heads == 1 || m->part < ECO_WEIGHT_RECURRENT) {
        eco_cpu_product(run, p);
        return;
    }
    const int32_t numbers = (p->kind == ECO_PRODUCT_NT   ? p->n
                             : p->kind == ECO_PRODUCT_NN ? p->k
                                                         : p->m) /
                            H;
    const struct eco_range mine = eco_cpu_part(run, heads, 1);
    for (int32_t head = mine.from; head < mine.to; head++)
        for (int32_t number = 0; number < numbers; number++)
            multiply_head(run, p, number, head);
}

static void forward(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const size_t units = (size_t)matrix.units, columns = (size_t)matrix.columns;
    const void *weights = eco_bind_weights(run->layout, run->args, m->op, m->part);
    if (m->bias) {
        fill_bias(run, m);
        eco_cpu_wait(run);
    }
    struct eco_dense_product product = {.kind = ECO_PRODUCT_NT,
                                        .m = m->rows,
                                        .k = matrix.columns,
                                        .a = m->a,
                                        .a_row = m->a_row,
                                        .b_row = columns,
                                        .c_row = m->c_row,
                                        .add = m->add || m->bias};
    struct eco_acc_range span;
    for (int a = 0; eco_acc_range_next(run->lowered, m->part, a, &span); a = span.end) {
        product.n = (span.end - span.first) * matrix.units;
        product.b = eco_cpu_after(run->layout->sum, weights, (size_t)span.before * units * columns);
        product.c = eco_cpu_after_mutable(run->layout->sum, m->c, (size_t)span.first * units);
        multiply_part(run, m, &product);
    }
}

static void back(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const size_t units = (size_t)matrix.units, columns = (size_t)matrix.columns;
    const void *weights = eco_bind_weights(run->layout, run->args, m->op, m->part);
    struct eco_dense_product product = {.kind = ECO_PRODUCT_NN,
                                        .m = m->rows,
                                        .n = matrix.columns,
                                        .a_row = m->a_row,
                                        .b_row = columns,
                                        .c = m->c,
                                        .c_row = m->c_row,
                                        .add = m->add};
    struct eco_acc_range span;
    for (int a = 0; eco_acc_range_next(run->lowered, m->part, a, &span); a = span.end) {
        product.k = (span.end - span.first) * matrix.units;
        product.a = eco_cpu_after(run->layout->sum, m->a, (size_t)span.first * units);
        product.b = eco_cpu_after(run->layout->sum, weights, (size_t)span.before * units * columns);
        if (a > 0)
            eco_cpu_wait(
                run); /* this one adds to what the previous span wrote, with another division */
        multiply_part(run, m, &product);
        product.add = true;
    }
}

static void multiply(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    (m->back ? back : forward)(run, m);
}

/* product += A^T C over a range of rows, A from a column on. */
static void add_stretch(const struct eco_cpu_run *run, const struct eco_multiply *m,
                        const struct eco_row_range *some, struct eco_dense_product *product,
                        size_t column)
{
    const int32_t most = eco_cpu_gradient_rows(run);
    for (int32_t k = 0; k < some->rows; k += product->k, product->add = true) {
        const size_t row = (size_t)some->step * (size_t)run->args->N + (size_t)k;
        if (k > 0)
            eco_cpu_gradient_join(run, m->op);
        product->k = some->rows - k < most ? some->rows - k : most;
        product->a = eco_cpu_after(run->layout->sum, m->a, row * m->a_row + column);
        product->b = eco_cpu_after(run->layout->sum, m->c, row * m->c_row);
        multiply_part(run, m, product);
    }
}

static void add_gradient(const struct eco_cpu_run *run, const struct eco_multiply *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const size_t units = (size_t)matrix.units, columns = (size_t)matrix.columns;
    char *gradient = eco_cpu_gradient(run, m->op, m->part);
    struct eco_dense_product product = {.kind = ECO_PRODUCT_TN,
                                        .n = matrix.columns,
                                        .a_row = m->a_row,
                                        .b_row = m->c_row,
                                        .c_row = columns};
    struct eco_acc_range span;
    const bool heads = run->problem->heads > 1 && m->part >= ECO_WEIGHT_RECURRENT;
    if ((m->rows == 0 || heads) && !m->add && run->id == 0)
        memset(gradient, 0, (size_t)matrix.n * units * columns * eco_type_bytes(run->layout->type));
    if (heads && !m->add)
        eco_cpu_wait(run);
    for (int a = 0; eco_acc_range_next(run->lowered, m->part, a, &span); a = span.end) {
        product.m = (span.end - span.first) * matrix.units;
        product.c = eco_cpu_after_mutable(run->layout->sum, gradient,
                                          (size_t)span.before * units * columns);
        product.add = m->add;
        for (struct eco_row_range some = {0}; eco_cpu_next_row_range(run, m->op, &some);
             product.add = true) {
            if (some.step > 0)
                eco_cpu_wait(run); /* the division of C depends on k, so this one adds to what
                                      others wrote */
            add_stretch(run, m, &some, &product, (size_t)span.first * units);
        }
    }
}

void eco_dense_weights(const struct eco_cpu_run *run, const struct eco_multiply *multiply, int n)
{
    for (int i = 0; i < n; i++)
        add_gradient(run, &multiply[i]);
}

const struct eco_products eco_dense_products = {
    .multiply = multiply, .weights = eco_dense_weights, .uses_cblas = true};
