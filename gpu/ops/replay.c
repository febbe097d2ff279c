/*
 * Training that saves memory: backward computes saved values, u of a projection and the states of a
 * chunk again. The output state of every step is known, so each product takes many steps at once. A
 * stage does too, unless a state must be computed from the state before it.
 */
#include "gpu/gemm/packed_weights.h"
#include "gpu/ops/replay.h"
#include "gpu/wide_step/wide_step.h"

/* ---- products -------------------------------------------------------------------------------- */

/* acc of steps [t0,t1) += rows of A from the view M^T; zeros: nothing. */
static void multiply(const struct eco_replay *replay, int part, const struct eco_view *a,
                     size_t column, int32_t t0, int32_t t1)
{
    struct eco_gpu_run *run = replay->run;
    const struct eco_plane rows = eco_gpu_plane(a, t0);
    struct eco_matmul matmul = {.op = replay->bound->op,
                                .weight_id = part,
                                .rows = (t1 - t0) * run->args->N,
                                .a = eco_gpu_after(rows.data, column, rows.type),
                                .a_row = t1 - t0 > 1 && run->args->N == 1 ? rows.step : rows.row,
                                .c = eco_view_at(&replay->acc, t0),
                                .c_row = replay->acc.row,
                                .add = true,
                                .narrow = true};
    struct eco_acc_range span;
    if (rows.data == NULL || t0 >= t1)
        return;
    for (int i = 0; eco_acc_range_next(run->lowered, part, i, &span); i = span.end) {
        const struct eco_product product = eco_gpu_span_product(run, &matmul, &span);
        eco_gpu_product(run, &product);
    }
}

/* The state before a direction's first step is in another array than the others, except with
 * resets. */
static void multiply_operand(const struct eco_replay *replay, int o, int32_t t0, int32_t t1)
{
    const struct eco_bound *bound = replay->bound;
    const struct eco_operand *operand = &replay->run->lowered->operand[o];
    const int part = ECO_WEIGHT_RECURRENT + o, s = operand->state;
    if (s < 0) {
        multiply(replay, part, &bound->operand,
                 (size_t)operand->slot * (size_t)eco_gpu_column(replay->run), t0, t1);
        return;
    }
    if (replay->run->args->resets != NULL) {
        multiply(replay, part, &bound->with_resets[s], 0, t0, t1);
        return;
    }
    const bool begins = bound->begins[s] && t0 <= bound->first && bound->first < t1;
    if (begins)
        multiply(replay, part, &bound->before_first[s], 0, bound->first, bound->first + 1);
    multiply(replay, part, &bound->before[s], 0, t0 + (int32_t)(begins && bound->first == t0),
             t1 - (int32_t)(begins && bound->first != t0));
}

static void multiply_stage(const struct eco_replay *replay, int stage, int32_t t0, int32_t t1)
{
    const struct eco_lowered *lowered = replay->run->lowered;
    for (int o = 0; o < lowered->n_operands; o++)
        if (lowered->operand[o].forward == stage)
            multiply_operand(replay, o, t0, t1);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static void run_stage(const struct eco_replay *replay, int stage, int32_t t, int32_t steps)
{
    const struct eco_stage_call call = eco_replay_call(replay, t, steps);
    eco_gpu_stage(replay->run, false, stage, &call);
}

/* May one launch take all steps? Not if random numbers depend on the step, nor if the distances
 * between rows of steps are unequal.  A launch of all steps does not look at lengths, which the
 * reverse direction needs: a row's last step must not look at the byte of resets past its length.
 */
static bool is_even(const struct eco_replay *replay)
{
    const struct eco_gpu_run *run = replay->run;
    if (run->problem->cell->recipe.n_bernoulli > 0)
        return false;
    if (replay->bound->op->reversed && run->args->resets && run->args->lengths)
        return false;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const struct eco_plane rows = eco_gpu_plane(&replay->bound->before[s], replay->t0);
        if (rows.step != rows.row * (size_t)run->args->N)
            return false;
    }
    return true;
}

/* Queues the segments of steps [t0,t1), in turn on the streams that the plan chose. */
static void run_segments(const struct eco_replay *replay, int stage, int32_t t0, int32_t t1)
{
    struct eco_gpu_run *run = replay->run;
    const struct eco_gpu_plan *own = run->plan->context;
    const struct eco_gpu_set *set = run->set;
    const cudaStream_t stream = run->stream;
    const int32_t begin = replay->bound->op->t0, count = eco_ceil_div(t1 - begin, replay->segment);
    const int streams = t1 - t0 <= replay->segment    ? 0
                        : count < own->replay_streams ? (int)count
                                                      : own->replay_streams;
    for (int i = 0; i < streams; i++)
        eco_gpu_follow(run, set->stream[ECO_REPLAY_STREAM + i], stream, ECO_MAX_STREAMS);
    for (int32_t i = 0; i < count; i++) {
        const int32_t k = replay->bound->op->reversed ? count - 1 - i : i,
                      from = begin + k * replay->segment, end = from + replay->segment,
                      t = from > t0 ? from : t0, steps = (end < t1 ? end : t1) - t;
        if (streams > 0) {
            run->stream = set->stream[ECO_REPLAY_STREAM + i % streams];
            eco_launch_serialize(&run->launch, ECO_SERIALIZED_COPY);
        }
        if (steps > 0)
            run_stage(replay, stage, t, steps);
    }
    run->stream = stream;
    for (int i = 0; i < streams; i++)
        eco_gpu_follow(run, stream, set->stream[ECO_REPLAY_STREAM + i], ECO_REPLAY_STREAM + i);
    if (streams > 0)
        eco_launch_serialize(&run->launch, ECO_SERIALIZED_COPY);
}

