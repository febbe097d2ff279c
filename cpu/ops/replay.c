/*
 * Training that saves memory: backward computes the states, saved values and u of a chunk again. If
 * the cell allows it, each product is computed for all steps at once, else step by step with the
 * code of forward.
 */
#include "cpu/cpu.h"

#include <string.h>

/* What stays the same over an op. */
struct replay {
    const struct eco_cpu_run *run; /* the backward run */
    const struct eco_bound *bound;
    bool at_once; /* all steps; else one by one */
    bool knows;   /* all states, not only the output state */
};

/* State s of the row at a position, after step t. */
static const void *known_row(const struct replay *replay, int s, int32_t t, int32_t place)
{
    const struct eco_bound *bound = replay->bound;
    const size_t index =
        s == 0 ? (size_t)t : eco_layout_checkpoint_index(replay->run->layout, bound->op->d, t);
    return eco_cpu_row_at(replay->run, s == 0 ? &bound->y : &bound->checkpoint[s], (int32_t)index,
                          place);
}

static void put_row(const struct replay *replay, int s, void *plane, int32_t place,
                    const void *from, ecornn_type type)
{
    const struct eco_view *to = &replay->bound->next[s];
    const size_t width = (size_t)eco_problem_width(replay->run->problem, s);
    void *row = eco_cpu_after_mutable(to->type, plane, (size_t)place * to->row);
    if (from != NULL)
        eco_type_move(row, to->type, from, type, width);
    else
        memset(row, 0, width * eco_type_bytes(to->type));
}

/* Loads the state that a row has before its first step in the chunk. */
static void load_first(const struct replay *replay, int s, int32_t place)
{
    const struct eco_cpu_run *run = replay->run;
    const struct eco_bound *bound = replay->bound;
    const struct eco_op *op = bound->op;
    const int32_t T = run->order ? run->args->lengths[eco_cpu_row(run, place)] : run->args->T;
    const int32_t first = !op->reversed ? op->t0 : T < op->t1 ? T - 1 : op->t1 - 1;
    const bool begins = op->reversed ? T <= op->t1 : op->t0 == 0;
    void *plane = eco_view_at(&bound->before[s], first);
    if (T <= op->t0)
        return;
    if (begins)
        put_row(replay, s, plane, place, eco_cpu_row_at(run, &bound->initial[s], 0, place),
                run->layout->type);
    else
        put_row(replay, s, plane, place,
                known_row(replay, s, op->reversed ? op->t1 : op->t0 - 1, place),
                s == 0 ? run->layout->type : bound->checkpoint[s].type);
}

/* Is state s after step t known before the replay computes it? */
static bool is_known(const struct replay *replay, int s, int32_t t)
{
    const struct eco_layout *layout = replay->run->layout;
    const bool narrows = eco_layout_narrows(layout);
    if (!replay->at_once && !narrows)
        return false;
    return s == 0 || narrows ||
           (replay->knows && eco_layout_is_checkpoint(layout, replay->bound->op->d, t));
}

/* Is state s kept with fewer bits than a step has? */
static bool rounds(const struct replay *replay, int s)
{
    const struct eco_bound *bound = replay->bound;
    const ecornn_type kept = s == 0 ? bound->y.type : bound->checkpoint[s].type;
    return eco_type_bytes(kept) < eco_type_bytes(bound->next[s].type);
}

/* Replaces states that were computed by those that forward kept: y, and checkpoints if they are
 * rounded. A step then begins with the same bits in any chunk, and a row ends with the same bits in
 * any run. */
static void take_kept(const struct replay *replay, int32_t t, struct eco_range rows,
                      struct eco_range units)
{
    const struct eco_bound *bound = replay->bound;
    for (int s = 0; s < replay->run->problem->cell->recipe.n_states; s++) {
        const struct eco_view *to = &bound->next[s];
        const ecornn_type type = s == 0 ? bound->y.type : bound->checkpoint[s].type;
        const size_t from = s == 0 ? 0 : (size_t)units.from,
                     width =
                         s == 0 ? (size_t)replay->run->problem->P : (size_t)(units.to - units.from);
        if (is_known(replay, s, t) ||
            (s > 0 && !(rounds(replay, s) &&
                        eco_layout_is_checkpoint(replay->run->layout, bound->op->d, t))))
            continue;
        for (int32_t n = rows.from; n < rows.to; n++)
            eco_type_move(
                eco_cpu_after_mutable(to->type, eco_view_at(to, t), (size_t)n * to->row + from),
                to->type, eco_cpu_after(type, known_row(replay, s, t, n), from), type, width);
    }
}

