/*
 * Where rows of a step lie: in the caller's arrays, the workspace, the reserve; and what of the
 * packed weights is read as it is.
 */
#include "cpu/cpu.h"

#include <assert.h>

void *eco_cpu_at(const struct eco_cpu_run *run, const struct eco_array *array, size_t step)
{
    char *const block =
        array->block == ECO_BLOCK_RESERVE ? run->args->reserve : run->args->workspace;
    if (array->wrap > 0)
        step %= array->wrap;
    return block + array->offset + step * array->step * eco_type_bytes(array->type);
}

const void *eco_cpu_weights(const struct eco_cpu_run *run, size_t offset)
{
    const char *weights = run->args->weights;
    return weights != NULL ? weights + offset : NULL; /* of 0 bytes */
}

struct eco_rows eco_cpu_sequence(const struct eco_cpu_run *run, const void *data, int32_t t,
                                 size_t width)
{
    const size_t T = (size_t)run->args->T, N = (size_t)run->args->N;
    const bool time_major = run->problem->order == ECORNN_TIME_MAJOR;
    const ecornn_type type = run->layout->type;
    if (data == NULL)
        return (struct eco_rows){NULL, 0, type};
    return (struct eco_rows){eco_cpu_after(type, data, (size_t)t * width * (time_major ? N : 1)),
                             time_major ? width : T * width, type};
}

struct eco_steps eco_cpu_steps(const struct eco_cpu_run *run, const struct eco_array *array)
{
    char *first = eco_cpu_at(run, array, 0);
    assert((array->wrap & (array->wrap - 1)) == 0);
    return (struct eco_steps){.first = first,
                              .stride = (size_t)((char *)eco_cpu_at(run, array, 1) - first),
                              .mask = array->wrap > 0 ? array->wrap - 1 : SIZE_MAX,
                              .row = array->row,
                              .type = array->type};
}

struct eco_steps eco_cpu_sequence_steps(const struct eco_cpu_run *run, const void *data,
                                        size_t width, size_t column)
{
    if (data == NULL)
        return (struct eco_steps){.first = NULL};
    const struct eco_rows rows = eco_cpu_sequence(run, data, 0, width);
    const void *next = eco_cpu_sequence(run, data, 1, width).data;
    return (struct eco_steps){
        .first = (char *)(uintptr_t)eco_cpu_after(rows.type, rows.data, column),
        .stride = (size_t)((const char *)next - (const char *)rows.data),
        .mask = SIZE_MAX,
        .row = rows.row,
        .type = rows.type,
    };
}

struct eco_rows eco_cpu_input_rows(const struct eco_cpu_run *run, const struct eco_op *op,
                                   int32_t t)
{
    if (op->layer == 0)
        return eco_cpu_sequence(run, run->args->x, t, (size_t)run->problem->I);
    const struct eco_array state = eco_layout_state(run->layout, op->layer - 1, 0, 0);
    return (struct eco_rows){eco_cpu_at(run, &state, (size_t)t + 1), state.row, state.type};
}

struct eco_rows eco_cpu_product_input(const struct eco_cpu_run *run, const struct eco_op *op)
{
    if (!op->gathered) {
        struct eco_rows rows = eco_cpu_input_rows(run, op, op->t0);
        if (op->layer == 0) /* batch-major comes here with one row only: its steps are neighbours */
            rows.row = (size_t)run->problem->I;
        return rows;
    }
    const struct eco_array gather =
        eco_layout_scratch(run->layout, run->args->backward, op->layer, op->d, ECO_SCRATCH_GATHER);
    return (struct eco_rows){eco_cpu_at(run, &gather, 0), gather.row, gather.type};
}

const struct eco_blocks eco_cpu_one_block = {31, 0, 0};

const void *eco_cpu_bias(const struct eco_cpu_run *run, const struct eco_op *op, int acc)
{
    const int param = run->lowered->acc[acc].vector;
    const size_t before = (size_t)eco_vector_number(&run->problem->cell->recipe, param);
    const void *vectors =
        eco_cpu_weights(run, eco_layout_weights(run->layout, op->layer, op->d, ECO_PART_VECTORS));
    return param < 0 ? NULL
                     : eco_cpu_after(run->layout->sum, vectors, before * (size_t)run->problem->H);
}
