/*
 * A replay of the steps of an op: what ops/replay.c and ops/replay_states.c share.
 */
#ifndef ECO_GPU_OPS_REPLAY_H
#define ECO_GPU_OPS_REPLAY_H

#include "gpu/ops/ops.h"

/* A chunk of a replay, and the steps of it that have accumulators at the same time. */
struct eco_replay {
    struct eco_gpu_run *run;
    const struct eco_bound *bound;
    struct eco_view acc, mean;
    bool knows;      /* all states are known */
    bool at_once;    /* a product takes many steps; else one step, as in forward */
    int32_t segment; /* steps that follow each other, from a checkpoint on; else of the chunk */
    int32_t t0, t1;
};

/* Copies known states to the chunk. Of states that are computed step by step it copies the one
 * before the first step. */
void eco_replay_load_states(const struct eco_replay *replay);
/* Replaces states by row-invariant checkpoints in fewer bits, from which the steps after them
 * begin: so gradients do not depend on where chunks end. */
void eco_replay_take_kept(const struct eco_replay *replay);
/* The call of a stage over `steps` steps from t on. If all states are known, the rows of all steps
 * count as rows of one step; else each row goes through its steps. */
struct eco_stage_call eco_replay_call(const struct eco_replay *replay, int32_t t, int32_t steps);

#endif /* ECO_GPU_OPS_REPLAY_H */