static void load_states(const struct replay *replay)
{
    const struct eco_cpu_run *run = replay->run;
    const struct eco_bound *bound = replay->bound;
    const struct eco_range all = eco_cpu_part(run, run->args->N, 1);
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        for (int32_t n = all.from; n < all.to; n++)
            load_first(replay, s, n);
        for (int32_t t = bound->op->t0; t < bound->op->t1; t++) {
            const struct eco_range part = eco_cpu_part(run, eco_cpu_active(run, t), 1);
            for (int32_t n = part.from; is_known(replay, s, t) && n < part.to; n++)
                put_row(replay, s, eco_view_at(&bound->next[s], t), n, known_row(replay, s, t, n),
                        s == 0 ? run->layout->type : bound->checkpoint[s].type);
        }
    }
    eco_cpu_wait(run);
}

/* ---- products over the steps of a part of the chunk ------------------------------------------ */

/* Steps [t0,t1) of the chunk that have accumulators at a time. */
struct part {
    const struct replay *replay;
    struct eco_op op;
    struct eco_args args; /* arguments of a forward run */
    struct eco_cpu_run run;
    struct eco_bound bound; /* arrays of its forward steps */
    struct eco_blocks blocks;
};

/* Rows of operand o: planes before the steps, or what an earlier stage computed. */
static void multiply_operand(struct part *part, int o)
{
    struct eco_cpu_run *run = &part->run;
    const struct eco_operand *operand = &run->lowered->operand[o];
    const struct eco_bound *bound = part->replay->bound;
    const struct eco_view *states = run->args->resets != NULL ? bound->with_resets : bound->before;
    struct eco_weight_product product = {.op = &part->op,
                                         .weight_id = ECO_WEIGHT_RECURRENT + o,
                                         .t0 = part->op.t0,
                                         .t1 = part->op.t1,
                                         .c = part->bound.acc,
                                         .add = true};
    if (operand->state < 0)
        product.a =
            eco_view_column(&bound->operand, (size_t)operand->slot * (size_t)run->problem->H);
    else
        product.a = states[operand->state];
    eco_cpu_weight_product(run, &product);
    eco_cpu_after_product(run);
}

/* ---- all steps at once ----------------------------------------------------------------------- */

/* A thread has the same units in all steps. So it need not wait for other threads to compute a
 * state from the state before it. */
static struct eco_pointwise begin_pass(const struct part *part)
{
    const struct eco_cpu_run *run = &part->run;
    const struct eco_bound *bound = part->replay->bound;
    const struct eco_range units = eco_cpu_part(run, run->problem->H, run->unit_group);
    struct eco_pointwise call = eco_cpu_call(run, &part->bound);
    call.acc_row = part->bound.acc.row;
    call.acc_shift = part->blocks.shift;
    call.acc_block = part->blocks.block;
    call.acc_column = part->blocks.column;
    call.save_row = bound->save.row;
    call.operand_row = bound->operand.row;
    call.unit0 = units.from;
    call.unit1 = units.to;
    return call;
}

/* A known next state is not overwritten. With resets, states that no product reads get their starts
 * here, because only now the states of the step before exist. */
static void point_at_step(const struct part *part, struct eco_pointwise *call, int32_t t)
{
    const struct eco_bound *bound = part->replay->bound;
    const struct eco_cpu_run *run = part->replay->run;
    const struct eco_view unread =
        eco_bind_array(run->layout, run->args, bound->op, ECO_INNER_UNREAD, 0);
    call->t = t;
    call->row1 = eco_cpu_active(run, t);
    call->acc = eco_view_at(&part->bound.acc, t);
    call->save = eco_view_at(&bound->save, t);
    call->operand = eco_view_at(&bound->operand, t);
    eco_cpu_point_at_states(bound, t, call);
    eco_cpu_patch_states(run, bound, t, call, ECO_PATCH_OTHERS);
    for (int s = 0; s < call->n_states; s++)
        if (is_known(part->replay, s, t)) {
            call->next[s] = unread.first;
            call->next_row[s] = unread.row;
        }
    if (run->problem->projected) {
        call->next[0] = eco_view_at(&bound->u, t);
        call->next_row[0] = bound->u.row;
    }
}

static void run_stage(const struct part *part, struct eco_pointwise *call, int i)
{
    const struct eco_cpu_run *run = &part->run;
    const struct eco_op *op = &part->op;
    const eco_pointwise_kernel kernel = eco_cpu_stage_kernel(run, false, i);
    call->program = &run->lowered->forward[i];
    for (int32_t k = 0; k < op->t1 - op->t0; k++) {
        point_at_step(part, call, op->reversed ? op->t1 - 1 - k : op->t0 + k);
        if (call->row1 > 0 && call->unit0 < call->unit1)
            kernel(call);
        if (call->unit0 < call->unit1)
            take_kept(part->replay, call->t, (struct eco_range){call->row0, call->row1},
                      (struct eco_range){call->unit0, call->unit1});
    }
    eco_cpu_wait(run);
}

