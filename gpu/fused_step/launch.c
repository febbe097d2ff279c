/*
 * The launches of algorithm fused.
 */
#include "gpu/fused_step/fused_step.h"
#include "gpu/ops/ops.h"
#include "gpu/run/run.h"
#include "gpu/wide_step/wide_step.h"

#include <assert.h>
#include <string.h>

/* ---- states ---------------------------------------------------------------------------------- */

/* The states whose last step writes the caller's final state, or its padding: all but the output
 * state if the same step reads all of it, or if rows that have ended write zeros next to it. */
static uint16_t ends_there(const struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_args *args = run->args;
    const bool in_place = args->T == 1 && args->final[0] == args->initial[0],
               rows_end = args->lengths != NULL && bound->next[0].mask == SIZE_MAX;
    return in_place || rows_end ? (uint16_t)~1u : UINT16_MAX;
}

/* ---- a step ---------------------------------------------------------------------------------- */

struct product {
    struct eco_plane rows;
    int part;
    int32_t k;
};

static struct eco_fused_source source_of(const struct eco_gpu_run *run, const struct eco_op *op,
                                         const struct product *product)
{
    const struct eco_matrix *matrix = eco_layout_matrix(run->layout, op->layer, product->part);
    const struct eco_accumulator *acc = run->lowered->acc;
    struct eco_fused_source source = {.rows = product->rows.data,
                                      .matrix = eco_gpu_weights(run, op, product->part),
                                      .row = product->rows.row,
                                      .matrix_row = (int32_t)matrix->row,
                                      .k = product->k};
    const size_t row_bytes = source.row * eco_type_bytes(run->layout->type);
    int8_t groups = 0;
    source.aligned = ((uintptr_t)source.rows | row_bytes) % 16 == 0;
    memset(source.group, -1, sizeof source.group);
    if (product->part == ECO_WEIGHT_PROJECT) {
        source.group[0] = 0;
        return source;
    }
    for (int a = 0; a < run->lowered->n_accs; a++) {
        const int param = product->part == ECO_WEIGHT_INPUT ? acc[a].input : acc[a].recurrent[0];
        source.group[a] = (int8_t)(param >= 0 ? groups++ : -1);
    }
    return source;
}

/* Divides the warps by the k of each source; each gets at least one. */
static void share_warps(struct eco_fused_call *call)
{
    enum { ALL = ECO_FUSED_WARPS };
    struct eco_fused_source *first = &call->source[0], *second = &call->source[1];
    if (first->k == 0 || second->k == 0) {
        first->warps = second->k == 0 ? ALL : 0;
    } else {
        const double part = (double)first->k / ((double)first->k + second->k);
        const int32_t warps = (int32_t)(part * ALL + 0.5);
        first->warps = warps < 1 ? 1 : warps < ALL ? warps : ALL - 1;
    }
    second->warps = ALL - first->warps;
}

static void launch(struct eco_gpu_run *run, const void *const kernels[ECO_FUSED_SHAPES], int shape,
                   int32_t accs, struct eco_fused_call *call)
{
    assert(shape >= 0);
    const int32_t units = ECO_FUSED_UNITS(accs), columns = ECO_FUSED_COLUMNS(shape);
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeProgrammaticStreamSerialization};
    attribute.val.programmaticStreamSerializationAllowed = 1;
    const cudaLaunchConfig_t config = {
        .gridDim = {(unsigned)((call->stage.hidden + units - 1) / units),
                    (unsigned)((call->stage.rows + columns - 1) / columns), 1},
        .blockDim = {ECO_FUSED_THREADS, 1, 1},
        .dynamicSmemBytes = (size_t)ECO_FUSED_SHARED(accs, shape),
        .stream = run->stream,
        .attrs = &attribute,
        .numAttrs = eco_launch_after_all(&run->launch)};
    void *arguments[] = {call};
    share_warps(call);
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, cudaLaunchKernelExC(&config, kernels[shape], arguments),
                          "a fused step");
}

