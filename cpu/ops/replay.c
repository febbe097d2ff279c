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
    const bool narrows = eco_layout_narrows(replay->run->layout);
    if (!replay->at_once && !narrows)
        return false;
    return s == 0 || narrows || (replay->knows && t != replay->bound->last);
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
        eco_bind_scratch(run->layout, run->args, bound->op, ECO_SCRATCH_UNREAD);
    call->t = t;
    call->row1 = eco_cpu_active(run, t);
    call->acc = eco_view_at(&part->bound.acc, t);
    call->save = eco_view_at(&bound->save, t);
    call->operand = eco_view_at(&bound->operand, t);
    eco_cpu_point_at_states(bound, t, call);
    if (run->args->resets != NULL)
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

/* No plane holds the state after the last step. It is rounded like the others, so that results do
 * not depend on whether other rows have more steps. */
static void round_last(const struct part *part, const struct eco_pointwise *call, int32_t t)
{
    const struct eco_bound *bound = part->replay->bound;
    const size_t units = (size_t)(call->unit1 - call->unit0);
    for (int s = 1; part->replay->knows && t == bound->last && s < call->n_states; s++)
        for (int32_t n = call->row0; n < call->row1; n++) {
            void *row = eco_cpu_after_mutable(bound->next[s].type, call->next[s],
                                              (size_t)n * call->next_row[s] + (size_t)call->unit0);
            for (size_t j = 0; j < units; j++)
                eco_type_set(row, j, bound->next[s].type,
                             eco_type_round(eco_type_get(row, j, bound->next[s].type),
                                            bound->checkpoint[s].type));
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
        if (i == run->lowered->n_forward - 1 && call->unit0 < call->unit1)
            round_last(part, call, call->t);
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
    } else {
        eco_cpu_step(&part.run, &part.bound);
        eco_cpu_wait(&part.run);
    }
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
