/*
 * The model's memory and its passes through the recurrent layers.
 */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A failed call of the library, with its own words. */
static bool check(ecornn_status status, struct complaint *why)
{
    return status == ECORNN_OK ||
           complain(why, "%s: %s", ecornn_status_name(status), ecornn_error_detail());
}

static bool array_allocate(struct array *array, const struct model *model, size_t count)
{
    array->bytes = count * sizeof(float);
    array->device = ecornn_alloc(model->device, array->bytes);
    array->host = model->on_host ? array->device : malloc(array->bytes);
    if (array->host)
        memset(array->host, 0, array->bytes);
    return array->host && array->device;
}

static void array_free(struct array *array, const struct model *model)
{
    if (array->host != array->device)
        free(array->host);
    ecornn_free(model->device, array->device);
    *array = (struct array){0};
}

static bool array_up(const struct array *array, const struct model *model, struct complaint *why)
{
    return array->host == array->device ||
           check(ecornn_upload(model->device, array->device, array->host, array->bytes), why);
}

static bool array_down(const struct array *array, const struct model *model, struct complaint *why)
{
    return array->host == array->device ||
           check(ecornn_download(model->device, array->host, array->device, array->bytes), why);
}

bool model_plan(struct model *model, ecornn_device *device, const struct model_shape *shape,
                struct complaint *why)
{
    ecornn_device_info info;
    const ecornn_desc desc = {.cell = shape->cell,
                              .input = shape->embedding,
                              .hidden = shape->hidden,
                              .layers = shape->layers,
                              .steps = shape->steps,
                              .batch = shape->batch,
                              .dropout = shape->dropout,
                              .flags = shape->training ? ECORNN_TRAINING : 0,
                              .memory_limit = shape->memory};
    *model = (struct model){.shape = *shape, .device = device};
    if (!check(ecornn_device_query(device, &info), why) ||
        !check(ecornn_plan_create(&model->plan, device, &desc), why))
        return false;
    ecornn_plan_sizes(model->plan, &model->sizes);
    model->on_host = !strcmp(info.backend, "cpu") || !strcmp(info.backend, "reference");
    model->states = ecornn_cell_states(shape->cell);
    const size_t V = (size_t)shape->alphabet;
    model->params =
        model->sizes.params + V * ((size_t)shape->embedding + (size_t)shape->hidden + 1);
    return true;
}

static bool point_at_params(struct model *model, struct complaint *why)
{
    const int count = ecornn_param_count(model->plan);
    model->pointers = calloc((size_t)count, sizeof *model->pointers);
    model->dpointers = calloc((size_t)count, sizeof *model->dpointers);
    if (!model->pointers || !model->dpointers)
        return complain(why, "no memory for %d pointers", count);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        if (!check(ecornn_param_get(model->plan, k, &param), why))
            return false;
        model->pointers[k] = model->block.device + param.offset;
        if (model->shape.training)
            model->dpointers[k] = model->dblock.device + param.offset;
    }
    return true;
}

static void divide_theta(struct model *model)
{
    const size_t V = (size_t)model->shape.alphabet, E = (size_t)model->shape.embedding;
    const size_t H = (size_t)model->shape.hidden, at = model->sizes.params;
    model->embedding = model->theta + at;
    model->weight = model->embedding + V * E;
    model->bias = model->weight + V * H;
    model->dembedding = model->dtheta + at;
    model->dweight = model->dembedding + V * E;
    model->dbias = model->dweight + V * H;
}

static bool allocate_training(struct model *model, size_t rows)
{
    const size_t E = (size_t)model->shape.embedding, H = (size_t)model->shape.hidden;
    model->dpacked = ecornn_alloc(model->device, model->sizes.dweights);
    model->reserve = ecornn_alloc(model->device, model->sizes.reserve);
    return model->dpacked && model->reserve &&
           array_allocate(&model->dblock, model, model->sizes.params) &&
           array_allocate(&model->dx, model, rows * E) &&
           array_allocate(&model->dy, model, rows * H);
}

bool model_allocate(struct model *model, struct complaint *why)
{
    const struct model_shape *shape = &model->shape;
    const size_t rows = (size_t)shape->steps * (size_t)shape->batch;
    const size_t workspace = model->sizes.workspace ? model->sizes.workspace : 1;
    model->theta = calloc(model->params, sizeof(float));
    model->dtheta = calloc(model->params, sizeof(float));
    model->logits = calloc(rows * (size_t)shape->alphabet, sizeof(float));
    model->losses = calloc(rows, sizeof(double));
    model->packed = ecornn_alloc(model->device, model->sizes.weights);
    model->workspace = ecornn_alloc(model->device, workspace);
    if (!model->theta || !model->dtheta || !model->logits || !model->losses || !model->packed ||
        !model->workspace || !array_allocate(&model->block, model, model->sizes.params) ||
        !array_allocate(&model->x, model, rows * (size_t)shape->embedding) ||
        !array_allocate(&model->y, model, rows * (size_t)shape->hidden) ||
        (shape->training && !allocate_training(model, rows)))
        return complain(why, "no memory for a model of %zu parameters", model->params);
    divide_theta(model);
    return point_at_params(model, why) && carry_allocate(&model->carry, model, why);
}