/* Puts starts into the states that products read. */
static void patch(const struct part *part)
{
    const struct eco_cpu_run *run = part->replay->run;
    struct eco_pointwise call = begin_pass(part);
    for (int32_t t = part->op.t0; t < part->op.t1; t++) {
        call.row1 = eco_cpu_active(run, t);
        eco_cpu_patch_states(run, part->replay->bound, t, &call, ECO_PATCH_READ);
    }
    eco_cpu_wait(run);
}

static void run_at_once(struct part *part)
{
    const struct eco_lowered *lowered = part->run.lowered;
    struct eco_pointwise call = begin_pass(part);
    if (part->run.args->resets != NULL)
        patch(part);
    for (int i = 0; i < lowered->n_forward; i++) {
        for (int o = 0; o < lowered->n_operands; o++)
            if (lowered->operand[o].forward == i)
                multiply_operand(part, o);
        run_stage(part, &call, i);
    }
}

/* ---- the op ---------------------------------------------------------------------------------- */

/* Binds forward steps to the arrays of the chunk. */
static void bind_part(struct part *part)
{
    const struct eco_bound *chunk = part->replay->bound;
    struct eco_bound *bound = &part->bound;
    eco_bind(bound, part->run.layout, &part->args, &part->op);
    for (int s = 0; s < part->run.problem->cell->recipe.n_states; s++) {
        bound->before[s] = chunk->before[s];
        bound->next[s] = chunk->next[s];
    }
    bound->save = chunk->save;
    bound->u = chunk->u;
    bound->y.first = NULL; /* it is known */
}

/* The steps of a part, `each` at a time. */
static void run_steps(struct part *part, int32_t each)
{
    const int32_t t0 = part->op.t0, t1 = part->op.t1;
    for (int32_t k = 0; k < t1 - t0; k += each) {
        part->op.t0 = part->op.reversed ? t1 - each - k : t0 + k;
        part->op.t1 = part->op.t0 + each;
        eco_cpu_step(&part->run, &part->bound);
        eco_cpu_wait(&part->run);
        if (each > 1)
            continue;
        take_kept(part->replay, part->op.t0,
                  eco_cpu_part(&part->run, eco_cpu_active(&part->run, part->op.t0), 1),
                  (struct eco_range){0, part->run.problem->H});
        eco_cpu_wait(&part->run);
    }
}

static void run_part(const struct replay *replay, int32_t t0, int32_t t1)
{
    struct part part = {.replay = replay,
                        .op = *replay->bound->op,
                        .args = *replay->run->args,
                        .run = *replay->run,
                        .blocks = eco_layout_acc_blocks(replay->run->layout)};
    part.op.kind = ECO_STEP;
    part.op.t0 = t0;
    part.op.t1 = t1;
    part.args.backward = false;
    part.run.args = &part.args;
    bind_part(&part);
    const struct eco_target target = {&eco_cpu_verbs, &part.run, part.run.layout, &part.args, 0};
    eco_expand_input(&target, &part.op, &part.bound.acc, &replay->bound->input, t0, t1);
    eco_cpu_wait(&part.run);
    if (replay->at_once) {
        run_at_once(&part);
        return;
    }
    bool rounded = false;
    for (int s = 0; s < part.run.problem->cell->recipe.n_states; s++)
        rounded = rounded || rounds(replay, s);
    run_steps(&part, rounded ? 1 : t1 - t0);
}

void eco_cpu_replay(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    const int32_t chunk = run->layout->chunk, t0 = bound->op->t0, t1 = bound->op->t1;
    struct replay replay = {
        .run = run, .bound = bound, .knows = eco_layout_knows_states(run->layout)};
    replay.at_once = eco_cell_replays_at_once(run->problem->cell, replay.knows);
    load_states(&replay);
    if (eco_layout_narrows(run->layout)) {
        eco_cpu_expand(run, bound);
        eco_cpu_wait(run);
        return;
    }
    for (int32_t k = 0; k < t1 - t0; k += chunk) {
        const int32_t steps = t1 - t0 - k < chunk ? t1 - t0 - k : chunk;
        const int32_t from = bound->op->reversed ? t1 - k - steps : t0 + k;
        run_part(&replay, from, from + steps);
    }
}
