/*
 * Makes plans and keeps them in a list, the last used one first.
 */
#include "python/native/plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/native/locks.h"

enum { MOST_PLANS = 4096 };
static struct {
    struct plan *first;
    int count;
} kept;

static void free_plan(struct plan *plan)
{
    if (plan->block && --plan->block->users == 0) {
        packs_end(&plan->block->packs);
        free(plan->block);
    }
    if (plan->is_own)
        library.plan_free((ecornn_plan *)(uintptr_t)plan->plan);
    if (plan->cell)
        library.cell_free(plan->cell);
    for (int i = 0; i < TEXTS; i++)
        free((char *)(uintptr_t)plan->text[i].at);
    free(plan->param);
    free(plan->more);
    free(plan);
}

static bool is_same(const struct span *one, const struct span *other)
{
    return one->bytes == other->bytes && memcmp(one->at, other->at, one->bytes) == 0;
}

/* ---- what a plan is -------------------------------------------------------------------------- */

/* Reads "0.bwd.W.i", after "2:" in one of several models: layer, direction, kind. */
static bool read_param(const struct plan *plan, int index, struct param *param)
{
    ecornn_param is = {.size = sizeof is};
    int layer = 0;
    char direction[4] = "", kind[8] = "";
    if (library.param_get(plan->plan, index, &is) != ECORNN_OK)
        return false;
    const char *const model = strchr(is.name, ':');
    if (sscanf(model ? model + 1 : is.name, "%d.%3[a-z].%7[A-Za-z]", &layer, direction, kind) != 3)
        return false;
    const int64_t directions = plan->desc.flags & ECORNN_BIDIRECTIONAL ? 2 : 1;
    *param = (struct param){.pair = layer * directions + (directions == 2 && *direction != 'f'),
                            .kind = kind[1] ? 0 : *kind,
                            .rows = is.rows,
                            .cols = is.cols,
                            .gradient = is.is_dense ? (int64_t)is.gradient : -1};
    param->is_vector = param->kind == 'b' || param->kind == 'p';
    return true;
}

static ecornn_status describe(struct plan *plan)
{
    ecornn_desc *const desc = &plan->desc;
    desc->type = desc->type ? desc->type : ECORNN_F32;
    if (!desc->param_type)
        desc->param_type = desc->type == ECORNN_F64 ? ECORNN_F64 : ECORNN_F32;
    desc->layers = desc->layers > 0 ? desc->layers : 1;
    desc->models = desc->models > 0 ? desc->models : 1;
    plan->sizes.size = sizeof plan->sizes;
    ecornn_status status = library.plan_sizes(plan->plan, &plan->sizes);
    if (status == ECORNN_OK)
        status = library.cell_states(desc->cell, &plan->states, NULL);
    if (status != ECORNN_OK)
        return status;
    plan->count = plan->sizes.param_count / desc->models;
    plan->param = new_zeros((size_t)plan->count + 1, sizeof *plan->param);
    for (int i = 0; plan->param && i < plan->count; i++)
        if (!read_param(plan, i, &plan->param[i]))
            return ECORNN_FAILED;
    return plan->param ? ECORNN_OK : ECORNN_NO_MEMORY;
}

ecornn_status plan_adopt(struct plan **found, const ecornn_plan *plan, const ecornn_desc *desc,
                         int kind)
{
    struct plan *const made = new_zeros(1, sizeof *made);
    if (!made)
        return ECORNN_NO_MEMORY;
    made->plan = plan;
    made->kind = kind;
    made->desc = *desc;
    made->users = 1;
    const ecornn_status status = describe(made);
    if (status == ECORNN_OK)
        *found = made;
    else
        free_plan(made);
    return status;
}

ecornn_status plan_create(struct plan **found, ecornn_device *device, const ecornn_desc *desc,
                          int kind)
{
    ecornn_plan *made = NULL;
    ecornn_status status = library.plan_create_desc(&made, device, desc);
    if (status == ECORNN_OK)
        status = plan_adopt(found, made, desc, kind);
    if (status == ECORNN_OK)
        (*found)->is_own = true;
    else if (made)
        library.plan_free(made);
    return status;
}

/* ---- plans by their texts -------------------------------------------------------------------- */

