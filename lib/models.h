/*
 * Plans of several models: a plan of one, and runs of it side by side.  What a model's part of an
 * array is, is known here only.  lib/models.c, lib/models_run.c.
 */
#ifndef ECO_LIB_MODELS_H
#define ECO_LIB_MODELS_H

#include "ecornn.h"

#include "common/backend.h"

/* models.c: of a problem of two models or more. */
ecornn_status eco_models_create(ecornn_plan **plan, ecornn_device *device,
                                const struct eco_problem *problem);
/* Of one model, or layer, in a part of the device; UNSUPPORTED: what is forced does not fit it. */
ecornn_status eco_models_plan_in_part(ecornn_plan **plan, const struct ecornn_device *device,
                                      const struct eco_problem *one,
                                      const struct eco_models_share *share);
/* Of a run of up to the planned steps and rows. */
ecornn_sizes eco_models_sizes(const ecornn_plan *plan, int32_t T, int32_t N);
/* As the public functions do it. */
ecornn_status eco_models_pack(const ecornn_plan *plan, const void *const *params,
                              const void *const *added, void *weights, void *stream);
ecornn_status eco_models_unpack(const ecornn_plan *plan, const void *dweights, void *const *dparams,
                                int add, void *stream);

/* A block's bytes, up to where the next model's begins. */
static inline size_t eco_models_stride(size_t bytes)
{
    return (bytes + ECO_ALIGNMENT - 1) / ECO_ALIGNMENT * ECO_ALIGNMENT;
}

/* models_run.c: forward, or backward where there is a gradient; args: the same, checked. */
ecornn_status eco_models_run(const ecornn_plan *plan, const ecornn_io *io,
                             const ecornn_gradient *gradient, const struct eco_args *args);

/* api_weights.c: both public functions; added NULL: nothing. */
ecornn_status eco_pack(const ecornn_plan *plan, const void *const *params, const void *const *added,
                       void *weights, void *stream);

/* api_run.c: what a run's arguments must be; gradient NULL: of forward. */
ecornn_status eco_run_check(const ecornn_plan *plan, const ecornn_io *io,
                            const ecornn_gradient *gradient);
/* The public functions; alone: of a model that runs beside others. */
ecornn_status eco_run_forward(const ecornn_plan *plan, const ecornn_io *io, bool alone);
ecornn_status eco_run_backward(const ecornn_plan *plan, const ecornn_io *io,
                               const ecornn_gradient *gradient, bool alone);

#endif /* ECO_LIB_MODELS_H */
