/*
 * The input product of many steps: accumulators = W x + b. If the product cannot add biases, a
 * kernel first fills them in, and the product adds to them.
 */
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/gemm/packed_weights.h"
#include "gpu/ops/ops.h"

/* ---- biases by themselves -------------------------------------------------------------------- */

int eco_gpu_bias(const struct eco_gpu_run *run, int a)
{
    const int param = run->lowered->acc[a].vector;
    return param < 0 ? -1 : eco_vector_number(&run->problem->cell->recipe, param);
}

/* Fills accumulators first to end - 1 with their biases, or 0 if they have none. */
static void fill_bias(struct eco_gpu_run *run, const struct eco_op *op, struct eco_plane acc,
                      int32_t rows, int first, int end)
{
    struct eco_columns_call call = {
        .rows_of = acc,
        .vectors = (void *)(uintptr_t)eco_gpu_weights(run, op, ECO_WEIGHT_VECTORS),
        .vector_type = acc.type,
        .rows = rows,
        .hidden = run->problem->H,
        .column = eco_gpu_column(run),
        .groups = end - first};
    call.rows_of.data =
        eco_gpu_after(acc.data, (size_t)first * (size_t)eco_gpu_column(run), acc.type);
    for (int a = first; a < end; a++)
        call.place[a - first] = (int16_t)eco_gpu_bias(run, a);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_fill(&call, run->stream), "filling in biases");
}

/* ---- products with biases -------------------------------------------------------------------- */

/* The biases of a range of accumulators, in the order of these; NULL: they have another order, or
 * some do not exist. */
static const void *biases_of(const struct eco_gpu_run *run, const struct eco_op *op,
                             const struct eco_acc_range *span)
{
    const int first = eco_gpu_bias(run, span->first);
    if (eco_gpu_column(run) != run->problem->H)
        return NULL;
    for (int a = span->first; a < span->end; a++)
        if (first < 0 || eco_gpu_bias(run, a) != first + a - span->first)
            return NULL;
    return eco_gpu_after(eco_gpu_weights(run, op, ECO_WEIGHT_VECTORS),
                         (size_t)first * (size_t)run->problem->H, run->layout->sum);
}

/* Computes all accumulators: those of products, and those without one before, between and after
 * them. */
static void multiply_all(struct eco_gpu_run *run, const struct eco_matmul *m, struct eco_plane acc)
{
    struct eco_matmul rest = *m;
    struct eco_scaled_f16 scaled;
    struct eco_acc_range span;
    int done = 0;
    eco_gpu_scaled_f16_input(run, &rest, &scaled);
    for (int a = 0; eco_acc_range_next(run->lowered, m->weight_id, a, &span); a = span.end) {
        fill_bias(run, m->op, acc, m->rows, done, span.first);
        done = span.end;
        if (run->status != ECORNN_OK || m->rows == 0)
            continue;
        struct eco_product product = eco_gpu_span_product(run, &rest, &span);
        product.bias = biases_of(run, m->op, &span);
        if (product.bias != NULL && eco_gpu_product(run, &product))
            continue;
        fill_bias(run, m->op, acc, m->rows, span.first, span.end);
        rest.add = true;
        eco_gpu_multiply_span(run, &rest, &span);
        rest.add = false;
    }
    fill_bias(run, m->op, acc, m->rows, done, run->lowered->n_accs);
}

/* ---- x itself -------------------------------------------------------------------------------- */

/* The accumulator that is x itself, if there is one. */
static void copy_raw(struct eco_gpu_run *run, struct eco_plane acc, struct eco_plane x,
                     int32_t rows)
{
    const size_t column = (size_t)eco_gpu_column(run);
    struct eco_move_call call = {
        .to = acc, .from = x, .steps = 1, .rows = rows, .width = run->problem->H};
    if (run->lowered->raw < 0 || run->status != ECORNN_OK)
        return;
    call.to.data = eco_gpu_after(acc.data, (size_t)run->lowered->raw * column, acc.type);
    eco_gpu_note_cuda(run, eco_launch_move(&call, run->stream), "copying x");
}

/* ---- the operation --------------------------------------------------------------------------- */

static struct eco_matmul matmul_of(const struct eco_op *op, struct eco_plane acc,
                                   struct eco_plane x, int32_t rows)
{
    return (struct eco_matmul){.op = op,
                               .weight_id = ECO_WEIGHT_INPUT,
                               .rows = rows,
                               .a = x.data,
                               .a_row = x.row,
                               .c = acc.data,
                               .c_row = acc.row};
}

void eco_gpu_add_input(struct eco_gpu_run *run, const struct eco_op *op, struct eco_plane acc,
                       struct eco_plane x, int32_t rows)
{
    const struct eco_matmul matmul = matmul_of(op, acc, x, rows);
    multiply_all(run, &matmul, acc);
    copy_raw(run, acc, x, rows);
}

void eco_gpu_input(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    const int32_t rows = (op->t1 - op->t0) * run->args->N;
    const struct eco_plane acc = eco_gpu_plane(&bound->acc, op->t0),
                           x = eco_gpu_plane(&bound->input, op->t0);
    struct eco_matmul matmul = matmul_of(op, acc, x, rows);
    struct eco_scaled_f16 scaled;
    if (!eco_gpu_is_batched(run, ECO_STEP)) {
        multiply_all(run, &matmul, acc);
        copy_raw(run, acc, x, rows);
        return;
    }
    /* the product of all steps in F16 adds the biases itself */
    eco_gpu_scaled_f16_input(run, &matmul, &scaled);
    eco_gpu_multiply(run, &matmul);
    copy_raw(run, acc, x, rows);
}
