/*
 * Sessions may run a node in several threads at once: the list is locked while a plan is looked up
 * or made, never while it runs.
 */
#include "ort/plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct packed {
    ecornn_device *device;
    void *memory;
    int users;
};

void plans_begin(struct plans *plans, ecornn_device *device)
{
    *plans = (struct plans){.device = device};
    pthread_mutex_init(&plans->lock, NULL);
}

static void release(struct planned *planned)
{
    if (--planned->users > 0)
        return;
    if (planned->packed && --planned->packed->users == 0) {
        ecornn_free(planned->packed->device, planned->packed->memory);
        free(planned->packed);
    }
    ecornn_plan_free(planned->plan);
    free(planned);
}

void plans_end(struct plans *plans)
{
    while (plans->count > 0)
        release(plans->list[--plans->count]);
    while (plans->spares > 0)
        ecornn_free(plans->device, plans->spare[--plans->spares].memory);
    pthread_mutex_destroy(&plans->lock);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Takes weights that fit from another plan, or packs them. */
static ecornn_status pack(struct plans *plans, struct planned *planned, params_of *find,
                          const void *owner)
{
    for (int i = 0; i < plans->count; i++) {
        const struct planned *const other = plans->list[i];
        if (other->packed && ecornn_weights_fit(other->plan, planned->plan) == ECORNN_OK) {
            planned->packed = other->packed;
            planned->packed->users++;
            planned->weights = other->weights;
            return ECORNN_OK;
        }
    }
    struct params params = {.at = {NULL}};
    if (!find(owner, planned->plan, planned->sizes.param_count, &params))
        return ECORNN_FAILED;
    struct packed *const packed = malloc(sizeof *packed);
    if (!packed)
        return ECORNN_NO_MEMORY;
    *packed = (struct packed){.device = plans->device, .users = 1};
    planned->packed = packed; /* release frees it */
    packed->memory = ecornn_alloc(plans->device, planned->sizes.weight_bytes + 1);
    planned->weights = packed->memory;
    if (!packed->memory)
        return ECORNN_NO_MEMORY;
    return ecornn_pack(planned->plan, params.at, params.added, packed->memory, NULL);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static ecornn_status make(struct plans *plans, const struct problem *problem, int32_t steps,
                          int32_t batch, params_of *find, const void *owner, struct planned **made)
{
    char text[256];
    struct planned *const planned = calloc(1, sizeof *planned);
    if (!planned)
        return ECORNN_NO_MEMORY;
    *planned = (struct planned){.steps = steps, .batch = batch, .users = 1};
    planned->sizes.size = sizeof planned->sizes;
    snprintf(text, sizeof text, "%s/T%d/N%d", problem->text, (int)steps, (int)batch);
    ecornn_status status = ecornn_plan_create(&planned->plan, plans->device, text, problem->cells);
    if (status == ECORNN_OK)
        status = ecornn_plan_sizes(planned->plan, &planned->sizes);
    if (status == ECORNN_OK && planned->sizes.param_count > MOST_PARAMS)
        status = ECORNN_FAILED;
    if (status == ECORNN_OK && find)
        status = pack(plans, planned, find, owner);
    if (status == ECORNN_OK)
        *made = planned;
    else
        release(planned);
    return status;
}

static void put_first(struct plans *plans, int place)
{
    struct planned *const planned = plans->list[place];
    memmove(plans->list + 1, plans->list, (size_t)place * sizeof *plans->list);
    plans->list[0] = planned;
}

ecornn_status plans_take(struct plans *plans, const struct problem *problem, int64_t steps,
                         int64_t batch, params_of *find, const void *owner, struct planned **taken)
{
    const int32_t T = ecornn_bucket((int32_t)(steps > 0 ? steps : 1));
    const int32_t N = ecornn_bucket((int32_t)(batch > 0 ? batch : 1));
    ecornn_status status = ECORNN_OK;
    pthread_mutex_lock(&plans->lock);
    int i = 0;
    while (i < plans->count && (plans->list[i]->steps != T || plans->list[i]->batch != N))
        i++;
    if (i == plans->count) {
        struct planned *made = NULL;
        status = make(plans, problem, T, N, find, owner, &made);
        if (made && plans->count == MOST_PLANS)
            release(plans->list[--plans->count]);
        if (made)
            plans->list[i = plans->count++] = made;
    }
    if (status == ECORNN_OK) {
        put_first(plans, i);
        *taken = plans->list[0];
        (*taken)->users++;
    }
    pthread_mutex_unlock(&plans->lock);
    return status;
}

void plans_return(struct plans *plans, struct planned *planned)
{
    pthread_mutex_lock(&plans->lock);
    release(planned);
    pthread_mutex_unlock(&plans->lock);
}

/* ---- scratch --------------------------------------------------------------------------------- */

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
    const bool kept = plans->spares < MOST_SCRATCH;
    if (kept && scratch.memory)
        plans->spare[plans->spares++] = scratch;
    pthread_mutex_unlock(&plans->lock);
    if (!kept)
        ecornn_free(plans->device, scratch.memory);
}
