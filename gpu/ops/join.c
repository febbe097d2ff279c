/*
 * Joins (common/join.h) on a GPU: queued on the caller's stream, between runs of layers.
 */
#include "gpu/copy/join.h"
#include "gpu/ops/ops.h"

#include <assert.h>

/* An addition without a change of steps is a move. */
static ecornn_status add(const struct eco_join *join, void *stream)
{
    const size_t T = (size_t)join->T, N = (size_t)join->N, width = (size_t)join->width,
                 row = (size_t)join->row;
    const bool batch_major = join->batch_major;
    const struct eco_move_call call = {.to = {.data = join->narrow,
                                              .step = batch_major ? width : N * width,
                                              .row = batch_major ? T * width : width,
                                              .type = join->type},
                                       .from = {.data = join->wide,
                                                .step = batch_major ? row : N * row,
                                                .row = batch_major ? T * row : row,
                                                .type = join->type},
                                       .steps = join->T,
                                       .rows = join->N,
                                       .width = join->width,
                                       .add = true};
    assert(join->steps == 1 && join->at == 0 && join->back);
    return ECO_CUDA(eco_launch_move(&call, stream));
}

ecornn_status eco_gpu_join(struct ecornn_device *device, const struct eco_join *join, void *stream)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, device);
    if (status != ECORNN_OK)
        return status;
    const struct {
        const char *name;
        const void *pointer;
    } all[] = {{"an array to join", join->narrow},
               {"an array of joined steps", join->wide},
               {"io.lengths", join->lengths}};
    for (size_t i = 0; status == ECORNN_OK && i < sizeof all / sizeof *all; i++)
        status = eco_gpu_check_pointer(device->context, all[i].name, all[i].pointer);
    if (status == ECORNN_OK)
        status = join->add ? add(join, stream) : ECO_CUDA(eco_launch_join(join, stream));
    eco_gpu_leave(&scope);
    return status;
}

ecornn_status eco_gpu_join_lengths(struct ecornn_device *device, int32_t *to, const int32_t *from,
                                   int32_t N, int32_t steps, void *stream)
{
    struct eco_gpu_scope scope;
    ecornn_status status = eco_gpu_enter(&scope, device);
    if (status != ECORNN_OK)
        return status;
    status = eco_gpu_check_pointer(device->context, "io.workspace", to);
    if (status == ECORNN_OK)
        status = eco_gpu_check_pointer(device->context, "io.lengths", from);
    if (status == ECORNN_OK)
        status = ECO_CUDA(eco_launch_join_lengths(to, from, N, steps, stream));
    eco_gpu_leave(&scope);
    return status;
}
