/*
 * Attention: every argument is checked here, once, before anything is written; then the arguments
 * go to the device's backend.
 */
#include "ecornn.h"

#include "common/backend.h"
#include "common/caller.h"
#include "common/util.h"
#include "common/compose/sequence.h"
#include "lib/check.h"

/* ---- plans ----------------------------------------------------------------------------------- */

ecornn_status ecornn_attention_desc_parse(ecornn_attention_desc *desc, const char *problem)
{
    if (!desc)
        return eco_fail(ECORNN_BAD_ARGUMENT, "desc is NULL");
    if (!problem)
        return eco_fail(ECORNN_BAD_ARGUMENT, "problem is NULL");
    ecornn_attention_desc parsed = {0};
    struct eco_caller caller;
    eco_caller_begin(&caller);
    const ecornn_status status = eco_attention_parse(&parsed, problem);
    eco_caller_end(&caller);
    if (status == ECORNN_OK)
        *desc = parsed;
    return status;
}

ecornn_status ecornn_attention_plan_create(ecornn_attention_plan **plan, ecornn_device *device,
                                           const ecornn_attention_desc *desc)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (!device)
        return eco_fail(ECORNN_BAD_ARGUMENT, "device is NULL");
    if (!desc)
        return eco_fail(ECORNN_BAD_ARGUMENT, "desc is NULL");
    struct eco_attention problem;
    struct ecornn_attention_plan *created;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    ecornn_status status = eco_attention_build(&problem, desc);
    if (status == ECORNN_OK)
        status = eco_attention_plan_create(&created, device, &problem);
    eco_caller_end(&caller);
    if (status == ECORNN_OK)
        *plan = created;
    return status;
}

void ecornn_attention_plan_free(ecornn_attention_plan *plan)
{
    struct eco_caller caller;
    eco_caller_begin(&caller);
    eco_attention_plan_free(plan);
    eco_caller_end(&caller);
}

void ecornn_attention_plan_sizes(const ecornn_attention_plan *plan, ecornn_attention_sizes *sizes)
{
    if (eco_check_sizes(plan, sizes))
        *sizes = plan->sizes;
}

int ecornn_attention_plan_print(const ecornn_attention_plan *plan, char *text, size_t size)
{
    if (!eco_check_print(plan, text, size))
        return -1;
    struct eco_caller caller;
    eco_caller_begin(&caller);
    const int length = eco_attention_plan_describe(plan, text, size);
    eco_caller_end(&caller);
    return length;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* A pointer of a call, and its required alignment, a power of two. */
struct pointer {
    const char *name;
    const void *at;
    bool required;
    size_t alignment;
};

static ecornn_status check_pointers(const struct pointer *pointer, int count)
{
    ecornn_status status = ECORNN_OK;
    for (int k = 0; status == ECORNN_OK && k < count; k++, pointer++)
        status =
            eco_check_pointer(pointer->name, pointer->at, pointer->required, pointer->alignment);
    return status;
}

/* All three 0 means that the caller left them unset: the plan's. */
static ecornn_status check_counts(struct eco_attention_args *args,
                                  const struct eco_attention *problem,
                                  const ecornn_attention_io *io)
{
    const bool unset = io->steps == 0 && io->source == 0 && io->batch == 0;
    ecornn_status status =
        eco_check_count("io.steps", unset ? ECORNN_ALL : io->steps, problem->T, &args->T);
    if (status == ECORNN_OK)
        status =
            eco_check_count("io.source", unset ? ECORNN_ALL : io->source, problem->S, &args->S);
    if (status == ECORNN_OK)
        status = eco_check_count("io.batch", unset ? ECORNN_ALL : io->batch, problem->N, &args->N);
    return status;
}

static ecornn_status check_lengths(const struct eco_attention_args *args)
{
    for (int32_t n = 0; args->lengths && n < args->N; n++)
        if (args->lengths[n] < 0 || args->lengths[n] > args->S)
            return eco_fail(ECORNN_BAD_ARGUMENT, "io.lengths[%d] is %d, must be 0 to %d", (int)n,
                            (int)args->lengths[n], (int)args->S);
    return ECORNN_OK;
}

static ecornn_status check_io(const struct ecornn_attention_plan *plan,
                              const ecornn_attention_io *io, const struct eco_attention_args *args)
{
    const struct eco_attention *problem = &plan->problem;
    const size_t element = eco_type_bytes(problem->type);
    const bool rows = args->N > 0, queries = rows && args->T > 0, runs = queries && args->S > 0;
    const struct pointer pointer[] = {
        {"io.lengths", io->lengths, false, sizeof(int32_t)},
        {"io.query", io->query, runs, element},
        {"io.keys", io->keys, runs, element},
        {"io.values", io->values, runs, element},
        {"io.vector", io->vector, runs, eco_type_bytes(eco_type_sum(problem->type))},
        {"io.context", io->context, false, element},
        {"io.weights", io->weights, false, element},
        {"io.workspace", io->workspace, runs && plan->sizes.workspace > 0, plan->sizes.alignment},
        {"io.reserve", io->reserve, args->backward && runs, plan->sizes.alignment}};
    if (io->reserve && !problem->training)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.reserve is %p, but plan %s is without ECORNN_TRAINING", io->reserve,
                        problem->text);
    return check_pointers(pointer, sizeof pointer / sizeof *pointer);
}

