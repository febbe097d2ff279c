/*
 * What happens to states around a step: resets, copies for the caller, and gradients of copies.
 *
 * Before some steps, starts replace a row's states. Forward puts the starts into the planes for
 * that step only, so everything else finds the states that the step before wrote. Backward must not
 * write the planes that forward kept, so its steps and products read copies.
 */
#include "cpu/cpu.h"

#include <string.h>

static const uint8_t *bytes_of(const struct eco_cpu_run *run, int32_t t)
{
    return run->args->resets + (size_t)t * (size_t)run->args->N;
}

bool eco_cpu_is_reset(const struct eco_cpu_run *run, const struct eco_op *op, int32_t t,
                      int32_t place)
{
    const int32_t at = eco_op_reset(op, t);
    return at < run->args->T && place < eco_cpu_active(run, at) &&
           bytes_of(run, at)[eco_cpu_row(run, place)] != 0;
}

bool eco_cpu_resets(const struct eco_cpu_run *run, const struct eco_op *op, int32_t t)
{
    const int32_t at = eco_op_reset(op, t);
    if (run->args->resets == NULL || t < 0 || at >= run->args->T)
        return false;
    const struct eco_range rows = eco_cpu_step_rows(run, at);
    const uint8_t *bytes = bytes_of(run, at);
    int32_t n = rows.from;
    uint64_t eight = 0;
    for (; run->order == NULL && eight == 0 && n + 8 <= rows.to; n += 8)
        memcpy(&eight, bytes + n, sizeof eight);
    bool any = eight != 0;
    for (; !any && n < rows.to; n++)
        any = eco_cpu_is_reset(run, op, t, n);
    return any;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void *row_of(const struct eco_view *view, int32_t t, int32_t place)
{
    return eco_cpu_after_mutable(view->type, eco_view_at(view, t), (size_t)place * view->row);
}

/* Writes `width` elements of a row's start, beginning with element `first`. */
static void put_start(const struct eco_cpu_run *run, const struct eco_view *start, int32_t place,
                      struct eco_range units, void *to, ecornn_type type)
{
    const size_t width = (size_t)(units.to - units.from);
    const void *from = eco_cpu_row_at(run, start, 0, place);
    if (from == NULL)
        memset(to, 0, width * eco_type_bytes(type));
    else
        eco_type_move(to, type, eco_cpu_after(start->type, from, (size_t)units.from), start->type,
                      width);
}

/* The thread's rows, which are the same in all steps, because it keeps their states. */
static struct eco_range rows_of(const struct eco_cpu_run *run, int32_t t)
{
    const int32_t active = eco_cpu_active(run, t);
    struct eco_range part = eco_cpu_part_of(run, run->rows, 1);
    part.to = part.to < active ? part.to : active;
    return part;
}

void eco_cpu_replace_states(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t)
{
    const struct eco_range part = rows_of(run, t);
    for (int32_t n = part.from; n < part.to; n++)
        for (int s = 0;
             eco_cpu_is_reset(run, bound->op, t, n) && s < run->problem->cell->recipe.n_states;
             s++) {
            const struct eco_view *before = &bound->before[s];
            const struct eco_range all = {0, eco_problem_width(run->problem, s)};
            void *row = row_of(before, t, n);
            memcpy(row_of(&bound->replaced[s], 0, n), row,
                   (size_t)all.to * eco_type_bytes(before->type));
            put_start(run, &bound->start[s], n, all, row, before->type);
        }
}

void eco_cpu_restore_states(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t)
{
    const struct eco_range part = rows_of(run, t);
    for (int32_t n = part.from; n < part.to; n++)
        for (int s = 0;
             eco_cpu_is_reset(run, bound->op, t, n) && s < run->problem->cell->recipe.n_states; s++)
            memcpy(row_of(&bound->before[s], t, n), row_of(&bound->replaced[s], 0, n),
                   (size_t)eco_problem_width(run->problem, s) *
                       eco_type_bytes(bound->before[s].type));
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The units of a state that belong to a thread's part of the plane [N,H]. With a projection the
 * output state has another width. */
static struct eco_range units_of(const struct eco_cpu_run *run, const struct eco_pointwise *call,
                                 int s)
{
    const int32_t width = eco_problem_width(run->problem, s), H = run->problem->H;
    if (call->unit0 == 0 && call->unit1 == H)
        return (struct eco_range){0, width};
    return width == H ? (struct eco_range){call->unit0, call->unit1} : eco_cpu_part(run, width, 1);
}

void eco_cpu_patch_states(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t,
                          struct eco_pointwise *call, unsigned which)
{
    if (run->args->resets == NULL)
        return;
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_view *from = &bound->before[s], *to = &bound->with_resets[s];
        call->state[s] = eco_view_at(to, t);
        call->state_row[s] = to->row;
        if ((which & (to->step > 0 ? ECO_PATCH_READ : ECO_PATCH_OTHERS)) == 0)
            continue;
        const struct eco_range units = units_of(run, call, s);
        const size_t bytes = (size_t)(units.to - units.from) * eco_type_bytes(to->type),
                     first = (size_t)units.from * eco_type_bytes(to->type);
        for (int32_t n = call->row0; n < call->row1; n++) {
            char *row = (char *)row_of(to, t, n) + first;
            if (eco_cpu_is_reset(run, bound->op, t, n))
                put_start(run, &bound->start[s], n, units, row, to->type);
            else
                memcpy(row, (const char *)row_of(from, t, n) + first, bytes);
        }
    }
}

static bool is_apart(const struct eco_cpu_run *run, int s)
{
    return s == 0 && run->problem->projected;
}

struct eco_range eco_cpu_carried_rows(const struct eco_cpu_run *run,
                                      const struct eco_pointwise *call, int32_t t, int s)
{
    return is_apart(run, s) ? eco_cpu_part_of(run, eco_cpu_step_rows(run, t), 1)
                            : (struct eco_range){call->row0, call->row1};
}

struct eco_range eco_cpu_carried_units(const struct eco_cpu_run *run,
                                       const struct eco_pointwise *call, int s)
{
    return is_apart(run, s) ? (struct eco_range){0, eco_problem_width(run->problem, s)}
                            : units_of(run, call, s);
}

/* The gradient of a start is not carried to the step before. */
static void cut_row(const struct eco_view *sum, const struct eco_view *carry, int32_t place,
                    struct eco_range units)
{
    const size_t first = (size_t)units.from, n = (size_t)(units.to - units.from);
    void *row = eco_cpu_after_mutable(carry->type, row_of(carry, 0, place), first);
    if (sum->first != NULL)
        eco_type_add(eco_cpu_after_mutable(sum->type, row_of(sum, 0, place), first), sum->type, row,
                     carry->type, n);
    memset(row, 0, n * eco_type_bytes(carry->type));
}

void eco_cpu_cut(void *context, const struct eco_cut *cut)
{
    const struct eco_cpu_run *run = context;
    const struct eco_range part = eco_cpu_part(run, run->args->N, 1);
    for (int32_t n = part.from; n < part.to; n++)
        if (eco_cpu_is_reset(run, cut->op, cut->t, n))
            cut_row(&cut->sum, &cut->carry, n, (struct eco_range){0, cut->width});
}

void eco_cpu_cut_carries(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t,
                         const struct eco_pointwise *call)
{
    const int32_t after = bound->op->reversed ? t - 1 : t + 1;
    if (!eco_cpu_resets(run, bound->op, after))
        return;
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_view none = {0},
                              *sum = bound->dreset_state[s].first ? &bound->dstart[s] : &none;
        const struct eco_range rows = eco_cpu_carried_rows(run, call, t, s),
                               units = eco_cpu_carried_units(run, call, s);
        for (int32_t n = rows.from; n < rows.to; n++)
            if (eco_cpu_is_reset(run, bound->op, after, n))
                cut_row(sum, &bound->carry[s], n, units);
    }
}

/* ---- the states of every step ---------------------------------------------------------------- */

/*
 * The states of every step for the caller. Forward copies them from the planes after each step;
 * backward adds their gradients to the carried ones before each step.
 */

void eco_cpu_add_dstates(const struct eco_cpu_run *run, const struct eco_bound *bound, int32_t t,
                         const struct eco_pointwise *call)
{
    for (int s = 0; s < call->n_states; s++) {
        const struct eco_view *from = &bound->all_states[s], *to = &bound->carry[s];
        const struct eco_range units = eco_cpu_carried_units(run, call, s),
                               rows = eco_cpu_carried_rows(run, call, t, s);
        for (int32_t n = rows.from; from->first != NULL && n < rows.to; n++)
            eco_type_add(
                eco_cpu_after_mutable(to->type, eco_cpu_row_at(run, to, 0, n), (size_t)units.from),
                to->type,
                eco_cpu_after(from->type, eco_cpu_row_at(run, from, t, n), (size_t)units.from),
                from->type, (size_t)(units.to - units.from));
    }
}
