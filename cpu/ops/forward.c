/*
 * The steps of forward: per step a product and one fused pointwise pass for each stage of the cell.
 * The algorithm decides how to multiply.
 */
#include "cpu/cpu.h"

#include <string.h>

/* What stays the same over the steps of an op. */
struct step {
    const struct eco_cpu_run *run;
    const struct eco_bound *bound;
    struct eco_blocks blocks; /* of acc */
    struct eco_pointwise call;
    struct stages *stages;
    int32_t rows;     /* rows for which the stages are prepared */
    int32_t replaced; /* the step in which starts replace the states of some rows; -1: none */
};

/* The products of all stages of an op, at the present step. */
struct stages {
    struct eco_multiply product[1 + ECO_MAX_OPERANDS];
    struct eco_stage stage[ECO_MAX_STAGES];
    int products;
    struct eco_prepared prepared;
};

/* NULL if the rows do not exist, or not yet. */
static const void *input_rows(const struct step *step, int32_t t)
{
    const struct eco_op *op = step->bound->op;
    const bool inside = t >= op->t0 && t < op->t1,
               there = !op->gathered && t >= 0 && t < step->run->args->T;
    return inside || there ? eco_view_at(&step->bound->input, t) : NULL;
}

/* acc of a step = bias + W x. */
static struct eco_multiply input(const struct step *step)
{
    return (struct eco_multiply){.op = step->bound->op,
                                 .part = ECO_WEIGHT_INPUT,
                                 .a_row = step->bound->input.row,
                                 .c_row = step->call.acc_row,
                                 .blocks = step->blocks,
                                 .bias = true};
}

/* acc of a step += e R^T for operand o. */
static struct eco_multiply recurrent(const struct step *step, int o)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_operand *operand = &run->lowered->operand[o];
    const struct eco_pointwise *call = &step->call;
    const void *slot = NULL; /* the slot of a state changes with each step */
    if (operand->state < 0)
        slot = eco_cpu_after(run->layout->type, call->operand,
                             (size_t)operand->slot * (size_t)run->problem->H);
    return (struct eco_multiply){
        .op = step->bound->op,
        .part = ECO_WEIGHT_RECURRENT + o,
        .a = slot,
        .a_row = operand->state >= 0 ? step->bound->before[operand->state].row : call->operand_row,
        .c_row = call->acc_row,
        .c_type = run->layout->sum,
        .blocks = step->blocks,
        .add = true};
}

/* Sets the products and the kernel of every stage. */
static void put_stages(struct step *step)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_lowered *lowered = run->lowered;
    struct eco_multiply *const first = step->stages->product, *product = first;
    for (int i = 0; i < lowered->n_forward; i++) {
        struct eco_stage *stage = &step->stages->stage[i];
        *stage = (struct eco_stage){
            .product = product, .call = &step->call, .kernel = eco_cpu_stage_kernel(run, false, i)};
        if (i == 0 && run->layout->fuse_input)
            product[stage->n++] = input(step);
        for (int o = 0; o < lowered->n_operands; o++)
            if (lowered->operand[o].forward == i)
                product[stage->n++] = recurrent(step, o);
        product += stage->n;
    }
    step->stages->products = (int)(product - first);
    step->rows = -1;
}

static void point_at_step(struct step *step, int32_t t)
{
    const struct eco_bound *bound = step->bound;
    struct eco_pointwise *call = &step->call;
    call->t = t;
    call->acc = eco_view_at(&bound->acc, t);
    call->save = eco_view_at(&bound->save, t);
    eco_cpu_point_at_states(bound, t, call);
    if (step->run->problem->projected) {
        call->next[0] = eco_view_at(&bound->u, t);
        call->next_row[0] = bound->u.row;
    } else {
        call->y = eco_view_at(&bound->y, t);
    }
}

static void point_at_product(const struct step *step, int32_t t, struct eco_multiply *m)
{
    const struct eco_cpu_run *run = step->run;
    const int o = m->part - ECO_WEIGHT_RECURRENT;
    m->t = t;
    m->c = (void *)(uintptr_t)step->call.acc;
    if (m->part == ECO_WEIGHT_INPUT) {
        m->a = input_rows(step, t);
        m->later = input_rows(step, step->bound->op->reversed ? t - 1 : t + 1);
    } else if (run->lowered->operand[o].state >= 0) {
        m->a = step->call.state[run->lowered->operand[o].state];
    }
}

