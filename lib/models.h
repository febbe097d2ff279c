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

/* A block's bytes, up to where the next model's begins. */
static inline size_t eco_models_stride(size_t bytes)
{
    return (bytes + ECO_ALIGNMENT - 1) / ECO_ALIGNMENT * ECO_ALIGNMENT;
}

/* models_run.c: forward, or backward where there is a gradient; args: the same, checked. */
ecornn_status eco_models_run(const ecornn_plan *plan, const ecornn_io *io,
                             const ecornn_gradient *gradient, const struct eco_args *args);

/* run_one.c: what a run's arguments must be; gradient NULL: of forward. */
ecornn_status eco_run_check(const ecornn_plan *plan, const ecornn_io *io,
                            const ecornn_gradient *gradient);
/* A run's arguments, checked. */
ecornn_status eco_run_read_forward(struct eco_args *args, const ecornn_plan *plan,
                                   const ecornn_io *io);
ecornn_status eco_run_read_backward(struct eco_args *args, const ecornn_plan *plan,
                                    const ecornn_io *io, const ecornn_gradient *gradient);
/* A run of one model with them. */
ecornn_status eco_run_one(const ecornn_plan *plan, const ecornn_io *io,
                          const struct eco_args *args);

#endif /* ECO_LIB_MODELS_H */
