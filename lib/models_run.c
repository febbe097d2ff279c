/*
 * A run of several models. On a CPU each model runs on one thread if there are at least as many
 * models as threads, else on all threads; on a GPU each runs on a stream. A model runs as it would
 * alone, so it has the same bits.
 */
#include "lib/models.h"

#include <stdatomic.h>
#include <string.h>

#include "common/caller.h"
#include "common/seed.h"
#include "common/util.h"
#include "lib/check.h"

struct models {
    const ecornn_plan *plan;
    const ecornn_io *io;
    const ecornn_gradient *gradient; /* NULL: forward */
    int32_t T, N;
    ecornn_sizes one; /* of each model in this run */
    char *dx; /* [M,T,N,I] of all models if they share x and the caller asks for dx; else NULL */
    atomic_int next; /* the first model that no thread has taken */
    atomic_flag failed;
    ecornn_status status; /* of the first model that failed, and why */
    char detail[ECO_MAX_DETAIL];
};

/* ---- a model's part of each array ------------------------------------------------------------ */

/* NULL stays NULL. */
static void *part(const void *array, size_t bytes, int model)
{
    return array == NULL ? NULL : (char *)(uintptr_t)array + (size_t)model * bytes;
}

static size_t elements(const struct models *models, size_t width)
{
    return (size_t)models->T * (size_t)models->N * width *
           eco_type_bytes(models->plan->problem.type);
}

static size_t state_bytes(const struct models *models, int s)
{
    const struct eco_problem *problem = &models->plan->problem;
    return (size_t)problem->L * (size_t)problem->D * (size_t)models->N *
           (size_t)eco_problem_width(problem, s) * eco_type_bytes(problem->type);
}

/* Points at a model's x, lengths and resets, unless the models share them. */
static void take_input(const struct models *models, int m, ecornn_io *io)
{
    const size_t N = (size_t)models->N, bytes = (size_t)models->T * N;
    if (models->plan->problem.shared)
        return;
    io->x = part(io->x, elements(models, (size_t)models->plan->problem.I), m);
    io->lengths = part(io->lengths, N * sizeof *io->lengths, m);
    io->resets = part(io->resets, bytes, m);
    io->mask = part(io->mask, bytes, m);
}

/* place: index among the models that run concurrently. */
static ecornn_io io_of(const struct models *models, int m, int place)
{
    const struct eco_problem *problem = &models->plan->problem;
    const ecornn_sizes *one = &models->one;
    ecornn_io io = *models->io;
    io.steps = models->T;
    io.batch = models->N;
    io.y = part(io.y, elements(models, (size_t)problem->D * (size_t)problem->P), m);
    for (int s = 0; s < problem->cell->recipe.n_states; s++) {
        const size_t bytes = state_bytes(models, s);
        io.initial[s] = part(io.initial[s], bytes, m);
        io.final[s] = part(io.final[s], bytes, m);
        io.reset_state[s] = part(io.reset_state[s], bytes, m);
        io.states[s] = part(io.states[s], (size_t)models->T * bytes, m);
    }
    io.weights = part(io.weights, eco_models_stride(one->weights), m);
    io.reserve = part(io.reserve, eco_models_stride(one->reserve), m);
    io.workspace = part(io.workspace, eco_models_stride(one->workspace), place);
    io.workspace_bytes = io.reserve_bytes = 0; /* checked for all */
    io.seed = eco_seed_of(io.seed, ECO_SEED_MODEL, (uint32_t)m);
    take_input(models, m, &io);
    return io;
}

static ecornn_gradient gradient_of(const struct models *models, int m)
{
    const struct eco_problem *problem = &models->plan->problem;
    const size_t x_bytes = elements(models, (size_t)problem->I);
    ecornn_gradient gradient = *models->gradient;
    gradient.dy = part(gradient.dy, elements(models, (size_t)problem->D * (size_t)problem->P), m);
    gradient.dx = part(models->dx != NULL ? models->dx : gradient.dx, x_bytes, m);
    for (int s = 0; s < problem->cell->recipe.n_states; s++) {
        const size_t bytes = state_bytes(models, s);
        gradient.dfinal[s] = part(gradient.dfinal[s], bytes, m);
        gradient.dinitial[s] = part(gradient.dinitial[s], bytes, m);
        gradient.dreset_state[s] = part(gradient.dreset_state[s], bytes, m);
        gradient.dstates[s] = part(gradient.dstates[s], (size_t)models->T * bytes, m);
    }
    gradient.dweights = part(gradient.dweights, eco_models_stride(models->one.dweights), m);
    return gradient;
}

/* ---- running --------------------------------------------------------------------------------- */

static void note(struct models *models, ecornn_status status)
{
    if (status == ECORNN_OK || atomic_flag_test_and_set(&models->failed))
        return;
    models->status = status;
    eco_fail_keep(models->detail);
}

