/*
 * Parameters to packed weights, and gradients back, in the device's memory.
 */
#include "gpu/gpu.h"

#include <string.h>

/* A parameter, in the caller's memory, in packed weights or in their gradient: rows of elements. */
struct place {
    ecornn_param param;
    ecornn_type type, gradient_type;
    size_t weights, gradient; /* bytes */
    size_t row;               /* of both, elements */
    bool vector;
};

static struct place place_of(const struct ecornn_plan *plan, int i)
{
    const struct eco_layout *layout = &plan->layout[0];
    struct eco_param_place at;
    int before = 0;
    eco_problem_place(&plan->problem, i, &at);
    const int part = eco_problem_part(&plan->problem, &at, &before);
    const struct eco_matrix *matrix = eco_layout_matrix(layout, at.layer, part);
    const size_t elements = (size_t)before * (size_t)matrix->height * (size_t)matrix->row;
    struct place found = {.row = (size_t)matrix->row,
                          .vector = part == ECO_PART_VECTORS,
                          .type = part == ECO_PART_VECTORS ? layout->sum : layout->weight,
                          .gradient_type = layout->sum};
    eco_problem_param(&plan->problem, i, &found.param);
    found.weights = eco_layout_weights(layout, at.layer, at.direction, part) +
                    elements * eco_type_bytes(found.type);
    found.gradient = eco_layout_gradient(layout, at.layer, at.direction, part) +
                     elements * eco_type_bytes(found.gradient_type);
    return found;
}

/* Parameters that follow each other on both sides are moved at once: the gates of a framework's
 * tensor, which it has under each other.  add: to what is there. */
struct mover {
    struct eco_move_call call; /* rows is 0: nothing yet */
    bool vectors;
    const struct eco_gpu *gpu;
    char name[sizeof(((ecornn_param *)0)->name)]; /* of the first */
    const void *param;                            /* where the caller has it */
    cudaStream_t stream;
};

static size_t bytes_of(const struct eco_plane *plane, const struct eco_move_call *call)
{
    const size_t row = call->rows == 1 ? (size_t)call->width : plane->row;
    return (size_t)call->rows * row * eco_type_bytes(plane->type);
}

static bool follows(const struct eco_plane *next, const struct eco_plane *plane,
                    const struct eco_move_call *call)
{
    return next->data == (char *)plane->data + bytes_of(plane, call) && next->row == plane->row &&
           next->type == plane->type;
}

/* Asking where memory is takes a microsecond: once for all that follow each other. */
static ecornn_status flush(struct mover *mover)
{
    ecornn_status status = ECORNN_OK;
    if (mover->call.rows > 0)
        status = eco_gpu_check_pointer(mover->gpu, mover->name, mover->param);
    if (status == ECORNN_OK && mover->call.rows > 0)
        status = eco_cuda_status(eco_launch_move(&mover->call, mover->stream), "moving parameters");
    mover->call.rows = 0;
    return status;
}

/* One row for a vector; the caller's rows are dense. */
static ecornn_status move(struct mover *mover, const struct place *place, const void *caller,
                          struct eco_plane to, struct eco_plane from)
{
    const ecornn_param *param = &place->param;
    struct eco_move_call *call = &mover->call;
    const int32_t rows = place->vector ? 1 : param->rows;
    const int32_t width = place->vector ? param->rows : param->cols;
    const bool next = call->rows > 0 && mover->vectors == place->vector &&
                      follows(&to, &call->to, call) && follows(&from, &call->from, call);
    if (next && place->vector && width <= INT32_MAX - call->width) {
        call->width += width;
        return ECORNN_OK;
    }
    if (next && !place->vector && width == call->width && call->rows > 1 && rows > 1 &&
        rows <= INT32_MAX - call->rows) {
        call->rows += rows;
        return ECORNN_OK;
    }
    const ecornn_status status = flush(mover);
    mover->vectors = place->vector;
    mover->param = caller;
    memcpy(mover->name, param->name, sizeof mover->name);
    *call = (struct eco_move_call){
        .to = to, .from = from, .steps = 1, .rows = rows, .width = width, .add = call->add};
    return status;
}

/* Is there anything between the matrices' elements? */
static bool has_gaps(const struct eco_layout *layout)
{
    bool gaps = false;
    for (int layer = 0; layer < layout->problem->L && layer < 2; layer++)
        for (int part = 0; part < ECO_PARTS; part++) {
            const struct eco_matrix *matrix = eco_layout_matrix(layout, layer, part);
            gaps |= matrix->height != matrix->units || matrix->row != matrix->columns;
        }
    return gaps;
}

/* Parameters to packed weights; NULL: none. */
static ecornn_status pack_all(const struct ecornn_plan *plan, const void *const *params,
                              void *weights, struct mover *mover)
{
    ecornn_status status = ECORNN_OK;
    for (int i = 0; status == ECORNN_OK && i < eco_problem_params(&plan->problem); i++) {
        if (params[i] == NULL)
            continue;
        const struct place place = place_of(plan, i);
        const struct eco_plane to = {
            .data = (char *)weights + place.weights, .row = place.row, .type = place.type};
        const struct eco_plane from = {.data = (void *)(uintptr_t)params[i],
                                       .row = (size_t)place.param.cols,
                                       .type = plan->problem.param_type};
        status = move(mover, &place, params[i], to, from);
    }
    return status == ECORNN_OK ? flush(mover) : status;
}

ecornn_status eco_gpu_pack(const struct ecornn_plan *plan, const void *const *params, void *weights,
                           void *stream)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    status = eco_gpu_check_pointer(plan->device->own, "weights", weights);
    if (status == ECORNN_OK && has_gaps(&plan->layout[0]))
        status = eco_cuda_status(cudaMemsetAsync(weights, 0, plan->sizes.weights, stream),
                                 "clearing packed weights");
    struct mover mover = {.gpu = plan->device->own, .stream = stream};
    if (status == ECORNN_OK)
        status = pack_all(plan, params, weights, &mover);
    eco_gpu_leave(&scope);
    return status;
}

ecornn_status eco_gpu_pack_add(const struct ecornn_plan *plan, const void *const *params,
                               void *weights, void *stream)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, plan->device);
    if (status != ECORNN_OK)
        return status;
    status = eco_gpu_check_pointer(plan->device->own, "weights", weights);
    struct mover mover = {.call.add = true, .gpu = plan->device->own, .stream = stream};
    if (status == ECORNN_OK)
        status = pack_all(plan, params, weights, &mover);
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
    struct mover mover = {.call.add = add, .gpu = plan->device->own, .stream = stream};
    for (int i = 0; status == ECORNN_OK && i < eco_problem_params(&plan->problem); i++) {
        if (params[i] == NULL)
            continue;
        const struct place place = place_of(plan, i);
        const struct eco_plane to = {
            .data = params[i], .row = (size_t)place.param.cols, .type = plan->problem.param_type};
        const struct eco_plane from = {.data = (void *)((uintptr_t)dweights + place.gradient),
                                       .row = place.row,
                                       .type = place.gradient_type};
        status = move(&mover, &place, params[i], to, from);
    }
    if (status == ECORNN_OK)
        status = flush(&mover);
    eco_gpu_leave(&scope);
    return status;
}
