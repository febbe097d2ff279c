/*
 * Plans: makes one of any kind from a text or a description, and answers what all of them have.
 * plan/problem.c checks the fields of a description.
 */
#include "ecornn.h"

#include <limits.h>
#include <string.h>

#include "common/caller.h"
#include "common/compose/models.h"
#include "common/compose/net.h"
#include "common/compose/tangent.h"
#include "common/util.h"
#include "lib/check.h"

/* ---- plans of other kinds -------------------------------------------------------------------- */

/* Frees what a plan consists of that is not of layers. */
static void free_parts(ecornn_plan *plan)
{
    if (plan->kind == ECO_PLAN_NET)
        eco_net_plan_free(plan->net);
    else if (plan->kind == ECO_PLAN_TANGENT)
        eco_tangent_plan_free(plan->tangent);
    eco_free(plan->parts);
    plan->kind = 0;
    eco_free(plan);
}

/* Begins a plan that consists of `bytes`, which are zero; NULL: no memory. */
static ecornn_plan *begin(enum eco_plan_kind kind, ecornn_device *device, size_t bytes)
{
    ecornn_plan *const made = eco_alloc_zeroed(sizeof *made);
    void *const parts = made ? eco_alloc_zeroed(bytes) : NULL;
    if (!parts) {
        eco_free(made);
        eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of a plan", sizeof *made + bytes);
        return NULL;
    }
    made->kind = kind;
    made->device = device;
    made->parts = parts;
    return made;
}

/* Gives the plan to the program, with these sizes; or frees it. */
static ecornn_status end(ecornn_plan **plan, ecornn_plan *made, ecornn_status status,
                         const ecornn_sizes *sizes)
{
    if (status == ECORNN_OK) {
        made->sizes = *sizes;
        *plan = made;
    } else {
        free_parts(made);
    }
    return status;
}

static ecornn_status create_net(ecornn_plan **plan, ecornn_device *device, const char *text,
                                const ecornn_cell *const *cells)
{
    ecornn_plan *const made = begin(ECO_PLAN_NET, device, sizeof *made->net);
    if (!made)
        return ECORNN_NO_MEMORY;
    made->net->device = device;
    return end(plan, made, eco_net_create(made->net, text, cells), &made->net->sizes);
}

static ecornn_status create_tangent(ecornn_plan **plan, ecornn_device *device,
                                    const ecornn_desc *desc)
{
    ecornn_plan *const made = begin(ECO_PLAN_TANGENT, device, sizeof *made->tangent);
    if (!made)
        return ECORNN_NO_MEMORY;
    made->tangent->device = device;
    return end(plan, made, eco_tangent_plan_create(made->tangent, desc), &made->tangent->sizes);
}

static ecornn_status create_attention(ecornn_plan **plan, ecornn_device *device, const char *text)
{
    struct eco_attention_desc desc = {0};
    struct eco_caller caller;
    ecornn_plan *const made = begin(ECO_PLAN_ATTENTION, device, sizeof *made->attention);
    if (!made)
        return ECORNN_NO_MEMORY;
    struct eco_attention_plan *const attention = made->attention;
    attention->device = device;
    eco_caller_begin(&caller);
    ecornn_status status = eco_attention_parse(&desc, text);
    if (status == ECORNN_OK)
        status = eco_attention_build(&attention->problem, &desc);
    if (status == ECORNN_OK)
        status = eco_attention_plan_create(attention);
    eco_caller_end(&caller);
    return end(plan, made, status, &attention->sizes);
}

static ecornn_status create_desc(ecornn_plan **plan, ecornn_device *device, const ecornn_desc *desc)
{
    return ((desc->flags & ECORNN_TANGENT) != 0 ? create_tangent : eco_layers_create)(plan, device,
                                                                                      desc);
}

static const ecornn_cell *find_cell(const ecornn_cell *const *cells, const char *text)
{
    const size_t length = strcspn(text, "/");
    while (cells && *cells &&
           !(strlen((*cells)->recipe.name) == length &&
             memcmp((*cells)->recipe.name, text, length) == 0))
        cells++;
    return cells ? *cells : NULL;
}

static ecornn_status create_text(ecornn_plan **plan, ecornn_device *device, const char *text,
                                 const ecornn_cell *const *cells)
{
    static const char attention[] = "attention/";
    if (strncmp(text, attention, sizeof attention - 1) == 0)
        return create_attention(plan, device, text);
    if (strchr(text, ';'))
        return create_net(plan, device, text, cells);
    ecornn_desc desc = {.size = sizeof desc};
    const ecornn_status status = ecornn_desc_parse(&desc, text, find_cell(cells, text));
    return status == ECORNN_OK ? create_desc(plan, device, &desc) : status;
}

/* ---- the program's plan ---------------------------------------------------------------------- */

/* Creates a plan from a text and its cells, or from a description. Device NULL: the CPU. */
static ecornn_status create(ecornn_plan **plan, ecornn_device *device, const char *text,
                            const ecornn_cell *const *cells, const ecornn_desc *desc)
{
    ecornn_device *cpu = NULL;
    ecornn_plan *made;
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    ecornn_status status = device ? eco_check_device(device) : ecornn_device_open(&cpu, "cpu");
    if (status != ECORNN_OK)
        return status;
    device = device ? device : cpu;
    status = desc ? create_desc(&made, device, desc) : create_text(&made, device, text, cells);
    if (status == ECORNN_OK) {
        eco_device_hold(device);
        *plan = made;
    }
    ecornn_device_close(cpu);
    return status;
}

