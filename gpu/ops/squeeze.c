/*
 * Squeezing (common/squeeze.h) on a GPU: queued on the caller's stream, before a run and behind it.
 */
#include "gpu/copy/squeeze.h"
#include "gpu/ops/ops.h"

/* What the run itself does not see. */
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

static ecornn_status move(const struct eco_squeeze *squeeze, const struct eco_squeeze_move *moves,
                          int count)
{
    ecornn_status status = ECORNN_OK;
    for (int i = 0; status == ECORNN_OK && i < count; i++)
        status = ECO_CUDA(eco_launch_squeeze(&squeeze->run, &moves[i], squeeze->args->stream));
    return status;
}

ecornn_status eco_gpu_squeeze(const struct ecornn_plan *plan, const struct eco_squeeze *squeeze,
                              bool out)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    if (out) {
        status = move(squeeze, squeeze->out, squeeze->outs);
    } else {
        status = check_pointers(plan->device->own, squeeze->args);
        if (status == ECORNN_OK)
            status = ECO_CUDA(eco_launch_count(&squeeze->run, squeeze->args->stream));
        if (status == ECORNN_OK)
            status = move(squeeze, squeeze->in, squeeze->ins);
    }
    eco_gpu_leave(&scope);
    return status;
}
