/*
 * The forward operation: per step a product and one fused kernel for each stage of the cell.
 * Everything is queued on the run's stream.
 */
#include "gpu/gemm/packed_weights.h"
#include "gpu/jit/jit.h"
#include "gpu/ops/ops.h"
#include "gpu/wide_step/wide_step.h"

/* ---- a stage --------------------------------------------------------------------------------- */

/* The means that the program stores, a bit for each. */
static uint32_t means_of(const struct eco_program *program)
{
    uint32_t means = 0;
    for (int i = 0; i < program->n; i++)
        if (program->code[i].op == ECO_OP_STORE_MEAN)
            means |= 1u << program->code[i].index;
    return means;
}

static struct eco_interpreted_call interpreted(const struct eco_program *program,
                                               const struct eco_stage_call *call)
{
    struct eco_interpreted_call copy = {.call = *call, .n = program->n};
    for (int i = 0; i < program->n; i++) {
        const struct eco_node *code = &program->code[i];
        copy.code[i] = (struct eco_instruction){.op = code->op,
                                                .index = (uint8_t)code->index,
                                                .a = code->a,
                                                .b = code->b,
                                                .c = code->c,
                                                .value = code->value};
    }
    return copy;
}

/* NULL: the stage was not compiled. */
static const void *stage_kernel(const struct eco_gpu_run *run, bool backward, int stage)
{
    const int builtin = run->problem->cell->builtin;
    const struct eco_own_code *own =
        ((const struct eco_gpu_plan *)run->plan->context)->cell[backward];
    if (builtin < 0)
        return own != NULL ? eco_own_kernel(own, stage) : NULL;
    const struct eco_cell_kernels *kernels = &run->stages->builtin[builtin];
    return (const void *)(uintptr_t)(backward ? kernels->backward[stage] : kernels->forward[stage]);
}

void eco_gpu_stage(struct eco_gpu_run *run, bool backward, int stage,
                   const struct eco_stage_call *call)
{
    const struct eco_lowered *lowered = run->lowered;
    const struct eco_program *program =
        backward ? &lowered->backward[stage] : &lowered->forward[stage];
    const bool overlap = eco_launch_after(&run->launch);
    struct eco_stage_call mine = *call;
    mine.last = stage == (backward ? lowered->n_backward : lowered->n_forward) - 1;
    mine.means = lowered->has_means ? means_of(program) : 0;
    mine.head_means = (uint32_t)(mine.mean_row / (size_t)mine.heads);
    mine.cuts = backward && stage == 0 && call->resets != NULL && !run->cuts_before;
    run->launch.steps = true;
    if (run->status != ECORNN_OK || (backward && eco_wide_step_back(run, &mine, overlap)))
        return;
    const void *kernel = stage_kernel(run, backward, stage);
    if (kernel != NULL) {
        eco_gpu_note_cuda(run, eco_launch_stage(kernel, &mine, &mine, overlap, run->stream),
                          "a stage of the cell");
        return;
    }
    const struct eco_interpreted_call text = interpreted(program, &mine);
    eco_gpu_note_cuda(run,
                      eco_launch_stage((const void *)(uintptr_t)run->stages->interpret[backward],
                                       &mine, &text, overlap, run->stream),
                      "an interpreted stage of the cell");
}

struct eco_stage_call eco_gpu_call(const struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    struct eco_stage_call call = {
        .rows = run->args->N,
        .hidden = run->problem->H,
        .column = eco_gpu_column(run),
        .n_states = run->problem->cell->recipe.n_states,
        .n_slots = run->lowered->n_slots,
        .n_dacc = run->lowered->n_accs + run->lowered->n_extra,
        .projected = run->problem->projected,
        .training = run->args->reserve != NULL,
        .seed = run->args->seed,
        .layer = op->layer,
        .direction = op->d,
        .lengths = run->args->lengths,
        .vector = eco_gpu_weights(run, op, ECO_WEIGHT_VECTORS),
        .mean = (void *)bound->mean.first,
        .mean_row = bound->mean.row,
        .batch = run->args->N,
        .reset_end = run->args->T,
        .then = op->reversed ? -1 : 1,
        .draw_step = run->args->first_step,
        .draw_row = run->args->first_row,
        .head = eco_problem_mean(run->problem),
    };
    call.heads = call.hidden / call.head;
    for (int s = 0; s < call.n_states && run->args->resets != NULL; s++) {
        call.start[s] = bound->start[s].first;
        call.dstart[s] = run->args->dreset_state[s] != NULL ? bound->dstart[s].first : NULL;
    }
    return call;
}

