/*
 * The model's memory, its recurrent layers, and the embedding and softmax layers around them.
 */
#include "charlm.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *on_device(const struct model *model, size_t bytes)
{
    void *memory = ecornn_alloc(model->device, bytes ? bytes : 1);
    if (!memory)
        die(1, "no memory for %zu bytes on the device", bytes);
    return memory;
}

static struct array array_of(const struct model *model, size_t count)
{
    struct array array = {.bytes = count * sizeof(float)};
    array.device = on_device(model, array.bytes);
    array.host = model->on_host ? array.device : allocate(count, sizeof(float));
    memset(array.host, 0, array.bytes);
    return array;
}

static void array_free(struct array *array, const struct model *model)
{
    if (array->host != array->device)
        free(array->host);
    ecornn_free(model->device, array->device);
}

static void upload(const struct array *array, const struct model *model)
{
    if (array->host != array->device)
        check(ecornn_upload(model->device, array->device, array->host, array->bytes));
}

static void download(const struct array *array, const struct model *model)
{
    if (array->host != array->device)
        check(ecornn_download(model->device, array->host, array->device, array->bytes));
}

/* ---- memory ---------------------------------------------------------------------------------- */

void model_plan(struct model *model, ecornn_device *device, const struct model_shape *shape)
{
    ecornn_device_info info = {.size = sizeof info};
    const ecornn_desc desc = {.size = sizeof desc,
                              .cell = shape->cell,
                              .input = shape->embedding,
                              .hidden = shape->hidden,
                              .layers = shape->layers,
                              .steps = shape->steps,
                              .batch = shape->batch,
                              .dropout = shape->dropout,
                              .flags = ECORNN_TRAINING,
                              .memory_limit = shape->memory};
    *model = (struct model){.shape = *shape, .device = device, .sizes.size = sizeof model->sizes};
    check(ecornn_device_query(device, &info));
    check(ecornn_plan_create_desc(&model->plan, device, &desc));
    ecornn_plan_sizes(model->plan, &model->sizes);
    model->on_host = !strcmp(info.backend, "cpu") || !strcmp(info.backend, "reference");
    check(ecornn_cell_states(shape->cell, &model->states, NULL));
    model->params =
        model->sizes.param_elements +
        (size_t)shape->alphabet * ((size_t)shape->embedding + (size_t)shape->hidden + 1);
}

/* Pointers to the parameters of the plan in a block of them. */
static void **point_into(const struct model *model, const struct array *block)
{
    const int count = model->sizes.param_count;
    void **pointers = allocate((size_t)count, sizeof *pointers);
    for (int k = 0; k < count; k++) {
        ecornn_param param = {.size = sizeof param};
        check(ecornn_param_get(model->plan, k, &param));
        pointers[k] = block->device + param.offset;
    }
    return pointers;
}

void model_allocate(struct model *model)
{
    const struct model_shape *shape = &model->shape;
    const size_t V = (size_t)shape->alphabet, E = (size_t)shape->embedding;
    const size_t H = (size_t)shape->hidden, rows = (size_t)shape->steps * (size_t)shape->batch;
    model->theta = allocate(model->params, sizeof(float));
    model->dtheta = allocate(model->params, sizeof(float));
    model->embedding = model->theta + model->sizes.param_elements;
    model->dembedding = model->dtheta + model->sizes.param_elements;
    model->weight = model->embedding + V * E;
    model->dweight = model->dembedding + V * E;
    model->bias = model->weight + V * H;
    model->dbias = model->dweight + V * H;
    model->logits = allocate(rows * V, sizeof(float));
    model->losses = allocate(rows, sizeof(double));
    model->packed = on_device(model, model->sizes.weight_bytes);
    model->workspace = on_device(model, model->sizes.workspace_bytes);
    model->block = array_of(model, model->sizes.param_elements);
    model->pointers = point_into(model, &model->block);
    model->x = array_of(model, rows * E);
    model->y = array_of(model, rows * H);
    model->dpacked = on_device(model, model->sizes.dweight_bytes);
    model->reserve = on_device(model, model->sizes.reserve_bytes);
    model->dblock = array_of(model, model->sizes.param_elements);
    model->dpointers = point_into(model, &model->dblock);
    model->dx = array_of(model, rows * E);
    model->dy = array_of(model, rows * H);
    carry_allocate(&model->training, model);
}

