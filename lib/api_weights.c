/*
 * The list of parameters, and packing between parameters in the caller's memory and the block of
 * packed weights, whose inside only plan/layout.c knows.
 */
#include "ecornn.h"

#include "common/compose/models.h"
#include "common/compose/net.h"
#include "common/compose/sequence.h"
#include "common/compose/tangent.h"
#include "lib/check.h"

static ecornn_status check_weights(const char *name, const void *weights, size_t bytes,
                                   const ecornn_plan *plan)
{
    const size_t alignment = plan->sizes.alignment;
    if (!weights && bytes > 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL, must have %zu bytes", name, bytes);
    if ((uintptr_t)weights % alignment != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, must be aligned to %zu bytes", name,
                        weights, alignment);
    return ECORNN_OK;
}

/* Model 3's parameters are named "3:" and their name, and follow the blocks of models 0 to 2. */
static void get_of_models(const ecornn_plan *plan, int index, ecornn_param *param)
{
    const int each = eco_problem_params(&plan->problem), model = index / each;
    ecornn_param one;
    eco_problem_param(&plan->problem, index % each, &one);
    *param = one;
    param->offset += (size_t)model * plan->one->sizes.param_elements;
    struct eco_text name = {param->name, sizeof param->name, 0};
    eco_text_add(&name, "%d:%s", model, one.name);
}

static void get_of_layers(const ecornn_plan *plan, int index, ecornn_param *param)
{
    if (plan->one)
        get_of_models(plan, index, param);
    else
        eco_problem_param(&plan->problem, index, param);
}

/* Layer 2's parameters have the names that its own plan gives them. */
static void get_of_net(const struct eco_net_plan *net, int index, ecornn_param *param)
{
    int k = net->layers - 1;
    while (net->layer[k].plan->sizes.first_param > index)
        k--;
    const ecornn_plan *const layer = net->layer[k].plan;
    get_of_layers(layer, index - layer->sizes.first_param, param);
    param->offset += layer->sizes.param_offset;
}

/* A tangent's are those of its problem. */
static void get_of_tangent(const struct eco_tangent_plan *tangent, int index, ecornn_param *param)
{
    eco_problem_param(&tangent->problem, index, param);
}

ecornn_status ecornn_param_get(const ecornn_plan *plan, int index, ecornn_param *param)
{
    ecornn_param found = {0};
    const ecornn_status status = eco_check_plan(plan);
    if (status != ECORNN_OK)
        return status;
    const int count = plan->sizes.param_count;
    if (count == 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "index is %d, but the plan has no parameters", index);
    if (index < 0 || index >= count)
        return eco_fail(ECORNN_BAD_ARGUMENT, "index is %d, must be 0 to %d", index, count - 1);
    if (plan->kind == ECO_PLAN_NET)
        get_of_net(plan->net, index, &found);
    else if (plan->kind == ECO_PLAN_TANGENT)
        get_of_tangent(plan->tangent, index, &found);
    else
        get_of_layers(plan, index, &found);
    return eco_give("param", param, &found, sizeof found);
}

static bool is_aligned_param(const ecornn_plan *plan, const void *param)
{
    return eco_is_aligned(param, eco_type_bytes(plan->problem.param_type));
}

static ecornn_status misaligned(const char *name, int k, const void *param, const ecornn_plan *plan)
{
    return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%d] is %p, must be aligned to %zu bytes", name, k,
                    param, eco_type_bytes(plan->problem.param_type));
}

/* Checks parameters of one model: params not NULL, added[k] NULL unless k is a vector. */
static ecornn_status check_params(const ecornn_plan *plan, const void *const *params,
                                  const void *const *added)
{
    const int count = eco_problem_params(&plan->problem);
    for (int k = 0; k < count; k++) {
        struct eco_param_position position;
        int before;
        eco_problem_param_position(&plan->problem, k, &position);
        if (!params[k])
            return eco_fail(ECORNN_BAD_ARGUMENT, "params[%d] is NULL, all %d are needed", k, count);
        if (!is_aligned_param(plan, params[k]))
            return misaligned("params", k, params[k], plan);
        if (added && !is_aligned_param(plan, added[k]))
            return misaligned("added", k, added[k], plan);
        if (added && added[k] &&
            eco_problem_weight_id(&plan->problem, &position, &before) != ECO_WEIGHT_VECTORS)
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "added[%d] is %p, must be NULL: the parameter is a matrix", k,
                            added[k]);
    }
    return ECORNN_OK;
}

