/*
 * Runs of a plan. A run of several models: each is a job. On a CPU each model runs on one thread if
 * there are at least as many models as threads, else on all threads; on a GPU each runs on a
 * stream. A model runs as it would alone, so it has the same bits.
 */
#include "common/compose/arena.h"
#include "common/compose/models.h"
#include "common/compose/sequence.h"
#include "common/run_arrays.h"
#include "common/seed.h"
#include "common/caller.h"

/* An array that is cut into one part of `bytes` for each model. */
struct part {
    const struct eco_run_array *array;
    int s;
    size_t bytes;
};

struct models {
    const struct ecornn_plan *plan;
    const struct eco_args *args; /* of all models */
    ecornn_sizes one;            /* of each model in this run */
    struct part part[ECO_RUN_POINTERS];
    int parts;
    char *dx; /* [M,T,N,I] of all models if they share x and the caller asks for dx; else NULL */
};

/* ---- a model's part of each array ------------------------------------------------------------ */

/* Bytes of one model's part of an array; 0: the models share it. */
static size_t bytes_of(const struct models *models, const struct eco_run_array *array, int s)
{
    const struct eco_problem *const problem = &models->plan->problem;
    const struct eco_run_shape shape =
        eco_run_array_shape(array, problem, s, models->args->T, models->args->N);
    if (problem->shared && array->models == ECO_MODELS_WITH_X)
        return 0;
    return array->element == ECO_ARRAY_BLOCK
               ? eco_models_stride(eco_run_array_bytes(array, &models->one))
               : eco_run_shape_bytes(&shape);
}

/* Finds the pointers that differ between models. */
static void find_parts(struct models *models)
{
    for (int a = 0; a < eco_run_arrays(models->args); a++)
        for (int s = 0; s < eco_run_array[a].count; s++)
            if (eco_run_array_get(models->args, &eco_run_array[a], s) != NULL)
                models->part[models->parts++] =
                    (struct part){&eco_run_array[a], s, bytes_of(models, &eco_run_array[a], s)};
}

/* lane: index among the models that run concurrently. */
static struct eco_args args_of(const struct models *models, size_t m, size_t lane)
{
    struct eco_args args = *models->args;
    if (models->dx != NULL)
        args.dx = models->dx;
    for (const struct part *part = models->part; part < models->part + models->parts; part++)
        eco_run_array_set(
            &args, part->array, part->s,
            eco_after(eco_run_array_get(&args, part->array, part->s), m * part->bytes));
    args.workspace =
        eco_after(models->args->workspace, lane * eco_models_stride(models->one.workspace_bytes));
    args.workspace_bytes = args.reserve_bytes = 0; /* checked for all */
    args.seed = eco_seed_of(args.seed, ECO_SEED_MODEL, (uint32_t)m);
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
    const size_t I = (size_t)problem->I, bytes = (size_t)models->args->T * (size_t)models->args->N *
                                                 I * eco_type_bytes(problem->type);
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
    find_parts(&models);
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