void model_free(struct model *model)
{
    struct array *const arrays[] = {&model->block, &model->dblock, &model->x,
                                    &model->y,     &model->dx,     &model->dy};
    void *const device[] = {model->packed, model->dpacked, model->workspace, model->reserve};
    void *const host[] = {model->theta,  model->dtheta,   model->logits,
                          model->losses, model->pointers, model->dpointers};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++)
        array_free(arrays[k], model);
    for (size_t k = 0; k < sizeof device / sizeof *device; k++)
        ecornn_free(model->device, device[k]);
    for (size_t k = 0; k < sizeof host / sizeof *host; k++)
        free(host[k]);
    carry_free(&model->training, model);
    ecornn_plan_free(model->plan);
}

void carry_allocate(struct carry *carry, const struct model *model)
{
    const struct model_shape *shape = &model->shape;
    const size_t count = (size_t)shape->layers * (size_t)shape->batch * (size_t)shape->hidden;
    *carry = (struct carry){.now = 0};
    for (int s = 0; s < model->states; s++)
        for (int k = 0; k < 2; k++)
            carry->state[k][s] = array_of(model, count);
    carry_reset(carry, model);
}

void carry_reset(struct carry *carry, const struct model *model)
{
    carry->now = 0;
    for (int s = 0; s < model->states; s++) {
        memset(carry->state[0][s].host, 0, carry->state[0][s].bytes);
        upload(&carry->state[0][s], model);
    }
}

void carry_free(struct carry *carry, const struct model *model)
{
    for (int s = 0; s < model->states; s++)
        for (int k = 0; k < 2; k++)
            array_free(&carry->state[k][s], model);
}

/* ---- weights --------------------------------------------------------------------------------- */

static void fill_random(float *to, size_t count, float bound, uint64_t *random)
{
    for (size_t k = 0; k < count; k++)
        to[k] = bound * (2 * random_uniform(random) - 1);
}

/* A parameter such as "0.fwd.b.f" is of the kind "b.f": W, R, b or p, and the line of the cell. */
static const char *kind_of(const char *name)
{
    const char *point = strrchr(name, '.');
    return point && point > name ? point - 1 : name;
}

void model_initialise(struct model *model, uint64_t seed)
{
    const size_t V = (size_t)model->shape.alphabet, E = (size_t)model->shape.embedding;
    const size_t H = (size_t)model->shape.hidden;
    const ecornn_cell *cell = model->shape.cell;
    const bool lstm = cell == find_cell("lstm") || cell == find_cell("lstm-peephole");
    const float bound = 1 / sqrtf((float)H);
    for (int k = 0; k < model->sizes.param_count; k++) {
        ecornn_param param = {.size = sizeof param};
        check(ecornn_param_get(model->plan, k, &param));
        float *to = model->theta + param.offset;
        const size_t count = (size_t)param.rows * (size_t)param.cols;
        if (strchr("WR", *kind_of(param.name)))
            fill_random(to, count, bound, &seed);
        else if (lstm && !strcmp(kind_of(param.name), "b.f"))
            for (size_t j = 0; j < count; j++)
                to[j] = 1;
    }
    fill_random(model->embedding, V * E, 1, &seed);
    fill_random(model->weight, V * H, bound, &seed);
}

void model_pack(struct model *model)
{
    memcpy(model->block.host, model->theta, model->block.bytes);
    upload(&model->block, model);
    check(
        ecornn_pack(model->plan, (const void *const *)model->pointers, NULL, model->packed, NULL));
}

/* ---- a window -------------------------------------------------------------------------------- */

