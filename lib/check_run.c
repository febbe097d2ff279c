/*
 * Reads and checks the arguments of a run of a plan, once, before anything is written.
 */
#include "ecornn.h"

#include <inttypes.h>

#include "common/compose/sequence.h"
#include "lib/check.h"

/* Checks optional pointers, one for each state of the cell. */
static ecornn_status check_states(const char *name, const void *const *state,
                                  const struct eco_problem *problem)
{
    const int count = problem->cell->recipe.n_states;
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        if (state[s] && s >= count)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%d] is %p, but %s has %d state%s", name, s,
                            state[s], problem->cell->recipe.name, count, count > 1 ? "s" : "");
        if (!eco_is_aligned(state[s], eco_type_bytes(problem->type)))
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%d] is %p, must be aligned to %zu bytes", name,
                            s, state[s], eco_type_bytes(problem->type));
    }
    return ECORNN_OK;
}

/* The same for writable pointers, which C does not convert implicitly. */
static ecornn_status check_results(const char *name, void *const *state,
                                   const struct eco_problem *problem)
{
    const void *read[ECORNN_MAX_STATES];
    for (int s = 0; s < ECORNN_MAX_STATES; s++)
        read[s] = state[s];
    return check_states(name, read, problem);
}

static ecornn_status check_all_states(const char *name, const void *const *state,
                                      const struct eco_problem *problem)
{
    for (int s = 0; !problem->states && s < ECORNN_MAX_STATES; s++)
        if (state[s])
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "%s[%d] is %p, but plan %s is without ECORNN_ALL_STATES", name, s,
                            state[s], problem->text);
    return check_states(name, state, problem);
}

/* A run of no steps or no rows accesses only states and gradients of weights. */
static bool is_empty(const struct eco_args *args)
{
    return args->T == 0 || args->N == 0;
}

ecornn_status eco_check_lengths(const int32_t *lengths, int32_t T, int64_t count)
{
    for (int64_t n = 0; lengths && n < count; n++)
        if (lengths[n] < 0 || lengths[n] > T)
            return eco_fail(ECORNN_BAD_ARGUMENT, "io.lengths[%" PRId64 "] is %d, must be 0 to %d",
                            n, (int)lengths[n], (int)T);
    return ECORNN_OK;
}

static ecornn_status check_reserve(const struct ecornn_plan *plan, const struct eco_args *args,
                                   bool required)
{
    if (args->reserve && !plan->problem.training)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "io.reserve is %p, but plan %s is without ECORNN_TRAINING", args->reserve,
                        plan->problem.text);
    return eco_check_pointer("io.reserve", args->reserve, required, plan->sizes.alignment);
}

/* A plan with resets takes reset states also in a run without. */
static ecornn_status check_given_resets(const struct ecornn_plan *plan, const struct eco_args *args)
{
    for (int s = 0; !plan->problem.resets && s < ECORNN_MAX_STATES; s++)
        if (args->reset_state[s])
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "io.reset_state[%d] is %p, but plan %s is without ECORNN_RESETS", s,
                            args->reset_state[s], plan->problem.text);
    return ECORNN_OK;
}

static ecornn_status check_blocks(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const size_t element = eco_type_bytes(plan->problem.type), block = plan->sizes.alignment;
    const bool runs = !is_empty(args);
    ecornn_status status = eco_check_pointer("io.x", args->x, runs, element);
    if (status == ECORNN_OK)
        status = eco_check_pointer("io.lengths", args->lengths, false, sizeof *args->lengths);
    if (status == ECORNN_OK)
        status = eco_check_pointer("io.y", args->y, false, element);
    if (status == ECORNN_OK)
        status = check_states("io.initial", args->initial, &plan->problem);
    if (status == ECORNN_OK)
        status = check_results("io.final", args->final, &plan->problem);
    if (status == ECORNN_OK)
        status = check_states("io.reset_state", args->reset_state, &plan->problem);
    if (status == ECORNN_OK)
        status = check_given_resets(plan, args);
    if (status == ECORNN_OK && args->resets && !plan->problem.resets)
        status =
            eco_fail(ECORNN_BAD_ARGUMENT, "io.resets is %p, but plan %s is without ECORNN_RESETS",
                     (const void *)args->resets, plan->problem.text);
    if (status == ECORNN_OK && args->mask && !plan->problem.masks)
        status = eco_fail(ECORNN_BAD_ARGUMENT, "io.mask is %p, but plan %s is without ECORNN_MASK",
                          (const void *)args->mask, plan->problem.text);
    if (status == ECORNN_OK)
        status = check_all_states("io.states", (const void *const *)args->states, &plan->problem);
    if (status == ECORNN_OK)
        status = eco_check_pointer("io.weights", args->weights,
                                   runs && plan->sizes.weight_bytes > 0, block);
    if (status == ECORNN_OK)
        status = eco_check_pointer("io.workspace", args->workspace,
                                   runs && plan->sizes.workspace_bytes > 0, block);
    if (status == ECORNN_OK)
        status = check_reserve(plan, args, runs && args->backward);
    return status;
}

