/*
 * Reads and checks the arguments of a run of a plan, once, before anything is written.
 */
#include "ecornn.h"

#include <inttypes.h>

#include "common/compose/sequence.h"
#include "lib/check.h"

/* The caller's array of pointers to states, one for each state of the cell. */
struct states {
    const char *name;
    const void *const *at; /* [ECORNN_MAX_STATES] */
    bool planned;          /* may the plan's runs have it? */
    const char *flag;      /* which they need for it */
};

static ecornn_status check_states(const struct ecornn_plan *plan, const struct states *states)
{
    const struct eco_recipe *const recipe = &plan->problem.cell->recipe;
    const size_t element = eco_type_bytes(plan->problem.type);
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        const void *const at = states->at[s];
        if (at && s >= recipe->n_states)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%d] is %p, but %s has %d state%s",
                            states->name, s, at, recipe->name, recipe->n_states,
                            recipe->n_states > 1 ? "s" : "");
        if (at && !states->planned)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%d] is %p, but plan %s is without ECORNN_%s",
                            states->name, s, at, plan->problem.text, states->flag);
        if (!eco_is_aligned(at, element))
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s[%d] is %p, must be aligned to %zu bytes",
                            states->name, s, at, element);
    }
    return ECORNN_OK;
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

/* What only some plans have.  A plan with resets takes reset states also in a run without. */
static ecornn_status check_planned(const struct ecornn_plan *plan, const struct eco_args *args)
{
    const struct eco_problem *const problem = &plan->problem;
    const struct states states[] = {
        {"io.initial", args->initial, true, NULL},
        {"io.final", (const void *const *)args->final, true, NULL},
        {"io.reset_state", args->reset_state, problem->resets, "RESETS"},
        {"io.states", (const void *const *)args->states, problem->states, "ALL_STATES"},
        {"gradient.dfinal", args->dfinal, true, NULL},
        {"gradient.dinitial", (const void *const *)args->dinitial, true, NULL},
        {"gradient.dreset_state", (const void *const *)args->dreset_state, problem->resets,
         "RESETS"},
        {"gradient.dstates", args->dstates, problem->states, "ALL_STATES"},
    };
    const struct {
        const char *name;
        const void *at;
        bool planned;
        const char *flag;
    } others[] = {{"io.reserve", args->reserve, problem->training, "TRAINING"},
                  {"io.resets", args->resets, problem->resets, "RESETS"},
                  {"io.mask", args->mask, problem->masks, "MASK"},
                  {"io.rows", args->rows, problem->streams, "STREAMS"}};
    ecornn_status status = ECORNN_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].at != NULL && !others[i].planned)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, but plan %s is without ECORNN_%s",
                            others[i].name, others[i].at, plan->problem.text, others[i].flag);
    for (size_t i = 0; status == ECORNN_OK && i < sizeof states / sizeof *states; i++)
        status = check_states(plan, &states[i]);
    return status;
}

ecornn_status eco_check_pointers(const struct eco_pointer *pointer, size_t count)
{
    ecornn_status status = ECORNN_OK;
    for (; status == ECORNN_OK && count > 0; pointer++, count--)
        status =
            eco_check_pointer(pointer->name, pointer->at, pointer->required, pointer->alignment);
    return status;
}

ecornn_status eco_check_blocks(const struct eco_args *args, const ecornn_sizes *sizes,
                               ecornn_type type)
{
    const size_t element = eco_type_bytes(type), block = sizes->alignment;
    const bool runs = !is_empty(args);
    const struct eco_pointer all[] = {
        {"io.x", args->x, runs, element},
        {"io.lengths", args->lengths, false, sizeof *args->lengths},
        {"io.rows", args->rows, false, sizeof *args->rows},
        {"io.y", args->y, false, element},
        {"io.weights", args->weights, runs && sizes->weight_bytes > 0, block},
        {"io.workspace", args->workspace, runs && sizes->workspace_bytes > 0, block},
        {"io.reserve", args->reserve, runs && args->backward, block},
        {"gradient.dy", args->dy, false, element},
        {"gradient.dx", args->dx, false, element},
        {"gradient.dweights", args->dweights, false, block}};
    return eco_check_pointers(all, sizeof all / sizeof *all);
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

/* Each stream once, so that no row of final is written twice.  A host cannot read a GPU's list. */
static ecornn_status check_rows(const struct ecornn_plan *plan, const struct eco_args *args)
{
    if (args->streams < 1)
        return eco_fail(ECORNN_BAD_ARGUMENT, "io.streams is %d, must be at least 1 with io.rows",
                        (int)args->streams);
    for (int32_t n = 0, least = 0; n < args->N && !plan->device->caps.own_memory;
         least = args->rows[n++] + 1)
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
    ecornn_status status = check_planned(plan, args);
    if (status == ECORNN_OK)
        status = eco_check_blocks(args, &plan->sizes, plan->problem.type);
    if (status == ECORNN_OK && !is_empty(args))
        status = eco_check_overlap(args, &plan->sizes);
    if (status == ECORNN_OK)
        status = check_streams(plan, args);
    return status == ECORNN_OK && !plan->device->caps.own_memory
               ? eco_check_lengths(args->lengths, args->T, rows)
               : status;
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
                  {"gradient.dparams", g->dparams, ECO_PLAN_TANGENT},
                  {"io.params", io->params, plan->kind},
                  {"io.added", io->added, plan->kind}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].at && plan->kind != fields[i].kind)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %p, must be NULL: the plan is not %s",
                            fields[i].name, fields[i].at,
                            fields[i].kind == ECO_PLAN_NET ? "a net" : "of tangents");
        if (eco_check_pointer(fields[i].name, fields[i].at, false, sizeof(void *)) != ECORNN_OK)
            return ECORNN_BAD_ARGUMENT;
    }
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
