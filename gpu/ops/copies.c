/*
 * The ops that only move rows.  Knows padding and dropout; computes nothing of a cell.
 */
#include "gpu/gemm/packed_weights.h"
#include "gpu/ops/ops.h"

#define ECO_DEVICE_FUNCTION static inline
#include "common/number.h"

/* ---- what a layer reads ---------------------------------------------------------------------- */

/* Rows that the layer reads as input from step t on, before gathering. */
static struct eco_plane input_plane(const struct eco_gpu_run *run, const struct eco_op *op,
                                    int32_t t)
{
    if (op->layer == 0)
        return eco_gpu_sequence(run, run->args->x, t, (size_t)run->problem->I);
    if (run->layout->training)
        return eco_gpu_y(run, &(struct eco_op){.layer = (uint8_t)(op->layer - 1)}, t);
    const struct eco_array state = eco_layout_state(run->layout, op->layer - 1, 0, 0);
    return eco_gpu_plane(run, &state, (size_t)t + 1);
}

static struct eco_plane gather_plane(const struct eco_gpu_run *run, const struct eco_op *op,
                                     enum eco_scratch scratch)
{
    const struct eco_array gather =
        eco_layout_scratch(run->layout, run->args->backward, op->layer, op->d, scratch);
    return eco_gpu_plane(run, &gather, 0);
}

struct eco_plane eco_gpu_product_input(const struct eco_gpu_run *run, const struct eco_op *op)
{
    if (op->gathered)
        return gather_plane(run, op, ECO_SCRATCH_GATHER);
    struct eco_plane plane = input_plane(run, op, op->t0);
    if (op->layer == 0) /* batch-major comes here with one row only: its steps are neighbours */
        plane.row = (size_t)run->problem->I;
    return plane;
}

/* ---- states in and out ----------------------------------------------------------------------- */

static void move(struct eco_gpu_run *run, const struct eco_move_call *call)
{
    if (run->status == ECORNN_OK)
        eco_gpu_note_cuda(run, eco_launch_move(call, run->stream), "moving rows");
}

/* Copies one state between a plane of ours and the caller's array. */
static void move_state(struct eco_gpu_run *run, int s, struct eco_plane to, struct eco_plane from)
{
    const struct eco_move_call call = {.to = to,
                                       .from = from,
                                       .steps = 1,
                                       .rows = run->args->N,
                                       .width = eco_problem_width(run->problem, s)};
    if (to.data != NULL)
        move(run, &call);
}

static int states(const struct eco_gpu_run *run)
{
    return run->problem->cell->recipe.n_states;
}

void eco_gpu_begin(struct eco_gpu_run *run, const struct eco_op *op)
{
    eco_gpu_copy_weights(run, op);
    eco_gpu_fill_rows(run, op);
    const int32_t first = op->reversed ? run->args->T - 1 : 0;
    const size_t plane = eco_layout_state_plane(run->layout, op->d, first, false);
    for (int s = 0; s < states(run) && !eco_gpu_at_once(run, ECO_STEP); s++) {
        const struct eco_array state = eco_layout_state(run->layout, op->layer, op->d, s);
        if (eco_gpu_zero_states(run) >> s & 1)
            continue;
        move_state(run, s, eco_gpu_plane(run, &state, plane),
                   eco_gpu_caller_state(run, op, s, run->args->initial[s]));
    }
}

void eco_gpu_end_state(struct eco_gpu_run *run, const struct eco_op *op, int s)
{
    const int32_t last = op->reversed ? 0 : run->args->T - 1;
    const size_t plane = eco_layout_state_plane(run->layout, op->d, last, true);
    const struct eco_array state = eco_layout_state(run->layout, op->layer, op->d, s);
    move_state(run, s, eco_gpu_caller_state(run, op, s, run->args->final[s]),
               eco_gpu_plane(run, &state, plane));
}

void eco_gpu_end(struct eco_gpu_run *run, const struct eco_op *op)
{
    for (int s = 0; s < states(run); s++)
        eco_gpu_end_state(run, op, s);
}

void eco_gpu_d_begin(struct eco_gpu_run *run, const struct eco_op *op)
{
    eco_gpu_copy_weights(run, op);
    eco_gpu_fill_columns(run, op);
    for (int s = 0; s < states(run) && !eco_gpu_at_once(run, ECO_D_STEP); s++) {
        if (eco_gpu_zero_carry(run) >> s & 1)
            continue;
        const struct eco_array carry = eco_layout_carry(run->layout, op->layer, op->d, s);
        move_state(run, s, eco_gpu_plane(run, &carry, 0),
                   eco_gpu_caller_state(run, op, s, run->args->dfinal[s]));
    }
}

void eco_gpu_d_end(struct eco_gpu_run *run, const struct eco_op *op)
{
    for (int s = 0; s < states(run); s++) {
        const struct eco_array carry = eco_layout_carry(run->layout, op->layer, op->d, s);
        move_state(run, s, eco_gpu_caller_state(run, op, s, run->args->dinitial[s]),
                   eco_gpu_plane(run, &carry, 0));
    }
}

/* ---- gather and scatter ---------------------------------------------------------------------- */

/* The steps of an op; dropout where the layer has it. */
static struct eco_move_call move_of(const struct eco_gpu_run *run, const struct eco_op *op)
{
    const double p = (double)run->problem->dropout;
    return (struct eco_move_call){.steps = op->t1 - op->t0,
                                  .rows = run->args->N,
                                  .width = eco_problem_input(run->problem, op->layer),
                                  .t0 = op->t0,
                                  .drop = op->layer > 0 && p > 0 && run->args->reserve != NULL,
                                  .layer = op->layer,
                                  .seed = run->args->seed,
                                  .threshold = eco_random_threshold(p),
                                  .scale = 1 / (1 - p)};
}

void eco_gpu_gather(struct eco_gpu_run *run, const struct eco_op *op)
{
    struct eco_move_call call = move_of(run, op);
    if (run->args->backward && run->args->dweights == NULL)
        return;
    call.to = gather_plane(run, op, ECO_SCRATCH_GATHER);
    call.from = input_plane(run, op, op->t0);
    call.filled = (int32_t)call.to.row - call.width;
    call.lengths = op->layer == 0 ? run->args->lengths : NULL;
    move(run, &call);
}

void eco_gpu_d_scatter(struct eco_gpu_run *run, const struct eco_op *op)
{
    struct eco_move_call call = move_of(run, op);
    call.add = op->add;
    call.from = gather_plane(run, op, ECO_SCRATCH_DGATHER);
    if (op->layer > 0) {
        const struct eco_array dinput = eco_layout_dinput(run->layout, op->layer);
        call.to = eco_gpu_plane(run, &dinput, (size_t)op->t0);
    } else {
        call.to = eco_gpu_sequence(run, run->args->dx, op->t0, (size_t)run->problem->I);
    }
    if (call.to.data != NULL)
        move(run, &call);
}
