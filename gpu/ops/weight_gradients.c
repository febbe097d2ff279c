/*
 * The gradients of weights: large products and sums over all steps of an op.
 */
#include "gpu/gemm/grouped/grouped.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/gemm/gemm.h"
#include "gpu/ops/ops.h"

/* Sums of columns of dacc. */
static void vectors(struct eco_gpu_run *run, const struct eco_matmul *matmul, bool halves)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    const struct eco_gpu *gpu = run->plan->device->context;
    const struct eco_op *op = matmul->op;
    struct eco_columns_call call = {
        .rows_of = {(void *)(uintptr_t)matmul->a, 0, matmul->a_row, run->layout->type},
        .vectors = eco_bind_gradient(run->layout, run->args, op, ECO_WEIGHT_VECTORS),
        .vector_type = run->layout->sum,
        .rows = matmul->rows,
        .hidden = run->problem->H,
        .column = eco_gpu_column(run),
        .add = matmul->add};
    for (int i = 0; i < recipe->n_params; i++)
        if (recipe->param[i].kind == ECO_PARAM_VECTOR)
            call.place[call.groups++] = (int16_t)eco_vector_column(run->lowered, i);
    call.parts = eco_gpu_room(run, op, &call.parts_bytes);
    if (halves) { /* the conversion to F16 has already made partial sums of columns */
        call.rows_of = eco_gpu_scaled_f16_sums(run, op, &call.rows);
        call.parts_bytes = ECO_ROOM_OF_MANY;
    }
    if (run->status == ECORNN_OK && (halves || !eco_gpu_grouped_sums(run, &call)))
        eco_gpu_note_cuda(run, eco_launch_sum(&call, gpu->overlap, run->stream),
                          "gradients of vectors");
}

/* The projection's gradient: dh^T u. */
static void projection(struct eco_gpu_run *run, const struct eco_bound *bound,
                       struct eco_matmul matmul)
{
    const int32_t t0 = bound->op->t0;
    matmul.weight_id = ECO_WEIGHT_PROJECT;
    matmul.a = eco_view_at(&bound->h, t0);
    matmul.a_row = bound->h.row;
    matmul.c = eco_view_at(&bound->u, t0);
    matmul.c_row = bound->u.row;
    eco_gpu_multiply_weights(run, &matmul);
}

/* ---- products -------------------------------------------------------------------------------- */

/* One product for each operand. A state has two, because before the direction's first step it is in
 * another array. */
enum { MOST_PRODUCTS = 1 + 2 * ECO_MAX_OPERANDS };

/* Products dacc^T C; C NULL: zeros. */
struct products {
    struct eco_matmul of[MOST_PRODUCTS];
    int n;
};

/* The contribution of steps [t0,t1) of the op to the gradient of R of a state: dacc^T e. */
static struct eco_matmul of_steps(const struct eco_gpu_run *run, const struct eco_bound *bound,
                                  struct eco_matmul matmul, int s, int32_t t0, int32_t t1)
{
    const struct eco_plane e = eco_gpu_plane(eco_bound_before(bound, s, t0), t0);
    matmul.first = (t0 - matmul.op->t0) * run->args->N;
    matmul.rows = (t1 - t0) * run->args->N;
    matmul.a = eco_gpu_after(matmul.a, (size_t)matmul.first * matmul.a_row, run->layout->type);
    matmul.c = e.data;
    matmul.c_row = t1 - t0 > 1 && run->args->N == 1 ? e.step : e.row;
    matmul.narrow = s > 0; /* states in the reserve may have no padding */
    return matmul;
}

/* Adds the products for state s. Steps [t0,t1) have the state before them in one array; for the
 * direction's first step it is in another. */
static void add_state(const struct eco_gpu_run *run, const struct eco_bound *bound,
                      struct products *products, struct eco_matmul matmul, int s)
{
    const struct eco_op *op = bound->op;
    const int32_t first = op->reversed ? op->t1 - 1 : op->t0;
    const bool begins = bound->begins[s] && first == bound->first;
    const int32_t t0 = op->t0 + (int32_t)(begins && !op->reversed),
                  t1 = op->t1 - (int32_t)(begins && op->reversed);
    if (t0 < t1) {
        products->of[products->n++] = of_steps(run, bound, matmul, s, t0, t1);
        matmul.add = true;
    }
    if (begins)
        products->of[products->n++] = of_steps(run, bound, matmul, s, first, first + 1);
}

