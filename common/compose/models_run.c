/*
 * Runs of a plan. A run of several models: each is a job. On a CPU each model runs on one thread if
 * there are at least as many models as threads, else on all threads; on a GPU each runs on a
 * stream. A model runs as it would alone, so it has the same bits.
 */
#include "common/compose/arena.h"
#include "common/compose/models.h"
#include "common/compose/sequence.h"
#include "common/seed.h"
#include "common/caller.h"

struct models {
    const struct ecornn_plan *plan;
    const struct eco_args *args; /* of all models */
    ecornn_sizes one;            /* of each model in this run */
    char *dx; /* [M,T,N,I] of all models if they share x and the caller asks for dx; else NULL */
};

/* ---- a model's part of each array ------------------------------------------------------------ */

static size_t elements(const struct models *models, size_t width)
{
    return (size_t)models->args->T * (size_t)models->args->N * width *
           eco_type_bytes(models->plan->problem.type);
}

/* What a model has for itself in every array of states. */
static void take_states(const struct models *models, size_t m, struct eco_args *args)
{
    const struct eco_problem *const problem = &models->plan->problem;
    const size_t rows =
        (size_t)problem->L * (size_t)problem->D * (size_t)args->N * eco_type_bytes(problem->type);
    for (int s = 0; s < problem->cell->recipe.n_states; s++) {
        const size_t at = m * rows * (size_t)eco_problem_width(problem, s),
                     all = at * (size_t)args->T;
        args->initial[s] = eco_after(args->initial[s], at);
        args->final[s] = eco_after(args->final[s], at);
        args->reset_state[s] = eco_after(args->reset_state[s], at);
        args->states[s] = eco_after(args->states[s], all);
        args->dfinal[s] = eco_after(args->dfinal[s], at);
        args->dinitial[s] = eco_after(args->dinitial[s], at);
        args->dreset_state[s] = eco_after(args->dreset_state[s], at);
        args->dstates[s] = eco_after(args->dstates[s], all);
    }
}

/* Points at a model's x, lengths, resets and mask, unless the models share them. */
static void take_input(const struct models *models, size_t m, struct eco_args *args)
{
    const size_t rows = (size_t)args->T * (size_t)args->N;
    if (models->plan->problem.shared)
        return;
    args->x = eco_after(args->x, m * elements(models, (size_t)models->plan->problem.I));
    args->lengths = eco_after(args->lengths, m * (size_t)args->N * sizeof *args->lengths);
    args->resets = eco_after(args->resets, m * rows);
    args->mask = eco_after(args->mask, m * rows);
}

/* lane: index among the models that run concurrently. */
static struct eco_args args_of(const struct models *models, size_t m, size_t lane)
{
    const struct eco_problem *const problem = &models->plan->problem;
    const ecornn_sizes *const one = &models->one;
    const size_t y = elements(models, (size_t)problem->D * (size_t)problem->P),
                 x = elements(models, (size_t)problem->I);
    struct eco_args args = *models->args;
    args.y = eco_after(args.y, m * y);
    args.dy = eco_after(args.dy, m * y);
    args.dx = eco_after(models->dx != NULL ? models->dx : args.dx, m * x);
    args.weights = eco_after(args.weights, m * eco_models_stride(one->weight_bytes));
    args.dweights = eco_after(args.dweights, m * eco_models_stride(one->dweight_bytes));
    args.reserve = eco_after(args.reserve, m * eco_models_stride(one->reserve_bytes));
    args.workspace = eco_after(args.workspace, lane * eco_models_stride(one->workspace_bytes));
    args.workspace_bytes = args.reserve_bytes = 0; /* checked for all */
    args.seed = eco_seed_of(args.seed, ECO_SEED_MODEL, (uint32_t)m);
    take_states(models, m, &args);
    take_input(models, m, &args);
    return args;
}

/* ---- running --------------------------------------------------------------------------------- */

static void run_model(const void *program, int m, struct eco_sequence *sequence)
{
    const struct models *const models = program;
    struct eco_args args = args_of(models, (size_t)m, (size_t)sequence->lane);
    args.stream = sequence->stream;
    args.alone = sequence->alone;
    eco_compose_one(sequence, models->plan->one, &args);
}

/* dx = the sum over models, in their order. */
static void add_dx(const void *program, struct eco_sequence *sequence)
{
    const struct models *const models = program;
    const struct eco_problem *const problem = &models->plan->problem;
    const size_t I = (size_t)problem->I, bytes = elements(models, I);
    for (int m = 0; models->dx != NULL && m < problem->models; m++)
        eco_sequence_move(sequence, &(struct eco_rows_move){.to = models->args->dx,
                                                            .from = models->dx + (size_t)m * bytes,
                                                            .to_row = I,
                                                            .from_row = I,
                                                            .rows = (size_t)models->args->T *
                                                                    (size_t)models->args->N,
                                                            .width = I,
                                                            .add = m > 0,
                                                            .type = problem->type});
}

void eco_compose_models(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                        const struct eco_args *args)
{
    const ecornn_sizes sizes = eco_models_sizes(plan, args->T, args->N);
    struct models models = {
        .plan = plan, .args = args, .one = eco_plan_sizes(plan->one, args->T, args->N)};
    if (args->dx != NULL && plan->problem.shared && args->T > 0 && args->N > 0)
        models.dx = eco_after(args->workspace, eco_models_stride(models.one.workspace_bytes) *
                                                   (size_t)plan->concurrent);
    sequence->status = eco_args_check_bytes(args, sizes.workspace_bytes, sizes.reserve_bytes);
    eco_sequence_jobs(sequence, &(struct eco_program_jobs){.jobs = plan->problem.models,
                                                           .lanes = plan->concurrent,
                                                           .one = run_model,
                                                           .last = add_dx,
                                                           .program = &models,
                                                           .plan = plan,
                                                           .args = args});
}

/* ---- one model or several -------------------------------------------------------------------- */

void eco_sequence_run(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                      const struct eco_args *args)
{
    struct eco_args own = *args;
    own.stream = sequence->stream;
    own.alone = sequence->alone;
    if (sequence->status == ECORNN_OK)
        (plan->one != NULL ? eco_compose_models : eco_compose_one)(sequence, plan, &own);
}

ecornn_status eco_run_plan(const struct ecornn_plan *plan, const struct eco_args *args)
{
    struct eco_caller caller;
    struct eco_sequence sequence = eco_sequence_on(plan->device, args->stream);
    eco_caller_begin_run(&caller, plan->device->backend);
    (plan->one != NULL ? eco_compose_models : eco_compose_one)(&sequence, plan, args);
    eco_caller_end(&caller);
    return sequence.status;
}
