/*
 * Rows of a batch, see rows.h.
 */
#include "tests/kit/rows.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "common/problem.h"
#include "common/type.h"

static bool fill(struct part_row a, struct part_row b, void *value)
{
    (void)b;
    for (size_t i = 0; i < a.array->row / a.array->element; i++)
        eco_type_set(a.at, i, a.array->type, *(const double *)value);
    return true;
}

static void fill_part(struct part part, int role, double value)
{
    part_each(part, role, part, role, fill, &value);
}

static bool draws(const struct eco_recipe *recipe)
{
    for (int k = 0; k < recipe->n_nodes; k++)
        if (recipe->node[k].op == ECO_OP_BERNOULLI)
            return true;
    return false;
}

void rows_open(struct rows *rows, ecornn_device *device, const ecornn_desc *desc, int32_t N,
               bool ragged)
{
    *rows = (struct rows){.desc = *desc};
    ck_assert_msg(rows_batch(rows, &rows->all, device, desc->steps, N), "%s",
                  ecornn_error_detail());
    rows->by_place = desc->dropout > 0 || draws(&desc->cell->recipe);
    trial_fill(&rows->all, 1);
    rows->all.ragged = ragged;
    trial_point(&rows->all);
    int32_t *const length = (int32_t *)(void *)rows->all.array[0][LENGTHS][0].host;
    for (int32_t n = 0; n < N; n++) {
        if (!ragged || n % 3 == 0)
            length[n] = desc->steps;
        const struct part padding = {.of = &rows->all, .step = length[n], .row = n, .rows = 1};
        fill_part(padding, X, NAN), fill_part(padding, DY, NAN);
    }
}

void rows_close(struct rows *rows)
{
    trial_close(&rows->all);
}

bool rows_batch(const struct rows *rows, struct trial *batch, ecornn_device *device, int32_t T,
                int32_t N)
{
    ecornn_desc desc = rows->desc;
    ecornn_plan *plan;
    desc.steps = T, desc.batch = N;
    if (ecornn_plan_create_desc(&plan, device, &desc) != ECORNN_OK)
        return false;
    trial_open_plan(batch, device, plan);
    batch->owns_plan = true;
    batch->ragged = rows->all.ragged;
    trial_point(batch);
    return true;
}

static bool all_finite(struct part_row a, struct part_row b, void *context)
{
    bool ok = true;
    (void)b, (void)context;
    for (size_t i = 0; i < a.array->row / a.array->element; i++)
        ok &= isfinite(eco_type_get(a.at, i, a.array->type)) != 0;
    return ok;
}

void rows_alone(struct rows *rows)
{
    const struct part all = {.of = &rows->all};
    const int32_t *const length = (const int32_t *)(void *)rows->all.array[0][LENGTHS][0].host;
    struct trial one;
    ck_assert(rows_batch(rows, &one, rows->all.device, rows->all.T, 1));
    part_copy((struct part){.of = &one}, PARAMS, all, PARAMS);
    if (rows->by_place)
        trial_run(&rows->all);
    for (int32_t n = 0; n < rows->all.N && !rows->by_place; n++) {
        const struct part row = {.of = &rows->all, .row = n, .rows = 1};
        const struct order order = {.id = {n}};
        trial_size(&one, length[n] > 0 ? length[n] : rows->all.T, 1, 0);
        rows_take(rows, &one, &order, 0);
        trial_run(&one);
        for (int role = Y; role <= DSTART; role++)
            part_copy(row, role, (struct part){.of = &one}, role);
    }
    for (int role = Y; role <= DSTART; role++)
        ck_assert_msg(part_each(all, role, all, role, all_finite, NULL), "%s: %s",
                      rows->all.of[0]->text, trial_role(role));
    trial_close(&one);
}

void rows_take(struct rows *rows, struct trial *batch, const struct order *order, int32_t t)
{
    part_copy((struct part){.of = batch}, PARAMS, (struct part){.of = &rows->all}, PARAMS);
    for (int32_t n = 0; n < batch->N; n++) {
        const enum poison poison = order->poison[n];
        const int32_t id = (order->id[n] + (poison == POISON_NUMBERS)) % rows->all.N;
        const struct part row = {.of = batch, .row = n, .rows = 1};
        const struct part from = {.of = &rows->all, .step = t, .row = id, .rows = 1};
        for (int role = 0; role < Y; role++) {
            if (role != PARAMS)
                part_copy(row, role, from, role);
            if (role <= DSTATES && (poison == POISON_NAN || poison == POISON_INFINITY))
                fill_part(row, role, poison == POISON_NAN ? NAN : INFINITY);
        }
    }
}

const char *rows_differ(struct rows *rows, struct trial *batch, const struct order *order,
                        int32_t n, int first, int last)
{
    const struct part row = {.of = batch, .row = n, .rows = 1};
    const struct part from = {.of = &rows->all, .row = order->id[n], .rows = 1};
    return order->poison[n] == NO_POISON ? part_differs(row, from, first, last) : NULL;
}
