/*
 * See planned.h.
 */
#include "tests/kit/planned.h"
#include "tests/kit/calls.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"

void planned_open(struct planned *planned, const char *device, const char *problem,
                  const ecornn_cell *cell)
{
    check_ok(ecornn_device_open(&planned->device, device));
    check_ok(parse_desc(&planned->desc, problem, cell));
    check_ok(ecornn_plan_create_desc(&planned->plan, planned->device, &planned->desc));
    get_sizes(planned->plan, &planned->sizes);
    planned->weights = ecornn_alloc(planned->device, planned->sizes.weight_bytes);
    planned->dweights = ecornn_alloc(planned->device, planned->sizes.dweight_bytes);
    planned->workspace = ecornn_alloc(planned->device, planned->sizes.workspace_bytes);
    planned->reserve = ecornn_alloc(planned->device, planned->sizes.reserve_bytes);
    if (planned->dweights != NULL && strncmp(device, "cuda", 4) != 0)
        memset(planned->dweights, 0, planned->sizes.dweight_bytes);
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
    const size_t element = eco_type_bytes(param_type_of(desc));
    const int count = count_params(planned->plan);
    const void **pointer = calloc((size_t)count + 1, sizeof *pointer);
    for (int k = 0; k < count; k++) {
        ecornn_param param;
        check_ok(param_at(planned->plan, k, &param));
        pointer[k] = (const char *)params + param.offset * element;
    }
    check_ok(ecornn_pack(planned->plan, pointer, NULL, weights, NULL));
    free(pointer);
}

ecornn_io planned_io(const struct planned *planned)
{
    return (ecornn_io){.size = sizeof(ecornn_io),
                       .weights = planned->weights,
                       .workspace = planned->workspace,
                       .reserve = planned->reserve};
}
