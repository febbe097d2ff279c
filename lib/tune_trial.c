/*
 * One plan that is timed: its blocks, its runs and the spread of its times; see tune.h.
 */
#include "lib/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/compose/sequence.h"
#include "common/util.h"
#include "lib/check.h"

static ecornn_status run(struct eco_trial *trial, int set)
{
    const struct eco_tune_data *data = trial->data;
    const size_t bytes = data->x_elements * eco_type_bytes(data->problem->type);
    ecornn_io io = {.size = sizeof io,
                    .x = data->x + (size_t)set * bytes,
                    .y = data->y,
                    .weights = trial->weights,
                    .workspace = trial->workspace,
                    .reserve = trial->reserve,
                    .stream = data->stream,
                    .seed = 1};
    for (int s = 0; s < data->problem->cell->recipe.n_states; s++)
        io.initial[s] = data->states;
    struct eco_args args;
    eco_args_read_io(&args, data->problem->T, data->problem->N, &io);
    ecornn_status status = eco_args_check(trial->plan, &args);
    if (status == ECORNN_OK)
        status = eco_run_plan(trial->plan, &args);
    if (status != ECORNN_OK || !data->problem->training)
        return status;
    eco_args_read_gradient(&args, &(ecornn_gradient){.size = sizeof(ecornn_gradient),
                                                     .dy = data->dy,
                                                     .dx = data->dx,
                                                     .dweights = trial->dweights});
    status = eco_args_check(trial->plan, &args);
    return status == ECORNN_OK ? eco_run_plan(trial->plan, &args) : status;
}

static ecornn_status make_blocks(struct eco_trial *trial)
{
    ecornn_device *device = trial->data->device;
    const ecornn_sizes *sizes = &trial->plan->sizes;
    struct {
        void **block;
        size_t bytes;
    } blocks[] = {{&trial->weights, sizes->weight_bytes},
                  {&trial->workspace, sizes->workspace_bytes},
                  {&trial->reserve, sizes->reserve_bytes},
                  {&trial->dweights, sizes->dweight_bytes}};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
        if (blocks[k].bytes > 0 &&
            (*blocks[k].block = ecornn_alloc(device, blocks[k].bytes)) == NULL)
            return ECORNN_NO_MEMORY;
    return ecornn_pack(trial->plan, (const void *const *)trial->data->pointers, NULL,
                       trial->weights, trial->data->stream);
}

/* Otherwise a plan that writes nothing would leave the results of the plan before it. */
static ecornn_status clear_results(const struct eco_trial *trial)
{
    const struct eco_tune_data *data = trial->data;
    const size_t element = eco_type_bytes(data->problem->type);
    const struct eco_fill fills[] = {
        {.name = "y", .to = data->y, .bytes = data->y_elements * element},
        {.name = "dx", .to = data->dx, .bytes = data->x_elements * element},
        {.name = "dweights", .to = trial->dweights, .bytes = trial->plan->sizes.dweight_bytes},
        {.name = "dparams",
         .to = data->dparams,
         .bytes = data->params * eco_type_bytes(data->problem->param_type)}};
    ecornn_status status = ECORNN_OK;
    for (int k = 0; status == ECORNN_OK && k < (data->problem->training ? 4 : 1); k++)
        status = data->device->backend->queue(
            data->device, &(struct eco_call){ECO_CALL_FILL, {.fill = fills[k]}}, 1, data->stream);
    return status;
}

ecornn_status eco_trial_compute(struct eco_trial *trial)
{
    const struct eco_tune_data *data = trial->data;
    ecornn_status status = clear_results(trial);
    if (status == ECORNN_OK)
        status = run(trial, 0);
    if (status == ECORNN_OK && data->problem->training)
        status = ecornn_unpack(trial->plan, trial->dweights, data->dpointers, 0, data->stream);
    return status == ECORNN_OK ? ecornn_wait(data->device, data->stream) : status;
}

/* A round takes about a millisecond, so that reading the clock and waiting for a stream do not
 * count. */
static const double ROUND_SECONDS = 1e-3;
enum { MOST_REPEATS = 1000 };

/* A GPU makes its graphs in the second run of each set of buffers. */
static ecornn_status make_graphs(struct eco_trial *trial)
{
    ecornn_status status = ECORNN_OK;
    for (int k = 0; status == ECORNN_OK && k < 2 * trial->data->sets; k++)
        status = run(trial, k / 2);
    return status == ECORNN_OK ? ecornn_wait(trial->data->device, trial->data->stream) : status;
}

