/*
 * Plans of attention: asks the backend for support, stores problem and sizes, and describes them.
 */
#include "common/attention/attention.h"

#include <limits.h>

#include "common/backend.h"

struct eco_size eco_attention_reserve(const struct eco_attention *problem,
                                      const struct eco_attention_args *sizes)
{
    struct eco_size bytes = eco_size_of(eco_type_bytes(eco_type_sum(problem->type)));
    bytes = eco_size_mul(bytes, (size_t)sizes->N);
    bytes = eco_size_mul(bytes, (size_t)sizes->T);
    bytes = eco_size_mul(bytes, (size_t)sizes->S);
    return eco_size_align(eco_size_add(bytes, eco_size_of(ECO_ATTENTION_MARK)));
}

struct eco_size eco_attention_workspace(const struct eco_attention_plan *plan,
                                        const struct eco_attention_args *sizes)
{
    const struct ecornn_device *device = plan->device;
    return device->backend->attention->workspace(&plan->problem, &device->caps, sizes);
}

/* Bytes of the caller's largest array, so that all indices fit size_t. */
static struct eco_size largest_array(const struct eco_attention *problem)
{
    const size_t rows = (size_t)(problem->T > problem->S ? problem->T : problem->S);
    const size_t width = (size_t)(problem->H > problem->V ? problem->H : problem->V);
    struct eco_size bytes = eco_size_of(eco_type_bytes(problem->type));
    bytes = eco_size_mul(eco_size_mul(bytes, rows), (size_t)problem->N);
    return eco_size_mul(bytes, width);
}

static bool too_large(struct eco_size bytes)
{
    return bytes.overflow || bytes.value > PTRDIFF_MAX;
}

/* A training plan may run inference too. */
static ecornn_status fix_sizes(struct eco_attention_plan *plan)
{
    const struct eco_attention *problem = &plan->problem;
    struct eco_attention_args run = {.T = problem->T, .S = problem->S, .N = problem->N};
    const struct eco_size array = largest_array(problem);
    const struct eco_size reserve = eco_attention_reserve(problem, &run);
    struct eco_size workspace = eco_attention_workspace(plan, &run);
    bool overflow = too_large(array) || too_large(reserve) || too_large(workspace);
    for (int backward = 0; backward < 2 && problem->training; backward++) {
        run.backward = backward != 0;
        run.reserve = plan; /* not NULL: there is a reserve */
        const struct eco_size other = eco_attention_workspace(plan, &run);
        overflow = overflow || too_large(other);
        workspace = other.value > workspace.value ? other : workspace;
    }
    if (overflow)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s needs more than %td bytes in one block",
                        problem->text, PTRDIFF_MAX);
    plan->sizes = (ecornn_sizes){.workspace_bytes = workspace.value,
                                 .reserve_bytes = problem->training ? reserve.value : 0,
                                 .alignment = ECO_ALIGNMENT,
                                 .steps = problem->T,
                                 .batch = problem->N,
                                 .input = problem->H,
                                 .output = problem->V,
                                 .checks_lengths = !plan->device->caps.own_memory,
                                 .models = 1,
                                 .source = problem->S,
                                 .layers = 1,
                                 .joined = 1};
    return ECORNN_OK;
}

ecornn_status eco_attention_plan_create(struct eco_attention_plan *plan)
{
    const struct ecornn_device *device = plan->device;
    const struct eco_attention_backend *backend = device->backend->attention;
    const char *const refusal = backend == NULL ? "it has no attention"
                                : backend->refuses == NULL
                                    ? NULL
                                    : backend->refuses(&plan->problem, &device->caps);
    if (refusal != NULL)
        return eco_fail(ECORNN_UNSUPPORTED, "device %s does not run %s: %s", device->backend->name,
                        plan->problem.text, refusal);
    return fix_sizes(plan);
}

int eco_attention_plan_describe(const struct eco_attention_plan *plan, char *data, size_t size)
{
    struct eco_text text = {data, size, 0};
    const ecornn_device_info *info = &plan->device->info;
    eco_text_add(&text, "%s on %s (%s, %s, %d threads)\n", plan->problem.text, info->name,
                 info->backend, info->variant, info->threads);
    plan->device->backend->attention->describe(plan, &text);
    eco_text_add(&text, "bytes: workspace %zu, reserve %zu\n", plan->sizes.workspace_bytes,
                 plan->sizes.reserve_bytes);
    return text.length > INT_MAX ? INT_MAX : (int)text.length;
}

/* ---- empty runs ------------------------------------------------------------------------------ */

static size_t row_bytes(const struct eco_attention *problem, int32_t rows, int32_t N, int32_t width)
{
    return (size_t)rows * (size_t)N * (size_t)width * eco_type_bytes(problem->type);
}

ecornn_status eco_attention_run_empty(const struct eco_attention_plan *plan,
                                      const struct eco_attention_args *args)
{
    const struct eco_attention *problem = &plan->problem;
    const int32_t T = args->T, S = args->S, N = args->N, H = problem->H, V = problem->V;
    const struct eco_fill all[] = {
        {.name = "io.context",
         .to = args->backward ? NULL : args->context,
         .bytes = row_bytes(problem, T, N, V)},
        {.name = "gradient.dquery", .to = args->dquery, .bytes = row_bytes(problem, T, N, H)},
        {.name = "gradient.dkeys", .to = args->dkeys, .bytes = row_bytes(problem, S, N, H)},
        {.name = "gradient.dvalues", .to = args->dvalues, .bytes = row_bytes(problem, S, N, V)},
        {.name = "gradient.dvector",
         .to = args->accumulate ? NULL : args->dvector,
         .bytes = (size_t)H * eco_type_bytes(eco_type_sum(problem->type))}};
    struct eco_call wanted[sizeof all / sizeof *all];
    int count = 0;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k].to != NULL && all[k].bytes > 0)
            wanted[count++] = (struct eco_call){ECO_CALL_FILL, {.fill = all[k]}};
    return plan->device->backend->queue(plan->device, wanted, count, args->stream);
}
