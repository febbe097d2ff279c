/*
 * Sessions may run a node in several threads at once: the list is locked while a plan is looked up
 * or made, never while it runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort/layer.h"

struct packed {
    void *memory;
    int users;
};

void plans_begin(struct plans *plans, ecornn_device *device)
{
    *plans = (struct plans){.device = device};
    pthread_mutex_init(&plans->lock, NULL);
}

static void release(struct plans *plans, struct planned *planned)
{
    if (--planned->users > 0)
        return;
    if (planned->packed && --planned->packed->users == 0) {
        ecornn_free(plans->device, planned->packed->memory);
        free(planned->packed);
    }
    ecornn_plan_free(planned->plan);
    free(planned);
}

void plans_end(struct plans *plans)
{
    while (plans->count > 0)
        release(plans, plans->list[--plans->count]);
    while (plans->spares > 0)
        ecornn_free(plans->device, plans->spare[--plans->spares].memory);
    pthread_mutex_destroy(&plans->lock);
}

/* Takes weights that fit from another plan, or packs them. */
static ecornn_status pack(struct plans *plans, struct planned *planned, params_of *find,
                          void *owner)
{
    for (int i = 0; i < plans->count; i++)
        if (ecornn_weights_fit(plans->list[i]->plan, planned->plan) == ECORNN_OK) {
            planned->packed = plans->list[i]->packed;
            planned->packed->users++;
            planned->weights = planned->packed->memory;
            return ECORNN_OK;
        }
    struct params params = {.at = {NULL}};
    if (!find(owner, planned->plan, planned->sizes.param_count, &params))
        return ECORNN_FAILED;
    planned->packed = calloc(1, sizeof *planned->packed);
    if (!planned->packed)
        return ECORNN_NO_MEMORY;
    planned->packed->users = 1;
    planned->packed->memory = ecornn_alloc(plans->device, planned->sizes.weight_bytes + 1);
    planned->weights = planned->packed->memory;
    if (!planned->weights)
        return ECORNN_NO_MEMORY;
    return ecornn_pack(planned->plan, params.at, params.added, planned->packed->memory, NULL);
}

static ecornn_status make(struct plans *plans, const char *text, ecornn_cell *cell, params_of *find,
                          void *owner, struct planned **made)
{
    struct planned *const planned = calloc(1, sizeof *planned);
    if (!planned)
        return ECORNN_NO_MEMORY;
    planned->users = 1;
    planned->sizes.size = sizeof planned->sizes;
    ecornn_status status = ecornn_plan_create(&planned->plan, plans->device, text,
                                              (const ecornn_cell *const[]){cell, NULL});
    if (status == ECORNN_OK)
        status = ecornn_plan_sizes(planned->plan, &planned->sizes);
    if (status == ECORNN_OK && planned->sizes.param_count > MOST_PARAMS)
        status = ECORNN_UNSUPPORTED;
    if (status == ECORNN_OK && find)
        status = pack(plans, planned, find, owner);
    if (status == ECORNN_OK)
        *made = planned;
    else
        release(plans, planned);
    return status;
}

ecornn_status plans_take(struct plans *plans, const char *text, ecornn_cell *cell, int64_t steps,
                         int64_t batch, params_of *find, void *owner, struct planned **taken)
{
    const int32_t T = ecornn_bucket((int32_t)(steps > 0 ? steps : 1));
    const int32_t N = ecornn_bucket((int32_t)(batch > 0 ? batch : 1));
    char whole[256];
    ecornn_status status = ECORNN_OK;
    struct planned *found = NULL;
    pthread_mutex_lock(&plans->lock);
    int i = 0;
    while (i < plans->count &&
           (plans->list[i]->sizes.steps != T || plans->list[i]->sizes.batch != N))
        i++;
    if (i < plans->count) {
        found = plans->list[i];
    } else {
        snprintf(whole, sizeof whole, "%s/T%d/N%d", text, (int)T, (int)N);
        status = make(plans, whole, cell, find, owner, &found);
        if (found && plans->count == MOST_PLANS)
            release(plans, plans->list[--i]);
        else if (found)
            plans->count++;
    }
    if (found) { /* to the front */
        memmove(plans->list + 1, plans->list, (size_t)i * sizeof *plans->list);
        plans->list[0] = *taken = found;
        found->users++;
    }
    pthread_mutex_unlock(&plans->lock);
    return status;
}

void plans_return(struct plans *plans, struct planned *planned)
{
    pthread_mutex_lock(&plans->lock);
    release(plans, planned);
    pthread_mutex_unlock(&plans->lock);
}

struct scratch scratch_take(struct plans *plans, size_t bytes)
{
    struct scratch scratch = {0};
    pthread_mutex_lock(&plans->lock);
    if (plans->spares > 0)
        scratch = plans->spare[--plans->spares];
    pthread_mutex_unlock(&plans->lock);
    if (scratch.bytes < bytes || !scratch.memory) {
        ecornn_free(plans->device, scratch.memory);
        scratch = (struct scratch){ecornn_alloc(plans->device, bytes + 1), bytes};
    }
    return scratch;
}

void scratch_return(struct plans *plans, struct scratch scratch)
{
    pthread_mutex_lock(&plans->lock);
    const bool kept = plans->spares < MOST_SCRATCH && scratch.memory;
    if (kept)
        plans->spare[plans->spares++] = scratch;
    pthread_mutex_unlock(&plans->lock);
    if (!kept)
        ecornn_free(plans->device, scratch.memory);
}
