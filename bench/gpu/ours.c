/*
 * The library's side of a measurement on a GPU.
 */
#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t models_of(const ecornn_desc *desc)
{
    return desc->models > 1 ? (size_t)desc->models : 1;
}

static size_t inputs_of(const ecornn_desc *desc)
{
    return desc->flags & ECORNN_SHARED_INPUT ? 1 : models_of(desc);
}

size_t gpu_x_elements(const ecornn_desc *desc)
{
    return inputs_of(desc) * (size_t)desc->steps * (size_t)desc->batch * (size_t)desc->input;
}

size_t gpu_y_elements(const ecornn_desc *desc)
{
    return models_of(desc) * (size_t)desc->steps * (size_t)desc->batch *
           (size_t)(desc->proj ? desc->proj : desc->hidden) *
           (desc->direction == ECORNN_BIDIRECTIONAL ? 2 : 1);
}

bool gpu_ours_queue(void *self, cudaStream_t stream)
{
    struct gpu_ours *ours = self;
    const bool packs = ours->packs && ours->training;
    ours->io.stream = stream;
    ecornn_status status = ECORNN_OK;
    if (packs)
        status = ecornn_pack(ours->plan, ours->params, (void *)(uintptr_t)ours->io.weights, stream);
    if (status == ECORNN_OK)
        status = ecornn_forward(ours->plan, &ours->io);
    if (status == ECORNN_OK && ours->training)
        status = ecornn_backward(ours->plan, &ours->io, &ours->gradient);
    if (status == ECORNN_OK && packs)
        status = ecornn_unpack(ours->plan, ours->gradient.dweights, ours->dparams, 0, stream);
    if (status != ECORNN_OK)
        fprintf(stderr, "bench_gpu: %s\n", ecornn_error_detail());
    return status == ECORNN_OK;
}

char *gpu_resets(const char *problem)
{
    static const char part[] = "/resets:";
    char *const found = strstr(problem, part);
    return found ? found + sizeof part - 1 : NULL;
}

static void make_resets(struct gpu_ours *ours, const char *problem, const ecornn_desc *desc)
{
    const char *const percent = gpu_resets(problem);
    const size_t rows = inputs_of(desc) * (size_t)desc->steps * (size_t)desc->batch;
    uint8_t *const bytes = percent ? malloc(rows) : NULL;
    void *resets = NULL;
    if (!bytes)
        return;
    srand(1);
    for (size_t k = 0; k < rows; k++)
        bytes[k] = rand() / (RAND_MAX + 1.0) * 100 < strtod(percent, NULL);
    gpu_check(cudaMalloc(&resets, rows), "memory");
    gpu_check(cudaMemcpy(resets, bytes, rows, cudaMemcpyHostToDevice), "resets");
    ours->io.resets = resets;
    free(bytes);
}

static void make_params(struct gpu_ours *ours, const char *problem, const ecornn_desc *desc)
{
    const int count = ecornn_param_count(ours->plan);
    const size_t element = gpu_element(ours->param_type);
    ours->block =
        gpu_draw(ours->param_type, ours->sizes.params, 1 / sqrt(desc->hidden), GPU_PARAMS);
    ours->dblock = gpu_random(ours->param_type, ours->sizes.params, 1);
    ours->params = calloc((size_t)count, sizeof *ours->params);
    ours->dparams = calloc((size_t)count, sizeof *ours->dparams);
    for (int k = 0; ours->params && ours->dparams && k < count; k++) {
        ecornn_param at;
        gpu_check_ours(ecornn_param_get(ours->plan, k, &at), problem);
        ours->params[k] = (char *)ours->block + at.offset * element;
        ours->dparams[k] = (char *)ours->dblock + at.offset * element;
    }
}

void gpu_ours_make(struct gpu_ours *ours, const char *problem, const ecornn_desc *desc)
{
    const size_t x = gpu_x_elements(desc), y = gpu_y_elements(desc);
    const double from = gpu_now();
    gpu_check_ours(ecornn_plan_create(&ours->plan, ours->device, desc), problem);
    ours->plan_seconds = gpu_now() - from;
    ecornn_plan_sizes(ours->plan, &ours->sizes);
    ours->param_type = desc->type == ECORNN_F64 ? ECORNN_F64 : desc->param_type;
    ours->training = (desc->flags & ECORNN_TRAINING) != 0;
    make_params(ours, problem, desc);
    void *weights = ecornn_alloc(ours->device, ours->sizes.weights);
    ours->io = (ecornn_io){.size = sizeof ours->io,
                           .steps = ECORNN_ALL,
                           .batch = ECORNN_ALL,
                           .x = gpu_draw(desc->type, x, 1, GPU_X),
                           .y = gpu_random(desc->type, y, 1),
                           .weights = weights,
                           .workspace = ecornn_alloc(ours->device, ours->sizes.workspace),
                           .seed = 1};
    make_resets(ours, problem, desc);
    ours->gradient = (ecornn_gradient){.size = sizeof ours->gradient};
    if (ours->training) {
        ours->io.reserve = ecornn_alloc(ours->device, ours->sizes.reserve);
        ours->gradient.dy = gpu_draw(desc->type, y, 1, GPU_DY);
        ours->gradient.dx = gpu_random(desc->type, x, 1);
        ours->gradient.dweights = ecornn_alloc(ours->device, ours->sizes.dweights);
    }
    gpu_check_ours(ecornn_pack(ours->plan, ours->params, weights, NULL), problem);
    gpu_check_ours(ecornn_wait(ours->device, NULL), problem);
}

void gpu_ours_free(struct gpu_ours *ours)
{
    void *const blocks[] = {(void *)(uintptr_t)ours->io.x,
                            ours->io.y,
                            (void *)(uintptr_t)ours->io.weights,
                            ours->io.workspace,
                            (void *)(uintptr_t)ours->io.resets,
                            ours->io.reserve,
                            (void *)(uintptr_t)ours->gradient.dy,
                            ours->gradient.dx,
                            ours->gradient.dweights,
                            ours->block,
                            ours->dblock};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        cudaFree(blocks[i]);
    free(ours->params);
    free(ours->dparams);
    ecornn_plan_free(ours->plan);
}