static ecornn_status pack_one(const ecornn_plan *plan, const void *const *params,
                              const void *const *added, void *weights, void *stream)
{
    const ecornn_status status = check_params(plan, params, added);
    if (status != ECORNN_OK)
        return status;
    const struct eco_call call = {ECO_CALL_PACK, {.pack = {plan, params, added, weights}}};
    return eco_run_call(plan->device, &call, stream);
}

/* Bytes from one model's part of the block to the next; 0 for one model. */
static size_t stride_of(const ecornn_plan *plan)
{
    return plan->one ? eco_models_stride(plan->one->sizes.weight_bytes) : 0;
}

/* Blocks of the models follow each other, and so do their parameters. */
static ecornn_status pack(const ecornn_plan *plan, const void *const *params,
                          const void *const *added, void *weights, void *stream)
{
    const int count = eco_problem_params(&plan->problem);
    if (!params && count > 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "params is NULL");
    ecornn_status status = check_weights("weights", weights, plan->sizes.weight_bytes, plan);
    if (count == 0)
        return status; /* a cell without parameters */
    for (int m = 0; status == ECORNN_OK && m < plan->problem.models; m++) {
        const size_t first = (size_t)m * (size_t)count;
        status =
            pack_one(plan->one ? plan->one : plan, params + first, added ? added + first : NULL,
                     (char *)weights + (size_t)m * stride_of(plan), stream);
    }
    return status;
}

/* Plans of tangents and of attention have no packed weights. */
static ecornn_status check_packs(const ecornn_plan *plan)
{
    const ecornn_status status = eco_check_plan(plan);
    return status == ECORNN_OK && plan->kind > ECO_PLAN_NET
               ? eco_fail(ECORNN_BAD_ARGUMENT, "the plan has no packed weights")
               : status;
}

static char *part_of(const void *block, size_t bytes)
{
    return (char *)(uintptr_t)block + bytes;
}

ecornn_status ecornn_pack(const ecornn_plan *plan, const void *const *params,
                          const void *const *added, void *weights, void *stream)
{
    ecornn_status status = check_packs(plan);
    if (status != ECORNN_OK || plan->kind == ECO_PLAN_LAYERS)
        return status == ECORNN_OK ? pack(plan, params, added, weights, stream) : status;
    if (!params && plan->sizes.param_count > 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "params is NULL");
    status = check_weights("weights", weights, plan->sizes.weight_bytes, plan);
    for (int k = 0; status == ECORNN_OK && k < plan->net->layers; k++) {
        const ecornn_plan *const layer = plan->net->layer[k].plan;
        const int first = layer->sizes.first_param;
        status = pack(layer, params ? params + first : NULL, added ? added + first : NULL,
                      part_of(weights, layer->sizes.weight_offset), stream);
        if (status != ECORNN_OK)
            return eco_net_fail(status, k);
    }
    return status;
}

ecornn_status eco_args_take_params(struct eco_args *args, const ecornn_plan *plan,
                                   const void *const *params, const void *const *added)
{
    if (args->T == 0 || args->N == 0)
        return ECORNN_OK; /* it reads no weights */
    void *weights = (void *)(uintptr_t)args->weights;
    /* backward reads what is packed */
    if (plan->one || args->reserve || !plan->device->backend->packs_in_runs ||
        plan->sizes.param_count == 0 || !params)
        return pack(plan, params, added, weights, args->stream);
    args->params = params;
    args->added = added;
    return check_params(plan, params, added);
}