void model_free(struct model *model)
{
    struct array *const arrays[] = {&model->block, &model->dblock, &model->x,
                                    &model->y,     &model->dx,     &model->dy};
    void *const blocks[] = {model->packed, model->dpacked, model->workspace, model->reserve};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
        array_free(arrays[k], model);
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
        ecornn_free(model->device, blocks[k]);
    carry_free(&model->carry, model);
    free(model->theta);
    free(model->dtheta);
    free(model->logits);
    free(model->losses);
    free(model->pointers);
    free(model->dpointers);
    ecornn_plan_free(model->plan);
    *model = (struct model){0};
}

static void fill_random(float *to, size_t count, float bound, uint64_t *random)
{
    for (size_t k = 0; k < count; k++)
        to[k] = bound * (2 * random_uniform(random) - 1);
}

/* "0.fwd.b.f": what a parameter is, W R b or p, stands before the last point. */
static const char *kind_of(const char *name)
{
    const char *point = strrchr(name, '.');
    return point && point > name ? point - 1 : name;
}

/* In other cells a line f may mean anything. */
static bool is_forget_bias(const struct model *model, const char *name)
{
    const char *const lstms[] = {"lstm", "lstm-peephole"};
    for (size_t k = 0; k < sizeof lstms / sizeof *lstms; k++)
        if (model->shape.cell == ecornn_cell_find(lstms[k]))
            return !strcmp(kind_of(name), "b.f");
    return false;
}

void model_initialise(struct model *model, uint64_t seed)
{
    const size_t V = (size_t)model->shape.alphabet, E = (size_t)model->shape.embedding;
    const size_t H = (size_t)model->shape.hidden;
    const float bound = 1 / sqrtf((float)H);
    uint64_t random = seed;
    for (int k = 0; k < ecornn_param_count(model->plan); k++) {
        ecornn_param param;
        if (ecornn_param_get(model->plan, k, &param) != ECORNN_OK)
            continue;
        const size_t count = (size_t)param.rows * (size_t)param.cols;
        if (strchr("WR", *kind_of(param.name)))
            fill_random(model->theta + param.offset, count, bound, &random);
        else
            for (size_t j = 0; j < count; j++)
                model->theta[param.offset + j] = is_forget_bias(model, param.name) ? 1 : 0;
    }
    fill_random(model->embedding, V * E, 1, &random);
    fill_random(model->weight, V * H, bound, &random);
}

bool carry_allocate(struct carry *carry, const struct model *model, struct complaint *why)
{
    const size_t count =
        (size_t)model->shape.layers * (size_t)model->shape.batch * (size_t)model->shape.hidden;
    for (int s = 0; s < 2 * model->states; s++)
        if (!array_allocate(&carry->state[s & 1][s >> 1], model, count))
            return complain(why, "no memory for states of %zu elements", count);
    carry_reset(carry, model);
    return true;
}

void carry_reset(struct carry *carry, const struct model *model)
{
    struct complaint
        ignored; /* memory on the device that cannot be written shows in the next run */
    carry->now = 0;
    for (int s = 0; s < model->states; s++) {
        memset(carry->state[0][s].host, 0, carry->state[0][s].bytes);
        array_up(&carry->state[0][s], model, &ignored);
    }
}

void carry_free(struct carry *carry, const struct model *model)
{
    for (int s = 0; s < 2 * ECORNN_MAX_STATES; s++)
        array_free(&carry->state[s & 1][s >> 1], model);
}

bool model_pack(struct model *model, struct complaint *why)
{
    memcpy(model->block.host, model->theta, model->block.bytes);
    return array_up(&model->block, model, why) &&
           check(
               ecornn_pack(model->plan, (const void *const *)model->pointers, model->packed, NULL),
               why);
}

static ecornn_io io_of(const struct model *model, const struct carry *carry, int from,
                       const struct window *window)
{
    ecornn_io io = {.size = sizeof io,
                    .steps = window->steps,
                    .batch = window->batch,
                    .x = model->x.device,
                    .y = model->y.device,
                    .weights = model->packed,
                    .workspace = model->workspace,
                    .seed = window->seed};
    for (int s = 0; s < model->states; s++) {
        io.initial[s] = carry->state[from][s].device;
        io.final[s] = carry->state[!from][s].device;
    }
    return io;
}

bool model_forward(struct model *model, struct carry *carry, const struct window *window,
                   struct complaint *why)
{
    ecornn_io io = io_of(model, carry, carry->now, window);
    if (carry == &model->carry) /* any other is of held-out text: inference */
        io.reserve = model->reserve;
    embedding_gather(model, window);
    if (!array_up(&model->x, model, why) || !check(ecornn_forward(model->plan, &io), why) ||
        !array_down(&model->y, model, why))
        return false;
    carry->now = !carry->now;
    output_forward(model, (size_t)window->steps * (size_t)window->batch);
    return true;
}

bool model_backward(struct model *model, const struct window *window, struct complaint *why)
{
    ecornn_io io = io_of(model, &model->carry, !model->carry.now, window);
    const ecornn_gradient gradient = {.size = sizeof gradient,
                                      .dy = model->dy.device,
                                      .dx = model->dx.device,
                                      .dweights = model->dpacked};
    io.reserve = model->reserve;
    output_backward(model, (size_t)window->steps * (size_t)window->batch);
    if (!array_up(&model->dy, model, why) ||
        !check(ecornn_backward(model->plan, &io, &gradient), why) ||
        !check(ecornn_unpack(model->plan, model->dpacked, model->dpointers, 0, NULL), why) ||
        !array_down(&model->dx, model, why) || !array_down(&model->dblock, model, why))
        return false;
    memcpy(model->dtheta, model->dblock.host, model->dblock.bytes);
    embedding_scatter(model, window);
    return true;
}