/* h = P u, stored where the cell's output state goes without a projection. */
static void project(struct eco_gpu_run *run, const struct eco_op *op,
                    const struct eco_stage_call *call, struct eco_plane u)
{
    const struct eco_gpu_plan *own = run->plan->context;
    const int shape = eco_step_shape_for(&own->fused.projected, run->args->N).fused;
    struct eco_fused_call project = {.stage = *call};
    project.stage.hidden = run->problem->P;
    project.stage.n_states = 1;
    project.stage.projected = false;
    project.source[0] =
        source_of(run, op, &(struct product){u, ECO_WEIGHT_PROJECT, run->problem->H});
    memset(project.source[1].group, -1, sizeof project.source[1].group);
    memset(project.bias, -1, sizeof project.bias);
    launch(run, own->fused.projection, shape, 1, &project);
}

/* The fields that are the same for every step, and the states with which it starts and ends. */
static struct eco_stage_call stage_of(const struct eco_gpu_run *run, const struct eco_bound *bound,
                                      int32_t t, struct eco_stage_call *whole)
{
    *whole = eco_gpu_call(run, bound);
    whole->last = true;
    eco_gpu_point_at_step(run, bound, t, whole);
    if (t == bound->first && !eco_gpu_begins_in_planes(run))
        eco_gpu_point_at_initial(run, bound->op, UINT16_MAX, whole);
    if (t == bound->last)
        eco_gpu_point_at_final(run, bound, ends_there(run, bound), whole);
    struct eco_stage_call stage = *whole;
    if (run->problem->projected)
        eco_gpu_point_at_output(bound, t, &stage);
    return stage;
}

/* A step of an op. */
struct step {
    const struct eco_op *op;
    struct eco_stage_call whole; /* with the states of the projection instead of its input */
    struct eco_fused_call call;
    bool early; /* x was complete before the preceding kernel became resident */
};

static struct step step_of(const struct eco_gpu_run *run, const struct eco_bound *bound, int32_t t)
{
    const struct eco_problem *problem = run->problem;
    struct step step = {.op = bound->op};
    struct eco_fused_call *call = &step.call;
    call->stage = stage_of(run, bound, t, &step.whole);
    const struct eco_plane x = eco_gpu_plane(&bound->input, t),
                           h = {(void *)(uintptr_t)call->stage.state[0], 0,
                                call->stage.state_row[0], run->layout->type};
    call->source[0] = source_of(
        run, step.op,
        &(struct product){x, ECO_WEIGHT_INPUT, eco_problem_input(problem, step.op->layer)});
    call->source[1] =
        source_of(run, step.op, &(struct product){h, ECO_WEIGHT_RECURRENT, problem->P});
    if (eco_layout_matrix(run->layout, step.op->layer, ECO_WEIGHT_INPUT)->n == 0)
        call->source[0].k = 0;
    if (call->stage.zero_states & 1)
        call->source[1].k = 0;
    for (int a = 0; a < run->lowered->n_accs; a++)
        call->bias[a] = (int8_t)eco_gpu_bias(run, a);
    return step;
}

static bool launch_wide(struct eco_gpu_run *run, const struct step *steps, int n, int shape)
{
    struct eco_wide_job jobs[ECO_WIDE_OPS];
    for (int k = 0; k < n; k++) {
        const struct eco_fused_source *x = &steps[k].call.source[0], *h = &steps[k].call.source[1];
        const int32_t rows = steps[k].call.stage.rows;
        jobs[k] = (struct eco_wide_job){steps[k].op,
                                        &steps[k].call.stage,
                                        {{x->k > 0 ? x->rows : NULL, x->row, rows, steps[k].early},
                                         {h->k > 0 ? h->rows : NULL, h->row, rows, false}},
                                        false};
    }
    return shape >= 0 && eco_wide_step(run, jobs, n, shape, false);
}

/* Queues a step of each op, by the shape of blocks with the fastest prediction, as one launch if
 * all are wide.  Returns whether all were. */