static ecornn_status warm_up(struct eco_trial *trial)
{
    ecornn_status status = eco_trial_compute(trial);
    if (status == ECORNN_OK && trial->data->device->caps.own_memory)
        status = make_graphs(trial);
    trial->repeats = 1;
    for (int again = 0; status == ECORNN_OK && again < 2 && trial->first < ROUND_SECONDS; again++) {
        trial->rounds = 0;
        status = eco_trial_round(trial);
        const double runs = ROUND_SECONDS / (trial->seconds[0] > 0 ? trial->seconds[0] : 1e-9);
        trial->repeats = runs < 1 ? 1 : runs > MOST_REPEATS ? MOST_REPEATS : (int)runs;
        trial->first = trial->seconds[0];
    }
    trial->rounds = 0;
    return status;
}

ecornn_status eco_trial_plan(struct eco_trial *trial, const struct eco_tune_data *data,
                             const char *choices)
{
    struct eco_problem problem = *data->problem;
    struct eco_text forced = {problem.force.text, sizeof problem.force.text, 0},
                    chosen = {trial->choices, sizeof trial->choices, 0};
    *trial = (struct eco_trial){.data = NULL};
    eco_text_add(&forced, "%s", choices);
    const ecornn_status status = eco_plan_make(&trial->plan, data->device, &problem);
    if (status != ECORNN_OK)
        return status;
    trial->data = data;
    trial->estimate = trial->plan->seconds;
    eco_plan_choices(trial->plan, &chosen);
    return ECORNN_OK;
}

ecornn_status eco_trial_start(struct eco_trial *trial)
{
    const ecornn_status status = make_blocks(trial);
    return status == ECORNN_OK ? warm_up(trial) : status;
}

ecornn_status eco_trial_make(struct eco_trial *trial, const struct eco_tune_data *data,
                             const char *choices)
{
    const ecornn_status status = eco_trial_plan(trial, data, choices);
    return status == ECORNN_OK ? eco_trial_start(trial) : status;
}

void eco_trial_free(struct eco_trial *trial)
{
    if (trial->data == NULL)
        return;
    void *const blocks[] = {trial->weights, trial->workspace, trial->reserve, trial->dweights};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
        ecornn_free(trial->data->device, blocks[k]);
    eco_plan_free(trial->plan);
    *trial = (struct eco_trial){.data = NULL};
}

ecornn_status eco_trial_round(struct eco_trial *trial)
{
    ecornn_status status = ECORNN_OK;
    const double begin = eco_tune_now();
    for (int k = 0; status == ECORNN_OK && k < trial->repeats; k++) {
        status = run(trial, trial->set);
        trial->set = (trial->set + 1) % trial->data->sets;
    }
    if (status == ECORNN_OK)
        status = ecornn_wait(trial->data->device, trial->data->stream);
    if (status == ECORNN_OK && trial->rounds < ECO_TUNE_ROUNDS)
        trial->seconds[trial->rounds++] = (eco_tune_now() - begin) / trial->repeats;
    return status;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct eco_spread spread_of(const double *numbers, int n)
{
    double sorted[ECO_TUNE_ROUNDS];
    memcpy(sorted, numbers, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    return (struct eco_spread){
        .median = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2,
        .low = sorted[n / 4],
        .high = sorted[n - 1 - n / 4],
    };
}

struct eco_spread eco_trial_spread(const struct eco_trial *trial)
{
    return spread_of(trial->seconds, trial->rounds);
}

double eco_trial_least(const struct eco_trial *trial)
{
    double least = INFINITY;
    for (int k = 0; k < trial->rounds; k++)
        least = fmin(least, trial->seconds[k]);
    return least;
}

/* The ratios of rounds that followed each other decide, since a slow second of the machine changes
 * both times.  Their median must be clear of chance: the upper quartile agrees, or, where other
 * programs disturb many rounds, the fastest rounds differ clearly. */
bool eco_trial_is_faster(const struct eco_trial *trial, const struct eco_trial *other,
                         double *ratio)
{
    static const double worth = 0.98, clear = 0.95;
    const int n = trial->rounds < other->rounds ? trial->rounds : other->rounds;
    double ratios[ECO_TUNE_ROUNDS];
    for (int k = 0; k < n; k++)
        ratios[k] = trial->seconds[k] / other->seconds[k];
    const struct eco_spread spread = spread_of(ratios, n);
    *ratio = spread.median;
    return spread.median < worth &&
           (spread.high < 1 || eco_trial_least(trial) < clear * eco_trial_least(other));
}
