/*
 * The states of a replayed chunk: those that forward kept are copied to it, and calls of stages
 * read and write them there.
 */
#include "gpu/ops/replay.h"

static int states(const struct eco_gpu_run *run)
{
    return run->problem->cell->recipe.n_states;
}

/* ---- loads ----------------------------------------------------------------------------------- */

/* The step before the op's first one. */
static int32_t step_before(const struct eco_op *op)
{
    return op->reversed ? op->t1 : op->t0 - 1;
}

/* A move of state s of `steps` steps, from a step of `from` on. */
static void move_states(const struct eco_replay *replay, int s, struct eco_move move)
{
    move.op = replay->bound->op;
    move.every = 1;
    move.width = eco_problem_width(replay->run->problem, s);
    if (move.steps > 0)
        eco_gpu_move(replay->run, &move);
}

/* Moves the state before the first step: the caller's initial state, or the one that forward kept.
 */
static void load_first(const struct eco_replay *replay, int s, const struct eco_view *to,
                       bool resets)
{
    const struct eco_bound *bound = replay->bound;
    const struct eco_op *op = bound->op;
    const int32_t first = op->reversed ? op->t1 - 1 : op->t0, before = step_before(op);
    const bool begins = before < 0 || before >= replay->run->args->T;
    struct eco_view from = begins ? bound->before_first[s] : bound->checkpoint[s];
    if (!begins) /* as if it were indexed by steps, and the state before `first` at `first` */
        from.from +=
            first - (int32_t)eco_layout_checkpoint_index(replay->run->layout, op->d, before);
    move_states(replay, s,
                (struct eco_move){.to = *to,
                                  .to_t = first,
                                  .from = from,
                                  .t = first,
                                  .steps = 1,
                                  .start = bound->start[s],
                                  .resets = resets});
}

/* A state that is computed step by step: its values before the steps of t's segment, or after
 * them. */
static struct eco_view scanned(const struct eco_replay *replay, int s, bool next, int32_t t)
{
    const struct eco_op *op = replay->bound->op;
    const int32_t ahead = (t - op->t0) / replay->segment;
    struct eco_view scan =
        eco_bind_array(replay->run->layout, replay->run->args, op, ECO_INNER_SCAN, s);
    scan.from -= ahead + (int32_t)(next != op->reversed);
    return scan;
}

/* Copies the checkpoints from which the segments of the chunk begin, but for the first of them. */
static void load_segments(const struct eco_replay *replay, int s)
{
    const struct eco_bound *bound = replay->bound;
    const struct eco_op *op = bound->op;
    const int32_t count = eco_ceil_div(op->t1 - op->t0, replay->segment),
                  first = op->t0 + replay->segment - (int32_t)op->reversed,
                  before = op->reversed ? first + 1 : first - 1;
    struct eco_view to = scanned(replay, s, false, first);
    to.first = eco_view_at(&to, first);
    to.step *= (size_t)replay->segment + 1;
    to.from = 0;
    if (count > 1)
        move_states(replay, s,
                    (struct eco_move){.to = to,
                                      .from = bound->checkpoint[s],
                                      .t = (int32_t)eco_layout_checkpoint_index(replay->run->layout,
                                                                                op->d, before),
                                      .steps = count - 1});
}

void eco_replay_load_states(const struct eco_replay *replay)
{
    struct eco_gpu_run *run = replay->run;
    const struct eco_bound *bound = replay->bound;
    const struct eco_op *op = bound->op;
    if (eco_layout_copies_direct(run->layout))
        return;
    for (int s = 1; s < states(run); s++) {
        load_first(replay, s, &bound->before[s], false);
        if (replay->knows) {
            move_states(replay, s,
                        (struct eco_move){.to = bound->next[s],
                                          .to_t = op->t0,
                                          .from = bound->checkpoint[s],
                                          .t = op->t0,
                                          .steps = op->t1 - op->t0});
            continue;
        }
        const struct eco_view scan = scanned(replay, s, false, op->reversed ? op->t1 - 1 : op->t0);
        load_first(replay, s, &scan, run->args->resets != NULL);
        load_segments(replay, s);
    }
}

