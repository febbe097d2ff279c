/* Plans of several models: the plan of one model, and the sizes of the blocks of all models, which
 * follow each other. */
#include "common/compose/models.h"

#include <string.h>

#include "common/compose/arena.h"

/* Bytes of the blocks of this number of models; more: bytes that follow them. */
static size_t block_bytes(size_t bytes, int models, size_t more, bool *overflow)
{
    const struct eco_size each = eco_size_align(eco_size_of(bytes));
    const struct eco_size all = eco_size_add(eco_size_mul(each, (size_t)models), eco_size_of(more));
    *overflow |= each.overflow || all.overflow;
    return all.value;
}

/* Bytes of dx of every model, before they are added up. */
static size_t shared_bytes(const struct eco_problem *problem, int32_t T, int32_t N, bool *overflow)
{
    if (!problem->training || !problem->shared)
        return 0;
    const struct eco_size bytes =
        eco_arena_numbers((size_t)problem->models * eco_type_bytes(problem->type), (size_t)T,
                          (size_t)N, (size_t)problem->I);
    *overflow |= bytes.overflow;
    return bytes.value;
}

/* Sizes of a run in which each model has the sizes `one`. */
static ecornn_sizes sizes_of(const struct ecornn_plan *plan, const ecornn_sizes *one, int32_t T,
                             int32_t N, bool *overflow)
{
    const int models = plan->problem.models;
    const size_t shared = shared_bytes(&plan->problem, T, N, overflow);
    const struct eco_size params = eco_size_mul(eco_size_of(one->param_elements), (size_t)models);
    ecornn_sizes all = *one;
    *overflow |= params.overflow;
    all.param_elements = params.value;
    all.weight_bytes = block_bytes(one->weight_bytes, models, 0, overflow);
    all.dweight_bytes = block_bytes(one->dweight_bytes, models, 0, overflow);
    all.workspace_bytes = block_bytes(one->workspace_bytes, plan->concurrent, shared, overflow);
    all.reserve_bytes = block_bytes(one->reserve_bytes, models, 0, overflow);
    all.param_count = one->param_count * models;
    all.models = models;
    return all;
}

ecornn_sizes eco_models_sizes(const struct ecornn_plan *plan, int32_t T, int32_t N)
{
    const ecornn_sizes one = eco_plan_sizes(plan->one, T, N);
    bool overflow = false;
    return sizes_of(plan, &one, T, N, &overflow);
}

static ecornn_status fix_sizes(struct ecornn_plan *plan)
{
    bool overflow = false;
    plan->sizes = sizes_of(plan, &plan->one->sizes, plan->problem.T, plan->problem.N, &overflow);
    return overflow
               ? eco_fail(ECORNN_UNSUPPORTED, "%s: its blocks have more bytes than can be counted",
                          plan->problem.text)
               : ECORNN_OK;
}

/* The partition of a device, as a device for a run. */
static struct ecornn_device *part_of(const struct ecornn_device *device,
                                     const struct eco_caps *caps)
{
    struct ecornn_device *part = eco_alloc_zeroed(sizeof *part);
    if (part == NULL)
        return NULL;
    part->backend = device->backend;
    part->caps = *caps;
    part->info = device->info;
    part->context = device->context;
    part->id = device->id;
    memcpy(part->identity, device->identity, sizeof part->identity);
    return part;
}

/* Plans a model in a partition. Forced choices come before the algorithm that has partitions.
 * Wisdom is not used, because it was measured on the whole device. */
static ecornn_status plan_in_part(struct ecornn_plan **plan, struct ecornn_device *part,
                                  const struct eco_problem *one, const struct eco_algo *algo)
{
    struct eco_problem forced = *one;
    struct eco_text choice = {forced.force.text, sizeof forced.force.text, 0};
    if (eco_plan_asked(part->backend) != NULL)
        return eco_plan_create(plan, part, one);
    eco_text_add(&choice, "algorithm=%s", algo->name);
    return eco_plan_make(plan, part, &forced);
}

ecornn_status eco_models_plan_in_part(struct ecornn_plan **plan, const struct ecornn_device *device,
                                      const struct eco_problem *one,
                                      const struct eco_models_share *share)
{
    struct ecornn_device *part = part_of(device, &share->caps);
    if (part == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for a device of %zu bytes", sizeof *part);
    const ecornn_status status = plan_in_part(plan, part, one, share->algo);
    if (status == ECORNN_OK)
        (*plan)->owned_device = part;
    else
        eco_free(part);
    return status;
}

/* Creates the plan of one model. On a CPU it has all threads if there are few models, else one. On
 * a GPU it has a partition or, if forced choices do not fit that, the whole device, and models run
 * one after the other. */
static ecornn_status create_one(struct ecornn_plan *plan, struct eco_problem *one)
{
    struct ecornn_device *device = plan->device;
    const int models = plan->problem.models, threads = device->info.threads;
    struct eco_models_share share = {.concurrent = models >= threads ? threads : 1};
    char before[ECO_MAX_DETAIL];
    if (device->backend->share != NULL)
        device->backend->share(device, (const struct eco_problem *const *)&one, 1, models, &share);
    else
        one->alone = share.concurrent > 1;
    plan->concurrent = share.concurrent;
    if (share.algo == NULL)
        return eco_plan_create(&plan->one, device, one);
    eco_fail_keep(before);
    ecornn_status status = eco_models_plan_in_part(&plan->one, device, one, &share);
    if (status != ECORNN_UNSUPPORTED)
        return status;
    plan->concurrent = 1;
    status = eco_plan_create(&plan->one, device, one);
    if (status == ECORNN_OK)
        eco_fail_restore(before);
    return status;
}

ecornn_status eco_models_create(struct ecornn_plan **plan, struct ecornn_device *device,
                                const struct eco_problem *problem)
{
    struct eco_problem one;
    struct ecornn_plan *made = eco_alloc_zeroed(sizeof *made);
    if (made == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for a plan of %zu bytes", sizeof *made);
    made->kind = ECO_PLAN_LAYERS;
    made->problem = *problem;
    made->device = device;
    eco_problem_of_one(&one, problem);
    ecornn_status status = eco_plan_force(&one, device->backend);
    if (status == ECORNN_OK)
        status = create_one(made, &one);
    if (status == ECORNN_OK)
        status = fix_sizes(made);
    if (status == ECORNN_OK && device->backend->share != NULL)
        status = device->backend->prepare(made);
    if (status == ECORNN_OK)
        *plan = made;
    else
        eco_plan_free(made);
    return status;
}