ecornn_status ecornn_plan_create(ecornn_plan **plan, ecornn_device *device, const char *text,
                                 const ecornn_cell *const *cells)
{
    return text ? create(plan, device, text, cells, NULL)
                : eco_fail(ECORNN_BAD_ARGUMENT, "text is NULL");
}

ecornn_status ecornn_plan_create_desc(ecornn_plan **plan, ecornn_device *device,
                                      const ecornn_desc *desc)
{
    ecornn_desc own;
    desc = eco_take("desc", desc, &own, sizeof own);
    return desc ? create(plan, device, NULL, NULL, desc) : ECORNN_BAD_ARGUMENT;
}

void ecornn_plan_free(ecornn_plan *plan)
{
    if (!plan || eco_check_plan(plan) != ECORNN_OK)
        return;
    ecornn_device *const device = plan->device;
    if (plan->kind == ECO_PLAN_LAYERS && plan->net) {
        eco_fail(ECORNN_BAD_ARGUMENT, "the plan is a layer of a net, which frees it");
        return;
    }
    (plan->kind == ECO_PLAN_LAYERS ? eco_layers_free : free_parts)(plan);
    eco_device_release(device);
}

ecornn_status ecornn_plan_sizes(const ecornn_plan *plan, ecornn_sizes *sizes)
{
    const ecornn_status status = eco_check_plan(plan);
    return status == ECORNN_OK ? eco_give("sizes", sizes, &plan->sizes, sizeof *sizes) : status;
}

ecornn_status ecornn_run_sizes(const ecornn_plan *plan, int32_t steps, int32_t batch,
                               ecornn_sizes *sizes)
{
    ecornn_status status = eco_check_plan(plan);
    if (status == ECORNN_OK && plan->kind != ECO_PLAN_LAYERS)
        return eco_fail(ECORNN_UNSUPPORTED, "only plans of layers have sizes of smaller runs");
    if (status == ECORNN_OK)
        status = eco_check_count("steps", steps, plan->sizes.steps);
    if (status == ECORNN_OK)
        status = eco_check_count("batch", batch, plan->sizes.batch);
    if (status != ECORNN_OK)
        return status;
    const ecornn_sizes smaller =
        plan->one ? eco_models_sizes(plan, steps, batch) : eco_plan_sizes(plan, steps, batch);
    return eco_give("sizes", sizes, &smaller, sizeof smaller);
}

ecornn_status ecornn_plan_state(const ecornn_plan *plan, int index, size_t *elements,
                                ecornn_type *type)
{
    const ecornn_status status = eco_check_plan(plan);
    if (status != ECORNN_OK)
        return status;
    if (plan->kind != ECO_PLAN_LAYERS)
        return eco_fail(ECORNN_UNSUPPORTED, "only plans of layers have states");
    if (!elements)
        return eco_fail(ECORNN_BAD_ARGUMENT, "elements is NULL");
    const int states = plan->problem.cell->recipe.n_states;
    if (index < 0 || index >= states)
        return eco_fail(ECORNN_BAD_ARGUMENT, "index is %d, must be 0 to %d", index, states - 1);
    *elements = (size_t)eco_problem_width(&plan->problem, index);
    if (type)
        *type = eco_problem_state_type(&plan->problem, index);
    return ECORNN_OK;
}

int32_t ecornn_bucket(int32_t size)
{
    enum { EXACT = 16 };
    int32_t step = 1;
    while (size > EXACT && (size - 1) / step >= EXACT)
        step *= 2;
    const int64_t rounded = ((int64_t)size + step - 1) / step * step;
    return rounded > INT32_MAX ? size : (int32_t)rounded;
}

ecornn_status ecornn_plan_layer(const ecornn_plan *plan, int index, const ecornn_plan **layer)
{
    const ecornn_status status = eco_check_plan(plan);
    if (status != ECORNN_OK)
        return status;
    if (!layer)
        return eco_fail(ECORNN_BAD_ARGUMENT, "layer is NULL");
    if (index < 0 || index >= plan->sizes.layers)
        return eco_fail(ECORNN_BAD_ARGUMENT, "index is %d, must be 0 to %d", index,
                        plan->sizes.layers - 1);
    *layer = plan->kind == ECO_PLAN_NET ? plan->net->layer[index].plan : plan;
    return ECORNN_OK;
}

/* ---- print ----------------------------------------------------------------------------------- */

static void add_text(const ecornn_plan *plan, struct eco_text *text)
{
    if (plan->kind == ECO_PLAN_LAYERS) {
        eco_layers_describe(plan, text);
    } else if (plan->kind == ECO_PLAN_NET) {
        eco_net_plan_describe(plan->net, text);
    } else if (plan->kind == ECO_PLAN_TANGENT) {
        eco_tangent_plan_describe(plan->tangent, text);
    } else {
        const int length = eco_attention_plan_describe(plan->attention, text->data, text->size);
        text->length += length > 0 ? (size_t)length : 0;
    }
}

int ecornn_plan_print(const ecornn_plan *plan, char *text, size_t size)
{
    if (eco_check_plan(plan) != ECORNN_OK || !eco_check_text(text, size))
        return -1;
    struct eco_caller caller;
    struct eco_text words = {text, size, 0};
    eco_caller_begin(&caller);
    add_text(plan, &words);
    eco_caller_end(&caller);
    return words.length > INT_MAX ? INT_MAX : (int)words.length;
}