/* Points products at this step. If the number of rows has changed since the step before, the
 * algorithm prepares for it. */
static void point_at_products(struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    struct stages *const stages = step->stages;
    const int32_t rows = eco_cpu_active(run, t);
    for (int i = 0; i < stages->products; i++)
        point_at_product(step, t, &stages->product[i]);
    if (rows == step->rows)
        return;
    step->rows = rows;
    for (int i = 0; i < stages->products; i++)
        stages->product[i].rows = rows;
    if (run->products->stage != NULL && run->own_units)
        run->products->prepare(run, stages->stage, run->lowered->n_forward, &stages->prepared);
}

/* Runs the products of a stage, then the pointwise pass of this stage and of the following ones
 * that have no products; block by block, if the algorithm can. Returns the next stage. */
static int run_stages(struct step *step, int i)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_stage *stage = &step->stages->stage[i];
    step->call.program = &run->lowered->forward[i];
    if (run->products->stage != NULL && run->own_units) {
        run->products->stage(&step->stages->prepared, i);
        return i + 1;
    }
    for (int k = 0; k < stage->n; k++) {
        run->products->multiply(run, &stage->product[k]);
        eco_cpu_after_product(run);
    }
    const int next = eco_cell_next_product(run->lowered, false, i);
    eco_cpu_pass(run, &step->call, false, (struct eco_range){i, next});
    return next;
}

/* h = P u; then into the next plane, and to y. */
static void project(const struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    const size_t P = (size_t)run->problem->P;
    const ecornn_type type = run->layout->type, sum = run->layout->sum;
    const struct eco_view *state = &step->bound->next[0], *h = &step->bound->h,
                          *output = &step->bound->y;
    run->products->multiply(run, &(struct eco_multiply){.op = step->bound->op,
                                                        .part = ECO_WEIGHT_PROJECT,
                                                        .rows = eco_cpu_active(run, t),
                                                        .t = t,
                                                        .a = step->call.next[0],
                                                        .a_row = step->call.next_row[0],
                                                        .c = h->first,
                                                        .c_row = h->row,
                                                        .c_type = sum,
                                                        .blocks = eco_cpu_one_block});
    eco_cpu_after_pointwise(run);
    char *next = eco_view_at(state, t), *y = eco_view_at(output, t);
    const struct eco_range part = eco_cpu_part_of(run, eco_cpu_step_rows(run, t), 1);
    for (int32_t n = part.from; n < part.to; n++) {
        const size_t row = (size_t)eco_cpu_row(run, n);
        void *to = eco_cpu_after_mutable(type, next, (size_t)n * state->row);
        eco_type_move(to, type, eco_cpu_after(sum, h->first, (size_t)n * h->row), sum, P);
        if (y != NULL)
            memcpy(eco_cpu_after_mutable(type, y, row * output->row), to, P * eco_type_bytes(type));
    }
}

/* y = 0 in rows that have ended; no layer reads these. */
static void clear_y(const struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_range ended = {eco_cpu_active(run, t), run->args->N};
    const struct eco_range part = eco_cpu_part_of(run, ended, 1);
    const struct eco_view *output = &step->bound->y;
    char *y = eco_view_at(output, t);
    const bool last = step->bound->op->layer == run->problem->L - 1;
    for (int32_t n = part.from; last && y != NULL && n < part.to; n++)
        memset(eco_cpu_after_mutable(output->type, y, (size_t)eco_cpu_row(run, n) * output->row), 0,
               (size_t)run->problem->Y * eco_type_bytes(output->type));
}

/* Restores the states of the step before and puts the starts of this step in their place. Threads
 * wait for each other if there were any. */
static void reset(struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    const int32_t before = step->replaced;
    step->replaced = eco_cpu_resets(run, step->bound->op, t) ? t : -1;
    if (before >= 0)
        eco_cpu_restore_states(run, step->bound, before);
    if (step->replaced >= 0)
        eco_cpu_replace_states(run, step->bound, t);
    if (before >= 0 || step->replaced >= 0)
        eco_cpu_wait(run);
}

