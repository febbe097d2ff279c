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

#include <string.h>

/* Bytes from one model's part of the block to the next; 0 for one model. */
static size_t stride_of(const ecornn_plan *plan, bool back)
{
    const ecornn_sizes *const one = plan->one ? &plan->one->sizes : NULL;
    return one ? eco_models_stride(back ? one->dweight_bytes : one->weight_bytes) : 0;
}

/* Model 3's parameters are named "3:" and their name, and follow the blocks of models 0 to 2. */
static void get_of_models(const ecornn_plan *plan, int index, ecornn_param *param)
{
    const int each = eco_problem_params(&plan->problem), model = index / each;
    ecornn_param one;
    eco_problem_param(&plan->problem, index % each, &one);
    *param = one;
    param->offset += (size_t)model * plan->one->sizes.param_elements;
    eco_plan_find_gradient(plan->one, index % each, param);
    param->gradient += (size_t)model * stride_of(plan, true);
    struct eco_text name = {param->name, sizeof param->name, 0};
    eco_text_add(&name, "%d:%s", model, one.name);
}

static void get_of_layers(const ecornn_plan *plan, int index, ecornn_param *param)
{
    if (plan->one)
        get_of_models(plan, index, param);
    else {
        eco_problem_param(&plan->problem, index, param);
        eco_plan_find_gradient(plan, index, param);
    }
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
    param->gradient += layer->sizes.dweight_offset;
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

/* ---- packing, and back ----------------------------------------------------------------------- */

/* A call of either direction: dparams is NULL for packing, params for unpacking. */
struct packing {
    const void *const *params, *const *added;
    void *const *dparams;
    void *block; /* the weights, or their gradient */
    bool back, add;
    void *stream;
};

/* One model of one layer: its parameters begin with number `first`, its part of the block at `at`.
 */
static ecornn_status pack_one(const ecornn_plan *plan, const struct packing *packing, int first,
                              size_t at)
{
    void *const block = (char *)packing->block + at;
    void *const *const dparams = packing->back ? packing->dparams + first : NULL;
    const void *const *const params = packing->back ? NULL : packing->params + first,
                             *const *const added = packing->added ? packing->added + first : NULL;
    ecornn_status status = packing->back ? ECORNN_OK : check_params(plan, params, added);
    for (int k = 0; packing->back && k < eco_problem_params(&plan->problem); k++)
        if (!is_aligned_param(plan, dparams[k]))
            return misaligned("dparams", k, dparams[k], plan);
    if (status != ECORNN_OK)
        return status;
    const struct eco_call pack = {ECO_CALL_PACK, {.pack = {plan, params, added, block}}},
                          unpack = {ECO_CALL_UNPACK,
                                    {.unpack = {plan, block, dparams, packing->add}}};
    return eco_run_call(plan->device, packing->back ? &unpack : &pack, packing->stream);
}

/* A layer, model after model. */
static ecornn_status pack_layer(const ecornn_plan *plan, const struct packing *packing, int first,
                                size_t at)
{
    const int count = eco_problem_params(&plan->problem);
    ecornn_status status = ECORNN_OK;
    if (packing->back && !plan->problem.training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan %s is without ECORNN_TRAINING",
                        plan->problem.text);
    for (int m = 0; count > 0 && status == ECORNN_OK && m < plan->problem.models; m++)
        status = pack_one(plan->one ? plan->one : plan, packing, first + m * count,
                          at + (size_t)m * stride_of(plan, packing->back));
    return status;
}

/* A net, layer after layer. */
static ecornn_status pack_net(const struct eco_net_plan *net, const struct packing *packing)
{
    ecornn_status status = ECORNN_OK;
    for (int k = 0; status == ECORNN_OK && k < net->layers; k++) {
        const ecornn_sizes *const sizes = &net->layer[k].plan->sizes;
        status = pack_layer(net->layer[k].plan, packing, sizes->first_param,
                            packing->back ? sizes->dweight_offset : sizes->weight_offset);
        if (status != ECORNN_OK)
            eco_net_fail(status, k);
    }
    return status;
}

static ecornn_status pack(const ecornn_plan *plan, const struct packing *packing)
{
    const bool back = packing->back;
    const size_t bytes = back ? plan->sizes.dweight_bytes : plan->sizes.weight_bytes;
    const char *const block = back ? "dweights" : "weights";
    if (plan->kind > ECO_PLAN_NET) /* of tangents, of attention */
        return eco_fail(ECORNN_BAD_ARGUMENT, "the plan has no packed weights");
    if (plan->sizes.param_count > 0 && (back ? !packing->dparams : !packing->params))
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", back ? "dparams" : "params");
    if (packing->block == NULL && bytes > 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL, must have %zu bytes", block, bytes);
    const struct eco_pointer pointers[] = {{block, packing->block, false, plan->sizes.alignment},
                                           {"params", packing->params, false, sizeof(void *)},
                                           {"added", packing->added, false, sizeof(void *)},
                                           {"dparams", packing->dparams, false, sizeof(void *)}};
    const ecornn_status status = eco_check_pointers(pointers, sizeof pointers / sizeof *pointers);
    if (status != ECORNN_OK)
        return status;
    return plan->kind == ECO_PLAN_NET ? pack_net(plan->net, packing)
                                      : pack_layer(plan, packing, 0, 0);
}

ecornn_status ecornn_pack(const ecornn_plan *plan, const void *const *params,
                          const void *const *added, void *weights, void *stream)
{
    const struct packing packing = {
        .params = params, .added = added, .block = weights, .stream = stream};
    const ecornn_status status = eco_check_plan(plan);
    return status == ECORNN_OK ? pack(plan, &packing) : status;
}

ecornn_status ecornn_same(const ecornn_plan *plan, const void *a, const void *b, size_t bytes,
                          int *same)
{
    const ecornn_status status = eco_check_plan(plan);
    if (status != ECORNN_OK)
        return status;
    if (!same || (bytes > 0 && (!a || !b)))
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is NULL", !same ? "same" : !a ? "a" : "b");
    const ecornn_device *device = plan->device;
    *same = bytes == 0 || (device->backend->same ? device->backend->same(device, a, b, bytes)
                                                 : memcmp(a, b, bytes) == 0);
    return ECORNN_OK;
}

ecornn_status ecornn_unpack(const ecornn_plan *plan, const void *dweights, void *const *dparams,
                            int add, void *stream)
{
    const struct packing packing = {.dparams = dparams,
                                    .block = (void *)(uintptr_t)dweights,
                                    .back = true,
                                    .add = add != 0,
                                    .stream = stream};
    const ecornn_status status = eco_check_plan(plan);
    return status == ECORNN_OK ? pack(plan, &packing) : status;
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
        return ecornn_pack(plan, params, added, weights, args->stream);
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
    else if (stride_of(packed, false) != stride_of(used, false))
        eco_text_add(&why, "its models have %zu bytes each, must have %zu",
                     stride_of(packed, false), stride_of(used, false));
    else
        fit = eco_layout_weights_fit(&(packed->one ? packed->one : packed)->layout[0],
                                     &(used->one ? used->one : used)->layout[0], &why);
    if (fit)
        return ECORNN_OK;
    return eco_fail(ECORNN_UNSUPPORTED, "weights packed for %s do not fit %s: %s",
                    packed->problem.text, used->problem.text, data);
}
