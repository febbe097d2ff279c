/*
 * See planned.h.
 */
#include "tests/kit/planned.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"

void planned_open(struct planned *planned, const char *device, const char *problem,
                  const ecornn_cell *cell)
{
    check_ok(ecornn_device_open(&planned->device, device));
    check_ok(ecornn_desc_parse(&planned->desc, problem, cell));
    check_ok(ecornn_plan_create(&planned->plan, planned->device, &planned->desc));
    ecornn_plan_sizes(planned->plan, &planned->sizes);
    planned->weights = ecornn_alloc(planned->device, planned->sizes.weights);
    planned->dweights = ecornn_alloc(planned->device, planned->sizes.dweights);
    planned->workspace = ecornn_alloc(planned->device, planned->sizes.workspace);
    planned->reserve = ecornn_alloc(planned->device, planned->sizes.reserve);
    if (planned->dweights != NULL && strncmp(device, "cuda", 4) != 0)
        memset(planned->dweights, 0, planned->sizes.dweights);
}

void planned_close(struct planned *planned)
{
    ecornn_free(planned->device, planned->weights);
    ecornn_free(planned->device, planned->dweights);
    ecornn_free(planned->device, planned->workspace);
    ecornn_free(planned->device, planned->reserve);
    ecornn_plan_free(planned->plan);
    ecornn_device_close(planned->device);
}

void planned_pack(const struct planned *planned, const void *params, void *weights)
{
    const ecornn_desc *desc = &planned->desc;
    const size_t element = eco_type_bytes(desc->type == ECORNN_F64 ? ECORNN_F64 : desc->param_type);
    const int count = ecornn_param_count(planned->plan);
    const void **pointer = calloc((size_t)count + 1, sizeof *pointer);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        check_ok(ecornn_param_get(planned->plan, k, &param));
        pointer[k] = (const char *)params + param.offset * element;
    }
    check_ok(ecornn_pack(planned->plan, pointer, weights, NULL));
    free(pointer);
}

ecornn_io planned_io(const struct planned *planned)
{
    return (ecornn_io){.size = sizeof(ecornn_io),
                       .steps = ECORNN_ALL,
                       .batch = ECORNN_ALL,
                       .weights = planned->weights,
                       .workspace = planned->workspace,
                       .reserve = planned->reserve};
}
