/*
 * Plans of several models: a plan of one model, and concurrent runs of it.  models.c makes plans,
 * models_run.c runs them.
 */
#ifndef ECO_MODELS_H
#define ECO_MODELS_H

#include "common/backend.h"

/* Makes the plan of a problem of two or more models. */
ecornn_status eco_models_create(struct ecornn_plan **plan, struct ecornn_device *device,
                                const struct eco_problem *problem);
/* Makes the plan of one model or layer in a partition of the device; UNSUPPORTED: forced choices do
 * not fit it. */
ecornn_status eco_models_plan_in_part(struct ecornn_plan **plan, const struct ecornn_device *device,
                                      const struct eco_problem *one,
                                      const struct eco_models_share *share);
/* Sizes of a run of up to the planned steps and rows. */
ecornn_sizes eco_models_sizes(const struct ecornn_plan *plan, int32_t T, int32_t N);

/* Bytes from the beginning of a model's block to that of the next model. */
static inline size_t eco_models_stride(size_t bytes)
{
    return (bytes + ECO_ALIGNMENT - 1) / ECO_ALIGNMENT * ECO_ALIGNMENT;
}

#endif /* ECO_MODELS_H */
