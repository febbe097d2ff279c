/*
 * Compaction, which drops masked steps (common/compaction.h), on a GPU: queued on the caller's
 * stream, before a run and after it.
 */
#include "gpu/copy/compaction.h"
#include "gpu/ops/ops.h"

/* Checks the pointers that the run itself does not see. */
static ecornn_status check_pointers(const struct eco_gpu *gpu, const struct eco_args *args)
{
    const struct {
        const char *name;
        const void *pointer;
    } all[] = {
        {"io.x", args->x},           {"io.y", args->y},        {"io.lengths", args->lengths},
        {"io.resets", args->resets}, {"io.mask", args->mask},  {"io.workspace", args->workspace},
        {"gradient.dy", args->dy},   {"gradient.dx", args->dx}};
    ecornn_status status = ECORNN_OK;
    for (size_t i = 0; status == ECORNN_OK && i < sizeof all / sizeof *all; i++)
        status = eco_gpu_check_pointer(gpu, all[i].name, all[i].pointer);
    for (int s = 0; status == ECORNN_OK && s < ECO_MAX_STATES; s++) {
        status = eco_gpu_check_pointer(gpu, "io.states", args->states[s]);
        if (status == ECORNN_OK)
            status = eco_gpu_check_pointer(gpu, "gradient.dstates", args->dstates[s]);
    }
    return status;
}

static ecornn_status move(const struct eco_compaction *compaction,
                          const struct eco_compact_move *moves, int count)
{
    ecornn_status status = ECORNN_OK;
    for (int i = 0; status == ECORNN_OK && i < count; i++)
        status =
            ECO_CUDA(eco_launch_compact(&compaction->run, &moves[i], compaction->args->stream));
    return status;
}

ecornn_status eco_gpu_compact(const struct ecornn_plan *plan,
                              const struct eco_compaction *compaction, bool out)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    if (out) {
        status = move(compaction, compaction->out, compaction->outs);
    } else {
        status = check_pointers(plan->device->context, compaction->args);
        if (status == ECORNN_OK)
            status = ECO_CUDA(eco_launch_count(&compaction->run, compaction->args->stream));
        if (status == ECORNN_OK)
            status = move(compaction, compaction->in, compaction->ins);
    }
    eco_gpu_leave(&scope);
    return status;
}