void eco_replay_take_kept(const struct eco_replay *replay)
{
    const struct eco_layout *layout = replay->run->layout;
    const struct eco_bound *bound = replay->bound;
    const struct eco_op *op = bound->op;
    int32_t first = op->t1, count = 0;
    for (int32_t t = op->t1 - 1; t >= op->t0; t--)
        if (eco_layout_is_checkpoint(layout, op->d, t)) {
            first = t;
            count++;
        }
    for (int s = 1; s < states(replay->run); s++) {
        struct eco_view to = bound->next[s];
        if (replay->knows || !layout->problem->row_invariant ||
            eco_type_bytes(bound->checkpoint[s].type) >= eco_type_bytes(to.type))
            continue;
        to.first = eco_view_at(&to, first);
        to.step *= (size_t)layout->problem->saving.every;
        to.from = 0;
        move_states(
            replay, s,
            (struct eco_move){.to = to,
                              .from = bound->checkpoint[s],
                              .t = (int32_t)eco_layout_checkpoint_index(layout, op->d, first),
                              .steps = count});
    }
}

/* ---- calls of stages ------------------------------------------------------------------------- */

/* A state that is computed is written with a copy for backward. Known states are not overwritten;
 * the stage's values for them are discarded. */
static void point_at_states(const struct eco_replay *replay, int32_t t, struct eco_stage_call *call)
{
    const struct eco_gpu_run *run = replay->run;
    const struct eco_bound *bound = replay->bound;
    call->reset_t = t;
    call->resets = eco_gpu_resets(run, t);
    call->zero_states = call->wide_states = call->wide_next = 0;
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_plane before = eco_gpu_plane(eco_bound_before(bound, s, t), t);
        const bool zero = before.data == NULL; /* then the kernel reads zeros instead */
        call->state[s] = zero ? replay->acc.first : before.data;
        call->state_row[s] = zero ? 0 : before.row;
        call->zero_states |= (uint16_t)((unsigned)zero << s);
        call->next[s] = call->kept[s] = NULL;
        if (s == 0 || replay->knows)
            continue;
        const struct eco_view from = scanned(replay, s, false, t), to = scanned(replay, s, true, t);
        const bool wide = to.type != run->layout->type;
        call->state[s] = eco_view_at(&from, t);
        call->next[s] = eco_view_at(&to, t);
        call->state_row[s] = call->next_row[s] = to.row;
        call->zero_states &= (uint16_t) ~(1u << s);
        call->kept[s] = eco_view_at(&bound->next[s], t);
        call->kept_row[s] = bound->next[s].row;
        call->wide_states |= (uint16_t)((unsigned)wide << s);
        call->wide_next |= (uint16_t)((unsigned)wide << s);
    }
}

struct eco_stage_call eco_replay_call(const struct eco_replay *replay, int32_t t, int32_t steps)
{
    const struct eco_gpu_run *run = replay->run;
    const struct eco_bound *bound = replay->bound;
    const bool reversed = bound->op->reversed;
    struct eco_stage_call call = eco_gpu_call(run, bound);
    call.training = true;
    call.mean = (void *)replay->mean.first;
    call.mean_row = replay->mean.row;
    call.acc = eco_view_at(&replay->acc, t);
    call.acc_row = replay->acc.row;
    call.operand = eco_view_at(&bound->operand, t);
    call.operand_row = bound->operand.row;
    call.save = eco_view_at(&bound->save, t);
    call.save_row = bound->save.row;
    point_at_states(replay, t, &call);
    if (run->problem->projected) {
        call.next[0] = eco_view_at(&bound->u, t);
        call.next_row[0] = bound->u.row;
    }
    call.t = reversed ? t + steps - 1 : t;
    if (replay->knows && steps > 1) {
        call.rows = steps * run->args->N;
        call.lengths = NULL;
    } else if (steps > 1) {
        call.steps = steps;
        call.step_t = reversed ? -1 : 1;
        call.step_rows = (int64_t)call.step_t * run->args->N;
        call.first_row = reversed ? (int64_t)(steps - 1) * run->args->N : 0;
    }
    return call;
}