/* Runs model m; alone: on the calling thread only, while other threads run other models. */
static ecornn_status run_one(const struct models *models, int m, const ecornn_io *io, bool alone)
{
    const ecornn_plan *one = models->plan->one;
    struct eco_args args;
    ecornn_status status;
    if (models->gradient == NULL)
        status = eco_run_read_forward(&args, one, io);
    else {
        const ecornn_gradient gradient = gradient_of(models, m);
        status = eco_run_read_backward(&args, one, io, &gradient);
    }
    args.alone = alone;
    return status == ECORNN_OK ? eco_run_one(one, io, &args) : status;
}

static void run_model(struct models *models, int m, int thread)
{
    const ecornn_io io = io_of(models, m, thread);
    note(models, run_one(models, m, &io, models->plan->concurrent > 1));
}

/* Takes model after model, so that other threads do the work of a thread that starts late. */
static void run_some(void *own, int id, int count)
{
    struct models *models = own;
    (void)count;
    for (int m; (m = atomic_fetch_add(&models->next, 1)) < models->plan->problem.models;)
        run_model(models, m, id);
}

/* dx = the sum over models, in their order. */
static void add_some(void *own, int id, int count)
{
    const struct models *models = own;
    const struct eco_problem *problem = &models->plan->problem;
    const size_t n = (size_t)models->T * (size_t)models->N * (size_t)problem->I;
    const size_t from = n * (size_t)id / (size_t)count, to = n * ((size_t)id + 1) / (size_t)count;
    const size_t bytes = eco_type_bytes(problem->type);
    char *dx = (char *)models->gradient->dx + from * bytes;
    memcpy(dx, models->dx + from * bytes, (to - from) * bytes);
    for (int m = 1; m < problem->models; m++)
        eco_type_add(dx, problem->type, models->dx + ((size_t)m * n + from) * bytes, problem->type,
                     to - from);
}

static ecornn_status run_on_threads(struct models *models)
{
    const ecornn_plan *plan = models->plan;
    if (plan->concurrent > 1)
        plan->device->backend->run_on_threads(plan->device, run_some, models);
    else
        run_some(models, 0, 1);
    if (models->status != ECORNN_OK)
        return eco_fail(models->status, "%s", models->detail);
    if (models->dx != NULL) {
        struct eco_caller caller;
        eco_caller_begin_run(&caller, plan->device->backend);
        plan->device->backend->run_on_threads(plan->device, add_some, models);
        eco_caller_end(&caller);
    }
    return ECORNN_OK;
}

/* ---- on a stream ----------------------------------------------------------------------------- */

static ecornn_status queue_model(void *own, int m, int place, void *stream)
{
    const struct models *models = own;
    ecornn_io io = io_of(models, m, place);
    io.stream = stream;
    return run_one(models, m, &io, false);
}

/* As add_some does. */
static ecornn_status queue_sum(void *own, void *stream)
{
    const struct models *models = own;
    const struct eco_problem *problem = &models->plan->problem;
    struct ecornn_device *device = models->plan->device;
    const size_t I = (size_t)problem->I, bytes = elements(models, I);
    ecornn_status status = ECORNN_OK;
    for (int m = 0; models->dx != NULL && status == ECORNN_OK && m < problem->models; m++) {
        const struct eco_rows_move move = {.to = models->gradient->dx,
                                           .from = part(models->dx, bytes, m),
                                           .to_row = I,
                                           .from_row = I,
                                           .rows = (size_t)models->T * (size_t)models->N,
                                           .width = I,
                                           .add = m > 0,
                                           .type = problem->type};
        status = device->backend->move_rows(device, &move, stream);
    }
    return status;
}

static ecornn_status run_on_stream(struct models *models, const struct eco_args *args)
{
    const ecornn_plan *plan = models->plan;
    const struct eco_concurrent_runs runs = {.runs = plan->problem.models,
                                             .concurrent = plan->concurrent,
                                             .one = queue_model,
                                             .last = queue_sum,
                                             .user_data = models,
                                             .plan = plan,
                                             .args = args};
    return plan->device->backend->run_concurrently(plan->device, &runs, args->stream);
}

/* ---- both ------------------------------------------------------------------------------------ */

ecornn_status eco_models_run(const ecornn_plan *plan, const ecornn_io *io,
                             const ecornn_gradient *gradient, const struct eco_args *args)
{
    struct models models = {.plan = plan,
                            .io = io,
                            .gradient = gradient,
                            .T = args->T,
                            .N = args->N,
                            .one = eco_plan_sizes(plan->one, args->T, args->N),
                            .next = 0,
                            .failed = ATOMIC_FLAG_INIT,
                            .status = ECORNN_OK};
    const ecornn_sizes sizes = eco_models_sizes(plan, args->T, args->N);
    ecornn_status status = eco_check_bytes("workspace_bytes", io->workspace_bytes, sizes.workspace);
    if (status == ECORNN_OK && io->reserve != NULL)
        status = eco_check_bytes("reserve_bytes", io->reserve_bytes, sizes.reserve);
    if (status != ECORNN_OK)
        return status;
    if (gradient != NULL && gradient->dx != NULL && plan->problem.shared && args->T > 0 &&
        args->N > 0)
        models.dx = part(io->workspace, eco_models_stride(models.one.workspace), plan->concurrent);
    return plan->device->backend->share != NULL ? run_on_stream(&models, args)
                                                : run_on_threads(&models);
}
