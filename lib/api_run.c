/*
 * Runs of a plan, of one model or of several.
 */
#include "ecornn.h"

#include "lib/models.h"

ecornn_status ecornn_forward(const ecornn_plan *plan, const ecornn_io *io)
{
    struct eco_args args;
    const ecornn_status status = eco_run_read_forward(&args, plan, io);
    if (status != ECORNN_OK)
        return status;
    return plan->one ? eco_models_run(plan, io, NULL, &args) : eco_run_one(plan, io, &args);
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
