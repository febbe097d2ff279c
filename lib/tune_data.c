/*
 * The data of a problem that is tuned, and its results; see tune.h.
 */
#include "lib/tune.h"

#include <math.h>

#include "common/backend.h"
#include "common/os.h"
#include "common/type.h"
#include "common/util.h"

double eco_tune_now(void)
{
    return 1e-9 * (double)eco_os_now();
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Uniform in (-1, 1): xorshift (Marsaglia 2003). */
static double draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

/* Allocates device memory with random numbers.  They repeat after PERIOD elements, a prime, so that
 * drawing them does not take long even for large problems. */
static void *random_block(const struct eco_tune_data *data, size_t elements, ecornn_type type,
                          double bound)
{
    enum { PERIOD = 65537 };
    const size_t element = eco_type_bytes(type), drawn = elements < PERIOD ? elements : PERIOD;
    void *host = eco_alloc((drawn + 1) * element),
         *block = ecornn_alloc(data->device, (elements + 1) * element);
    uint64_t state = 0x9E3779B97F4A7C15u ^ elements;
    bool good = host != NULL && block != NULL;
    for (size_t i = 0; host != NULL && i < drawn; i++)
        eco_type_set(host, i, type, bound * draw(&state));
    for (size_t at = 0; good && at < elements; at += drawn) {
        const size_t left = elements - at, n = left < drawn ? left : drawn;
        good = ecornn_upload(data->device, (char *)block + at * element, host, n * element) ==
               ECORNN_OK;
    }
    eco_free(host);
    if (good)
        return block;
    ecornn_free(data->device, block);
    return NULL;
}

static bool make_pointers(struct eco_tune_data *data, const struct ecornn_plan *plan)
{
    const int count = plan->sizes.param_count;
    const size_t room = (size_t)count + 1; /* a cell may have no parameters */
    const size_t bytes = eco_type_bytes(data->problem->param_type);
    data->pointers = eco_alloc_zeroed(room * sizeof *data->pointers);
    data->dpointers = eco_alloc_zeroed(room * sizeof *data->dpointers);
    if (data->pointers == NULL || data->dpointers == NULL)
        return false;
    for (int k = 0; k < count; k++) {
        ecornn_param param = {.size = sizeof param};
        ecornn_param_get(plan, k, &param);
        data->pointers[k] = (char *)data->block + param.offset * bytes;
        if (data->dparams != NULL)
            data->dpointers[k] = (char *)data->dparams + param.offset * bytes;
    }
    return true;
}

/* Enough sets of x to exceed a cache, up to eight.  A GPU keeps the graphs of two sets of buffers
 * (gpu/run/graph.c), which is what programs use. */
enum { OF_GRAPHS = 2, OF_MEASURING = 2 };
static int sets_of(const ecornn_device *device, size_t bytes)
{
    enum { MOST = 8 };
    static const size_t wanted = 64 << 20;
    if (device->caps.own_memory)
        return OF_GRAPHS;
    return bytes > wanted / 2 ? 2 : bytes > wanted / MOST ? (int)(wanted / bytes) : MOST;
}

/* The initial states of a single step, [L*D, N, H or P] of each.  Without them a plan would skip
 * the product with R, which callers that run step by step need.  False: no memory. */
static bool make_states(struct eco_tune_data *data)
{
    const struct eco_problem *problem = data->problem;
    const size_t width = (size_t)(problem->H > problem->P ? problem->H : problem->P),
                 bytes = (size_t)problem->L * (size_t)problem->D * (size_t)problem->N * width *
                         eco_type_bytes(problem->type);
    if (problem->T != 1)
        return true;
    data->states = ecornn_alloc(data->device, bytes);
    const struct eco_call fill = {ECO_CALL_FILL,
                                  {.fill = {.name = "states", .to = data->states, .bytes = bytes}}};
    return data->states != NULL &&
           data->device->backend->queue(data->device, &fill, 1, data->stream) == ECORNN_OK;
}

ecornn_status eco_tune_data_make(struct eco_tune_data *data, const struct ecornn_plan *plan,
                                 const struct eco_problem *problem, const struct eco_measuring *own)
{
    const size_t rows = (size_t)problem->T * (size_t)problem->N,
                 element = eco_type_bytes(problem->type),
                 param = eco_type_bytes(problem->param_type);
    *data = (struct eco_tune_data){.device = plan->device, .problem = problem};
    data->stream = own != NULL ? own->stream : NULL;
    data->x_elements = rows * (size_t)problem->I;
    data->y_elements = rows * (size_t)(problem->D * problem->Y);
    data->params = plan->sizes.param_elements;
    data->sets = own != NULL ? OF_MEASURING : sets_of(data->device, data->x_elements * element);
    data->x = random_block(data, data->x_elements * (size_t)data->sets, problem->type, 1);
    data->y = ecornn_alloc(data->device, data->y_elements * element);
    data->block = random_block(data, data->params, problem->param_type, 1 / sqrt(problem->H));
    bool good = data->x != NULL && data->y != NULL && data->block != NULL;
    if (problem->training) {
        data->dy = random_block(data, data->y_elements, problem->type, 1);
        data->dx = ecornn_alloc(data->device, data->x_elements * element);
        data->dparams = ecornn_alloc(data->device, (data->params + 1) * param);
        good = good && data->dy != NULL && data->dx != NULL && data->dparams != NULL;
    }
    if (good && make_states(data) && make_pointers(data, plan))
        return ECORNN_OK;
    return eco_fail(ECORNN_NO_MEMORY, "no memory for the data of %s", problem->text);
}

void eco_tune_data_free(struct eco_tune_data *data)
{
    void *const blocks[] = {data->x,       data->y,      data->dx,   data->dy,
                            data->dparams, data->states, data->block};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
        ecornn_free(data->device, blocks[k]);
    eco_free(data->pointers);
    eco_free(data->dpointers);
    *data = (struct eco_tune_data){0};
}

/* ---- results --------------------------------------------------------------------------------- */

/* Fetches large results as evenly spaced pieces, from the first to the last element: comparing all
 * of them would take longer than the runs. */
static ecornn_status fetch(struct eco_tune_results *results, int which, ecornn_device *device,
                           const void *from)
{
    enum { PIECE = 1 << 15, PIECES = 64 };
    const size_t element = eco_type_bytes(results->type[which]), all = results->count[which];
    const size_t pieces = all > (size_t)PIECE * PIECES ? PIECES : 1,
                 piece = pieces > 1 ? PIECE : all;
    ecornn_status status = ECORNN_OK;
    results->count[which] = pieces * piece;
    results->value[which] = eco_alloc(pieces * piece * element);
    if (results->value[which] == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu results", pieces * piece);
    for (size_t k = 0; status == ECORNN_OK && k < pieces; k++) {
        const size_t at = pieces > 1 ? (all - piece) / (PIECES - 1) * k : 0,
                     begin = k + 1 < pieces || pieces == 1 ? at : all - piece;
        status = ecornn_download(device, (char *)results->value[which] + k * piece * element,
                                 (const char *)from + begin * element, piece * element);
    }
    return status;
}

ecornn_status eco_tune_results_fetch(struct eco_tune_results *results,
                                     const struct eco_tune_data *data)
{
    const struct eco_problem *problem = data->problem;
    *results = (struct eco_tune_results){
        .count = {data->y_elements, problem->training ? data->x_elements : 0,
                  problem->training ? data->params : 0},
        .type = {problem->type, problem->type, problem->param_type}};
    const void *const from[ECO_TUNE_RESULTS] = {data->y, data->dx, data->dparams};
    ecornn_status status = ECORNN_OK;
    for (int k = 0; status == ECORNN_OK && k < ECO_TUNE_RESULTS; k++)
        if (results->count[k] > 0)
            status = fetch(results, k, data->device, from[k]);
    return status;
}

void eco_tune_results_free(struct eco_tune_results *results)
{
    for (int k = 0; k < ECO_TUNE_RESULTS; k++)
        eco_free(results->value[k]);
    *results = (struct eco_tune_results){0};
}
