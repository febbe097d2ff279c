/*
 * The ops that only move rows, between the caller's arrays, the workspace and the reserve.  Knows
 * order, padding and dropout; computes nothing of a cell.
 */
#include "cpu/cpu.h"

#include <string.h>

#include "common/number.h"

/* ---- states in and out ----------------------------------------------------------------------- */

/* One direction of one layer's state in the caller's array [L*D,N,width]. */
static size_t state_offset(const struct eco_cpu_run *run, const struct eco_op *op, size_t width)
{
    return ((size_t)op->layer * (size_t)run->problem->D + op->d) * (size_t)run->args->N * width;
}

/* This thread's rows of a state or its gradient, [width] at each place, from or to the caller's
 * array, where zeros are for NULL; `inside` says where a row lies. */
struct move {
    const struct eco_steps *inside;
    const void *outside;
    size_t width;
    bool in;
};

/* The plane of a row: the one its first step reads, or its last step writes. */
static size_t plane_of(const struct eco_cpu_run *run, const struct eco_op *op, int32_t row, bool in)
{
    const int32_t T = run->order ? run->args->lengths[row] : run->args->T;
    return eco_layout_state_plane(run->layout, op->d, in == op->reversed ? T - 1 : 0, !in);
}

static void move_rows(const struct eco_cpu_run *run, const struct eco_op *op, struct move move,
                      bool planes)
{
    const struct eco_share part = eco_cpu_part(run, run->args->N, 1);
    const ecornn_type type = move.inside->type, outer = run->layout->type;
    const size_t first = state_offset(run, op, move.width);
    for (int32_t n = part.from; n < part.to; n++) {
        const int32_t row = eco_cpu_row(run, n);
        void *inside = eco_step_at(move.inside, planes ? plane_of(run, op, row, move.in) : 0);
        inside = eco_cpu_after_mutable(type, inside, (size_t)n * move.inside->row);
        const void *outside =
            move.outside ? eco_cpu_after(outer, move.outside, first + (size_t)row * move.width)
                         : NULL;
        if (!move.in)
            eco_type_move((void *)(uintptr_t)outside, outer, inside, type, move.width);
        else if (outside != NULL)
            eco_type_move(inside, type, outside, outer, move.width);
        else
            memset(inside, 0, move.width * eco_type_bytes(type));
    }
}

/* All states, or all their gradients between steps. */
static void move_states(const struct eco_cpu_run *run, const struct eco_op *op,
                        const void *const outside[ECO_MAX_STATES], bool in)
{
    const bool planes = !run->args->backward;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const struct eco_array array = planes ? eco_layout_state(run->layout, op->layer, op->d, s)
                                              : eco_layout_carry(run->layout, op->layer, op->d, s);
        const struct eco_steps inside = eco_cpu_steps(run, &array);
        const size_t width = (size_t)eco_problem_width(run->problem, s);
        if (in || outside[s] != NULL)
            move_rows(run, op, (struct move){&inside, outside[s], width, in}, planes);
    }
}

void eco_cpu_begin(const struct eco_cpu_run *run, const struct eco_op *op)
{
    move_states(run, op, run->args->initial, true);
}

void eco_cpu_end(const struct eco_cpu_run *run, const struct eco_op *op)
{
    move_states(run, op, (const void *const *)run->args->final, false);
}

void eco_cpu_d_begin(const struct eco_cpu_run *run, const struct eco_op *op)
{
    move_states(run, op, run->args->dfinal, true);
}

void eco_cpu_d_end(const struct eco_cpu_run *run, const struct eco_op *op)
{
    move_states(run, op, (const void *const *)run->args->dinitial, false);
}

/* ---- gather and scatter ---------------------------------------------------------------------- */

/* to = from times the dropout mask of (layer, t, n); adds to what is there if asked. */
struct drop {
    bool active, add;
    struct eco_coordinates at;
    uint64_t threshold;
    double scale;
};

static struct drop drop_of(const struct eco_cpu_run *run, const struct eco_op *op, bool add)
{
    const double p = (double)run->problem->dropout;
    return (struct drop){
        .active = op->layer > 0 && p > 0 && run->args->reserve != NULL,
        .add = add,
        .at = {.seed = run->args->seed, .layer = op->layer},
        .threshold = eco_random_threshold(p),
        .scale = 1 / (1 - p),
    };
}

/* As eco_type_get and eco_type_set, the usual type without a call. */
static double get(const void *row, size_t i, ecornn_type type)
{
    return type == ECORNN_F32 ? (double)((const float *)row)[i] : eco_type_get(row, i, type);
}