ecornn_status ecornn_weights_fit(const ecornn_plan *packed, const ecornn_plan *used)
{
    if (!packed || !used)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", packed ? "used" : "packed");
    ecornn_status status = eco_check_plan(packed);
    if (status == ECORNN_OK)
        status = eco_check_plan(used);
    if (status == ECORNN_OK && (packed->kind != ECO_PLAN_LAYERS || used->kind != ECO_PLAN_LAYERS))
        return eco_fail(ECORNN_UNSUPPORTED,
                        "only weights of layers fit other plans: compare the layers of nets");
    if (status != ECORNN_OK)
        return status;
    char data[200] = "";
    struct eco_text why = {data, sizeof data, 0};
    const struct ecornn_device *from = packed->device, *to = used->device;
    bool fit = false;
    if (packed->problem.models != used->problem.models)
        eco_text_add(&why, "it has %d models, must have %d", packed->problem.models,
                     used->problem.models);
    else if (from->backend != to->backend)
        eco_text_add(&why, "its device is %s, must be %s", from->backend->name, to->backend->name);
    else if (from != to && to->caps.own_memory)
        eco_text_add(&why, "it was packed for another device");
    else if (stride_of(packed) != stride_of(used))
        eco_text_add(&why, "its models have %zu bytes each, must have %zu", stride_of(packed),
                     stride_of(used));
    else
        fit = eco_layout_weights_fit(&(packed->one ? packed->one : packed)->layout[0],
                                     &(used->one ? used->one : used)->layout[0], &why);
    if (fit)
        return ECORNN_OK;
    return eco_fail(ECORNN_UNSUPPORTED, "weights packed for %s do not fit %s: %s",
                    packed->problem.text, used->problem.text, data);
}

static ecornn_status unpack_one(const ecornn_plan *plan, const void *dweights, void *const *dparams,
                                int add, void *stream)
{
    const int count = eco_problem_params(&plan->problem);
    for (int k = 0; k < count; k++)
        if (!is_aligned_param(plan, dparams[k]))
            return misaligned("dparams", k, dparams[k], plan);
    const struct eco_call call = {ECO_CALL_UNPACK, {.unpack = {plan, dweights, dparams, add != 0}}};
    return eco_run_call(plan->device, &call, stream);
}

static ecornn_status unpack(const ecornn_plan *plan, const void *dweights, void *const *dparams,
                            int add, void *stream)
{
    if (!plan->problem.training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan %s is without ECORNN_TRAINING",
                        plan->problem.text);
    const int count = eco_problem_params(&plan->problem);
    if (!dparams && count > 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "dparams is NULL");
    ecornn_status status = check_weights("dweights", dweights, plan->sizes.dweight_bytes, plan);
    const size_t stride = plan->one ? eco_models_stride(plan->one->sizes.dweight_bytes) : 0;
    if (count == 0)
        return status;
    for (int m = 0; status == ECORNN_OK && m < plan->problem.models; m++)
        status =
            unpack_one(plan->one ? plan->one : plan, (const char *)dweights + (size_t)m * stride,
                       dparams + (size_t)m * (size_t)count, add, stream);
    return status;
}

ecornn_status ecornn_unpack(const ecornn_plan *plan, const void *dweights, void *const *dparams,
                            int add, void *stream)
{
    ecornn_status status = check_packs(plan);
    if (status != ECORNN_OK || plan->kind == ECO_PLAN_LAYERS)
        return status == ECORNN_OK ? unpack(plan, dweights, dparams, add, stream) : status;
    if (!dparams && plan->sizes.param_count > 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "dparams is NULL");
    status = check_weights("dweights", dweights, plan->sizes.dweight_bytes, plan);
    for (int k = 0; status == ECORNN_OK && k < plan->net->layers; k++) {
        const ecornn_plan *const layer = plan->net->layer[k].plan;
        status = unpack(layer, part_of(dweights, layer->sizes.dweight_offset),
                        dparams ? dparams + layer->sizes.first_param : NULL, add, stream);
        if (status != ECORNN_OK)
            return eco_net_fail(status, k);
    }
    return status;
}