/* ---- one step -------------------------------------------------------------------------------- */

/* What stays the same over the steps of an op. */
struct step {
    struct eco_gpu_run *run;
    const struct eco_bound *bound;
    struct eco_stage_call call;
    bool odd;
    bool narrow;           /* rows of the output state before the step may have no padding */
    uint16_t begins, ends; /* states with which the run begins and ends at the caller's */
};

void eco_gpu_point_at_step(const struct eco_gpu_run *run, const struct eco_bound *bound, int32_t t,
                           struct eco_stage_call *call)
{
    eco_gpu_point_at_states(run, bound, t, call);
    call->y = eco_view_at(&bound->y, t);
    call->y_row = bound->y.row;
    call->save = eco_view_at(&bound->save, t);
    call->save_row = bound->save.row;
}

void eco_gpu_point_at_output(const struct eco_bound *bound, int32_t t, struct eco_stage_call *call)
{
    call->next[0] = eco_view_at(&bound->u, t);
    call->next_row[0] = bound->u.row;
    call->wide_next &= (uint16_t)~1u;
    call->y = NULL;
}

/* The array to which a projection's product writes the state after step t: y, or the plane if there
 * is no y. data NULL: the product cannot, because rows end early, are reset or are too far apart,
 * or because the state is also needed in another array. */
static struct eco_plane projected_state(const struct eco_gpu_run *run,
                                        const struct eco_bound *bound, int32_t t)
{
    const struct eco_plane y = eco_gpu_plane(&bound->y, t);
    if (!run->problem->projected || !eco_args_whole(run->args))
        return (struct eco_plane){0};
    if (y.data != NULL)
        return t == bound->last || y.row > INT32_MAX ? (struct eco_plane){0} : y;
    return eco_gpu_plane(&bound->next[0], t);
}

/* Points at the state before the step, where the projection wrote it. */
static void point_at_projected(struct step *step, int32_t t)
{
    const struct eco_gpu_run *run = step->run;
    const int32_t before = step->bound->op->reversed ? t + 1 : t - 1;
    if (before < 0 || before >= run->args->T)
        return;
    const struct eco_plane state = projected_state(run, step->bound, before);
    if (state.data == NULL)
        return;
    step->call.state[0] = state.data;
    step->call.state_row[0] = state.row;
    step->narrow = true;
}

static void point_at_step(struct step *step, int32_t t)
{
    step->odd = t % 2 != 0;
    step->narrow = false;
    eco_gpu_point_at_step(step->run, step->bound, t, &step->call);
    if (t == step->bound->first && step->begins != 0) {
        eco_gpu_point_at_initial(step->run, step->bound->op, step->begins, &step->call);
        step->narrow = true;
    }
    if (t == step->bound->last)
        eco_gpu_point_at_final(step->run, step->bound, step->ends, &step->call);
    point_at_projected(step, t);
    step->call.acc = eco_view_at(&step->bound->acc, t);
    if (step->call.projected)
        eco_gpu_point_at_output(step->bound, t, &step->call);
}

