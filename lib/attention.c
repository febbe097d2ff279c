/*
 * Attention: every argument is checked here, once, before anything is written; then the arguments
 * go to the device's backend.
 */
#include "ecornn/experimental.h"

#include "common/backend.h"
#include "common/caller.h"
#include "common/util.h"
#include "common/compose/sequence.h"
#include "lib/check.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static ecornn_status check_counts(const struct eco_attention_args *args,
                                  const struct eco_attention *problem)
{
    ecornn_status status = eco_check_count("steps", args->T, problem->T);
    if (status == ECORNN_OK)
        status = eco_check_count("source", args->S, problem->S);
    return status == ECORNN_OK ? eco_check_count("batch", args->N, problem->N) : status;
}

static ecornn_status check_io(const struct eco_attention_plan *plan, const ecornn_attention_io *io,
                              const struct eco_attention_args *args)
{
    const struct eco_attention *problem = &plan->problem;
    const size_t element = eco_type_bytes(problem->type);
    const bool rows = args->N > 0, queries = rows && args->T > 0, runs = queries && args->S > 0;
    const struct eco_pointer pointer[] = {
        {"io.lengths", io->lengths, false, sizeof(int32_t)},
        {"io.query", io->query, runs, element},
        {"io.keys", io->keys, runs, element},
        {"io.values", io->values, runs, element},
        {"io.vector", io->vector, runs, eco_type_bytes(eco_type_sum(problem->type))},
        {"io.context", io->context, false, element},
        {"io.probs", io->probs, false, element},
        {"io.workspace", io->workspace, runs && plan->sizes.workspace_bytes > 0,
         plan->sizes.alignment},
        {"io.reserve", io->reserve, args->backward && runs, plan->sizes.alignment}};
    if (io->reserve && !problem->training)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.reserve is %p, but plan %s is without ECORNN_TRAINING", io->reserve,
                        problem->text);
    return eco_check_pointers(pointer, sizeof pointer / sizeof *pointer);
}

/* Checks what forward and backward have in common, and copies it to args, which has T, S and N. */
static ecornn_status read_io(struct eco_attention_args *args, const struct eco_attention_plan *plan,
                             const ecornn_attention_io *io)
{
    args->lengths = io->lengths;
    args->query = io->query;
    args->keys = io->keys;
    args->values = io->values;
    args->vector = io->vector;
    args->context = io->context;
    args->weights = io->probs;
    args->workspace = io->workspace;
    args->reserve = io->reserve;
    args->stream = io->stream;
    ecornn_status status = check_counts(args, &plan->problem);
    if (status == ECORNN_OK)
        status = check_io(plan, io, args);
    if (status == ECORNN_OK && !plan->device->caps.own_memory)
        status = eco_check_lengths(args->lengths, args->S, args->N);
    return status;
}

static ecornn_status read_gradient(struct eco_attention_args *args,
                                   const struct eco_attention *problem,
                                   const ecornn_attention_gradient *gradient)
{
    const size_t element = eco_type_bytes(problem->type);
    if (gradient->reserved != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "gradient.reserved is %d, must be 0",
                        gradient->reserved);
    args->dcontext = gradient->dcontext;
    args->dweights = gradient->dprobs;
    args->dquery = gradient->dquery;
    args->dkeys = gradient->dkeys;
    args->dvalues = gradient->dvalues;
    args->dvector = gradient->dvector;
    args->accumulate = gradient->add != 0;
    if (args->dkeys != NULL && args->dkeys == args->dvalues)
        return eco_fail(ECORNN_BAD_ARGUMENT, "gradient.dvalues is %p, the memory of gradient.dkeys",
                        (void *)args->dvalues);
    const struct eco_pointer pointer[] = {
        {"gradient.dcontext", args->dcontext, false, element},
        {"gradient.dprobs", args->dweights, false, element},
        {"gradient.dquery", args->dquery, false, element},
        {"gradient.dkeys", args->dkeys, false, element},
        {"gradient.dvalues", args->dvalues, false, element},
        {"gradient.dvector", args->dvector, false, eco_type_bytes(eco_type_sum(problem->type))}};
    return eco_check_pointers(pointer, sizeof pointer / sizeof *pointer);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static ecornn_status check_blocks(const struct eco_attention_plan *plan,
                                  const ecornn_attention_io *io,
                                  const struct eco_attention_args *args)
{
    ecornn_status status = eco_check_bytes("workspace_bytes", io->workspace_bytes,
                                           eco_attention_workspace(plan, args).value);
    if (status == ECORNN_OK && args->reserve)
        status = eco_check_bytes("reserve_bytes", io->reserve_bytes,
                                 eco_attention_reserve(&plan->problem, args).value);
    return status;
}

static ecornn_status run(const struct eco_attention_plan *plan, const ecornn_attention_io *io,
                         const struct eco_attention_args *args)
{
    if (args->T == 0 || args->S == 0 || args->N == 0)
        return eco_attention_run_empty(plan, args);
    const bool marks = args->reserve && !plan->device->caps.own_memory;
    ecornn_status status = check_blocks(plan, io, args);
    if (status == ECORNN_OK && marks && args->backward)
        status = eco_attention_mark_check(plan, args);
    if (status != ECORNN_OK)
        return status;
    struct eco_caller caller;
    eco_caller_begin_run(&caller, plan->device->backend);
    status = plan->device->backend->attention->run(plan, args);
    eco_caller_end(&caller);
    if (status == ECORNN_OK && marks && !args->backward)
        eco_attention_mark_write(plan, args);
    return status;
}

static ecornn_status check_plan(const ecornn_plan *plan)
{
    const ecornn_status status = eco_check_plan(plan);
    return status == ECORNN_OK && plan->kind != ECO_PLAN_ATTENTION
               ? eco_fail(ECORNN_BAD_ARGUMENT, "the plan is not of attention")
               : status;
}

ecornn_status ecornn_attention_forward(const ecornn_plan *plan, int32_t steps, int32_t source,
                                       int32_t batch, const ecornn_attention_io *io)
{
    ecornn_attention_io own;
    struct eco_attention_args args = {.T = steps, .S = source, .N = batch};
    ecornn_status status = check_plan(plan);
    if (status != ECORNN_OK)
        return status;
    if (!(io = eco_take("io", io, &own, sizeof own)))
        return ECORNN_BAD_ARGUMENT;
    status = read_io(&args, plan->attention, io);
    return status == ECORNN_OK ? run(plan->attention, io, &args) : status;
}

ecornn_status ecornn_attention_backward(const ecornn_plan *plan, int32_t steps, int32_t source,
                                        int32_t batch, const ecornn_attention_io *io,
                                        const ecornn_attention_gradient *gradient)
{
    ecornn_attention_io own;
    ecornn_attention_gradient own_gradient;
    struct eco_attention_args args = {.T = steps, .S = source, .N = batch, .backward = true};
    ecornn_status status = check_plan(plan);
    if (status != ECORNN_OK)
        return status;
    if (!plan->attention->problem.training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan %s is without ECORNN_TRAINING",
                        plan->attention->problem.text);
    if (!(io = eco_take("io", io, &own, sizeof own)) ||
        !(gradient = eco_take("gradient", gradient, &own_gradient, sizeof own_gradient)))
        return ECORNN_BAD_ARGUMENT;
    status = read_io(&args, plan->attention, io);
    if (status == ECORNN_OK)
        status = read_gradient(&args, &plan->attention->problem, gradient);
    return status == ECORNN_OK ? run(plan->attention, io, &args) : status;
}
