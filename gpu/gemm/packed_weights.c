/*
 * Products with the packed weights, one for each run of accumulators, and copies of weights.
 */
#include "gpu/gemm/bytes/bytes.h"
#include "gpu/gemm/grouped/grouped.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/gemm/emulated_f32/presplit.h"

/* ---- copies ---------------------------------------------------------------------------------- */

static void widen_bytes(struct eco_gpu_run *run, const struct eco_op *op, int part, void *to)
{
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, op->layer, part);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(
            run,
            eco_launch_widen_bytes(to, eco_bind_weights(run->layout, run->args, op, part),
                                   eco_gpu_scales(run, op, part), matrix->n * matrix->height,
                                   matrix->row, run->stream),
            "widening weights");
}

static void widen(struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, op->layer, part);
    const struct eco_view view =
        eco_bind_array(run->layout, run->args, op, ECO_INNER_WIDENED, part);
    if (run->layout->weight == ECORNN_S8) {
        widen_bytes(run, op, part, view.first);
        return;
    }
    const struct eco_move_call call = {
        .to = {.data = view.first, .row = view.row, .type = view.type},
        .from = {.data = (void *)(uintptr_t)eco_bind_weights(run->layout, run->args, op, part),
                 .row = view.row,
                 .type = run->layout->weight},
        .steps = 1,
        .rows = matrix->n * matrix->height,
        .width = matrix->row};
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(&call, run->stream), "widening weights");
}

static void transpose(struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, op->layer, part);
    const struct eco_view view =
        eco_bind_array(run->layout, run->args, op, ECO_INNER_TRANSPOSED, part);
    const struct eco_transpose_call call = {.to = view.first,
                                            .from = eco_gpu_weights(run, op, part),
                                            .rows = matrix->n * matrix->height,
                                            .columns = matrix->row,
                                            .bytes = eco_type_bytes(view.type)};
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_transpose(&call, run->stream), "transposing R");
    eco_launch_concurrent(&run->launch);
}

void eco_gpu_copy_weights(struct eco_gpu_run *run, const struct eco_op *op)
{
    const struct eco_layout_request *request = &run->layout->request;
    for (int weight_id = 0; weight_id < ECO_WEIGHT_IDS && request->gpu.widened; weight_id++)
        if (weight_id != ECO_WEIGHT_VECTORS)
            widen(run, op, weight_id);
    if (eco_gpu_halves_back(run)) /* steps read another copy */
        return;
    for (int weight_id = ECO_WEIGHT_RECURRENT;
         weight_id < ECO_WEIGHT_IDS && request->gpu.transposed[run->args->backward]; weight_id++)
        transpose(run, op, weight_id);
    for (int o = 0; o < run->lowered->n_operands && eco_gpu_prepares(run); o++)
        eco_gpu_prepare_matrix(run, op, ECO_WEIGHT_RECURRENT + o);
}

/* ---- products -------------------------------------------------------------------------------- */

static struct eco_matrix matrix_of(const struct eco_gpu_run *run, const struct eco_matmul *m)
{
    return *eco_layout_matrix(run->layout, m->op->layer, m->weight_id);
}

/* Columns of the matrix for products. */
int32_t eco_gpu_columns(const struct eco_gpu_run *run, const struct eco_matmul *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    /* in a row of x the rest is followed by parts, not by zeros */
    const bool parts = m->weight_id == ECO_WEIGHT_INPUT && run->problem->cell->recipe.n_parts > 0;
    const bool whole =
        m->scaled != NULL || (run->layout->request.gpu.padded && !m->narrow && !parts);
    return whole ? matrix.row : matrix.columns;
}

/* Type of A and of its weights. */
static ecornn_type type_of(const struct eco_gpu_run *run, const struct eco_matmul *m)
{
    return m->scaled != NULL ? ECORNN_F16 : run->layout->type;
}

/* A part of the weights for products: transposed if there is such a copy for products of the pass.
 * back: C = A M.  Else C = A M^T, of forward and, in a replay, of backward. */
struct weights {
    const void *data;
    bool transposed;
    size_t row;    /* elements from one of its rows to the next */
    size_t number; /* elements from one of the matrix's n to the next */
};

static struct weights weights_of(const struct eco_gpu_run *run, const struct eco_matmul *m,
                                 bool back)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const size_t height = (size_t)matrix.height, row = (size_t)matrix.row;
    if (m->scaled != NULL)
        return (struct weights){m->scaled->weights, false, row, height * row};
    if (!run->layout->request.gpu.transposed[back] || back != run->args->backward ||
        m->weight_id < ECO_WEIGHT_RECURRENT)
        return (struct weights){eco_gpu_weights(run, m->op, m->weight_id), false, row,
                                height * row};
    const struct eco_view view =
        eco_bind_array(run->layout, run->args, m->op, ECO_INNER_TRANSPOSED, m->weight_id);
    return (struct weights){view.first, true, view.row, height};
}

static ecornn_type c_type_of(const struct eco_gpu_run *run, const struct eco_matmul *m)
{
    return eco_type_narrow(m->c_type) ? m->c_type : run->layout->sum;
}

