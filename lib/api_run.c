/*
 * Runs of a plan, of one model or of several.
 */
#include "ecornn/params.h"

#include "lib/models.h"

static ecornn_status forward(const ecornn_plan *plan, const ecornn_io *io,
                             const struct eco_args *args)
{
    return plan->one ? eco_models_run(plan, io, NULL, args) : eco_run_one(plan, io, args);
}

ecornn_status ecornn_forward(const ecornn_plan *plan, const ecornn_io *io)
{
    struct eco_args args;
    const ecornn_status status = eco_run_read_forward(&args, plan, io);
    return status == ECORNN_OK ? forward(plan, io, &args) : status;
}

ecornn_status ecornn_forward_params(const ecornn_plan *plan, const ecornn_io *io,
                                    const void *const *params, const void *const *added)
{
    struct eco_args args;
    ecornn_status status = eco_run_read_forward(&args, plan, io);
    if (status == ECORNN_OK)
        status = eco_run_take_params(&args, plan, io, params, added);
    return status == ECORNN_OK ? forward(plan, io, &args) : status;
}

ecornn_status ecornn_backward(const ecornn_plan *plan, const ecornn_io *io,
                              const ecornn_gradient *gradient)
{
    struct eco_args args;
    const ecornn_status status = eco_run_read_backward(&args, plan, io, gradient);
    if (status != ECORNN_OK)
        return status;
    return plan->one ? eco_models_run(plan, io, gradient, &args) : eco_run_one(plan, io, &args);
}
