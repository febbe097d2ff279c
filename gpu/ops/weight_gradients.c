/*
 * The verb GRADIENTS: large products and sums over all steps of an op.
 */
#include "gpu/gemm/grouped/grouped.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/gemm/gemm.h"
#include "gpu/ops/ops.h"

/* ---- sums of columns of dacc ----------------------------------------------------------------- */

/* Sums of many rows read memory while products multiply: on a stream of their own, with the end of
 * the products' room. Not if the tape has lanes, which use these streams. */
static bool forks(const struct eco_gpu_run *run, const struct eco_matmul *matmul)
{
    enum { ROWS = 4096, ROOM = 8 << 20 };
    return run->status == ECORNN_OK && run->launch.lanes == 1 && matmul->rows >= ROWS &&
           eco_type_narrow(run->layout->type) && run->layout->request.gpu.product_bytes >= ROOM;
}

enum { SECOND = 1 /* the stream of sums */, LENT = 1 << 20 /* bytes of room */ };

void eco_gpu_follow(struct eco_gpu_run *run, cudaStream_t stream, cudaStream_t ahead, int event)
{
    const struct eco_gpu_set *set = run->set;
    eco_gpu_note_cuda(run, cudaEventRecord(set->event[event], ahead), "cudaEventRecord");
    eco_gpu_note_cuda(run, cudaStreamWaitEvent(stream, set->event[event], 0),
                      "cudaStreamWaitEvent");
}

static void vectors(struct eco_gpu_run *run, const struct eco_matmul *matmul, bool halves,
                    cudaStream_t stream)
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
    if (run->blas.lent > 0) {
        call.parts_bytes = run->blas.lent;
        call.parts = (char *)call.parts + eco_gpu_room_of_many(run, NULL);
    }
    if (halves) { /* the conversion to F16 has already made partial sums of columns */
        call.rows_of = eco_gpu_scaled_f16_sums(run, op, &call.rows);
        call.parts_bytes = ECO_ROOM_OF_MANY;
    }
    if (run->status == ECORNN_OK && (halves || !eco_gpu_grouped_sums(run, &call)))
        eco_gpu_note_cuda(run, eco_launch_sum(&call, gpu->overlap, stream), "gradients of vectors");
}

/* ---- products -------------------------------------------------------------------------------- */

/* Products dacc^T C; C NULL: zeros. */
struct products {
    struct eco_matmul of[ECO_MOST_GRADIENTS];
    int n;
};

/* Is the weight that of a state in the reserve, whose rows may have no padding? */
static bool is_narrow(const struct eco_gpu_run *run, int weight_id)
{
    const int o = weight_id - ECO_WEIGHT_RECURRENT;
    return o >= 0 && run->lowered->operand[o].state > 0;
}

static struct products products_of(const struct eco_gpu_run *run,
                                   const struct eco_gradients *gradients, struct eco_matmul matmul)
{
    struct products products = {.n = gradients->n};
    const void *const first = matmul.a;
    for (int i = 0; i < gradients->n; i++) {
        const struct eco_gradient_term *part = &gradients->part[i];
        const struct eco_plane c = eco_gpu_plane(&part->c, part->t0);
        const int32_t steps = part->t1 - part->t0;
        matmul.weight_id = part->weight_id;
        matmul.first = (part->t0 - gradients->op->t0) * run->args->N;
        matmul.rows = steps * run->args->N;
        matmul.a = eco_gpu_after(first, (size_t)matmul.first * matmul.a_row, run->layout->type);
        matmul.c = c.data;
        matmul.c_row = steps > 1 && run->args->N == 1 ? c.step : c.row;
        matmul.narrow = is_narrow(run, part->weight_id);
        if (i > 0 && part[-1].weight_id == part->weight_id)
            matmul.add = true;
        products.of[i] = matmul;
        matmul.add = products.of[0].add;
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

static void add_gradients(struct eco_gpu_run *run, const struct eco_gradients *gradients,
                          bool halves)
{
    const struct eco_op *op = gradients->op;
    struct eco_matmul matmul = {.op = op,
                                .rows = (op->t1 - op->t0) * run->args->N,
                                .a = eco_view_at(&gradients->dacc, op->t0),
                                .a_row = gradients->dacc.row,
                                .add = op->add || run->args->accumulate};
    struct products products = products_of(run, gradients, matmul);
    if (halves)
        eco_gpu_scaled_f16_dacc(run, op, false);
    const bool fork = !halves && forks(run, &matmul);
    const cudaStream_t second = fork ? run->set->stream[SECOND] : run->stream;
    if (fork) {
        eco_gpu_follow(run, second, run->stream, 0);
        run->blas.lent = LENT;
    }
    vectors(run, &matmul, halves, second);
    if (halves) {
        multiply_halves(run, &products);
    } else {
        for (int i = multiply_first(run, &products); i < products.n; i++)
            multiply(run, &products.of[i]);
    }
    if (fork) {
        eco_gpu_follow(run, run->stream, second, SECOND);
        run->blas.lent = 0;
        eco_launch_serialize(&run->launch, ECO_SERIALIZED_COPY);
    }
    if (gradients->u.first == NULL)
        return;
    matmul.weight_id = ECO_WEIGHT_PROJECT;
    matmul.a = eco_view_at(&gradients->dh, op->t0);
    matmul.a_row = gradients->dh.row;
    matmul.c = eco_view_at(&gradients->u, op->t0);
    matmul.c_row = gradients->u.row;
    eco_gpu_multiply_weights(run, &matmul);
}

void eco_gpu_gradients(struct eco_gpu_run *run, const struct eco_gradients *gradients)
{
    if (run->args->dweights != NULL)
        add_gradients(run, gradients, eco_gpu_scales_back(run, gradients->op));
}
