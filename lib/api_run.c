/*
 * Runs of a plan, of one model or of several.
 */
#include "ecornn/params.h"

#include "common/compose/sequence.h"
#include "lib/check.h"

ecornn_status ecornn_forward(const ecornn_plan *plan, const ecornn_io *io)
{
    struct eco_args args;
    const ecornn_status status = eco_args_read_forward(&args, plan, io);
    return status == ECORNN_OK ? eco_run_plan(plan, &args) : status;
}

ecornn_status ecornn_forward_params(const ecornn_plan *plan, const ecornn_io *io,
                                    const void *const *params, const void *const *added)
{
    struct eco_args args;
    ecornn_status status = eco_args_read_forward(&args, plan, io);
    if (status == ECORNN_OK)
        status = eco_args_take_params(&args, plan, params, added);
    return status == ECORNN_OK ? eco_run_plan(plan, &args) : status;
}

ecornn_status ecornn_backward(const ecornn_plan *plan, const ecornn_io *io,
                              const ecornn_gradient *gradient)
{
    struct eco_args args;
    const ecornn_status status = eco_args_read_backward(&args, plan, io, gradient);
    return status == ECORNN_OK ? eco_run_plan(plan, &args) : status;
}
