/*
 * Plans of several models: a plan of one model, and concurrent runs of it. Only these files know a
 * model's part of an array.  lib/models.c, lib/models_run.c.
 */
#ifndef ECO_LIB_MODELS_H
#define ECO_LIB_MODELS_H

#include "ecornn.h"

#include "common/backend.h"

/* models.c: makes the plan of a problem of two or more models. */
ecornn_status eco_models_create(ecornn_plan **plan, ecornn_device *device,
                                const struct eco_problem *problem);
/* Makes the plan of one model or layer in a partition of the device; UNSUPPORTED: forced choices do
 * not fit it. */
ecornn_status eco_models_plan_in_part(ecornn_plan **plan, const struct ecornn_device *device,
                                      const struct eco_problem *one,
                                      const struct eco_models_share *share);
/* Sizes of a run of up to the planned steps and rows. */
ecornn_sizes eco_models_sizes(const ecornn_plan *plan, int32_t T, int32_t N);

/* Bytes from the beginning of a model's block to that of the next model. */
static inline size_t eco_models_stride(size_t bytes)
{
    return (bytes + ECO_ALIGNMENT - 1) / ECO_ALIGNMENT * ECO_ALIGNMENT;
}

/* models_run.c: runs backward if gradient is not NULL, else forward. args: the same arguments,
 * checked. */
ecornn_status eco_models_run(const ecornn_plan *plan, const ecornn_io *io,
                             const ecornn_gradient *gradient, const struct eco_args *args);

/* run_one.c: checks a run's arguments; gradient NULL: forward. */
ecornn_status eco_run_check(const ecornn_plan *plan, const ecornn_io *io,
                            const ecornn_gradient *gradient);
/* api_weights.c: checks the parameters that are given to a run; packs them, or leaves that to the
 * run. */
ecornn_status eco_run_take_params(struct eco_args *args, const ecornn_plan *plan,
                                  const ecornn_io *io, const void *const *params,
                                  const void *const *added);
/* Checks a run's arguments and copies them to args. */
ecornn_status eco_run_read_forward(struct eco_args *args, const ecornn_plan *plan,
                                   const ecornn_io *io);
ecornn_status eco_run_read_backward(struct eco_args *args, const ecornn_plan *plan,
                                    const ecornn_io *io, const ecornn_gradient *gradient);
/* Runs one model with these arguments. */
ecornn_status eco_run_one(const ecornn_plan *plan, const ecornn_io *io,
                          const struct eco_args *args);

#endif /* ECO_LIB_MODELS_H */
