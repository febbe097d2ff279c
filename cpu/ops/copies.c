/*
 * The ops that only move rows, between the caller's arrays, the workspace and the reserve.  Knows
 * order, padding and dropout; computes nothing of a cell.
 */
#include "cpu/cpu.h"

#include <string.h>

#include "common/number.h"

/* ---- states in and out ----------------------------------------------------------------------- */

/* A copy of this thread's rows of a state or its gradient, [width] for each row, from or to the
 * caller's array; NULL stands for zeros. `inside` is the plane of states before a row's first step
 * or after its last. */
struct move {
    const struct eco_view *inside, *outside;
    size_t width;
    bool in, planes;
};

/* The first step of a row, or its last. */
static int32_t step_of(const struct eco_cpu_run *run, const struct eco_op *op, int32_t row, bool in)
{
    const int32_t T = run->order ? run->args->lengths[row] : run->args->T;
    return in == op->reversed ? T - 1 : 0;
}

static void move_rows(const struct eco_cpu_run *run, const struct eco_op *op, struct move move)
{
    const struct eco_range part = eco_cpu_part(run, run->args->N, 1);
    const ecornn_type type = move.inside->type, outer = move.outside->type;
    for (int32_t n = part.from; n < part.to; n++) {
        const int32_t row = eco_cpu_row(run, n);
        void *inside = eco_view_at(move.inside, move.planes ? step_of(run, op, row, move.in) : 0);
        void *outside = move.outside->first;
        inside = eco_cpu_after_mutable(type, inside, (size_t)n * move.inside->row);
        if (outside != NULL)
            outside = eco_cpu_after_mutable(outer, outside, (size_t)row * move.outside->row);
        if (!move.in)
            eco_type_move(outside, outer, inside, type, move.width);
        else if (outside != NULL)
            eco_type_move(inside, type, outside, outer, move.width);
        else
            memset(inside, 0, move.width * eco_type_bytes(type));
    }
}

/* All states, or all their gradients between steps. */
static void move_states(const struct eco_cpu_run *run, const struct eco_bound *bound, bool in)
{
    const bool planes = !run->args->backward;
    for (int s = 0; s < run->problem->cell->recipe.n_states; s++) {
        const struct eco_view *inside = !planes ? &bound->carry[s]
                                        : in    ? &bound->before[s]
                                                : &bound->next[s],
                              *outside = in ? &bound->initial[s] : &bound->final[s];
        const size_t width = (size_t)eco_problem_width(run->problem, s);
        if (in || outside->first != NULL)
            move_rows(run, bound->op, (struct move){inside, outside, width, in, planes});
    }
}

/* Gradients of starts: sets them to zero, or adds those of each row's first step and copies them to
 * the caller. */
static void move_dstart(const struct eco_cpu_run *run, const struct eco_bound *bound, int s,
                        bool in)
{
    const struct eco_range part = eco_cpu_part(run, run->args->N, 1),
                           all = {0, eco_problem_width(run->problem, s)};
    const struct eco_view *sums = &bound->dstart[s], *wanted = &bound->dreset_state[s];
    for (int32_t n = part.from; n < part.to; n++) {
        const int32_t row = eco_cpu_row(run, n);
        void *sum = eco_cpu_after_mutable(sums->type, sums->first, (size_t)n * sums->row);
        if (in)
            memset(sum, 0, (size_t)all.to * eco_type_bytes(sums->type));
        else if (eco_cpu_begins_reset(run, bound->op, step_of(run, bound->op, row, true), n))
            eco_cpu_cut_carry(run, bound, s, n, all);
        if (!in && wanted->first != NULL)
            eco_type_move(
                eco_cpu_after_mutable(wanted->type, wanted->first, (size_t)row * wanted->row),
                wanted->type, sum, sums->type, (size_t)all.to);
    }
}

static void move_dstarts(const struct eco_cpu_run *run, const struct eco_bound *bound, bool in)
{
    const int states = run->problem->cell->recipe.n_states;
    for (int s = 0; run->args->backward && run->problem->resets && s < states; s++)
        move_dstart(run, bound, s, in);
}

void eco_cpu_begin(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    move_dstarts(run, bound, true);
    move_states(run, bound, true);
}

void eco_cpu_end(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    move_dstarts(run, bound, false);
    move_states(run, bound, false);
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

/* Like eco_type_get and eco_type_set, but F32 needs no call. */
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
        /* selected, not multiplied by 0, because a dropped element may be infinite */
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

/* A row of step t of a layer's input, and its row in the gather array; for gradients the copy goes
 * the other way. */
static struct rows_pair pair_of(const struct eco_view *to, const struct eco_view *from, int32_t t,
                                size_t to_row, size_t from_row)
{
    return (struct rows_pair){
        .to = eco_cpu_after_mutable(to->type, eco_view_at(to, t), to_row * to->row),
        .from = eco_cpu_after(from->type, eco_view_at(from, t), from_row * from->row),
        .to_type = to->type,
        .from_type = from->type};
}

void eco_cpu_gather(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    const size_t width = (size_t)eco_problem_input(run->problem, op->layer);
    struct drop drop = drop_of(run, op, false);
    const bool replays = eco_layout_replays(run->layout);
    if (run->args->backward && run->args->dweights == NULL && !replays)
        return;
    for (int32_t t = op->t0; t < op->t1; t++) {
        const struct eco_range part = eco_cpu_part(run, eco_cpu_active(run, t), 1);
        for (int32_t n = part.from; n < part.to; n++) {
            const int32_t row = eco_cpu_row(run, n), there = op->layer == 0 ? row : n;
            struct rows_pair pair = pair_of(&bound->gather, &bound->x, t, (size_t)n, (size_t)there);
            pair.width = width;
            drop.at.t = run->args->first_step + (uint32_t)t;
            drop.at.n = run->args->first_row + (uint32_t)row;
            move_row(&drop, &pair);
        }
    }
}

void eco_cpu_d_scatter(const struct eco_cpu_run *run, const struct eco_bound *bound)
{
    const struct eco_op *op = bound->op;
    const size_t width = (size_t)eco_problem_input(run->problem, op->layer);
    const struct eco_range part = eco_cpu_part(run, run->args->N, 1);
    struct drop drop = drop_of(run, op, op->add);
    if (bound->dx.first == NULL)
        return;
    for (int32_t t = op->t0; t < op->t1; t++) {
        const int32_t active = eco_cpu_active(run, t);
        for (int32_t n = part.from; n < part.to; n++) {
            const int32_t row = eco_cpu_row(run, n), there = op->layer == 0 ? row : n;
            struct rows_pair pair =
                pair_of(&bound->dx, &bound->dgather, t, (size_t)there, (size_t)n);
            pair.width = width;
            drop.at.t = run->args->first_step + (uint32_t)t;
            drop.at.n = run->args->first_row + (uint32_t)row;
            if (n < active)
                move_row(&drop, &pair);
            else if (op->layer == 0 && !op->add)
                memset(pair.to, 0, width * eco_type_bytes(pair.to_type));
        }
    }
}
