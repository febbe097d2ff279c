/*
 * The gradients of weights: large products and sums over all steps of an op.
 */
#include "gpu/matmul.h"
#include "gpu/product.h"

/* Sums of columns of dacc. */
static void vectors(struct eco_gpu_run *run, const struct eco_matmul *matmul)
{
    const struct eco_recipe *recipe = &run->problem->cell->recipe;
    const struct eco_gpu *gpu = run->plan->device->own;
    const struct eco_op *op = matmul->op;
    struct eco_columns_call call = {
        .rows_of = {(void *)(uintptr_t)matmul->a, 0, matmul->a_row, run->layout->type},
        .vectors = (char *)run->args->dweights +
                   eco_layout_gradient(run->layout, op->layer, op->d, ECO_PART_VECTORS),
        .vector_type = run->layout->sum,
        .rows = matmul->rows,
        .hidden = run->problem->H,
        .column = eco_gpu_column(run),
        .add = matmul->add};
    for (int i = 0; i < recipe->n_params; i++)
        if (recipe->param[i].kind == ECO_PARAM_VECTOR)
            call.place[call.groups++] = (int16_t)eco_vector_column(run->lowered, i);
    call.parts = eco_gpu_room(run, op, &call.parts_bytes);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_sum(&call, gpu->overlap, run->stream),
                          "gradients of vectors");
}

/* The projection's gradient: dh^T u. */
static void projection(struct eco_gpu_run *run, struct eco_matmul matmul)
{
    const struct eco_op *op = matmul.op;
    const struct eco_array dstep =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_STEP);
    const struct eco_array u = eco_layout_output(run->layout, op->layer, op->d);
    matmul.part = ECO_PART_PROJECT;
    matmul.a = eco_gpu_at(run, &dstep, eco_layout_dacc_step(run->layout, op));
    matmul.a_row = dstep.row;
    matmul.c = eco_gpu_at(run, &u, (size_t)op->t0);
    matmul.c_row = u.row;
    eco_gpu_multiply_weights(run, &matmul);
}

/* Of the gradient of R of a state what steps [t0,t1) of the op give: dacc^T e; c NULL: e is 0. */
static struct eco_matmul of_steps(const struct eco_gpu_run *run, struct eco_matmul matmul, int s,
                                  int32_t t0, int32_t t1)
{
    const struct eco_plane e = eco_gpu_before(run, matmul.op, s, t0);
    matmul.rows = (t1 - t0) * run->args->N;
    matmul.a =
        eco_gpu_after(matmul.a, (size_t)(t0 - matmul.op->t0) * (size_t)run->args->N * matmul.a_row,
                      run->layout->type);
    matmul.c = e.data;
    matmul.c_row = t1 - t0 > 1 && run->args->N == 1 ? e.step : e.row;
    matmul.narrow = s > 0; /* the reserve's */
    return matmul;
}

static void multiply_steps(struct eco_gpu_run *run, const struct eco_matmul *matmul)
{
    if (matmul->c != NULL)
        eco_gpu_multiply_weights(run, matmul);
    else if (!matmul->add) /* all that there is, and it is zeros */
        eco_gpu_clear_weights(run, matmul);
}

/* The steps of an op whose state s before lies where the others' do: [t0,t1).  The direction's
 * first step has its elsewhere. */
struct steps {
    int32_t first, t0, t1;
    bool begins; /* with that one */
};

static struct steps steps_of(const struct eco_gpu_run *run, const struct eco_op *op, int s)
{
    struct steps steps = {.first = op->reversed ? op->t1 - 1 : op->t0, .t0 = op->t0, .t1 = op->t1};
    steps.begins = eco_gpu_begins(run, op, s, steps.first);
    steps.t0 += (int32_t)(steps.begins && !op->reversed);
    steps.t1 -= (int32_t)(steps.begins && op->reversed);
    return steps;
}

/* done: but for the direction's first step */
static void recurrent(struct eco_gpu_run *run, struct eco_matmul matmul, int s, bool done)
{
    const struct steps steps = steps_of(run, matmul.op, s);
    const bool others = steps.t0 < steps.t1;
    if (others && !done) {
        const struct eco_matmul m = of_steps(run, matmul, s, steps.t0, steps.t1);
        multiply_steps(run, &m);
    }
    matmul.add |= others;
    if (steps.begins) {
        const struct eco_matmul m = of_steps(run, matmul, s, steps.first, steps.first + 1);
        multiply_steps(run, &m);
    }
}

/* W's gradient with that of R of the first operand, but for its first step. */
static bool with_recurrent(struct eco_gpu_run *run, const struct eco_matmul *input,
                           struct eco_matmul matmul)
{
    const struct eco_lowered *lowered = run->lowered;
    const int s = lowered->n_operands > 0 ? lowered->operand[0].state : -1;
    if (s < 0)
        return false;
    const struct steps steps = steps_of(run, matmul.op, s);
    if (steps.t0 >= steps.t1)
        return false;
    matmul.part = ECO_PART_RECURRENT;
    const struct eco_matmul both[] = {*input, of_steps(run, matmul, s, steps.t0, steps.t1)};
    return both[1].c != NULL &&
           eco_gpu_multiply_both_weights(run, both, (steps.t0 - matmul.op->t0) * run->args->N);
}

/* Of the input's product, o < 0, or of one with an operand that the cell computes. */
static struct eco_matmul of_operand(const struct eco_gpu_run *run, struct eco_matmul matmul, int o)
{
    size_t step = 0;
    const struct eco_array operand =
        o < 0 ? (struct eco_array){0} : eco_layout_operand(run->layout, matmul.op, o, &step);
    const struct eco_plane e =
        o < 0 ? eco_gpu_product_input(run, matmul.op) : eco_gpu_plane(run, &operand, step);
    matmul.part = o < 0 ? (int)ECO_PART_INPUT : ECO_PART_RECURRENT + o;
    matmul.c = e.data;
    matmul.c_row = e.row;
    return matmul;
}

void eco_gpu_d_weights(struct eco_gpu_run *run, const struct eco_op *op)
{
    if (run->args->dweights == NULL)
        return;
    const struct eco_array dacc =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DACC);
    struct eco_matmul matmul = {.op = op,
                                .rows = (op->t1 - op->t0) * run->args->N,
                                .a = eco_gpu_at(run, &dacc, eco_layout_dacc_step(run->layout, op)),
                                .a_row = dacc.row,
                                .add = op->add || run->args->accumulate};
    vectors(run, &matmul);
    const struct eco_matmul input = of_operand(run, matmul, -1);
    const bool both = with_recurrent(run, &input, matmul);
    if (!both)
        eco_gpu_multiply_weights(run, &input);
    for (int o = 0; o < run->lowered->n_operands; o++) {
        const int state = run->lowered->operand[o].state;
        matmul.part = ECO_PART_RECURRENT + o;
        if (state >= 0) {
            recurrent(run, matmul, state, both && o == 0);
        } else {
            const struct eco_matmul m = of_operand(run, matmul, o);
            eco_gpu_multiply_weights(run, &m);
        }
    }
    if (run->problem->projected)
        projection(run, matmul);
}
