/*
 * Makes plans from texts and keeps them in a list.
 */
#include "python/native/xla_plans.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct xla_library xla_library;

enum { TEXTS = 3 }; /* device, problem, cell */
struct entry {
    struct entry *next;
    char *text[TEXTS];
    size_t bytes[TEXTS];
    struct xla_plan plan;
};

static struct {
    pthread_mutex_t lock;
    struct entry *first;
} list = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is(const struct entry *entry, const struct xla_span *texts)
{
    bool same = true;
    for (int i = 0; i < TEXTS; i++)
        same = same && entry->bytes[i] == texts[i].bytes;
    for (int i = 0; same && i < TEXTS; i++)
        same = memcmp(entry->text[i], texts[i].at, texts[i].bytes) == 0;
    return same;
}

static void entry_free(struct entry *entry)
{
    if (!entry)
        return;
    for (int i = 0; i < TEXTS; i++)
        free(entry->text[i]);
    free(entry->plan.size);
    free(entry);
}

static struct entry *entry_new(const struct xla_span *texts)
{
    struct entry *const entry = calloc(1, sizeof *entry);
    for (int i = 0; entry && i < TEXTS; i++) {
        char *const copy = malloc(texts[i].bytes + 1);
        entry->text[i] = copy;
        if (!copy) {
            entry_free(entry);
            return NULL;
        }
        memcpy(copy, texts[i].at, texts[i].bytes);
        copy[texts[i].bytes] = 0;
        entry->bytes[i] = texts[i].bytes;
    }
    return entry;
}

/* "W.i" of "0.fwd.W.i": layer, direction, kind, line. */
static const char *kind_of(const char *name)
{
    for (int i = 0; i < 2 && strchr(name, '.'); i++)
        name = strchr(name, '.') + 1;
    return name;
}

/* Sizes and types, once there is a plan. */
static ecornn_status describe(struct xla_plan *plan)
{
    static const int types[] = {[ECORNN_F32] = XLA_F32,
                                [ECORNN_F64] = XLA_F64,
                                [ECORNN_BF16] = XLA_BF16,
                                [ECORNN_F16] = XLA_F16};
    ecornn_desc *const desc = &plan->desc;
    const ecornn_type param = desc->param_type           ? desc->param_type
                              : desc->type == ECORNN_F64 ? ECORNN_F64
                                                         : ECORNN_F32;
    desc->type = desc->type ? desc->type : ECORNN_F32;
    desc->layers = desc->layers > 0 ? desc->layers : 1;
    desc->models = desc->models > 0 ? desc->models : 1;
    plan->sizes.size = sizeof plan->sizes;
    ecornn_status status = xla_library.plan_sizes(plan->plan, &plan->sizes);
    if (status == ECORNN_OK)
        status = xla_library.cell_states(desc->cell, &plan->states, NULL);
    if (status != ECORNN_OK)
        return status;
    plan->type = types[desc->type];
    plan->param_type = types[param];
    plan->count = plan->sizes.param_count / desc->models;
    plan->size = calloc((size_t)plan->count + 1, sizeof *plan->size);
    if (!plan->size)
        return ECORNN_NO_MEMORY;
    for (int i = 0; i < plan->count; i++) {
        ecornn_param found = {.size = sizeof found};
        status = xla_library.param_get(plan->plan, i, &found);
        if (status != ECORNN_OK)
            return status;
        const char *const kind = kind_of(found.name);
        plan->size[i][0] = found.rows;
        const bool is_vector = strncmp(kind, "b.", 2) == 0 || strncmp(kind, "p.", 2) == 0;
        plan->size[i][1] = is_vector ? 0 : found.cols;
    }
    return ECORNN_OK;
}

/* A failure leaves nothing behind but the entry. */
static ecornn_status make(struct entry *entry)
{
    struct xla_plan *const plan = &entry->plan;
    ecornn_device *opened = NULL;
    ecornn_cell *cell = NULL;
    ecornn_status status = ECORNN_OK;
    for (const struct entry *other = list.first; other && !plan->device; other = other->next)
        if (strcmp(other->text[0], entry->text[0]) == 0)
            plan->device = other->plan.device;
    if (!plan->device) {
        status = xla_library.device_open(&opened, entry->text[0]);
        plan->device = opened;
    }
    if (status == ECORNN_OK && entry->bytes[2] > 0)
        status = xla_library.cell_parse(&cell, entry->text[2]);
    if (status == ECORNN_OK)
        plan->desc.size = sizeof plan->desc,
        status = xla_library.desc_parse(&plan->desc, entry->text[1], cell);
    if (status == ECORNN_OK)
        status = xla_library.plan_create(&plan->plan, plan->device, &plan->desc);
    if (status == ECORNN_OK)
        status = describe(plan);
    if (status != ECORNN_OK) {
        xla_library.plan_free(plan->plan);
        xla_library.cell_free(cell);
        xla_library.device_close(opened);
    }
    return status;
}

ecornn_status xla_plan_find(const struct xla_plan **found, struct xla_span device,
                            struct xla_span problem, struct xla_span cell)
{
    const struct xla_span texts[TEXTS] = {device, problem, cell};
    ecornn_status status = ECORNN_OK;
    pthread_mutex_lock(&list.lock);
    struct entry *entry = list.first;
    while (entry && !is(entry, texts))
        entry = entry->next;
    if (!entry) {
        entry = entry_new(texts);
        status = entry ? make(entry) : ECORNN_NO_MEMORY;
        if (status == ECORNN_OK) {
            entry->next = list.first;
            list.first = entry;
        } else {
            entry_free(entry);
            entry = NULL;
        }
    }
    pthread_mutex_unlock(&list.lock);
    if (entry)
        *found = &entry->plan;
    return status;
}
