/*
 * What a backward does that was not given saved values: a chunk's steps forward again, by the ops
 * of forward, from the states that the reserve keeps of every step.  They write saved values and u
 * of the chunk, and nothing else that is kept.
 */
#include "gpu/gemm/packed_weights.h"
#include "gpu/ops/ops.h"

/* The ops of a level, in parts of as many steps as have accumulators. */
struct replay {
    struct eco_gpu_run *run;
    struct eco_args forward; /* what a forward run would be given that wants no y */
    const struct eco_args *backward;
    struct eco_op op[ECO_TOGETHER]; /* of the part at hand */
    struct eco_bound part[ECO_TOGETHER];
};

static bool is_first(const struct eco_bound *chunk, int32_t T)
{
    return chunk->op->reversed ? chunk->op->t0 == 0 : chunk->op->t1 == T;
}

/* R as steps forward read it, and the zeros between elements; once for a layer and direction. */
static void prepare(const struct replay *replay, const struct eco_op *op)
{
    struct eco_bound begin;
    struct eco_op first = *op;
    first.kind = ECO_BEGIN;
    eco_bind(&begin, replay->run->layout, &replay->forward, &first);
    eco_gpu_copy_weights(replay->run, &first);
    eco_gpu_fill_rows(replay->run, &begin);
}

/* The state before the chunk's first step, into the plane that this reads.  A row whose steps fall
 * and have not begun has its initial state, where y has padding. */
static void load_state(const struct replay *replay, const struct eco_bound *chunk,
                       const struct eco_bound *part, int s)
{
    struct eco_gpu_run *run = replay->run;
    const struct eco_op *op = chunk->op;
    const int32_t t = op->reversed ? op->t1 - 1 : op->t0, before = op->reversed ? t + 1 : t - 1;
    const bool begins = t == chunk->first;
    const bool padded = s == 0 && op->reversed && !begins && run->args->lengths != NULL;
    const struct eco_view *from = begins ? &chunk->given[s] : s == 0 ? &chunk->y : &chunk->next[s];
    struct eco_move_call call = {.to = eco_gpu_plane(&part->before[s], t),
                                 .from = eco_gpu_plane(from, begins ? t : before),
                                 .steps = 1,
                                 .rows = run->args->N,
                                 .width = eco_problem_width(run->problem, s),
                                 .t0 = before};
    if (padded) {
        call.lengths = run->args->lengths;
        call.padding = eco_gpu_plane(&chunk->given[s], t);
    }
    /* the first step's kernels know zeros, and what queues all steps at once reads the caller's */
    if (begins && (eco_gpu_at_once(run, ECO_STEP) || (eco_gpu_zero_states(run) >> s & 1)))
        return;
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(&call, run->stream), "loading a state");
}

/* Steps number k * most and on of a chunk; false: it has no more. */
static bool take_part(struct replay *replay, const struct eco_bound *chunk, int32_t k, int i)
{
    const int32_t most = replay->run->layout->chunk;
    struct eco_op *op = &replay->op[i];
    struct eco_bound *part = &replay->part[i];
    *op = *chunk->op;
    op->kind = ECO_STEP;
    if (k * most >= op->t1 - op->t0)
        return false;
    if (op->reversed) {
        op->t1 -= k * most;
        op->t0 = op->t1 - op->t0 > most ? op->t1 - most : op->t0;
    } else {
        op->t0 += k * most;
        op->t1 = op->t1 - op->t0 > most ? op->t0 + most : op->t1;
    }
    eco_bind(part, replay->run->layout, &replay->forward, op);
    part->input = chunk->input;
    part->save = chunk->save;
    part->u = chunk->u;
    part->y = (struct eco_view){0};
    for (int s = 0; s < replay->run->problem->cell->recipe.n_states; s++)
        part->kept[s] = (struct eco_view){0};
    return true;
}

/* false: no chunk has more. */
static bool run_parts(struct replay *replay, const struct eco_bound *chunks, int n, int32_t k)
{
    struct eco_gpu_run *run = replay->run;
    int parts = 0;
    for (int i = 0; i < n; i++) {
        if (!take_part(replay, &chunks[i], k, parts))
            continue;
        struct eco_bound *part = &replay->part[parts];
        if (k == 0 && is_first(&chunks[i], run->args->T))
            prepare(replay, part->op);
        for (int s = 0; k == 0 && s < run->problem->cell->recipe.n_states; s++)
            load_state(replay, &chunks[i], part, s);
        eco_gpu_input(run, part);
        parts++;
    }
    if (parts > 0 && eco_gpu_at_once(run, ECO_STEP))
        run->together[ECO_STEP](run, replay->part, parts);
    for (int i = 0; i < parts && !eco_gpu_at_once(run, ECO_STEP); i++)
        eco_gpu_step(run, &replay->part[i]);
    return parts > 0;
}

void eco_gpu_replay_all(struct eco_gpu_run *run, const struct eco_bound *chunks, int n)
{
    struct replay replay = {.run = run, .forward = *run->args, .backward = run->args};
    replay.forward.backward = false;
    replay.forward.y = NULL;
    run->args = &replay.forward;
    for (int32_t k = 0; run->status == ECORNN_OK && run_parts(&replay, chunks, n, k);)
        k++;
    run->args = replay.backward;
}

void eco_gpu_replay(struct eco_gpu_run *run, const struct eco_bound *chunk)
{
    eco_gpu_replay_all(run, chunk, 1);
}
