/*
 * Makes layers from nodes and runs them.
 */
#include "ort/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int element;
    size_t bytes;
    const char *words;
} elements[] = {
    {ORT_F32, 4, "f32"},
    {ORT_F64, 8, "f64"},
    {ORT_BF16, 2, "bf16/bf16-params"},
};

static int place_of_element(int element)
{
    int i = (int)(sizeof elements / sizeof *elements);
    while (--i >= 0 && elements[i].element != element)
        ;
    return i;
}

const char *words_of_element(int element)
{
    const int i = place_of_element(element);
    return i < 0 ? NULL : elements[i].words;
}

size_t bytes_of_element(int element)
{
    const int i = place_of_element(element);
    return i < 0 ? 0 : elements[i].bytes;
}

bool refuse_status(struct reason *reason, ecornn_status status)
{
    const char *const detail = ecornn_error_detail();
    return refuse(reason, "%s", *detail ? detail : ecornn_status_name(status));
}

/* ---- a run ----------------------------------------------------------------------------------- */

static ort_status *run(struct ort_compute *self, void *state, ort_context *context)
{
    struct layer *const layer = (struct layer *)self;
    struct reason reason = {""};
    (void)state;
    if (layer->op->run(layer, context, &reason))
        return NULL;
    /* Not ORT_EP_FAIL, for which Python sessions start again without this provider. */
    return failed(layer->provider->api, ORT_FAIL, "%s '%s': %s", layer->op->name, layer->name,
                  reason.text);
}

/* A layer is its own state: what runs change in it has a lock. */
static ort_status *create_state(struct ort_compute *self, void *context, void **state)
{
    (void)context;
    *state = self;
    return NULL;
}

static void release_state(struct ort_compute *self, void *state)
{
    (void)self;
    (void)state;
}

bool layer_input(const struct layer *layer, ort_context *context, int index, struct tensor *tensor,
                 struct reason *reason)
{
    const struct ort_api *const api = layer->provider->api;
    const ort_value *value = NULL;
    *tensor = (struct tensor){0};
    if (layer->input[index] < 0)
        return true;
    if (!passed(api, api->input(context, (size_t)layer->input[index], &value), reason))
        return false;
    return !value || value_read(api, value, tensor, reason);
}

bool layer_output(const struct layer *layer, ort_context *context, int index, const int64_t *sizes,
                  size_t rank, void **data, struct reason *reason)
{
    const struct ort_api *const api = layer->provider->api;
    ort_value *value = NULL;
    *data = NULL;
    if (layer->output[index] < 0)
        return true;
    const size_t place = (size_t)layer->output[index];
    if (!passed(api, api->output(context, place, sizes, rank, &value), reason))
        return false;
    return !value || passed(api, api->mutable_data(value, data), reason);
}

bool check_tensor(const struct tensor *tensor, const char *name, int element, const int64_t *sizes,
                  size_t rank, struct reason *reason)
{
    if (!tensor->element)
        return true;
    if (tensor->element != element)
        return refuse(reason, "%s is of ONNX's type %d, must be %d", name, tensor->element,
                      element);
    if (tensor->rank != rank)
        return refuse(reason, "%s has %zu dimensions, must have %zu", name, tensor->rank, rank);
    for (size_t i = 0; i < rank; i++)
        if (tensor->size[i] != sizes[i])
            return refuse(reason, "dimension %zu of %s is %lld, must be %lld", i, name,
                          (long long)tensor->size[i], (long long)sizes[i]);
    return true;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Does the library take the smallest run?  Others differ in T and N only. */
static bool try_plan(const struct layer *layer, struct reason *reason)
{
    char text[256];
    ecornn_plan *plan = NULL;
    snprintf(text, sizeof text, "%s/T1/N1", layer->problem);
    const ecornn_status status = ecornn_plan_create(
        &plan, layer->provider->device, text, (const ecornn_cell *const[]){layer->cell, NULL});
    ecornn_plan_free(plan);
    return status == ECORNN_OK || refuse_status(reason, status);
}

struct layer *layer_create(const struct provider *provider, const struct node *node,
                           struct reason *reason)
{
    struct layer *const layer = calloc(1, sizeof *layer);
    if (!layer) {
        refuse(reason, "no memory");
        return NULL;
    }
    layer->face = (struct ort_compute){ORT_VERSION, create_state, run, release_state};
    layer->provider = provider;
    layer->op = find_op(node->domain, node->operator_name);
    layer->node = node;
    snprintf(layer->name, sizeof layer->name, "%s", node->name);
    memset(layer->input, -1, sizeof layer->input);
    memset(layer->output, -1, sizeof layer->output);
    plans_begin(&layer->plans, provider->device);
    if (layer->op && layer->op->describe(layer, reason) && try_plan(layer, reason)) {
        layer->node = NULL;
        return layer;
    }
    layer_free(layer);
    return NULL;
}

void layer_free(struct layer *layer)
{
    if (!layer)
        return;
    plans_end(&layer->plans);
    ecornn_cell_free(layer->cell);
    ecornn_free(layer->provider->device, layer->zeros);
    free(layer);
}