/* Runs the first step of a direction separately, because the states before it are in another array.
 */
static void run_stage_of_all(const struct eco_replay *replay, int stage)
{
    const struct eco_bound *bound = replay->bound;
    const int32_t t0 = replay->t0, t1 = replay->t1, steps = t1 - t0;
    const bool begins = t0 <= bound->first && bound->first < t1;
    const int32_t from = t0 + (int32_t)(begins && bound->first == t0),
                  to = t1 - (int32_t)(begins && bound->first != t0);
    if (!is_even(replay)) {
        for (int32_t i = 0; i < steps; i++)
            run_stage(replay, stage, bound->op->reversed ? t1 - 1 - i : t0 + i, 1);
        return;
    }
    if (begins)
        run_stage(replay, stage, bound->first, 1);
    if (to > from && replay->knows)
        run_stage(replay, stage, from, to - from);
    else if (to > from)
        run_segments(replay, stage, from, to);
}

/* ---- products and cell at once --------------------------------------------------------------- */

/* Runs steps whose states are all known as one wide step of as many rows; false: it cannot. */
static bool run_wide(const struct eco_replay *replay, int32_t t, int32_t steps)
{
    struct eco_gpu_run *run = replay->run;
    const struct eco_bound *bound = replay->bound;
    const struct eco_gpu_plan *own = run->plan->context;
    struct eco_stage_call call = eco_replay_call(replay, t, steps);
    call.acc = NULL; /* products add to nothing */
    const struct eco_plane x = eco_gpu_plane(&bound->input, t),
                           h = eco_gpu_plane(eco_bound_before(bound, 0, t), t);
    const struct eco_wide_job job = {
        bound->op,
        &call,
        {{x.data, x.row, call.rows, false}, {h.data, h.row, call.rows, false}},
        false};
    const int shape = eco_step_shape_for(&own->replays[bound->op->layer > 0], call.rows).wide;
    return shape >= 0 && (steps == 1 || x.step == x.row * (size_t)run->args->N) &&
           eco_wide_step(run, &job, 1, shape, true);
}

/* Runs all steps of the op, because no accumulators are in memory. The first step of a direction is
 * a launch of its own, as for stages. */
static bool run_all_wide(const struct eco_replay *replay)
{
    const struct eco_bound *bound = replay->bound;
    const int32_t t0 = bound->op->t0, t1 = bound->op->t1;
    const bool begins = t0 <= bound->first && bound->first < t1;
    const int32_t from = t0 + (int32_t)(begins && bound->first == t0),
                  to = t1 - (int32_t)(begins && bound->first != t0);
    return replay->knows && is_even(replay) && (!begins || run_wide(replay, bound->first, 1)) &&
           (to <= from || run_wide(replay, from, to - from));
}

/* ---- the operation --------------------------------------------------------------------------- */

static void run_part(const struct eco_replay *replay)
{
    struct eco_gpu_run *run = replay->run;
    const struct eco_bound *bound = replay->bound;
    const int32_t steps = replay->t1 - replay->t0;
    const int stages = run->lowered->n_forward;
    const struct eco_target target = {&eco_gpu_verbs, run, run->layout, run->args, 0};
    eco_expand_input(&target, bound->op, &replay->acc, &bound->input, replay->t0, replay->t1);
    for (int stage = 0; replay->at_once && stage < stages; stage++) {
        multiply_stage(replay, stage, replay->t0, replay->t1);
        run_stage_of_all(replay, stage);
    }
    for (int32_t i = 0; !replay->at_once && i < steps; i++) {
        const int32_t t = bound->op->reversed ? replay->t1 - 1 - i : replay->t0 + i;
        eco_gpu_patch_states(run, bound, t, t + 1);
        for (int stage = 0; stage < stages; stage++) {
            multiply_stage(replay, stage, t, t + 1);
            run_stage(replay, stage, t, 1);
        }
    }
}

void eco_gpu_replay(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    const int32_t chunk = run->layout->chunk;
    const struct eco_array mean =
        eco_layout_array(run->layout, ECO_INNER_MEAN, false, op->layer, op->d, 0);
    struct eco_replay replay = {.run = run,
                                .bound = bound,
                                .acc = eco_bind_array(run->layout, run->args, op, ECO_INNER_ACC, 0),
                                .mean = eco_bind_view(&mean, run->args, 0),
                                .knows = eco_layout_knows_states(run->layout)};
    replay.at_once = eco_cell_replays_at_once(run->problem->cell, replay.knows);
    /* with resets a checkpoint is not always the state before a step */
    replay.segment =
        replay.at_once && run->args->resets == NULL ? run->problem->saving.every : op->t1 - op->t0;
    eco_gpu_copy_history(run, bound);
    eco_replay_load_states(&replay);
    if (eco_layout_narrows(run->layout)) {
        eco_gpu_expand_without(run, bound, 0);
        return;
    }
    if (replay.at_once)
        eco_gpu_patch_states(run, bound, op->t0, op->t1);
    replay.t0 = op->t0;
    if (run_all_wide(&replay))
        return;
    for (int32_t k = 0; k < op->t1 - op->t0; k += chunk) {
        const int32_t steps = op->t1 - op->t0 - k < chunk ? op->t1 - op->t0 - k : chunk;
        replay.t0 = op->reversed ? op->t1 - k - steps : op->t0 + k;
        replay.t1 = replay.t0 + steps;
        replay.acc.from = replay.t0;
        run_part(&replay);
    }
    eco_replay_take_kept(&replay);
}