/* Computes a step in which some rows have not ended. */
static void compute_step(struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    const struct eco_lowered *lowered = run->lowered;
    reset(step, t);
    point_at_step(step, t);
    point_at_products(step, t);
    for (int stage = 0; stage < lowered->n_forward;) {
        stage = run_stages(step, stage);
        eco_cpu_after_step(run);
    }
    if (run->problem->projected) {
        project(step, t);
        eco_cpu_after_pointwise(run);
    }
}

static void run_step(struct step *step, int32_t t)
{
    const struct eco_cpu_run *run = step->run;
    if (run->active != NULL) {
        clear_y(step, t);
        eco_cpu_take_part(run, t, &step->call);
    }
    if (run->active == NULL || run->active[t] > 0)
        compute_step(step, t);
    if (run->problem->states)
        eco_cpu_show_states(run, step->bound, t);
}

/* Everything that the steps of an op share, except the stages. */
static struct step begin(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    struct step step = {
        .run = run, .bound = bound, .call = eco_cpu_call(run, bound), .replaced = -1};
    step.blocks = eco_layout_acc_blocks(run->layout);
    step.call.acc_row = bound->acc.row;
    step.call.acc_shift = step.blocks.shift;
    step.call.acc_block = step.blocks.block;
    step.call.acc_column = step.blocks.column;
    step.call.operand = bound->operand.first;
    step.call.operand_row = bound->operand.row;
    step.call.y_row = bound->y.row;
    step.call.save_row = bound->save.row;
    eco_cpu_take_part(run, bound->op->t0, &step.call);
    return step;
}

/* ---- all steps at once ----------------------------------------------------------------------- */

static struct eco_steps_of steps_of(const struct eco_view *view, int32_t t)
{
    return (struct eco_steps_of){.first = view->first,
                                 .step = view->step,
                                 .mask = view->mask,
                                 .from = (size_t)((ptrdiff_t)t - view->from)};
}

/* One row in inference, of one thread, and nothing happens between two steps. A line copies the
 * states at its beginning, which takes as long as it saves in some steps. */
static bool may_have_line(const struct step *step)
{
    enum { LEAST_STEPS = 4 };
    const struct eco_cpu_run *run = step->run;
    const struct eco_args *args = run->args;
    return run->products->line != NULL && run->own_units && run->count == 1 && args->N == 1 &&
           step->bound->op->t1 - step->bound->op->t0 >= LEAST_STEPS && eco_args_whole(args) &&
           args->rows == NULL && step->bound->save.first == NULL && run->lowered->n_forward == 1 &&
           run->problem->H <= ECO_LINE_UNITS && !run->problem->projected && !run->problem->states;
}

/* Runs all steps by one kernel, if there is one. */
static bool run_line(struct step *step)
{
    const struct eco_bound *bound = step->bound;
    const struct eco_op *op = bound->op;
    const int32_t t = op->reversed ? op->t1 - 1 : op->t0;
    struct eco_line line = {.call = &step->call, .steps = op->t1 - op->t0, .down = op->reversed};
    if (!may_have_line(step))
        return false;
    point_at_step(step, t);
    point_at_products(step, t);
    const struct eco_line_kernel *kernel =
        step->run->products->line(&step->stages->prepared, &line);
    if (kernel == NULL)
        return false;
    line.acc = steps_of(&bound->acc, t);
    line.y = steps_of(&bound->y, t);
    for (int s = 0; s < step->call.n_states; s++) {
        line.state[s] = steps_of(&bound->before[s], t);
        line.next[s] = steps_of(&bound->next[s], t);
    }
    kernel->run(&line);
    return true;
}

void eco_cpu_step(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    struct stages stages;
    if (run->block_steps > 0) {
        eco_cpu_scan(run, bound);
        return;
    }
    struct step step = begin(run, bound);
    step.stages = &stages;
    put_stages(&step);
    if (run_line(&step))
        return;
    for (int32_t i = 0; i < op->t1 - op->t0; i++)
        run_step(&step, op->reversed ? op->t1 - 1 - i : op->t0 + i);
    if (step.replaced >= 0)
        eco_cpu_restore_states(run, bound, step.replaced);
}
