/*
 * Parameters to packed weights, and gradients back, in the device's memory.
 */
#include "gpu/gpu.h"

/* A parameter, in the caller's memory, in packed weights or in their gradient: rows of elements. */
struct place {
    ecornn_param param;
    ecornn_type type, gradient_type;
    size_t weights, gradient; /* bytes */
};

static struct place place_of(const struct ecornn_plan *plan, int i)
{
    const struct eco_layout *layout = &plan->layout[0];
    struct eco_param_place at;
    int before = 0;
    eco_problem_param(&plan->problem, i, &at);
    const int part = eco_problem_part(&plan->problem, &at, &before);
    const size_t elements = (size_t)before * (size_t)at.param.rows * (size_t)at.param.cols;
    struct place found = {.param = at.param,
                          .type = part == ECO_PART_VECTORS ? layout->sum : layout->weight,
                          .gradient_type = layout->sum};
    found.weights = eco_layout_weights(layout, at.layer, at.direction, part) +
                    elements * eco_type_bytes(found.type);
    found.gradient = eco_layout_gradient(layout, at.layer, at.direction, part) +
                     elements * eco_type_bytes(found.gradient_type);
    return found;
}

/* Both dense; one row for a vector. */
static ecornn_status move(const ecornn_param *param, struct eco_plane to, struct eco_plane from,
                          bool add, cudaStream_t stream)
{
    const bool vector = param->cols == 1;
    struct eco_move_call call = {.to = to,
                                 .from = from,
                                 .steps = 1,
                                 .rows = vector ? 1 : param->rows,
                                 .width = vector ? param->rows : param->cols,
                                 .add = add};
    call.to.row = call.from.row = (size_t)call.width;
    return eco_cuda_status(eco_launch_move(&call, stream), "moving a parameter");
}

ecornn_status eco_gpu_pack(const struct ecornn_plan *plan, const void *const *params, void *weights,
                           void *stream)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    status = eco_gpu_check_pointer(plan->device->own, "weights", weights);
    for (int i = 0; status == ECORNN_OK && i < eco_problem_params(&plan->problem); i++) {
        const struct place place = place_of(plan, i);
        const struct eco_plane to = {.data = (char *)weights + place.weights, .type = place.type};
        const struct eco_plane from = {.data = (void *)(uintptr_t)params[i],
                                       .type = plan->problem.param_type};
        status = eco_gpu_check_pointer(plan->device->own, place.param.name, params[i]);
        if (status == ECORNN_OK)
            status = move(&place.param, to, from, false, stream);
    }
    eco_gpu_leave(&scope);
    return status;
}

ecornn_status eco_gpu_unpack(const struct ecornn_plan *plan, const void *dweights,
                             void *const *params, bool add, void *stream)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    status = eco_gpu_check_pointer(plan->device->own, "dweights", dweights);
    for (int i = 0; status == ECORNN_OK && i < eco_problem_params(&plan->problem); i++) {
        const struct place place = place_of(plan, i);
        const struct eco_plane to = {.data = params[i], .type = plan->problem.param_type};
        const struct eco_plane from = {.data = (void *)((uintptr_t)dweights + place.gradient),
                                       .type = place.gradient_type};
        status = eco_gpu_check_pointer(plan->device->own, place.param.name, params[i]);
        if (status == ECORNN_OK && params[i] != NULL)
            status = move(&place.param, to, from, add, stream);
    }
    eco_gpu_leave(&scope);
    return status;
}
