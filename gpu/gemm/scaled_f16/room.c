/*
 * Sizes of large products in F16, the room that they take, and which ops of a run have them, by the
 * plan's choices.
 */
#include "gpu/gemm/scaled_f16/scaled_f16.h"

#include "gpu/gemm/grouped/args.h"

struct eco_scaled_f16_size eco_scaled_f16_size(const struct eco_problem *problem, int layer,
                                               int part, int32_t rows)
{
    const struct eco_layout_request aligned = {.gpu.aligned = ECO_GPU_ALIGNED};
    const struct eco_matrix matrix = eco_stored_matrix(problem, &aligned, layer, part);
    return (struct eco_scaled_f16_size){rows, matrix.n * matrix.height, matrix.row};
}

int64_t eco_scaled_f16_columns(const struct eco_problem *problem)
{
    const struct eco_layout_request aligned = {.gpu.aligned = ECO_GPU_ALIGNED};
    const struct eco_lowered *lowered = &problem->cell->lowered;
    return (int64_t)(lowered->n_accs + lowered->n_extra) *
           (int64_t)eco_request_row(&aligned, (size_t)problem->H);
}

size_t eco_scaled_f16_take(size_t *at, size_t bytes)
{
    const size_t taken = *at;
    *at += (bytes + ECO_ROOM_ALIGNMENT - 1) / ECO_ROOM_ALIGNMENT * ECO_ROOM_ALIGNMENT;
    return taken;
}

/* With many rows cuBLAS splits the terms of gradients of such matrices, if there is room for some
 * sums of each. */
size_t eco_scaled_f16_room(const struct eco_problem *problem)
{
    enum { ROWS = 1024, LEAST = 256 << 10, MOST = 4 << 20, ROOM = 8 << 20 }; /* bytes */
    const size_t bytes =
        sizeof(float) * (size_t)eco_scaled_f16_columns(problem) * (size_t)problem->P;
    return problem->training && problem->N >= ROWS && bytes > LEAST && bytes <= MOST
               ? ROOM
               : ECO_ROOM_OF_MANY;
}

struct eco_scaled_f16_places eco_scaled_f16_places(const struct eco_problem *problem,
                                                   const struct eco_caps *caps, int32_t rows)
{
    const int32_t columns = (int32_t)eco_scaled_f16_columns(problem);
    /* so that all are resident at once */
    const int32_t most = caps->threads * (columns <= 2048 ? 4 : columns <= 4096 ? 2 : 1);
    struct eco_scaled_f16_places p = {.columns = columns, .blocks = rows < most ? rows : most};
    const size_t sums = problem->training ? (size_t)p.blocks * (size_t)columns : 0;
    size_t at = eco_scaled_f16_room(problem);
    p.scalars = eco_scaled_f16_take(&at, sizeof(struct eco_scaled_f16_scalars));
    p.most =
        eco_scaled_f16_take(&at, sizeof(float) * ECO_SCALED_F16_MATRICES * ECO_SCALED_F16_BLOCKS);
    p.scales = eco_scaled_f16_take(&at, sizeof(float) * (size_t)rows);
    p.sums = eco_scaled_f16_take(&at, sizeof(float) * sums);
    p.rest = at;
    return p;
}

size_t eco_scaled_f16_copy_bytes(int32_t rows, int32_t row)
{
    size_t bytes = 0;
    eco_scaled_f16_take(&bytes, (size_t)rows * (size_t)row * 2);
    return bytes;
}

size_t eco_scaled_f16_op_bytes(const struct eco_problem *problem, const struct eco_caps *caps,
                               int layer, int32_t rows, bool backward)
{
    const struct eco_scaled_f16_size input =
        eco_scaled_f16_size(problem, layer, ECO_WEIGHT_INPUT, rows);
    const size_t weights = eco_scaled_f16_copy_bytes(input.accs, input.row),
                 x = eco_scaled_f16_copy_bytes(rows, input.row);
    const size_t fixed = ECO_ROOM_ALIGNMENT + eco_scaled_f16_places(problem, caps, rows).rest;
    if (!backward)
        return fixed + weights + x;
    const size_t dx = weights + 2 * x;
    size_t gradients = x;
    for (int o = 0; o < problem->cell->lowered.n_operands; o++) {
        const int32_t row = eco_scaled_f16_size(problem, layer, ECO_WEIGHT_RECURRENT + o, rows).row;
        gradients += eco_scaled_f16_copy_bytes(rows, row) +
                     eco_scaled_f16_copy_bytes(problem->N, row); /* for the first step */
    }
    return fixed + (dx > gradients ? dx : gradients);
}

/* ---- ops of a run ---------------------------------------------------------------------------- */

/* A run may have fewer rows than its plan has room for. */
static bool fits(const struct eco_gpu_run *run, const struct eco_op *op,
                 struct eco_rows_range chosen)
{
    const int32_t rows = (op->t1 - op->t0) * run->args->N;
    return eco_rows_within(chosen, rows) &&
           eco_scaled_f16_op_bytes(run->problem, &run->plan->device->caps, op->layer, rows,
                                   run->args->backward) <= run->layout->request.gpu.product_bytes;
}

bool eco_gpu_wants_dx(const struct eco_gpu_run *run, const struct eco_op *op)
{
    return op->layer > 0 || run->args->dx != NULL;
}

bool eco_gpu_scales_input(const struct eco_gpu_run *run, const struct eco_op *op)
{
    const struct eco_gpu_plan *own = run->plan->context;
    return !eco_gpu_reads_bytes(run) && fits(run, op, own->scaled_input[op->layer > 0]);
}

/* A run whose rows end or restart, or with gradients of states, few steps or unaligned arrays,
 * takes the other kernels. */
bool eco_gpu_halves_back(const struct eco_gpu_run *run)
{
    enum { ALIGNED = 16 };
    const struct eco_args *args = run->args;
    uintptr_t arrays = (uintptr_t)args->dy | (uintptr_t)args->y;
    for (int s = 0; s < ECO_MAX_STATES; s++)
        arrays |= (uintptr_t)args->initial[s];
    return run->layout->request.gpu.half_back && args->backward && eco_args_whole(args) &&
           !eco_args_have_dstates(args) && args->T >= ECO_HALVES_STEPS &&
           args->N > ECO_GROUPED_ROWS && arrays % ALIGNED == 0 &&
           eco_gpu_has_wide_back(run->problem, &run->plan->device->caps, args->N);
}

bool eco_gpu_scales_back(const struct eco_gpu_run *run, const struct eco_op *op)
{
    if (eco_gpu_halves_back(run))
        return true;
    const struct eco_gpu_plan *own = run->plan->context;
    const bool dx = eco_gpu_wants_dx(run, op), dweights = run->args->dweights != NULL;
    /* F16 overwrites dacc, but dx needs its floats if x is an accumulator */
    return run->lowered->copies == 0 &&
           fits(run, op, own->scaled_back[op->layer > 0][dx][dweights]);
}
