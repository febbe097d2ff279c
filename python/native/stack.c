/*
 * The plans of a stack, and the packed weights that it keeps.
 *
 * One lock guards the lists of all stacks; it is held for searches only.  Plans are made under
 * another, so that threads that want the same plan make it once.
 */
#include "python/native/stack.h"

#include <stdlib.h>
#include <string.h>

#include "python/native/layout.h"

enum { MOST_PLANS = 128, MOST_PACKED = 8 }; /* of a stack */

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
    struct packed_weights *packed; /* the newest one first */
};

static pthread_mutex_t lists = PTHREAD_MUTEX_INITIALIZER, making = PTHREAD_MUTEX_INITIALIZER;

static void lock_all(void)
{
    pthread_mutex_lock(&making);
    pthread_mutex_lock(&lists);
}

static void unlock_all(void)
{
    pthread_mutex_unlock(&lists);
    pthread_mutex_unlock(&making);
}

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(lock_all, unlock_all, unlock_all);
}

struct stack *stack_new(const ecornn_desc *desc)
{
    struct stack *const stack = calloc(1, sizeof *stack);
    if (stack)
        stack->desc = *desc;
    return stack;
}

static void free_entry(struct entry *entry)
{
    plan_let_go(entry->plan);
    free(entry);
}

static void drop_all_packed(struct stack *stack)
{
    for (struct packed_weights *packed = stack->packed, *next; packed; packed = next) {
        next = packed->next;
        packed_drop(packed);
    }
    stack->packed = NULL;
}

void stack_free(struct stack *stack)
{
    if (!stack)
        return;
    for (struct entry *entry = stack->plans, *next; entry; entry = next) {
        next = entry->next;
        free_entry(entry);
    }
    drop_all_packed(stack);
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
    pthread_mutex_lock(&lists);
    struct entry **at = &stack->plans, *entry = *at;
    while (entry && memcmp(&entry->key, key, sizeof *key) != 0)
        entry = *(at = &entry->next);
    if (entry) {
        *at = entry->next;
        entry->next = stack->plans;
        stack->plans = entry;
        atomic_fetch_add(&entry->plan->users, 1);
    }
    pthread_mutex_unlock(&lists);
    return entry ? entry->plan : NULL;
}

static void add_entry(struct stack *stack, struct entry *made)
{
    int count = 0;
    pthread_mutex_lock(&lists);
    struct entry **at = &stack->plans;
    while (*at && ++count < MOST_PLANS)
        at = &(*at)->next;
    if (*at) { /* a plan in use stays, because its run holds it */
        free_entry(*at);
        *at = NULL;
    }
    made->next = stack->plans;
    stack->plans = made;
    pthread_mutex_unlock(&lists);
}

/* Holds the plan of that key, which is made unless another thread has done so. */
static ecornn_status make(struct stack *stack, const struct ask *key, double measure_seconds,
                          struct plan **found)
{
    pthread_mutex_lock(&making);
    *found = find(stack, key);
    struct entry *const entry = *found ? NULL : calloc(1, sizeof *entry);
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
    pthread_mutex_unlock(&making);
    return status;
}

ecornn_status stack_plan(struct stack *stack, const struct ask *ask, struct plan **found)
{
    const struct ask key = key_of(stack, ask);
    *found = find(stack, &key);
    return *found ? ECORNN_OK : make(stack, &key, ask->measure_seconds, found);
}

/* ---- packed weights -------------------------------------------------------------------------- */

void packed_drop(struct packed_weights *packed)
{
    if (!packed || atomic_fetch_sub(&packed->users, 1) > 1)
        return;
    memory_drop(packed->weights);
    memory_drop(packed->copy);
    plan_let_go(packed->plan);
    free(packed);
}

bool stack_take(struct stack *stack, const void *block, size_t bytes, bool frozen)
{
    struct memory *const copy = frozen ? memory_new(NULL, bytes) : NULL;
    if (frozen && !copy)
        return false;
    if (copy)
        memcpy(copy->at, block, bytes);
    pthread_mutex_lock(&lists);
    struct memory *const old = stack->frozen;
    stack->block = block;
    stack->frozen = copy;
    pthread_mutex_unlock(&lists);
    memory_drop(old);
    return true;
}

/* Holds the weights in the list that runs of the plan can read; NULL: there are none. */
static struct packed_weights *find_packed(const struct stack *stack, const struct plan *plan,
                                          const struct memory *frozen)
{
    struct packed_weights *found = stack->packed;
    while (found && ((frozen ? found->copy != frozen : found->frozen) ||
                     (found->plan != plan &&
                      library.weights_fit(found->plan->plan, plan->plan) != ECORNN_OK)))
        found = found->next;
    if (found)
        atomic_fetch_add(&found->users, 1);
    return found;
}