struct eco_product eco_gpu_span_product(const struct eco_gpu_run *run, const struct eco_matmul *m,
                                        const struct eco_acc_range *span)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const struct weights weights = weights_of(run, m, false);
    const ecornn_type c_type = c_type_of(run, m);
    const bool bytes = eco_gpu_reads_bytes(run);
    const size_t before = (size_t)span->before * weights.number;
    return (struct eco_product){
        .kind = weights.transposed ? ECO_NN : ECO_NT,
        .m = m->rows,
        .n = (span->end - span->first) * matrix.height,
        .k = eco_gpu_columns(run, m),
        .a = m->a,
        .b = bytes ? (const char *)weights.data + before
                   : eco_gpu_after(weights.data, before, type_of(run, m)),
        .scales = bytes ? eco_gpu_scales(run, m->op, m->weight_id) +
                              (size_t)span->before * (size_t)matrix.height
                        : NULL,
        .c = eco_gpu_after(m->c, (size_t)span->first * (size_t)matrix.height, c_type),
        .a_row = m->a_row,
        .b_row = weights.row,
        .c_row = m->c_row,
        .c_type = c_type,
        .scaled = m->scaled,
        .add = m->add};
}

void eco_gpu_multiply_span(struct eco_gpu_run *run, const struct eco_matmul *m,
                           const struct eco_acc_range *span)
{
    const struct eco_product product = eco_gpu_span_product(run, m, span);
    if (!eco_gpu_multiply_prepared(run, m, span, &product))
        eco_gpu_product(run, &product);
}

void eco_gpu_multiply(struct eco_gpu_run *run, const struct eco_matmul *m)
{
    struct eco_acc_range span;
    for (int a = 0; eco_acc_range_next(run->lowered, m->weight_id, a, &span); a = span.end)
        eco_gpu_multiply_span(run, m, &span);
}

void eco_gpu_multiply_back(struct eco_gpu_run *run, const struct eco_matmul *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const struct weights weights = weights_of(run, m, true);
    struct eco_product product = {.kind = weights.transposed ? ECO_NT : ECO_NN,
                                  .m = m->rows,
                                  .n = eco_gpu_columns(run, m),
                                  .a_row = m->a_row,
                                  .b_row = weights.row,
                                  .c = m->c,
                                  .c_row = m->c_row,
                                  .c_type = c_type_of(run, m),
                                  .scaled = m->scaled,
                                  .add = m->add,
                                  .slices = m->slices};
    struct eco_acc_range span;
    for (int a = 0; eco_acc_range_next(run->lowered, m->weight_id, a, &span); a = span.end) {
        product.k = (span.end - span.first) * matrix.height;
        product.a =
            eco_gpu_after(m->a, (size_t)span.first * (size_t)matrix.height, type_of(run, m));
        product.b =
            eco_gpu_after(weights.data, (size_t)span.before * weights.number, type_of(run, m));
        if (!eco_gpu_multiply_prepared(run, m, &span, &product))
            eco_gpu_product(run, &product);
        product.add = true;
    }
}

static struct eco_product gradient_of(const struct eco_gpu_run *run, const struct eco_matmul *m,
                                      const struct eco_acc_range *span)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const size_t height = (size_t)matrix.height, row = (size_t)matrix.row;
    char *gradient = eco_bind_gradient(run->layout, run->args, m->op, m->weight_id);
    return (struct eco_product){
        .kind = ECO_TN,
        .m = (span->end - span->first) * matrix.height,
        .n = eco_gpu_columns(run, m),
        .k = m->rows,
        .a = eco_gpu_after(m->a, (size_t)span->first * height, type_of(run, m)),
        .scaled = m->scaled,
        .a_row = m->a_row,
        .b = m->c,
        .b_row = m->c_row,
        .c = eco_gpu_after(gradient, (size_t)span->before * height * row, run->layout->sum),
        .c_row = row,
        .c_type = run->layout->sum,
        .add = m->add};
}

void eco_gpu_multiply_weights(struct eco_gpu_run *run, const struct eco_matmul *m)
{
    struct eco_acc_range span;
    for (int a = 0; eco_acc_range_next(run->lowered, m->weight_id, a, &span); a = span.end) {
        const struct eco_product product = gradient_of(run, m, &span);
        eco_gpu_product(run, &product);
    }
}

bool eco_gpu_multiply_both_weights(struct eco_gpu_run *run, const struct eco_matmul m[2],
                                   int32_t begin)
{
    struct eco_product product[2];
    struct eco_acc_range span[2], more;
    for (int j = 0; j < 2; j++) {
        if (!eco_acc_range_next(run->lowered, m[j].weight_id, 0, &span[j]) ||
            eco_acc_range_next(run->lowered, m[j].weight_id, span[j].end, &more) ||
            span[j].first != span[0].first || span[j].end != span[0].end)
            return false;
        product[j] = gradient_of(run, &m[j], &span[j]);
    }
    return !eco_gpu_takes_grouped(run, &product[0]) &&
           eco_gpu_products_emulated(run, product, begin);
}

void eco_gpu_clear_weights(struct eco_gpu_run *run, const struct eco_matmul *m)
{
    const struct eco_matrix matrix = matrix_of(run, m);
    const size_t elements = (size_t)matrix.n * (size_t)matrix.height * (size_t)matrix.row;
    char *gradient = eco_bind_gradient(run->layout, run->args, m->op, m->weight_id);
    if (eco_gpu_grouped_zeros(run, gradient, matrix.n * matrix.height, matrix.row))
        return;
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(
            run,
            cudaMemsetAsync(gradient, 0, elements * eco_type_bytes(run->layout->sum), run->stream),
            "clearing gradients");
    eco_launch_serialize(&run->launch, ECO_SERIALIZED_COPY);
}
