/*
 * The plans of a stack, and its parameters.
 *
 * One lock guards the lists of all stacks; it is held for searches only.  Plans are made under
 * another, so that threads that want the same plan make it once.
 */
#include "python/native/runner.h"

#include <stdlib.h>
#include <string.h>

#include "python/native/layout.h"
#include "python/native/locks.h"

enum { MOST_PLANS = 128 }; /* of a stack */

/* A plan, and what it is for. */
struct entry {
    struct entry *next;
    struct ask key;
    struct plan *plan;
};

struct stack {
    ecornn_desc desc;
    struct entry *plans; /* the last used one first */
    const char *block;   /* NULL: this stack has no parameters */
    struct memory *frozen;
    struct packs packs;
};

int ecornn_run_new(const ecornn_desc *desc, struct stack **stack)
{
    if (desc->size != sizeof *desc)
        return ECORNN_BAD_ARGUMENT;
    *stack = new_zeros(1, sizeof **stack);
    if (*stack)
        (*stack)->desc = *desc;
    return *stack ? ECORNN_OK : ECORNN_NO_MEMORY;
}

static void free_entry(struct entry *entry)
{
    plan_let_go(entry->plan);
    free(entry);
}

void ecornn_run_free(struct stack *stack)
{
    if (!stack)
        return;
    for (struct entry *entry = stack->plans, *next; entry; entry = next) {
        next = entry->next;
        free_entry(entry);
    }
    packs_end(&stack->packs);
    memory_drop(stack->frozen);
    free(stack);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static int32_t at_least_one(int32_t count)
{
    return count > 0 ? count : 1;
}

/* What the plan is made for: with T and N of the bucket, except under a memory limit, which a
 * larger plan might exceed. */
static struct ask key_of(const struct stack *stack, const struct ask *ask)
{
    struct ask key = *ask;
    key.steps = at_least_one(ask->steps);
    key.batch = at_least_one(ask->batch);
    key.measure_seconds = 0;
    if (!(ask->flags & ECORNN_TRAINING && stack->desc.memory_limit)) {
        key.steps = library.bucket(key.steps);
        key.batch = library.bucket(key.batch);
    }
    return key;
}

static ecornn_desc desc_of(const struct stack *stack, const struct ask *key, double measure_seconds)
{
    ecornn_desc desc = stack->desc;
    const bool training = key->flags & ECORNN_TRAINING;
    desc.steps = key->steps;
    desc.batch = key->batch;
    desc.type = (ecornn_type)key->type;
    desc.param_type = (ecornn_type)key->param_type;
    desc.flags |= key->flags | (measure_seconds > 0 ? ECORNN_MEASURE : 0);
    desc.measure_seconds = measure_seconds;
    if (!training) {
        desc.flags &= ~(uint32_t)(ECORNN_SAVE_ALL | ECORNN_SAVE_STATES);
        desc.dropout = 0;
        desc.memory_limit = 0;
        desc.save_every = 0;
    }
    if (desc.save_every > key->steps) /* a run shorter than K saves the first step's state */
        desc.save_every = key->steps;
    return desc;
}

/* Holds the plan of that key, which then is the first one; NULL: there is none. */
static struct plan *find(struct stack *stack, const struct ask *key)
{
    lock_take(LOCK_LISTS);
    struct entry **at = &stack->plans, *entry = *at;
    while (entry && memcmp(&entry->key, key, sizeof *key) != 0)
        entry = *(at = &entry->next);
    if (entry) {
        *at = entry->next;
        entry->next = stack->plans;
        stack->plans = entry;
        atomic_fetch_add(&entry->plan->users, 1);
    }
    lock_release(LOCK_LISTS);
    return entry ? entry->plan : NULL;
}

static void add_entry(struct stack *stack, struct entry *made)
{
    int count = 0;
    lock_take(LOCK_LISTS);
    struct entry **at = &stack->plans;
    while (*at && ++count < MOST_PLANS)
        at = &(*at)->next;
    if (*at) { /* a plan in use stays, because its run holds it */
        free_entry(*at);
        *at = NULL;
    }
    made->next = stack->plans;
    stack->plans = made;
    lock_release(LOCK_LISTS);
}

/* Holds the plan of that key, which is made unless another thread has done so. */
static ecornn_status make(struct stack *stack, const struct ask *key, double measure_seconds,
                          struct plan **found)
{
    lock_take(LOCK_MAKING);
    *found = find(stack, key);
    struct entry *const entry = *found ? NULL : new_zeros(1, sizeof *entry);
    ecornn_status status = *found || entry ? ECORNN_OK : ECORNN_NO_MEMORY;
    if (entry) {
        const ecornn_desc desc = desc_of(stack, key, measure_seconds);
        status = plan_create(&entry->plan, key->device, &desc, KIND_BLOCK);
    }
    if (entry && status == ECORNN_OK) {
        entry->key = *key;
        *found = entry->plan;
        atomic_fetch_add(&entry->plan->users, 1);
        add_entry(stack, entry);
    } else
        free(entry);
    lock_release(LOCK_MAKING);
    return status;
}

ecornn_status stack_plan(struct stack *stack, const struct ask *ask, struct plan **found)
{
    const struct ask key = key_of(stack, ask);
    *found = find(stack, &key);
    return *found || ask->measure_seconds < 0 ? ECORNN_OK
                                              : make(stack, &key, ask->measure_seconds, found);
}

/* ---- packed weights -------------------------------------------------------------------------- */

int ecornn_run_take(struct stack *stack, const void *block, size_t bytes, int frozen)
{
    struct memory *const copy = frozen ? memory_new(NULL, bytes) : NULL;
    if (frozen && !copy)
        return ECORNN_NO_MEMORY;
    if (copy)
        memcpy(copy->at, block, bytes);
    lock_take(LOCK_LISTS);
    struct memory *const old = stack->frozen;
    stack->block = block;
    stack->frozen = copy;
    lock_release(LOCK_LISTS);
    memory_drop(old);
    return ECORNN_OK;
}

ecornn_status stack_packed(struct stack *stack, struct plan *plan, const struct ask *ask,
                           struct packed **found)
{
    const bool training = ask->flags & ECORNN_TRAINING;
    char *const start[1] = {(char *)(uintptr_t)stack->block};
    struct packing from = {.start = start, .device = ask->device, .on_gpu = ask->on_gpu};
    lock_take(LOCK_LISTS);
    from.frozen = training ? NULL : memory_hold(stack->frozen);
    lock_release(LOCK_LISTS);
    const ecornn_status status = packs_hold(&stack->packs, plan, &from, found);
    memory_drop(from.frozen);
    return status;
}
