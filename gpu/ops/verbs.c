/*
 * The verbs of the GPU, program/verbs.h: each queues launches on the run's stream. MOVE and CUT are
 * in view/run.c, GRADIENTS in weight_gradients.c.
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

/* Ends the span where its biases no longer follow each other, so that a product adds those before;
 * else biases would be written first and read again, which takes longer than a launch if there are
 * many sums. Not where operands are split first, nor if N must not change an order of sums. */
static void cut_at_bias(const struct eco_gpu_run *run, const struct eco_matmul *m,
                        struct eco_acc_range *span)
{
    enum { MANY = 1 << 21 };
    const struct eco_problem *problem = run->problem;
    const int64_t sums = (int64_t)m->rows * problem->H * (span->end - span->first);
    const bool tensor =
        eco_type_narrow(problem->type) || (problem->type == ECORNN_F32 && problem->fast);
    if (!tensor || problem->row_invariant || sums < MANY || eco_gpu_column(run) != problem->H ||
        eco_gpu_bias(run, span->first) < 0)
        return;
    for (int a = span->first + 1; a < span->end; a++)
        if (eco_gpu_bias(run, a) != eco_gpu_bias(run, a - 1) + 1)
            span->end = a;
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
        cut_at_bias(run, m, &span);
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
        eco_gpu_fork_dx(run, matmul->op);
        eco_gpu_multiply_back(run, matmul);
        return;
    }
    eco_gpu_scaled_f16_dacc(run, matmul->op, true);
    eco_gpu_scaled_f16_dx(run, matmul);
}

static void weight_product(void *context, const struct eco_weight_product *product)
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

/* ---- the padding of rows --------------------------------------------------------------------- */

/*
 * Fills the padding of rows with zeros. Code that writes whole rows, such as the gathered input or
 * a copy of y, writes their padding itself.
 */

/* Sets the padding of rows to 0. It follows the `width` elements of each of `times` rows, which are
 * `row` elements apart. */
static void fill(struct eco_gpu_run *run, const struct eco_view *view, size_t width, size_t row,
                 size_t times)
{
    const struct eco_gaps_call call = {
        .data = eco_gpu_after(view->first, width, view->type),
        .row = row,
        .width = (int32_t)(eco_request_row(&run->layout->request, width) - width),
        .times = (int64_t)times,
        .bytes = eco_type_bytes(view->type)};
    if (call.width > 0 && run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_gaps(&call, run->stream), "filling up rows");
}

/* Fills the padding of columns that are H wide, in `steps` steps. */
static void fill_columns(struct eco_gpu_run *run, const struct eco_op *op, enum eco_inner which,
                         int32_t steps)
{
    const struct eco_view view = eco_bind_array(run->layout, run->args, op, which, 0);
    const size_t column = (size_t)eco_gpu_column(run);
    fill(run, &view, (size_t)run->problem->H, column,
         view.row / column * (size_t)steps * (size_t)run->layout->N);
}

/* Are planes used in turn? Then each direction has its own padded part of a row;
 * otherwise the layer above reads both directions as one row. */
static bool takes_turns(const struct eco_view *planes)
{
    return planes->mask != SIZE_MAX;
}

bool eco_gpu_fills_state(const struct eco_gpu_run *run, const struct eco_view *planes)
{
    return run->problem->D == 1 || takes_turns(planes);
}

static void fill_planes(struct eco_gpu_run *run, const struct eco_op *op,
                        const struct eco_view *state, int32_t width)
{
    const bool turns = takes_turns(state);
    const size_t planes = turns ? state->mask + 1 : (size_t)run->layout->T + 2;
    const size_t parts = turns ? 1 : (size_t)run->problem->D;
    if (turns || op->d == 0)
        fill(run, state, parts * (size_t)width, state->row, planes * (size_t)run->layout->N);
}

/* Fills the padding of rows that products read with zeros, before the first step of forward. */
static void fill_rows(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const bool persistent = eco_gpu_is_batched(run, ECO_STEP);
    if (!run->layout->request.gpu.padded)
        return;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        bool read = s == 0 && !takes_turns(&bound->before[0]);
        for (int o = 0; o < run->lowered->n_operands; o++)
            read |= !persistent && run->lowered->operand[o].state == s;
        if (read)
            fill_planes(run, bound->op, &bound->before[s], eco_problem_width(run->problem, s));
    }
    fill_columns(run, bound->op, ECO_INNER_OPERAND, 1);
}

static void fill_all_columns(struct eco_gpu_run *run, const struct eco_op *op)
{
    fill_columns(run, op, ECO_INNER_DACC, run->layout->weights_steps);
    fill_columns(run, op, ECO_INNER_OPERAND, run->layout->weights_steps);
}

/* ---- all verbs ------------------------------------------------------------------------------- */

static void gradients_of(void *context, const struct eco_gradients *gradients)
{
    struct eco_gpu_run *run = context;
    eco_gpu_gradients(run, gradients);
    /* F16 operands were in the padding of dacc's rows, which must be zero */
    if (eco_gpu_scales_back(run, gradients->op))
        fill_all_columns(run, gradients->op);
}

const struct eco_verbs eco_gpu_verbs = {
    .move = eco_gpu_move, .cut = eco_gpu_cut, .product = weight_product, .gradients = gradients_of};

/* Prepares what the ops of a layer read: copies of its weights, and padding. */
static void prepare(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const int kind = bound->op->kind;
    /* products of the layer above have written to the exchange's memory */
    if (kind == ECO_D_BEGIN && eco_layout_shares_exchange(run->layout, true))
        eco_launch_serialize(&run->launch, ECO_SERIALIZED_EXCHANGE);
    if (kind == ECO_BEGIN || kind == ECO_D_BEGIN)
        eco_gpu_copy_weights(run, bound->op);
    if (kind == ECO_D_BEGIN && eco_gpu_halves_back(run))
        eco_gpu_scaled_f16_recurrent(run, bound->op);
    if (kind == ECO_BEGIN)
        fill_rows(run, bound);
    if (kind == ECO_D_BEGIN)
        fill_all_columns(run, bound->op);
}

/* States that need no copy before the first step or after the last, see eco_target. */
static uint16_t skipped(const struct eco_gpu_run *run, const struct eco_bound *bound)
{
    enum { ALL = UINT16_MAX };
    const bool one_by_one = !eco_gpu_is_batched(run, ECO_STEP);
    const int kind = bound->op->kind;
    if (kind == ECO_END)
        return one_by_one ? eco_gpu_ends_at_caller(run, bound) : 0;
    if (kind == ECO_D_BEGIN)
        return eco_gpu_begins_itself(run, ECO_D_STEP) ? ALL : eco_gpu_zero_carry(run);
    if (kind != ECO_BEGIN)
        return 0;
    if (run->args->resets != NULL)
        return eco_gpu_begins_in_planes(run) ? 0 : ALL;
    if (one_by_one)
        return eco_gpu_zero_states(run) | eco_gpu_begins_at_caller(run, bound);
    return eco_gpu_begins_itself(run, ECO_STEP) ? ALL : eco_gpu_zero_states(run);
}

void eco_gpu_expand_without(struct eco_gpu_run *run, const struct eco_bound *bound,
                            uint16_t without)
{
    const struct eco_target target = {&eco_gpu_verbs, run, run->layout, run->args, without};
    eco_expand(&target, bound);
}

void eco_gpu_expand(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    prepare(run, bound);
    eco_gpu_expand_without(run, bound, skipped(run, bound));
}
