/*
 * Runs of a plan of any kind.
 */
#include "common/compose/sequence.h"
#include "lib/check.h"

static ecornn_status run_layers(const ecornn_plan *plan, int32_t steps, int32_t batch,
                                const ecornn_io *io, const ecornn_gradient *gradient)
{
    struct eco_args args;
    if (gradient && !plan->problem.training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan %s is without ECORNN_TRAINING",
                        plan->problem.text);
    eco_args_read_io(&args, steps, batch, io);
    if (gradient)
        eco_args_read_gradient(&args, gradient);
    ecornn_status status = eco_args_check(plan, &args);
    for (int s = 0; gradient && s < ECORNN_MAX_STATES; s++)
        args.states[s] = NULL; /* backward reads none */
    if (status == ECORNN_OK && !gradient && (io->params || io->added))
        status = eco_args_take_params(&args, plan, io->params, io->added);
    return status == ECORNN_OK ? eco_run_plan(plan, &args) : status;
}

static ecornn_status run(const ecornn_plan *plan, int32_t steps, int32_t batch, const ecornn_io *io,
                         const ecornn_gradient *gradient)
{
    if (plan->kind == ECO_PLAN_ATTENTION)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "the plan is of attention: run it by ecornn_attention_forward");
    const ecornn_status status = eco_check_run(plan, steps, batch, io, gradient);
    if (status != ECORNN_OK)
        return status;
    return (plan->kind == ECO_PLAN_LAYERS ? run_layers
            : plan->kind == ECO_PLAN_NET  ? eco_net_plan_run
                                          : eco_tangent_plan_run)(plan, steps, batch, io, gradient);
}

ecornn_status ecornn_forward(const ecornn_plan *plan, int32_t steps, int32_t batch,
                             const ecornn_io *io)
{
    ecornn_io own;
    const ecornn_status status = eco_check_plan(plan);
    if (status != ECORNN_OK)
        return status;
    io = eco_take("io", io, &own, sizeof own);
    return io ? run(plan, steps, batch, io, NULL) : ECORNN_BAD_ARGUMENT;
}

ecornn_status ecornn_backward(const ecornn_plan *plan, int32_t steps, int32_t batch,
                              const ecornn_io *io, const ecornn_gradient *gradient)
{
    ecornn_io own;
    ecornn_gradient own_gradient;
    const ecornn_status status = eco_check_plan(plan);
    if (status != ECORNN_OK)
        return status;
    io = eco_take("io", io, &own, sizeof own);
    gradient = io ? eco_take("gradient", gradient, &own_gradient, sizeof own_gradient) : NULL;
    return gradient ? run(plan, steps, batch, io, gradient) : ECORNN_BAD_ARGUMENT;
}