/* Takes weights out of the list, if they are in it; what the caller holds stays. */
static void remove_packed(struct stack *stack, struct packed_weights *packed)
{
    pthread_mutex_lock(&lists);
    struct packed_weights **at = &stack->packed;
    while (*at && *at != packed)
        at = &(*at)->next;
    const bool there = *at != NULL;
    if (there)
        *at = packed->next;
    pthread_mutex_unlock(&lists);
    if (there)
        packed_drop(packed);
}

static void add_packed(struct stack *stack, struct packed_weights *packed)
{
    int count = 0;
    atomic_fetch_add(&packed->users, 1);
    pthread_mutex_lock(&lists);
    packed->next = stack->packed;
    stack->packed = packed;
    struct packed_weights **at = &stack->packed;
    while (*at && count++ < MOST_PACKED)
        at = &(*at)->next;
    struct packed_weights *const last = *at;
    *at = NULL;
    pthread_mutex_unlock(&lists);
    packed_drop(last);
}

/* Packs from the copy.  Device memory gets a copy of it; runs on any stream may read the weights
 * afterwards. */
static ecornn_status fill(struct packed_weights *packed, const struct ask *ask)
{
    const struct layout *const layout = layout_of(packed->plan);
    char *start[1] = {packed->copy->at};
    struct memory *uploaded = NULL;
    ecornn_status status = layout ? ECORNN_OK : ECORNN_NO_MEMORY;
    if (status == ECORNN_OK && ask->on_gpu) {
        uploaded = memory_new(ask->device, (size_t)layout->bytes);
        status = uploaded ? library.upload(ask->device, uploaded->at, start[0], uploaded->bytes)
                          : ECORNN_NO_MEMORY;
        if (status == ECORNN_OK)
            status = library.wait(ask->device, NULL);
        start[0] = uploaded ? uploaded->at : NULL;
    }
    if (status == ECORNN_OK)
        status = layout_pack(packed->plan, start, NULL, packed->weights->at, NULL);
    if (status == ECORNN_OK && ask->on_gpu)
        status = library.wait(ask->device, NULL);
    memory_drop(uploaded);
    return status;
}

/* Packs into the memory of old weights, unless a run still reads it; on a GPU a run that is queued
 * may. */
static ecornn_status pack(struct stack *stack, struct plan *plan, const struct ask *ask,
                          struct memory *frozen, struct packed_weights *old,
                          struct packed_weights **found)
{
    const struct layout *const layout = layout_of(plan);
    struct memory *weights = NULL, *copy = NULL;
    if (old && !ask->on_gpu) {
        weights = memory_hold(old->weights);
        copy = memory_hold(old->copy);
    }
    packed_drop(old);
    struct packed_weights *const packed = calloc(1, sizeof *packed);
    if (!packed || !layout) {
        memory_drop(weights);
        memory_drop(copy);
        free(packed);
        return ECORNN_NO_MEMORY;
    }
    atomic_init(&packed->users, 1);
    atomic_fetch_add(&plan->users, 1);
    packed->plan = plan;
    packed->frozen = frozen != NULL;
    packed->weights = memory_again(weights, ask->device, plan->sizes.weight_bytes);
    packed->copy =
        frozen ? memory_hold(frozen)
               : memory_again(copy, ask->on_gpu ? NULL : ask->device, (size_t)layout->bytes);
    ecornn_status status = packed->weights && packed->copy ? ECORNN_OK : ECORNN_NO_MEMORY;
    if (status == ECORNN_OK && !frozen)
        memcpy(packed->copy->at, stack->block, (size_t)layout->bytes);
    if (status == ECORNN_OK)
        status = fill(packed, ask);
    if (status != ECORNN_OK) {
        packed_drop(packed);
        return status;
    }
    add_packed(stack, packed);
    *found = packed;
    return ECORNN_OK;
}

ecornn_status stack_packed(struct stack *stack, struct plan *plan, const struct ask *ask,
                           struct packed_weights **found)
{
    const bool training = ask->flags & ECORNN_TRAINING;
    char *start[1] = {(char *)(uintptr_t)stack->block};
    pthread_mutex_lock(&lists);
    struct memory *const frozen = training ? NULL : memory_hold(stack->frozen);
    struct packed_weights *const packed = find_packed(stack, plan, frozen);
    pthread_mutex_unlock(&lists);
    ecornn_status status = ECORNN_OK;
    if (packed && (frozen || layout_same(packed->plan, start, packed->copy->at)))
        *found = packed;
    else {
        if (packed)
            remove_packed(stack, packed);
        status = pack(stack, plan, ask, frozen, packed, found);
    }
    memory_drop(frozen);
    return status;
}