static bool launch_steps(struct eco_gpu_run *run, struct step *steps, int n)
{
    const struct eco_gpu_plan *own = run->plan->context;
    const struct eco_step_shape shape =
        eco_step_shape_for(&own->fused.steps[steps[n - 1].op->layer > 0], run->args->N);
    bool wide = launch_wide(run, steps, n, shape.wide);
    for (int k = 0; k < n && !wide; k++) {
        steps[k].early = false;
        if (!launch_wide(run, &steps[k], 1, shape.wide))
            launch(run, own->fused.by_shape, shape.fused, run->lowered->n_accs, &steps[k].call);
    }
    for (int k = 0; k < n && run->problem->projected; k++) {
        const struct eco_stage_call *u = &steps[k].call.stage;
        project(run, steps[k].op, &steps[k].whole,
                (struct eco_plane){u->next[0], 0, u->next_row[0], run->layout->type});
    }
    return wide && !run->problem->projected;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Steps multiply their input themselves. */
static void op_input(struct eco_gpu_run *run, const struct eco_bound *bounds, int n)
{
    (void)run;
    (void)bounds;
    (void)n;
}

static int32_t steps_in(const struct eco_bound *bound)
{
    return bound->op->t1 - bound->op->t0;
}

/*
 * Was x complete before the kernel ahead of step i of an op became resident? A wide step waits for
 * its predecessors before it lets others begin, so x must be older than the step ahead, which must
 * be wide. All steps of an op are, except perhaps the first and the last. In lockstep the layer
 * below wrote x in the level before, whose number of steps is `before` if all were wide.
 */
static bool is_early(const struct eco_gpu_run *run, const struct eco_bound *bound, int32_t i,
                     int before)
{
    if (bound->input.first == run->args->x)
        return true;
    return run->layout->request.lockstep ? before >= ECO_WIDE_LAG && i <= run->wide_before - before
                                         : i > 1;
}

/* Queues step i of each op that has one. */
static bool queue_steps(struct eco_gpu_run *run, const struct eco_bound *bounds, int n, int32_t i,
                        int before)
{
    struct step steps[ECO_WIDE_OPS];
    int count = 0;
    for (int k = 0; k < n; k++)
        if (i < steps_in(&bounds[k])) {
            const struct eco_op *op = bounds[k].op;
            steps[count] = step_of(run, &bounds[k], op->reversed ? op->t1 - 1 - i : op->t0 + i);
            steps[count++].early = is_early(run, &bounds[k], i, before);
        }
    return count == 0 || launch_steps(run, steps, count);
}

/* The ops of a level, in as few launches as possible. */
static void op_step(struct eco_gpu_run *run, const struct eco_bound *bounds, int n)
{
    const int launches = (n + ECO_WIDE_OPS - 1) / ECO_WIDE_OPS,
              each = (n + launches - 1) / launches, before = launches == 1 ? run->wide_before : 0;
    int32_t most = 0;
    for (int k = 0; k < n; k++)
        most = steps_in(&bounds[k]) > most ? steps_in(&bounds[k]) : most;
    for (int32_t i = 0; i < most && run->status == ECORNN_OK; i++)
        for (int k = 0; k < n; k += each) {
            const bool wide = queue_steps(run, &bounds[k], n - k < each ? n - k : each, i, before);
            run->wide_before = wide ? run->wide_before + 1 : 0;
        }
    run->wide_before = run->wide_before - before == most ? most : 0;
}

/* Copies final states that steps did not write. */
static void op_end(struct eco_gpu_run *run, const struct eco_bound *bounds, int n)
{
    run->wide_before = 0;
    for (int k = 0; k < n; k++)
        eco_gpu_expand_without(run, &bounds[k], ends_there(run, &bounds[k]));
}

/* ---- the run of a plan ----------------------------------------------------------------------- */

ecornn_status eco_gpu_run_fused(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                const struct eco_layout *layout, const struct eco_args *args)
{
    static const eco_gpu_ops ops[ECO_OP_KINDS] = {
        [ECO_INPUT] = op_input, [ECO_STEP] = op_step, [ECO_END] = op_end};
    const struct eco_gpu_plan *own = plan->context;
    return eco_gpu_run_plan(plan, tape, layout, args, own->fused.used ? ops : NULL);
}