/* Adds the product for the input (o < 0), or for an operand that the cell computes. */
static void add_plane(const struct eco_gpu_run *run, const struct eco_bound *bound,
                      struct products *products, struct eco_matmul matmul, int o)
{
    const struct eco_view *view = o < 0 ? &bound->input : &bound->operand;
    const size_t column = (size_t)eco_gpu_column(run),
                 slot = o < 0 ? 0 : (size_t)run->lowered->operand[o].slot;
    matmul.c = eco_gpu_after(eco_view_at(view, bound->op->t0), slot * column, view->type);
    matmul.c_row = view->row;
    products->of[products->n++] = matmul;
}

static struct products products_of(const struct eco_gpu_run *run, const struct eco_bound *bound,
                                   struct eco_matmul matmul)
{
    struct products products = {.n = 0};
    matmul.weight_id = ECO_WEIGHT_INPUT;
    add_plane(run, bound, &products, matmul, -1);
    for (int o = 0; o < run->lowered->n_operands; o++) {
        const int state = run->lowered->operand[o].state;
        matmul.weight_id = ECO_WEIGHT_RECURRENT + o;
        if (state >= 0)
            add_state(run, bound, &products, matmul, state);
        else
            add_plane(run, bound, &products, matmul, o);
    }
    return products;
}

static void multiply(struct eco_gpu_run *run, const struct eco_matmul *matmul)
{
    if (matmul->c != NULL)
        eco_gpu_multiply_weights(run, matmul);
    else if (!matmul->add) /* the only contribution, and it is zero */
        eco_gpu_clear_weights(run, matmul);
}

/* Tries to compute W's gradient and that of the first R in one product; returns how many products
 * that replaces. */
static int multiply_first(struct eco_gpu_run *run, const struct products *products)
{
    const struct eco_matmul *of = products->of;
    const bool both = products->n > 1 && of[1].weight_id == ECO_WEIGHT_RECURRENT &&
                      of[1].c != NULL && run->lowered->operand[0].state >= 0 &&
                      eco_gpu_multiply_both_weights(run, of, of[1].first);
    return both ? 2 : 0;
}

/* Computes several products at a time, without those for missing matrices or zeros. */
static void multiply_halves(struct eco_gpu_run *run, struct products *products)
{
    struct eco_scaled_f16 scaled[ECO_SCALED_F16_MATRICES];
    struct products real = {.n = 0};
    for (int i = 0; i < products->n; i++) {
        const struct eco_matmul *m = &products->of[i];
        if (m->c == NULL)
            multiply(run, m);
        else if (eco_layout_matrix(run->layout, m->op->layer, m->weight_id)->n > 0)
            real.of[real.n++] = *m;
    }
    for (int i = 0; i < real.n; i += ECO_SCALED_F16_MATRICES) {
        const int n = real.n - i < ECO_SCALED_F16_MATRICES ? real.n - i : ECO_SCALED_F16_MATRICES;
        eco_gpu_scaled_f16_gradients(run, &real.of[i], n, scaled);
        for (int j = i; j < i + n; j++)
            multiply(run, &real.of[j]);
    }
}

static void add_gradients(struct eco_gpu_run *run, const struct eco_bound *bound, bool halves)
{
    const struct eco_op *op = bound->op;
    struct eco_matmul matmul = {.op = op,
                                .rows = (op->t1 - op->t0) * run->args->N,
                                .a = eco_view_at(&bound->acc, op->t0),
                                .a_row = bound->acc.row,
                                .add = op->add || run->args->accumulate};
    struct products products = products_of(run, bound, matmul);
    if (halves)
        eco_gpu_scaled_f16_dacc(run, op, false);
    vectors(run, &matmul, halves);
    if (halves) {
        multiply_halves(run, &products);
    } else {
        for (int i = multiply_first(run, &products); i < products.n; i++)
            multiply(run, &products.of[i]);
    }
    if (run->problem->projected)
        projection(run, bound, matmul);
}

void eco_gpu_d_weights(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const bool halves = eco_gpu_scales_back(run, bound->op);
    if (run->args->dweights != NULL)
        add_gradients(run, bound, halves);
    if (halves) /* F16 operands were in the padding of dacc's rows, which must be zero */
        eco_gpu_fill_columns(run, bound->op);
}
