/*
 * The verb PRODUCT: input products, accumulators = W x + b, and dx. If a product cannot add biases,
 * a kernel first fills them in, and the product adds to them.
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

/* ---- the verb -------------------------------------------------------------------------------- */

/* dx = dacc W */
static void multiply_back(struct eco_gpu_run *run, const struct eco_matmul *matmul)
{
    if (!eco_gpu_scales_back(run, matmul->op)) {
        eco_gpu_multiply_back(run, matmul);
        return;
    }
    eco_gpu_scaled_f16_dacc(run, matmul->op, true);
    eco_gpu_scaled_f16_dx(run, matmul);
}

void eco_gpu_weight_product(void *context, const struct eco_weight_product *product)
{
    struct eco_gpu_run *run = context;
    struct eco_matmul matmul = {.op = product->op,
                                .weight_id = product->weight_id,
                                .rows = (product->t1 - product->t0) * run->args->N,
                                .a = eco_view_at(&product->a, product->t0),
                                .a_row = product->a.row,
                                .c = eco_view_at(&product->c, product->t0),
                                .c_row = product->c.row,
                                .add = product->add};
    struct eco_scaled_f16 scaled;
    if (product->back) {
        matmul.c_type = product->c.type;
        multiply_back(run, &matmul);
    } else if (product->op->kind == ECO_INPUT && eco_gpu_is_batched(run, ECO_STEP)) {
        /* the launch of all steps adds the biases itself */
        eco_gpu_scaled_f16_input(run, &matmul, &scaled);
        eco_gpu_multiply(run, &matmul);
    } else {
        multiply_all(run, &matmul, eco_gpu_plane(&product->c, product->t0));
    }
}