static void set(void *row, size_t i, ecornn_type type, double value)
{
    if (type == ECORNN_F32)
        ((float *)row)[i] = (float)value;
    else
        eco_type_set(row, i, type, value);
}

/* A row to write and one to read. */
struct rows_pair {
    void *to;
    const void *from;
    ecornn_type to_type, from_type;
    size_t width;
};

/* Four features share a draw. */
static void move_dropped(const struct drop *drop, const struct rows_pair *row)
{
    uint32_t word[4];
    for (size_t i = 0; i < row->width; i++) {
        if (i % 4 == 0)
            eco_random_quad(&drop->at, (uint32_t)(i / 4), word);
        /* Selected, not multiplied: what is dropped may be infinite. */
        const double value =
            word[i % 4] < drop->threshold ? 0 : get(row->from, i, row->from_type) * drop->scale;
        set(row->to, i, row->to_type, drop->add ? get(row->to, i, row->to_type) + value : value);
    }
}

static void move_row(const struct drop *drop, const struct rows_pair *row)
{
    if (drop->active)
        move_dropped(drop, row);
    else
        (drop->add ? eco_type_add : eco_type_move)(row->to, row->to_type, row->from, row->from_type,
                                                   row->width);
}

void eco_cpu_gather(const struct eco_cpu_run *run, const struct eco_op *op)
{
    const struct eco_array gather =
        eco_layout_scratch(run->layout, run->args->backward, op->layer, op->d, ECO_SCRATCH_GATHER);
    const size_t width = (size_t)eco_problem_input(run->problem, op->layer);
    struct drop drop = drop_of(run, op, false);
    if (run->args->backward && run->args->dweights == NULL)
        return;
    for (int32_t t = op->t0; t < op->t1; t++) {
        const struct eco_rows from = eco_cpu_input_rows(run, op, t);
        const struct eco_share part = eco_cpu_part(run, eco_cpu_active(run, t), 1);
        void *step = eco_cpu_at(run, &gather, (size_t)(t - op->t0));
        for (int32_t n = part.from; n < part.to; n++) {
            const int32_t row = eco_cpu_row(run, n), there = op->layer == 0 ? row : n;
            drop.at.t = (uint32_t)t;
            drop.at.n = (uint32_t)row;
            const struct rows_pair pair = {
                .to = eco_cpu_after_mutable(gather.type, step, (size_t)n * gather.row),
                .from = eco_cpu_after(from.type, from.data, (size_t)there * from.row),
                .to_type = gather.type,
                .from_type = from.type,
                .width = width};
            move_row(&drop, &pair);
        }
    }
}

void eco_cpu_d_scatter(const struct eco_cpu_run *run, const struct eco_op *op)
{
    const struct eco_array gather =
        eco_layout_scratch(run->layout, true, op->layer, op->d, ECO_SCRATCH_DGATHER);
    struct eco_array dinput = {0};
    const size_t width = (size_t)eco_problem_input(run->problem, op->layer);
    const struct eco_share part = eco_cpu_part(run, run->args->N, 1);
    struct drop drop = drop_of(run, op, op->add);
    if (op->layer > 0)
        dinput = eco_layout_dinput(run->layout, op->layer);
    else if (run->args->dx == NULL)
        return;
    for (int32_t t = op->t0; t < op->t1; t++) {
        struct eco_rows to = eco_cpu_sequence(run, run->args->dx, t, width);
        if (op->layer > 0)
            to = (struct eco_rows){eco_cpu_at(run, &dinput, (size_t)t), dinput.row, dinput.type};
        const void *step = eco_cpu_at(run, &gather, (size_t)(t - op->t0));
        const int32_t active = eco_cpu_active(run, t);
        for (int32_t n = part.from; n < part.to; n++) {
            const int32_t row = eco_cpu_row(run, n), there = op->layer == 0 ? row : n;
            const struct rows_pair pair = {
                .to = (void *)(uintptr_t)eco_cpu_after(to.type, to.data, (size_t)there * to.row),
                .from = eco_cpu_after(gather.type, step, (size_t)n * gather.row),
                .to_type = to.type,
                .from_type = gather.type,
                .width = width};
            drop.at.t = (uint32_t)t;
            drop.at.n = (uint32_t)row;
            if (n < active)
                move_row(&drop, &pair);
            else if (op->layer == 0 && !op->add)
                memset(pair.to, 0, width * eco_type_bytes(to.type));
        }
    }
}
