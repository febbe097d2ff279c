/*
 * Where rows lie in the caller's arrays, the workspace and the reserve.
 */
#include "gpu/view/run.h"

void *eco_gpu_after(const void *p, size_t elements, ecornn_type type)
{
    return (void *)((uintptr_t)p + elements * eco_type_bytes(type));
}

void *eco_gpu_at(const struct eco_gpu_run *run, const struct eco_array *array, size_t step)
{
    char *const block =
        array->block == ECO_BLOCK_RESERVE ? run->args->reserve : run->args->workspace;
    if (array->wrap > 0)
        step %= array->wrap;
    return block + array->offset + step * array->step * eco_type_bytes(array->type);
}

const void *eco_gpu_weights(const struct eco_gpu_run *run, const struct eco_op *op, int part)
{
    if (run->layout->wishes.gpu.widened && part != ECO_PART_VECTORS) {
        const struct eco_array array =
            eco_layout_widened(run->layout, run->args->backward, op->layer, op->d, part);
        return eco_gpu_at(run, &array, 0);
    }
    return (const char *)run->args->weights +
           eco_layout_weights(run->layout, op->layer, op->d, part);
}

int32_t eco_gpu_column(const struct eco_gpu_run *run)
{
    return (int32_t)eco_layout_acc_blocks(run->layout).column;
}

struct eco_plane eco_gpu_sequence(const struct eco_gpu_run *run, const void *data, int32_t t,
                                  size_t width)
{
    const size_t T = (size_t)run->args->T, N = (size_t)run->args->N;
    const bool time_major = run->problem->order == ECORNN_TIME_MAJOR;
    struct eco_plane plane = {.step = time_major ? N * width : width,
                              .row = time_major ? width : T * width,
                              .type = run->layout->type};
    if (data != NULL)
        plane.data = eco_gpu_after(data, (size_t)t * plane.step, plane.type);
    return plane;
}

struct eco_plane eco_gpu_plane(const struct eco_gpu_run *run, const struct eco_array *array,
                               size_t step)
{
    return (struct eco_plane){eco_gpu_at(run, array, step), array->step, array->row, array->type};
}

struct eco_plane eco_gpu_caller_state(const struct eco_gpu_run *run, const struct eco_op *op, int s,
                                      const void *data)
{
    const size_t width = (size_t)eco_problem_width(run->problem, s);
    const size_t before = (size_t)op->layer * (size_t)run->problem->D + op->d;
    struct eco_plane plane = {.row = width, .type = run->layout->type};
    if (data != NULL)
        plane.data = eco_gpu_after(data, before * (size_t)run->args->N * width, plane.type);
    return plane;
}