/* Checks what forward and backward have in common, and copies it to args. */
static ecornn_status read_io(struct eco_attention_args *args,
                             const struct ecornn_attention_plan *plan,
                             const ecornn_attention_io *io, bool backward)
{
    if (!plan)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan is NULL");
    if (backward && !plan->problem.training)
        return eco_fail(ECORNN_BAD_ARGUMENT, "plan %s is without ECORNN_TRAINING",
                        plan->problem.text);
    if (!io)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io is NULL");
    if (io->size != sizeof *io)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.size is %zu, must be %zu", io->size, sizeof *io);
    *args = (struct eco_attention_args){.lengths = io->lengths,
                                        .query = io->query,
                                        .keys = io->keys,
                                        .values = io->values,
                                        .vector = io->vector,
                                        .context = io->context,
                                        .weights = io->weights,
                                        .workspace = io->workspace,
                                        .reserve = io->reserve,
                                        .stream = io->stream,
                                        .backward = backward};
    ecornn_status status = check_counts(args, &plan->problem, io);
    if (status == ECORNN_OK)
        status = check_io(plan, io, args);
    if (status == ECORNN_OK && !plan->device->caps.own_memory)
        status = check_lengths(args);
    return status;
}

static ecornn_status read_gradient(struct eco_attention_args *args,
                                   const struct eco_attention *problem,
                                   const ecornn_attention_gradient *gradient)
{
    const size_t element = eco_type_bytes(problem->type);
    if (!gradient)
        return eco_fail(ECORNN_BAD_ARGUMENT, "gradient is NULL");
    if (gradient->size != sizeof *gradient)
        return eco_fail(ECORNN_BAD_ARGUMENT, "gradient.size is %zu, must be %zu", gradient->size,
                        sizeof *gradient);
    args->dcontext = gradient->dcontext;
    args->dweights = gradient->dweights;
    args->dquery = gradient->dquery;
    args->dkeys = gradient->dkeys;
    args->dvalues = gradient->dvalues;
    args->dvector = gradient->dvector;
    args->accumulate = gradient->accumulate != 0;
    if (args->dkeys != NULL && args->dkeys == args->dvalues)
        return eco_fail(ECORNN_BAD_ARGUMENT, "gradient.dvalues is %p, the memory of gradient.dkeys",
                        (void *)args->dvalues);
    const struct pointer pointer[] = {
        {"gradient.dcontext", args->dcontext, false, element},
        {"gradient.dweights", args->dweights, false, element},
        {"gradient.dquery", args->dquery, false, element},
        {"gradient.dkeys", args->dkeys, false, element},
        {"gradient.dvalues", args->dvalues, false, element},
        {"gradient.dvector", args->dvector, false, eco_type_bytes(eco_type_sum(problem->type))}};
    return check_pointers(pointer, sizeof pointer / sizeof *pointer);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static ecornn_status check_blocks(const struct ecornn_attention_plan *plan,
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

static ecornn_status run(const struct ecornn_attention_plan *plan, const ecornn_attention_io *io,
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

ecornn_status ecornn_attention_forward(const ecornn_attention_plan *plan,
                                       const ecornn_attention_io *io)
{
    struct eco_attention_args args;
    const ecornn_status status = read_io(&args, plan, io, false);
    return status == ECORNN_OK ? run(plan, io, &args) : status;
}

ecornn_status ecornn_attention_backward(const ecornn_attention_plan *plan,
                                        const ecornn_attention_io *io,
                                        const ecornn_attention_gradient *gradient)
{
    struct eco_attention_args args;
    ecornn_status status = read_io(&args, plan, io, true);
    if (status == ECORNN_OK)
        status = read_gradient(&args, &plan->problem, gradient);
    return status == ECORNN_OK ? run(plan, io, &args) : status;
}