static ecornn_io io_of(const struct model *model, const struct carry *carry, int from,
                       const struct window *window)
{
    ecornn_io io = {.size = sizeof io,
                    .x = model->x.device,
                    .y = model->y.device,
                    .weights = model->packed,
                    .workspace = model->workspace,
                    .reserve = carry == &model->training ? model->reserve : NULL,
                    .seed = window->seed};
    for (int s = 0; s < model->states; s++) {
        io.initial[s] = carry->state[from][s].device;
        io.final[s] = carry->state[!from][s].device;
    }
    return io;
}

void model_forward(struct model *model, struct carry *carry, const struct window *window)
{
    const int rows = window->steps * window->batch, V = model->shape.alphabet;
    const int H = model->shape.hidden;
    const size_t E = (size_t)model->shape.embedding;
    const ecornn_io io = io_of(model, carry, carry->now, window);
    for (size_t row = 0; row < (size_t)rows; row++)
        memcpy(model->x.host + row * E, model->embedding + window->input[row] * E,
               E * sizeof(float));
    upload(&model->x, model);
    check(ecornn_forward(model->plan, window->steps, window->batch, &io));
    download(&model->y, model);
    carry->now = !carry->now;
    for (size_t row = 0; row < (size_t)rows; row++)
        memcpy(model->logits + row * (size_t)V, model->bias, (size_t)V * sizeof(float));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, V, H, 1, model->y.host, H,
                model->weight, H, 1, model->logits, V);
}

/* Cross-entropy of one row in nats; z [V] becomes scale * (softmax - one at the target). */
static double loss_of_row(float *z, int V, int target, float scale)
{
    float highest = z[0], sum = 0;
    for (int v = 1; v < V; v++)
        highest = z[v] > highest ? z[v] : highest;
    const float target_logit = z[target] - highest;
    for (int v = 0; v < V; v++) {
        z[v] = expf(z[v] - highest);
        sum += z[v];
    }
    for (int v = 0; v < V; v++)
        z[v] *= scale / sum;
    z[target] -= scale;
    return log((double)sum) - (double)target_logit;
}

double model_loss(struct model *model, const struct window *window)
{
    const int rows = window->steps * window->batch, V = model->shape.alphabet;
    double nats = 0;
#pragma omp parallel for schedule(static)
    for (int row = 0; row < rows; row++)
        model->losses[row] = loss_of_row(model->logits + (size_t)row * (size_t)V, V,
                                         window->target[row], 1 / (float)rows);
    for (int row = 0; row < rows; row++) /* in order: the same sum for any number of threads */
        nats += model->losses[row];
    return nats / log(2);
}

void model_backward(struct model *model, const struct window *window)
{
    const int rows = window->steps * window->batch, V = model->shape.alphabet;
    const int H = model->shape.hidden;
    const size_t E = (size_t)model->shape.embedding;
    const ecornn_io io = io_of(model, &model->training, !model->training.now, window);
    const ecornn_gradient gradient = {.size = sizeof gradient,
                                      .dy = model->dy.device,
                                      .dx = model->dx.device,
                                      .dweights = model->dpacked};
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, V, H, rows, 1, model->logits, V,
                model->y.host, H, 0, model->dweight, H);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, H, V, 1, model->logits, V,
                model->weight, H, 0, model->dy.host, H);
    upload(&model->dy, model);
    check(ecornn_backward(model->plan, window->steps, window->batch, &io, &gradient));
    check(ecornn_unpack(model->plan, model->dpacked, model->dpointers, 0, NULL));
    download(&model->dx, model);
    download(&model->dblock, model);
    memcpy(model->dtheta, model->dblock.host, model->dblock.bytes);
    memset(model->dembedding, 0, (size_t)V * E * sizeof(float));
    memset(model->dbias, 0, (size_t)V * sizeof(float));
    for (size_t row = 0; row < (size_t)rows; row++) {
        for (size_t e = 0; e < E; e++)
            model->dembedding[window->input[row] * E + e] += model->dx.host[row * E + e];
        for (size_t v = 0; v < (size_t)V; v++)
            model->dbias[v] += model->logits[row * (size_t)V + v];
    }
}