static ecornn_status make(struct plan *plan)
{
    ecornn_device *opened = NULL;
    ecornn_plan *made = NULL;
    ecornn_status status = ECORNN_OK;
    for (const struct plan *other = kept.first; other && !plan->device; other = other->next)
        if (is_same(&other->text[OF_DEVICE], &plan->text[OF_DEVICE]))
            plan->device = other->device;
    if (!plan->device)
        status = library.device_open(&opened, plan->text[OF_DEVICE].at);
    plan->device = opened ? opened : plan->device;
    if (status == ECORNN_OK && plan->text[OF_CELL].bytes > 0)
        status = library.cell_parse(&plan->cell, plan->text[OF_CELL].at);
    plan->desc.size = sizeof plan->desc;
    if (status == ECORNN_OK)
        status = library.desc_parse(&plan->desc, plan->text[OF_PROBLEM].at, plan->cell);
    if (status == ECORNN_OK)
        status = library.plan_create_desc(&made, plan->device, &plan->desc);
    plan->plan = made;
    plan->is_own = made != NULL;
    if (status == ECORNN_OK)
        status = describe(plan);
    if (status != ECORNN_OK && opened) /* else never closed, because there are few */
        library.device_close(opened);
    return status;
}

/* Are they the same but for T and N? */
static bool share(const struct plan *one, const struct plan *other)
{
    ecornn_desc a = one->desc, b = other->desc;
    a.steps = b.steps = a.batch = b.batch = 0;
    a.cell = b.cell = NULL;
    return one->kind == other->kind && is_same(&one->text[OF_DEVICE], &other->text[OF_DEVICE]) &&
           is_same(&one->text[OF_CELL], &other->text[OF_CELL]) && memcmp(&a, &b, sizeof a) == 0 &&
           library.weights_fit(one->plan, other->plan) == ECORNN_OK;
}

/* Finds the block of a plan that packs alike, or makes one. */
static ecornn_status find_block(struct plan *plan)
{
    for (const struct plan *other = kept.first; other && !plan->block; other = other->next)
        if (share(other, plan))
            plan->block = other->block;
    if (!plan->block)
        plan->block = new_zeros(1, sizeof *plan->block);
    if (!plan->block)
        return ECORNN_NO_MEMORY;
    plan->block->packs.alike = true;
    plan->block->users++;
    return ECORNN_OK;
}

static ecornn_status new_plan(struct plan **found, const struct span *texts, int kind)
{
    struct plan *const plan = new_zeros(1, sizeof *plan);
    ecornn_status status = plan ? ECORNN_OK : ECORNN_NO_MEMORY;
    for (int i = 0; status == ECORNN_OK && i < TEXTS; i++) {
        char *const copy = new_zeros(texts[i].bytes + 1, 1);
        plan->text[i] = (struct span){copy, texts[i].bytes};
        status = copy ? ECORNN_OK : ECORNN_NO_MEMORY;
        if (copy && texts[i].bytes)
            memcpy(copy, texts[i].at, texts[i].bytes);
    }
    if (status == ECORNN_OK) {
        plan->kind = kind;
        status = make(plan);
    }
    if (status == ECORNN_OK)
        status = find_block(plan);
    if (status == ECORNN_OK)
        *found = plan;
    else if (plan)
        free_plan(plan);
    return status;
}

static void let_go(struct plan *plan)
{
    if (atomic_fetch_sub(&plan->users, 1) == 1)
        free_plan(plan);
}

/* Takes the plan of that kind and these texts out of the list, or NULL. */
static struct plan *take(const struct span *texts, int kind)
{
    for (struct plan **at = &kept.first; *at; at = &(*at)->next) {
        struct plan *const plan = *at;
        bool same = plan->kind == kind;
        for (int i = TEXTS; same && i-- > 0;)
            same = is_same(&plan->text[i], &texts[i]);
        if (same) {
            *at = plan->next;
            kept.count--;
            return plan;
        }
    }
    return NULL;
}

static void drop_last(void)
{
    struct plan **at = &kept.first;
    while ((*at)->next)
        at = &(*at)->next;
    let_go(*at);
    *at = NULL;
    kept.count--;
}

ecornn_status plan_hold(struct plan **found, const struct span texts[TEXTS], int kind)
{
    lock_take(LOCK_PLANS);
    struct plan *plan = take(texts, kind);
    ecornn_status status = ECORNN_OK;
    if (!plan) {
        if (kept.count == MOST_PLANS)
            drop_last();
        status = new_plan(&plan, texts, kind);
        if (status == ECORNN_OK)
            plan->users = 1;
    }
    if (status == ECORNN_OK) {
        plan->next = kept.first;
        kept.first = plan;
        kept.count++;
        plan->users++;
        *found = plan;
    }
    lock_release(LOCK_PLANS);
    return status;
}

void plan_let_go(struct plan *plan)
{
    if (!plan || atomic_fetch_sub(&plan->users, 1) > 1)
        return;
    lock_take(LOCK_PLANS); /* of its block */
    free_plan(plan);
    lock_release(LOCK_PLANS);
}
