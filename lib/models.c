/*
 * Plans of several models, and their weights: the plan of one model, and blocks of it one after the
 * other.
 */
#include "lib/models.h"

#include "common/util.h"

/* So few models that each takes all threads; else each takes one. */
int eco_models_at_once(const ecornn_plan *plan)
{
    const int threads = plan->device->info.threads;
    return plan->problem.models >= threads ? threads : 1;
}

/* Blocks of so many models; more: bytes behind them. */
static size_t block_bytes(size_t bytes, int models, size_t more, bool *overflow)
{
    const struct eco_size each = eco_size_align(eco_size_of(bytes));
    const struct eco_size all = eco_size_add(eco_size_mul(each, (size_t)models), eco_size_of(more));
    *overflow |= each.overflow || all.overflow;
    return all.value;
}

/* dx of every model, before they are added up. */
static size_t shared_bytes(const struct eco_problem *problem, bool *overflow)
{
    if (!problem->training || !problem->shared)
        return 0;
    struct eco_size bytes = eco_size_of(eco_type_bytes(problem->type));
    const int32_t extent[] = {problem->models, problem->T, problem->N, problem->I};
    for (int k = 0; k < 4; k++)
        bytes = eco_size_mul(bytes, (size_t)extent[k]);
    *overflow |= bytes.overflow;
    return bytes.value;
}

static ecornn_status fix_sizes(ecornn_plan *plan)
{
    const ecornn_sizes *one = &plan->one->sizes;
    const int models = plan->problem.models;
    bool overflow = false;
    const size_t shared = shared_bytes(&plan->problem, &overflow);
    plan->sizes = (ecornn_sizes){
        .params = (size_t)models * one->params,
        .weights = block_bytes(one->weights, models, 0, &overflow),
        .dweights = block_bytes(one->dweights, models, 0, &overflow),
        .workspace = block_bytes(one->workspace, eco_models_at_once(plan), shared, &overflow),
        .reserve = block_bytes(one->reserve, models, 0, &overflow),
        .alignment = one->alignment};
    return overflow
               ? eco_fail(ECORNN_UNSUPPORTED, "%s: its blocks have more bytes than can be counted",
                          plan->problem.text)
               : ECORNN_OK;
}

ecornn_status eco_models_create(ecornn_plan **plan, ecornn_device *device,
                                const struct eco_problem *problem)
{
    struct eco_problem one;
    if (device->backend->together == NULL)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "models is %d, must be 1: device %s has no plans of several models",
                        problem->models, device->backend->name);
    ecornn_plan *made = eco_alloc_zeroed(sizeof *made);
    if (made == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for a plan of %zu bytes", sizeof *made);
    made->problem = *problem;
    made->device = device;
    eco_problem_of_one(&one, problem);
    ecornn_status status = eco_plan_create(&made->one, device, &one);
    if (status == ECORNN_OK)
        status = fix_sizes(made);
    if (status == ECORNN_OK)
        *plan = made;
    else
        eco_plan_free(made);
    return status;
}

/* ---- weights --------------------------------------------------------------------------------- */

static size_t params_of_one(const ecornn_plan *plan)
{
    return (size_t)eco_problem_params(&plan->problem);
}

ecornn_status eco_models_pack(const ecornn_plan *plan, const void *const *params, void *weights,
                              void *stream)
{
    const size_t stride = eco_models_stride(plan->one->sizes.weights);
    ecornn_status status = ECORNN_OK;
    for (int m = 0; status == ECORNN_OK && m < plan->problem.models; m++)
        status = ecornn_pack(plan->one, params + (size_t)m * params_of_one(plan),
                             (char *)weights + (size_t)m * stride, stream);
    return status;
}

ecornn_status eco_models_pack_add(const ecornn_plan *plan, const void *const *params, void *weights,
                                  void *stream)
{
    const size_t stride = eco_models_stride(plan->one->sizes.weights);
    ecornn_status status = ECORNN_OK;
    for (int m = 0; status == ECORNN_OK && m < plan->problem.models; m++)
        status = ecornn_pack_add(plan->one, params + (size_t)m * params_of_one(plan),
                                 (char *)weights + (size_t)m * stride, stream);
    return status;
}

ecornn_status eco_models_unpack(const ecornn_plan *plan, const void *dweights, void *const *dparams,
                                int add, void *stream)
{
    const size_t stride = eco_models_stride(plan->one->sizes.dweights);
    ecornn_status status = ECORNN_OK;
    for (int m = 0; status == ECORNN_OK && m < plan->problem.models; m++)
        status = ecornn_unpack(plan->one, (const char *)dweights + (size_t)m * stride,
                               dparams + (size_t)m * params_of_one(plan), add, stream);
    return status;
}
