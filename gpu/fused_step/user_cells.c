/*
 * Fused steps of custom cells, or with resets, compiled at run time.
 */
#include "gpu/fused_step/fused_step.h"

const struct eco_own_code *eco_own_fused_get(struct eco_gpu *gpu, const struct eco_problem *problem,
                                             struct eco_text *why)
{
    struct eco_own_text wanted = {.text = eco_fused_text(problem)};
    for (int shape = 0; shape < ECO_FUSED_SHAPES; shape++)
        if (ECO_FUSED_MADE(problem->cell->lowered.n_accs, shape))
            eco_fused_kernel_name(shape, wanted.name[wanted.n++]);
    return eco_own_code_get(gpu, &wanted, why);
}