ecornn_status eco_check_overlap(const struct eco_args *args, const ecornn_sizes *sizes)
{
    const void *const weights = sizes->weight_bytes > 0 ? args->weights : NULL,
                      *const workspace = sizes->workspace_bytes > 0 ? args->workspace : NULL;
    const struct {
        const char *name, *other;
        const void *at, *other_at;
    } apart[] = {{"io.y", "io.x", args->y, args->x},
                 {"io.reserve", "io.workspace", args->reserve, workspace},
                 {"io.workspace", "io.weights", workspace, weights},
                 {"io.reserve", "io.weights", args->reserve, weights},
                 {"gradient.dweights", "io.weights", args->dweights, weights},
                 {"gradient.dweights", "io.workspace", args->dweights, workspace},
                 {"gradient.dweights", "io.reserve", args->dweights, args->reserve}};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (apart[i].at != NULL && apart[i].at == apart[i].other_at)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, the memory of %s", apart[i].name,
                            apart[i].at, apart[i].other);
    for (int s = 0; args->reserve != NULL && !args->backward && s < ECORNN_MAX_STATES; s++)
        if (args->final[s] != NULL && args->final[s] == args->initial[s])
            return eco_fail(
                ECORNN_BAD_ARGUMENT,
                "io.final[%d] is %p, the memory of io.initial[%d], which backward reads", s,
                args->final[s], s);
    return ECORNN_OK;
}

static ecornn_status check_gradient(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const size_t element = eco_type_bytes(plan->problem.type);
    for (int s = 0; s < ECORNN_MAX_STATES; s++)
        if (args->dreset_state[s] && !plan->problem.resets)
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "gradient.dreset_state[%d] is %p, but plan %s is without ECORNN_RESETS",
                            s, args->dreset_state[s], plan->problem.text);
    ecornn_status status = eco_check_pointer("gradient.dy", args->dy, false, element);
    if (status == ECORNN_OK)
        status = check_states("gradient.dfinal", args->dfinal, &plan->problem);
    if (status == ECORNN_OK)
        status = eco_check_pointer("gradient.dx", args->dx, false, element);
    if (status == ECORNN_OK)
        status = check_results("gradient.dinitial", args->dinitial, &plan->problem);
    if (status == ECORNN_OK)
        status = check_results("gradient.dreset_state", args->dreset_state, &plan->problem);
    if (status == ECORNN_OK)
        status = check_all_states("gradient.dstates", args->dstates, &plan->problem);
    if (status == ECORNN_OK)
        status =
            eco_check_pointer("gradient.dweights", args->dweights, false, plan->sizes.alignment);
    return status;
}

/* Each stream once, so that no row of final is written twice.  A host cannot read a GPU's list. */
static ecornn_status check_rows(const struct ecornn_plan *plan, const struct eco_args *args)
{
    if (args->streams < 1)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.streams is %d, must be at least 1 with io.rows",
                        (int)args->streams);
    if (plan->device->caps.own_memory)
        return eco_check_pointer("io.rows", args->rows, true, sizeof *args->rows);
    for (int32_t n = 0, least = 0; n < args->N; least = args->rows[n++] + 1)
        if (args->rows[n] < least || args->rows[n] >= args->streams)
            return eco_fail(ECORNN_BAD_ARGUMENT,
                            "io.rows[%d] is %d, must be %d to %d: below io.streams, ascending",
                            (int)n, (int)args->rows[n], (int)least, (int)args->streams - 1);
    return ECORNN_OK;
}

static ecornn_status check_streams(const struct ecornn_plan *plan, const struct eco_args *args)
{
    if (args->rows == NULL)
        return ECORNN_OK;
    if (!plan->problem.streams)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.rows is %p, but plan %s is without ECORNN_STREAMS",
                        (const void *)args->rows, plan->problem.text);
    if (args->reserve != NULL || args->backward)
        return eco_fail(ECORNN_UNSUPPORTED, "io.rows is set, which needs inference: no reserve");
    for (int s = 0; s < plan->problem.cell->recipe.n_states; s++)
        if (args->initial[s] == NULL)
            return eco_fail(ECORNN_BAD_ARGUMENT, "io.initial[%d] is NULL, is required with io.rows",
                            s);
    if (args->T == 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "steps is 0, must be at least 1 with io.rows");
    return check_rows(plan, args);
}

