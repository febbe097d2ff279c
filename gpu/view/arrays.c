/*
 * Rows and weights as kernels address them.
 */
#include "gpu/view/run.h"

void *eco_gpu_after(const void *p, size_t elements, ecornn_type type)
{
    return (void *)((uintptr_t)p + elements * eco_type_bytes(type));
}

struct eco_plane eco_gpu_plane(const struct eco_view *view, int32_t t)
{
    return (struct eco_plane){eco_view_at(view, t), view->step / eco_type_bytes(view->type),
                              view->row, view->type};
}

const void *eco_gpu_weights(const struct eco_gpu_run *run, const struct eco_op *op, int weight_id)
{
    if (!run->layout->request.gpu.widened || weight_id == ECO_WEIGHT_VECTORS)
        return eco_bind_weights(run->layout, run->args, op, weight_id);
    const struct eco_array array =
        eco_layout_widened(run->layout, run->args->backward, op->layer, op->d, weight_id);
    return eco_bind_array(&array, run->args, 0).first;
}

int32_t eco_gpu_column(const struct eco_gpu_run *run)
{
    return (int32_t)eco_layout_acc_blocks(run->layout).column;
}
