/*
 * The verb GRADIENTS: large products and sums over all steps of an op.
 */
#include "gpu/gemm/grouped/grouped.h"
#include "gpu/gemm/scaled_f16/scaled_f16.h"
#include "gpu/gemm/gemm.h"
#include "gpu/ops/ops.h"

/* ---- a second stream ------------------------------------------------------------------------- */

/* A second stream computes a small dx and then sums over many rows, while products of weight
 * gradients run. It uses the end of the products' room. A tape with lanes needs its streams, so it
 * has none. */
enum { SECOND = 1 };

void eco_gpu_follow(struct eco_gpu_run *run, cudaStream_t stream, cudaStream_t ahead, int event)
{
    const struct eco_gpu_set *set = run->set;
    eco_gpu_note_cuda(run, cudaEventRecord(set->event[event], ahead), "cudaEventRecord");
    eco_gpu_note_cuda(run, cudaStreamWaitEvent(stream, set->event[event], 0),
                      "cudaStreamWaitEvent");
}

/* Is there room to lend, and nothing else that runs on the second stream?  Products in full F32
 * take all of the room. */
static bool may_fork(const struct eco_gpu_run *run, const struct eco_op *op)
{
    const bool narrow = eco_type_narrow(run->layout->type);
    const size_t room =
        narrow ? ECO_NARROW_BYTES : ECO_SPLITTING_BYTES + ECO_ROOM_ALIGNMENT + ECO_LENT_BYTES;
    return run->status == ECORNN_OK && run->launch.lanes == 1 &&
           (op->t1 - op->t0) * run->args->N >= ECO_LENT_ROWS && (narrow || run->problem->fast) &&
           run->layout->request.gpu.product_bytes >= room && !eco_gpu_scales_back(run, op);
}

/* The second stream gets work that waits for all that the run's stream has. */
static void fork_run(struct eco_gpu_run *run)
{
    if (run->forked)
        return;
    eco_gpu_follow(run, run->set->stream[SECOND], run->stream, 0);
    run->forked = true;
}

void eco_gpu_join(struct eco_gpu_run *run)
{
    if (!run->forked)
        return;
    eco_gpu_follow(run, run->stream, run->set->stream[SECOND], SECOND);
    run->forked = false;
    run->blas.lent = 0;
    eco_launch_serialize(&run->launch, ECO_SERIALIZED_COPY);
}

/* The part of the room that is lent, for dx and then for sums. */
static char *lent_room(const struct eco_gpu_run *run, const struct eco_op *op)
{
    size_t bytes;
    char *const room = eco_gpu_room(run, op, &bytes);
    return room + (bytes - ECO_LENT_BYTES + ECO_ROOM_ALIGNMENT - 1) / ECO_ROOM_ALIGNMENT *
                      ECO_ROOM_ALIGNMENT;
}

void eco_gpu_fork_dx(struct eco_gpu_run *run, const struct eco_op *op)
{
    const struct eco_gpu_plan *own = run->plan->context;
    const int32_t rows = (op->t1 - op->t0) * run->args->N;
    if (run->args->dweights == NULL || op->gathered || !may_fork(run, op) ||
        rows > own->dx_beside[op->layer > 0])
        return;
    fork_run(run);
    eco_gpu_point_at_stream(run, op, run->set->stream[SECOND]);
    run->blas.room = lent_room(run, op);
    run->blas.lent = run->layout->request.gpu.product_bytes - ECO_ROOM_ALIGNMENT - ECO_ROOM_OF_MANY;
}

/* ---- sums of columns of dacc ----------------------------------------------------------------- */

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
    if (run->forked) {
        call.parts = lent_room(run, op) + ECO_ROOM_OF_MANY;
        call.parts_bytes = ECO_LENT_SUMS;
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
    if (may_fork(run, op)) {
        /* dx has no room if it did not fork */
        run->blas.lent = ECO_LENT_BYTES - (run->forked ? 0 : ECO_ROOM_OF_MANY);
        fork_run(run);
    }
    vectors(run, &matmul, halves, run->forked ? run->set->stream[SECOND] : run->stream);
    if (halves) {
        multiply_halves(run, &products);
    } else {
        for (int i = multiply_first(run, &products); i < products.n; i++)
            multiply(run, &products.of[i]);
    }
    eco_gpu_join(run);
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
