/*
 * Rows that restart within a sequence: reset bytes, start states, and states with starts filled in.
 */
#include "gpu/view/run.h"

const uint8_t *eco_gpu_resets(const struct eco_gpu_run *run, int32_t t)
{
    const bool there = run->args->resets != NULL && t >= 0;
    return there ? run->args->resets + (size_t)t * (size_t)run->args->N : NULL;
}

const uint8_t *eco_gpu_resets_of(const struct eco_gpu_run *run, const struct eco_op *op, int32_t t)
{
    const int32_t at = eco_op_reset(op, t);
    return t >= 0 && at < run->args->T ? eco_gpu_resets(run, at) : NULL;
}

struct eco_plane eco_gpu_starts(const struct eco_gpu_run *run, const struct eco_bound *bound, int s)
{
    return run->args->resets != NULL ? eco_gpu_plane(&bound->start[s], 0) : (struct eco_plane){0};
}

uint16_t eco_gpu_zero_states(const struct eco_gpu_run *run)
{
    const struct eco_args *args = run->args;
    uint16_t zero = 0;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const bool starts = args->resets != NULL && args->reset_state[s] != NULL;
        zero |= (uint16_t)((args->initial[s] == NULL && !starts) << s);
    }
    /* a projection's kernel leaves rows that have ended as they are */
    return run->problem->projected && run->args->lengths != NULL ? zero & (uint16_t)~1u : zero;
}

bool eco_gpu_begins_in_planes(const struct eco_gpu_run *run)
{
    const unsigned all = (1u << run->problem->cell->recipe.n_states) - 1;
    return run->args->resets != NULL && eco_gpu_zero_states(run) != all;
}

/* The states before the direction's first step are elsewhere. */
void eco_gpu_patch_states(struct eco_gpu_run *run, const struct eco_bound *bound, int32_t t0,
                          int32_t t1)
{
    for (int s = 0; run->args->resets != NULL && s < run->problem->cell->recipe.n_states; s++) {
        const bool begins = bound->begins[s] && t0 <= bound->first && bound->first < t1;
        const int32_t from = t0 + (int32_t)(begins && bound->first == t0),
                      end = t1 - (int32_t)(begins && bound->first != t0);
        struct eco_move move = {.op = bound->op,
                                .to = bound->with_resets[s],
                                .to_t = from,
                                .from = bound->before[s],
                                .t = from,
                                .start = bound->start[s],
                                .steps = end - from,
                                .every = 1,
                                .width = eco_problem_width(run->problem, s),
                                .resets = true,
                                .pads = true};
        if (move.to.first == NULL)
            continue;
        if (move.steps > 0)
            eco_gpu_move(run, &move);
        move.from = bound->before_first[s];
        move.to_t = move.t = bound->first;
        move.steps = 1;
        if (begins)
            eco_gpu_move(run, &move);
    }
}
