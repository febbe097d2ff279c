/*
 * Packs weights where they have changed.
 */
#include "python/native/packed.h"

#include <stdlib.h>
#include <string.h>

#include "python/native/layout.h"
#include "python/native/locks.h"

enum { MOST_PACKED = 8 }; /* of a list, for plans that cannot share one */

void packed_drop(struct packed *packed)
{
    if (!packed || atomic_fetch_sub(&packed->users, 1) > 1)
        return;
    memory_drop(packed->weights);
    memory_drop(packed->copy);
    plan_let_go(packed->plan);
    free(packed);
}

void packs_end(struct packs *packs)
{
    for (struct packed *packed = packs->first, *next; packed; packed = next) {
        next = packed->next;
        packed_drop(packed);
    }
    packs->first = NULL;
}

/* Holds the weights in the list that runs of the plan can read; NULL: there are none. */
static struct packed *find(const struct packs *packs, const struct plan *plan,
                           const struct memory *frozen)
{
    lock_take(LOCK_LISTS);
    struct packed *found = packs->first;
    while (found && ((frozen ? found->copy != frozen : found->frozen) ||
                     (found->plan && found->plan != plan &&
                      library.weights_fit(found->plan->plan, plan->plan) != ECORNN_OK)))
        found = found->next;
    if (found)
        atomic_fetch_add(&found->users, 1);
    lock_release(LOCK_LISTS);
    return found;
}

/* Takes weights out of the list, if they are in it; what the caller holds stays. */
static void take_out(struct packs *packs, struct packed *packed)
{
    lock_take(LOCK_LISTS);
    struct packed **at = &packs->first;
    while (*at && *at != packed)
        at = &(*at)->next;
    const bool there = *at != NULL;
    if (there)
        *at = packed->next;
    lock_release(LOCK_LISTS);
    if (there)
        packed_drop(packed);
}

static void add(struct packs *packs, struct packed *packed)
{
    int count = 0;
    atomic_fetch_add(&packed->users, 1);
    lock_take(LOCK_LISTS);
    packed->next = packs->first;
    packs->first = packed;
    struct packed **at = &packs->first;
    while (*at && count++ < MOST_PACKED)
        at = &(*at)->next;
    struct packed *const last = *at;
    *at = NULL;
    lock_release(LOCK_LISTS);
    packed_drop(last);
}

/* Packs from the copy by way of device memory; runs on any stream may read the weights afterwards.
 */
static ecornn_status fill_on_gpu(const struct packed *packed, const struct plan *plan,
                                 ecornn_device *device)
{
    const size_t bytes = (size_t)((const struct layout *)plan->more)->bytes;
    struct memory *const uploaded = memory_new(device, bytes);
    if (!uploaded)
        return ECORNN_NO_MEMORY;
    ecornn_status status = library.upload(device, uploaded->at, packed->copy->at, bytes);
    if (status == ECORNN_OK)
        status = library.wait(device, NULL);
    if (status == ECORNN_OK)
        status = layout_pack(plan, (char *const[]){uploaded->at}, NULL, packed->weights->at, NULL);
    if (status == ECORNN_OK)
        status = library.wait(device, NULL);
    memory_drop(uploaded);
    return status;
}

/* Copies the arrays, unless they are frozen, and packs from the copy, so that both agree whatever
 * is written meanwhile. */
static ecornn_status fill(const struct packed *packed, const struct plan *plan,
                          const struct packing *from)
{
    const struct layout *const layout = plan->more;
    const size_t count = (size_t)layout->arrays;
    char **const start = new_zeros(count + 1, sizeof *start);
    if (!start)
        return ECORNN_NO_MEMORY;
    memcpy(start, from->start, count * sizeof *start);
    if (from->frozen)
        start[0] = from->frozen->at;
    else
        layout_copy(plan, start, packed->copy->at);
    const ecornn_status status =
        from->on_gpu ? fill_on_gpu(packed, plan, from->device)
                     : layout_pack(plan, start, layout->zeros, packed->weights->at, NULL);
    free(start);
    return status;
}

/* A block into which the weights are to be packed: in the memory of an old one, which is dropped,
 * unless a run still reads it; on a GPU a run that is queued may. */
static struct packed *renew(struct packed *old, const struct plan *plan, const struct packing *from)
{
    struct packed *const packed = new_zeros(1, sizeof *packed);
    struct memory *const weights = old && !from->on_gpu ? memory_hold(old->weights) : NULL;
    struct memory *const copy = old && !from->frozen ? memory_hold(old->copy) : NULL;
    packed_drop(old);
    if (!packed) {
        memory_drop(weights);
        memory_drop(copy);
        return NULL;
    }
    atomic_init(&packed->users, 1);
    packed->frozen = from->frozen != NULL;
    packed->weights = memory_again(weights, from->device, plan->sizes.weight_bytes);
    packed->copy = packed->frozen
                       ? memory_hold(from->frozen)
                       : memory_again(copy, from->on_gpu ? NULL : from->device,
                                      (size_t)((const struct layout *)plan->more)->bytes);
    return packed;
}

static ecornn_status pack(struct packs *packs, struct plan *plan, const struct packing *from,
                          struct packed *old, struct packed **found)
{
    struct packed *const packed = renew(old, plan, from);
    if (packed && !packs->alike) {
        atomic_fetch_add(&plan->users, 1);
        packed->plan = plan;
    }
    const bool there = packed && packed->weights && packed->copy;
    const ecornn_status status = there ? fill(packed, plan, from) : ECORNN_NO_MEMORY;
    if (status != ECORNN_OK) {
        packed_drop(packed);
        return status;
    }
    add(packs, packed);
    *found = packed;
    return ECORNN_OK;
}

ecornn_status packs_hold(struct packs *packs, struct plan *plan, const struct packing *from,
                         struct packed **found)
{
    if (!layout_of(plan))
        return ECORNN_NO_MEMORY;
    struct packed *const packed = find(packs, plan, from->frozen);
    if (packed && (from->frozen || layout_same(plan, from->start, packed->copy->at))) {
        *found = packed;
        return ECORNN_OK;
    }
    if (packed)
        take_out(packs, packed);
    return pack(packs, plan, from, packed, found);
}
