/*
 * Makes layers from nodes and runs them.
 */
#include "ort/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const recurrent_inputs[] = {
    "X",         "W",           "R", "B",       "sequence_lens",
    "initial_h", "initial_c",   "P", "W_scale", "W_zero_point",
    "R_scale",   "R_zero_point"};
static const char *const attention_inputs[] = {"query",      "key",   "value",
                                               "past_state", "decay", "beta"};
/* clang-format off */
static const struct op ops[] = {
    {"", "LSTM", recurrent_inputs, recurrent_describe, recurrent_run, recurrent_prepare},
    {"", "GRU", recurrent_inputs, recurrent_describe, recurrent_run, recurrent_prepare},
    {"", "RNN", recurrent_inputs, recurrent_describe, recurrent_run, recurrent_prepare},
    {"com.microsoft", "DynamicQuantizeLSTM", recurrent_inputs, recurrent_describe, recurrent_run, recurrent_prepare},
    {"", "LinearAttention", attention_inputs, attention_describe, attention_run, NULL},
    {"com.microsoft", "LinearAttention", attention_inputs, attention_describe, attention_run, NULL},
};
/* clang-format on */

const struct op *find_op(const char *domain, const char *name)
{
    domain = strcmp(domain, "ai.onnx") == 0 ? "" : domain;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i].domain, domain) == 0 && strcmp(ops[i].name, name) == 0)
            return &ops[i];
    return NULL;
}

const char *words_of_element(int element, size_t *bytes)
{
    *bytes = element == ORT_F64 ? 8 : element == ORT_F32 ? 4 : 2;
    return element == ORT_F32    ? "f32"
           : element == ORT_F64  ? "f64"
           : element == ORT_BF16 ? "bf16/bf16-params"
                                 : NULL;
}

/* ---- a run ----------------------------------------------------------------------------------- */

bool run_input(struct run *run, int index, struct tensor *tensor, int element, const int64_t *sizes,
               size_t rank)
{
    const struct ort_api *const api = run->layer->api;
    const int place = run->layer->input[index];
    const char *const name = run->layer->op->inputs[index];
    const ort_value *value = NULL;
    *tensor = (struct tensor){0};
    if (place >= 0 && !passed(api, api->input(run->context, (size_t)place, &value), &run->reason))
        return false;
    if (!value)
        return true;
    if (!value_read(api, value, tensor, &run->reason))
        return false;
    return !element || tensor_check(tensor, name, element, sizes, rank, &run->reason);
}

bool run_output(struct run *run, int index, void *data, const int64_t *sizes, size_t rank)
{
    const struct ort_api *const api = run->layer->api;
    const int place = run->layer->output[index];
    ort_value *value = NULL;
    *(void **)data = NULL;
    if (place >= 0 &&
        !passed(api, api->output(run->context, (size_t)place, sizes, rank, &value), &run->reason))
        return false;
    return !value || passed(api, api->mutable_data(value, data), &run->reason);
}

void *run_memory(struct run *run, size_t bytes)
{
    void *const memory = run->scratch.memory + run->used;
    const size_t alignment = run->planned->sizes.alignment;
    run->used += (bytes + alignment - 1) / alignment * alignment;
    return memory;
}

bool run_begin(struct run *run, params_of *find, void *owner, size_t more)
{
    struct layer *const layer = run->layer;
    ecornn_io *const io = &run->io;
    if (run->steps < 0 || run->batch < 0 || run->steps > INT32_MAX / 2 ||
        run->batch > INT32_MAX / 2)
        return refuse(&run->reason, "it is given %lld steps of %lld rows", (long long)run->steps,
                      (long long)run->batch);
    const ecornn_status status =
        plans_take(&layer->plans, layer->problem, layer->cell, run->steps, run->batch,
                   layer->constant ? find : NULL, owner, &run->planned);
    if (status != ECORNN_OK)
        return refuse_status(&run->reason, status);
    const ecornn_sizes *const sizes = &run->planned->sizes;
    const bool packs = find && !run->planned->packed;
    if (packs && !find(owner, run->planned->plan, sizes->param_count, &run->params))
        return refuse(&run->reason, "its parameters are not known");
    run->scratch =
        scratch_take(&layer->plans, sizes->workspace_bytes + (packs ? sizes->weight_bytes : 0) +
                                        more + 10 * sizes->alignment);
    if (!run->scratch.memory)
        return refuse(&run->reason, "no memory");
    io->size = sizeof *io;
    io->workspace = run_memory(run, sizes->workspace_bytes);
    io->workspace_bytes = sizes->workspace_bytes;
    io->weights = packs ? run_memory(run, sizes->weight_bytes) : run->planned->weights;
    io->params = packs ? run->params.at : NULL;
    io->added = packs ? run->params.added : NULL;
    return true;
}

bool run_forward(struct run *run)
{
    const ecornn_status status =
        ecornn_forward(run->planned->plan, (int32_t)run->steps, (int32_t)run->batch, &run->io);
    return status == ECORNN_OK || refuse_status(&run->reason, status);
}

static ort_status *compute(struct ort_compute *self, void *state, ort_context *context)
{
    struct layer *const layer = (struct layer *)self;
    struct run run = {.layer = layer, .context = context};
    (void)state;
    const bool done = layer->op->run(&run);
    if (run.scratch.memory)
        scratch_return(&layer->plans, run.scratch);
    if (run.planned)
        plans_return(&layer->plans, run.planned);
    /* Not ORT_EP_FAIL, for which Python's sessions start again without this provider. */
    return done ? NULL
                : failed(layer->api, ORT_FAIL, "%s '%s': %s", layer->op->name, layer->name,
                         run.reason.text);
}

/* ---- making ---------------------------------------------------------------------------------- */

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

/* Does the library take the smallest run?  Others differ in T and N only. */
static bool try_plan(struct layer *layer, struct reason *reason)
{
    char text[256];
    ecornn_plan *plan = NULL;
    snprintf(text, sizeof text, "%s/T1/N1", layer->problem);
    const ecornn_status status = ecornn_plan_create(
        &plan, layer->device, text, (const ecornn_cell *const[]){layer->cell, NULL});
    ecornn_plan_free(plan);
    return status == ECORNN_OK || refuse_status(reason, status);
}

struct layer *layer_create(const struct ort_api *api, ecornn_device *device, const char *precision,
                           const struct node *node, struct reason *reason)
{
    struct layer *const layer = calloc(1, sizeof *layer);
    if (!layer) {
        refuse(reason, "no memory");
        return NULL;
    }
    layer->face = (struct ort_compute){ORT_VERSION, create_state, compute, release_state};
    layer->api = api;
    layer->device = device;
    layer->precision = precision;
    layer->op = find_op(node->domain, node->operator_name);
    layer->node = node;
    snprintf(layer->name, sizeof layer->name, "%s", node->name);
    memset(layer->input, -1, sizeof layer->input);
    memset(layer->output, -1, sizeof layer->output);
    plans_begin(&layer->plans, device);
    if (layer->op && layer->op->describe(layer, reason) && try_plan(layer, reason))
        return layer;
    layer_free(layer);
    return NULL;
}

void layer_free(struct layer *layer)
{
    if (!layer)
        return;
    plans_end(&layer->plans);
    ecornn_cell_free(layer->cell);
    ecornn_free(layer->device, layer->zeros);
    free(layer);
}