ecornn_status eco_args_check(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const int64_t rows = (int64_t)args->N * (plan->problem.shared ? 1 : plan->problem.models);
    ecornn_status status = check_blocks(plan, args);
    if (status == ECORNN_OK && !is_empty(args))
        status = eco_check_overlap(args, &plan->sizes);
    if (status == ECORNN_OK)
        status = check_streams(plan, args);
    if (status == ECORNN_OK && !plan->device->caps.own_memory)
        status = eco_check_lengths(args->lengths, args->T, rows);
    return status == ECORNN_OK && args->backward ? check_gradient(plan, args) : status;
}

/* ---- what the caller gives ------------------------------------------------------------------- */

void eco_args_read_io(struct eco_args *args, int32_t T, int32_t N, const ecornn_io *io)
{
    *args = (struct eco_args){.T = T,
                              .N = N,
                              .lengths = io->lengths,
                              .rows = io->rows,
                              .streams = io->streams,
                              .x = io->x,
                              .y = io->y,
                              .resets = io->resets,
                              .mask = io->mask,
                              .weights = io->weights,
                              .workspace = io->workspace,
                              .reserve = io->reserve,
                              .workspace_bytes = io->workspace_bytes,
                              .reserve_bytes = io->reserve_bytes,
                              .seed = io->seed,
                              .first_step = io->first_step,
                              .first_row = io->first_row,
                              .stream = io->stream};
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        args->initial[s] = io->initial[s];
        args->final[s] = io->final[s];
        args->reset_state[s] = io->reset_state[s];
        args->states[s] = io->states[s];
    }
}

void eco_args_read_gradient(struct eco_args *args, const ecornn_gradient *gradient)
{
    args->backward = true;
    args->dy = gradient->dy;
    args->dx = gradient->dx;
    args->dweights = gradient->dweights;
    args->accumulate = gradient->add != 0;
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        args->dfinal[s] = gradient->dfinal[s];
        args->dinitial[s] = gradient->dinitial[s];
        args->dreset_state[s] = gradient->dreset_state[s];
        args->dstates[s] = gradient->dstates[s];
    }
}

/* Fields that plans of this kind do not have must be NULL. */
static ecornn_status check_kind(const ecornn_plan *plan, const ecornn_io *io,
                                const ecornn_gradient *gradient)
{
    static const ecornn_gradient none = {0};
    const ecornn_gradient *const g = gradient ? gradient : &none;
    const struct {
        const char *name;
        const void *at;
        enum eco_plan_kind kind;
    } fields[] = {{"io.layers", io->layers, ECO_PLAN_NET},
                  {"io.tangent", io->tangent, ECO_PLAN_TANGENT},
                  {"gradient.layers", g->layers, ECO_PLAN_NET},
                  {"gradient.tangent", g->tangent, ECO_PLAN_TANGENT},
                  {"gradient.dparams", g->dparams, ECO_PLAN_TANGENT}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].at && plan->kind != fields[i].kind)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, must be NULL: the plan is not %s",
                            fields[i].name, fields[i].at,
                            fields[i].kind == ECO_PLAN_NET ? "a net" : "of tangents");
    if (io->rows && plan->kind != ECO_PLAN_LAYERS)
        return eco_fail(ECORNN_UNSUPPORTED, "io.rows is set, which needs a plan of layers");
    if (!io->rows && io->streams != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.streams is %d, must be 0 without io.rows",
                        (int)io->streams);
    if (io->reserved != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.reserved is %d, must be 0", io->reserved);
    if (g->reserved != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "gradient.reserved is %d, must be 0", g->reserved);
    return ECORNN_OK;
}

ecornn_status eco_check_run(const ecornn_plan *plan, int32_t steps, int32_t batch,
                            const ecornn_io *io, const ecornn_gradient *gradient)
{
    ecornn_status status = eco_check_count("steps", steps, plan->sizes.steps);
    if (status == ECORNN_OK)
        status = eco_check_count("batch", batch, plan->sizes.batch);
    return status == ECORNN_OK ? check_kind(plan, io, gradient) : status;
}
