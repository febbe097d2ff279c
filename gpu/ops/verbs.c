/*
 * The verbs of the GPU, program/verbs.h: each queues launches on the run's stream.
 */
#include "gpu/gemm/packed_weights.h"
#include "gpu/ops/ops.h"

const struct eco_verbs eco_gpu_verbs = {.move = eco_gpu_move,
                                        .cut = eco_gpu_cut,
                                        .product = eco_gpu_weight_product,
                                        .gradients = eco_gpu_gradients};

/* Prepares what the ops of a layer read: copies of its weights, and padding. */
static void prepare(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    const int kind = bound->op->kind;
    /* products of the layer above have written to the exchange's memory */
    if (kind == ECO_D_BEGIN && eco_layout_shares_exchange(run->layout))
        eco_launch_serialize(&run->launch, ECO_SERIALIZED_EXCHANGE);
    if (kind == ECO_BEGIN || kind == ECO_D_BEGIN)
        eco_gpu_copy_weights(run, bound->op);
    if (kind == ECO_BEGIN)
        eco_gpu_fill_rows(run, bound);
    if (kind == ECO_D_BEGIN)
        eco_gpu_fill_columns(run, bound->op);
}

/* States that need no copy before the first step, see eco_target. */
static uint16_t skipped(const struct eco_gpu_run *run, int kind)
{
    enum { ALL = UINT16_MAX };
    if (kind == ECO_D_BEGIN)
        return eco_gpu_begins_itself(run, ECO_D_STEP) ? ALL : eco_gpu_zero_carry(run);
    if (kind != ECO_BEGIN)
        return 0;
    if (run->args->resets != NULL)
        return eco_gpu_begins_in_planes(run) ? 0 : ALL;
    return eco_gpu_begins_itself(run, ECO_STEP) ? ALL : eco_gpu_zero_states(run);
}

void eco_gpu_expand_without(struct eco_gpu_run *run, const struct eco_bound *bound,
                            uint16_t without)
{
    const struct eco_target target = {&eco_gpu_verbs, run, run->layout, run->args, without};
    eco_expand(&target, bound);
}

void eco_gpu_expand(struct eco_gpu_run *run, const struct eco_bound *bound)
{
    prepare(run, bound);
    eco_gpu_expand_without(run, bound, skipped(run, bound->op->kind));
}