/* acc of this step += e R^T for operand o. */
static void add_recurrent(const struct step *step, int o)
{
    const struct eco_operand *operand = &step->run->lowered->operand[o];
    const struct eco_stage_call *call = &step->call;
    struct eco_matmul matmul = {.op = step->bound->op,
                                .weight_id = ECO_WEIGHT_RECURRENT + o,
                                .rows = step->run->args->N,
                                .c = (void *)(uintptr_t)call->acc,
                                .c_row = call->acc_row,
                                .add = true,
                                .odd = step->odd};
    if (operand->state >= 0 && (call->zero_states >> operand->state & 1))
        return; /* the operand is zero */
    if (operand->state >= 0) {
        matmul.a = call->state[operand->state];
        matmul.a_row = call->state_row[operand->state];
        matmul.narrow =
            step->narrow || !eco_gpu_fills_state(step->run, &step->bound->before[operand->state]);
    } else {
        matmul.a = eco_gpu_after(call->operand, (size_t)operand->slot * (size_t)call->column,
                                 step->run->layout->type);
        matmul.a_row = call->operand_row;
    }
    eco_gpu_multiply(step->run, &matmul);
}

/* h = P u; then into the next plane, where masked rows keep their state, and to y. */
static void project(const struct step *step, int32_t t)
{
    struct eco_gpu_run *run = step->run;
    const struct eco_bound *bound = step->bound;
    const struct eco_plane there = projected_state(run, bound, t),
                           h = there.data != NULL ? there : eco_gpu_plane(&bound->h, t);
    eco_gpu_multiply(run, &(struct eco_matmul){.op = bound->op,
                                               .weight_id = ECO_WEIGHT_PROJECT,
                                               .rows = run->args->N,
                                               .a = step->call.next[0],
                                               .a_row = step->call.next_row[0],
                                               .c = h.data,
                                               .c_row = h.row,
                                               .c_type = h.type,
                                               .narrow = true});
    if (there.data != NULL)
        return;
    const int32_t then = bound->op->reversed ? t - 1 : t + 1;
    const struct eco_project_call call = {.h = h,
                                          .before = eco_gpu_plane(&bound->before[0], t),
                                          .next = eco_gpu_plane(&bound->next[0], t),
                                          .y = eco_gpu_plane(&bound->y, t),
                                          .rows = run->args->N,
                                          .width = run->problem->P,
                                          .t = t,
                                          .lengths = run->args->lengths,
                                          .start = eco_gpu_starts(run, bound, 0),
                                          .resets = eco_gpu_resets_of(run, bound->op, then),
                                          .then = eco_op_reset(bound->op, then)};
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_project(&call, run->stream), "a projection");
}

/* Queues the product and the cell as one launch; false: it cannot. i: steps of the op ahead. */
static bool run_wide(const struct step *step, int32_t i)
{
    struct eco_gpu_run *run = step->run;
    const struct eco_gpu_plan *own = run->plan->context;
    struct eco_stage_call call = step->call;
    call.last = true;
    const struct eco_wide_rows h = {call.zero_states & 1 ? NULL : call.state[0], call.state_row[0],
                                    call.rows, false};
    const struct eco_wide_job job = {step->bound->op, &call, {{0}, h}, i > 1};
    const int shape = eco_step_shape_for(&own->steps, call.rows).wide;
    return shape >= 0 && eco_wide_step(run, &job, 1, shape, true);
}

static void run_step(struct step *step, int32_t i, int32_t t)
{
    const struct eco_lowered *lowered = step->run->lowered;
    point_at_step(step, t);
    const bool wide = run_wide(step, i);
    for (int stage = 0; stage < lowered->n_forward && !wide; stage++) {
        for (int o = 0; o < lowered->n_operands; o++)
            if (lowered->operand[o].forward == stage)
                add_recurrent(step, o);
        eco_gpu_stage(step->run, false, stage, &step->call);
    }
    if (step->call.projected)
        project(step, t);
}

void eco_gpu_step(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    struct step step = {.run = run,
                        .bound = bound,
                        .call = eco_gpu_call(run, bound),
                        .begins = eco_gpu_begins_at_caller(run, bound),
                        .ends = eco_gpu_ends_at_caller(run, bound)};
    step.call.acc_row = bound->acc.row;
    step.call.operand = bound->operand.first;
    step.call.operand_row = bound->operand.row;
    for (int32_t i = 0; i < op->t1 - op->t0; i++)
        run_step(&step, i, op->reversed ? op->t1 - 1 - i : op->t0 + i);
}
