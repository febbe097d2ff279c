/*
 * Plans with the arrays of their runs, see trial.h.
 */
#include "tests/kit/trial.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/plan.h"
#include "common/type.h"
#include "tests/kit/calls.h"
#include "tests/kit/testing.h"

/* Names of arrays as cases have them. */
static const char *const name[ROLES] = {[X] = "x",
                                        [DY] = "dy",
                                        [INITIAL] = "initial",
                                        [DFINAL] = "dfinal",
                                        [START] = "start",
                                        [DSTATES] = "dstates",
                                        [PARAMS] = "params",
                                        [LENGTHS] = "lengths",
                                        [RESETS] = "resets",
                                        [MASK] = "mask",
                                        [Y] = "y",
                                        [FINAL] = "final",
                                        [STATES] = "states",
                                        [DX] = "dx",
                                        [DINITIAL] = "dinitial",
                                        [DSTART] = "dstart",
                                        [DPARAMS] = "dparams"};

const char *trial_role(int role)
{
    return name[role];
}

/* NULL: parameters. */
static const struct eco_run_array *row_of(int role)
{
    const int a = case_array(name[role]);
    return a < 0 ? NULL : &eco_run_array[a];
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool has(const struct trial *trial, int k, int role, int s)
{
    const struct eco_problem *const p = trial->of[k];
    const struct eco_run_array *const row = row_of(role);
    if (row == NULL)
        return s == 0 && (role == PARAMS || trial->trains);
    return (!row->gradient || trial->trains) && (row->flag & ~p->flags) == 0 &&
           s < (row->count > 1 ? p->cell->recipe.n_states : 1) && (k == 0 || row->count > 1);
}

static void shape_params(const struct eco_problem *p, struct trial_array *array)
{
    array->type = p->param_type;
    array->element = eco_type_bytes(array->type);
    array->row = array->bytes = eco_problem_param_elements(p) * array->element;
    array->models = p->models;
    array->bytes *= (size_t)p->models;
    array->lanes = array->steps = array->rows = 1;
}

/* Sets the shape of an array of a run of T steps and N rows. */
static void shape(const struct trial *trial, int k, int role, int s, struct trial_array *array)
{
    const struct eco_problem *const p = trial->of[k];
    const struct eco_run_array *const row = row_of(role);
    if (row == NULL) {
        shape_params(p, array);
        return;
    }
    const struct eco_run_shape one = eco_run_array_shape(row, p, s, trial->T, trial->N);
    const bool input = (row->letters & ECO_I) != 0, output = (row->letters & ECO_Y) != 0;
    const int32_t width = input ? trial->sizes.input : output ? trial->sizes.output : one.width;
    array->type = one.type;
    array->element = one.element;
    array->row = (size_t)width * one.element;
    array->models = p->shared && (input || one.type == 0) ? 1 : p->models;
    array->lanes = output ? 1 : one.lanes;
    array->joined = (row->letters & ECO_T) == 0 ? 0
                    : output                    ? trial->sizes.joined
                    : row->count > 1            ? (trial->sizes.steps + p->T - 1) / p->T
                                                : 1;
    array->steps = array->joined > 0 ? (trial->T + array->joined - 1) / array->joined : 1;
    array->rows =
        trial->streams > 0 && (role == INITIAL || role == FINAL) ? trial->streams : one.rows;
    array->batch_major = p->batch_major && (input || output);
    array->bytes = array->row * (size_t)array->models * (size_t)array->lanes *
                   (size_t)array->steps * (size_t)array->rows;
}

typedef void array_visit(struct trial *trial, struct trial_array *array, int k, int role, int s);

/* Visits all arrays of roles first to last. */
static void each(struct trial *trial, int first, int last, array_visit *visit)
{
    for (int k = 0; k < trial->layers; k++)
        for (int role = first; role <= last; role++)
            for (int s = 0; s < TRIAL_STATES && has(trial, k, role, s); s++)
                visit(trial, &trial->array[k][role][s], k, role, s);
}

static void resize(struct trial *trial, struct trial_array *array, int k, int role, int s)
{
    shape(trial, k, role, s, array);
    if (array->bytes <= array->room)
        return;
    free(array->host);
    ecornn_free(trial->device, array->there);
    array->room = array->bytes;
    array->host = calloc(1, array->room);
    array->there = ecornn_alloc(trial->device, array->room);
    ck_assert(array->host != NULL && array->there != NULL);
}

void trial_size(struct trial *trial, int32_t T, int32_t N, int32_t streams)
{
    trial->T = T, trial->N = N, trial->streams = streams;
    each(trial, 0, ROLES - 1, resize);
    trial_point(trial);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void point_params(struct trial *trial, const struct trial_array *array, int k, bool back)
{
    struct net_layer layer;
    check_ok(net_layer_at(trial->plan, k, &layer));
    for (int i = 0; i < layer.sizes.param_count; i++) {
        ecornn_param param;
        check_ok(param_at(layer.plan, i, &param));
        void *const at = array->there + param.offset * array->element;
        if (back)
            trial->dparams[layer.sizes.first_param + i] = at;
        else
            trial->params[layer.sizes.first_param + i] = at;
    }
}

static void point(struct trial *trial, struct trial_array *array, int k, int role, int s)
{
    const struct eco_run_array *const row = row_of(role);
    void *there = array->there;
    if (role == FINAL && trial->alias)
        there = trial->array[k][INITIAL][s].there;
    if ((role == LENGTHS && !trial->ragged) || trial->without >> role & 1)
        there = NULL;
    if (row == NULL) {
        point_params(trial, array, k, role == DPARAMS);
        return;
    }
    const bool apart = trial->plan->kind == ECO_PLAN_NET && row->count > 1;
    char *const io = (char *)(apart ? &trial->layer[k] : &trial->io),
                *const gradient = (char *)(apart ? &trial->dlayer[k] : &trial->gradient);
    memcpy((row->gradient ? gradient : io) + row->given + (size_t)s * sizeof there, &there,
           sizeof there);
}

void trial_point(struct trial *trial)
{
    each(trial, 0, ROLES - 1, point);
}

static void open_arguments(struct trial *trial)
{
    ecornn_io *const io = &trial->io;
    ecornn_gradient *const gradient = &trial->gradient;
    io->size = sizeof *io, gradient->size = sizeof *gradient;
    io->weights = trial->weights, io->workspace = trial->workspace, io->reserve = trial->reserve;
    io->workspace_bytes = trial->sizes.workspace_bytes;
    io->reserve_bytes = trial->sizes.reserve_bytes;
    gradient->dweights = trial->dweights;
    for (int k = 0; k < trial->layers && trial->plan->kind == ECO_PLAN_NET; k++) {
        trial->layer[k].size = sizeof *io, trial->dlayer[k].size = sizeof *gradient;
        trial->list[k] = &trial->layer[k], trial->dlist[k] = &trial->dlayer[k];
        io->layers = trial->list, gradient->layers = trial->dlist;
    }
}

void trial_open_plan(struct trial *trial, ecornn_device *device, ecornn_plan *plan)
{
    *trial = (struct trial){.device = device, .plan = plan};
    get_sizes(plan, &trial->sizes);
    trial->layers = trial->sizes.layers;
    ck_assert_int_le(trial->layers, TRIAL_LAYERS);
    for (int k = 0; k < trial->layers; k++) {
        struct net_layer layer;
        check_ok(net_layer_at(plan, k, &layer));
        trial->of[k] = &layer.plan->problem;
    }
    trial->trains = trial->of[0]->training;
    trial->weights = ecornn_alloc(device, trial->sizes.weight_bytes);
    trial->dweights = ecornn_alloc(device, trial->sizes.dweight_bytes);
    trial->workspace = ecornn_alloc(device, trial->sizes.workspace_bytes);
    trial->reserve = ecornn_alloc(device, trial->sizes.reserve_bytes);
    trial->params = calloc((size_t)trial->sizes.param_count, sizeof *trial->params);
    trial->dparams = calloc((size_t)trial->sizes.param_count, sizeof *trial->dparams);
    open_arguments(trial);
    trial_size(trial, trial->sizes.steps, trial->sizes.batch, 0);
}

void trial_open(struct trial *trial, ecornn_device *device, const char *problem,
                const ecornn_cell *cell)
{
    const ecornn_cell *const cells[] = {cell, NULL};
    ecornn_plan *plan;
    check_ok(ecornn_plan_create(&plan, device, problem, cell ? cells : NULL));
    trial_open_plan(trial, device, plan);
    trial->owns_plan = true;
}

void trial_open_on(struct trial *trial, const char *device, const char *problem)
{
    ecornn_device *const opened = device_on(device);
    trial_open(trial, opened, problem, NULL);
    trial->owns_device = true;
}

void trial_open_beside(struct trial *trial, const struct trial *other)
{
    struct trial from = *other;
    trial_open_plan(trial, other->device, other->plan);
    trial->ragged = other->ragged;
    trial_point(trial);
    trial->io.seed = other->io.seed;
    trial->io.first_step = other->io.first_step, trial->io.first_row = other->io.first_row;
    part_copy_inputs((struct part){.of = trial}, (struct part){.of = &from});
}

static void drop(struct trial *trial, struct trial_array *array, int k, int role, int s)
{
    (void)k, (void)role, (void)s;
    free(array->host);
    ecornn_free(trial->device, array->there);
}

void trial_close(struct trial *trial)
{
    void *const blocks[] = {trial->weights, trial->dweights, trial->workspace, trial->reserve};
    each(trial, 0, ROLES - 1, drop);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        ecornn_free(trial->device, blocks[i]);
    free(trial->params), free(trial->dparams);
    if (trial->owns_plan)
        ecornn_plan_free(trial->plan);
    if (trial->owns_device)
        ecornn_device_close(trial->device);
}

/* ---- contents -------------------------------------------------------------------------------- */

static void fill(const struct trial *trial, const struct trial_array *array, int role, double most,
                 uint64_t *seed)
{
    for (size_t i = 0; array->host != NULL && i < array->bytes / array->element; i++)
        if (role == LENGTHS)
            ((int32_t *)(void *)array->host)[i] = (int32_t)(uniform(seed) * (trial->T + 1));
        else if (array->type == 0)
            array->host[i] = uniform(seed) < (role == RESETS ? 0.3 : 0.7);
        else
            eco_type_set(array->host, i, array->type, most * (uniform(seed) - 0.5));
}

void trial_fill(struct trial *trial, uint64_t seed)
{
    for (int k = 0; k < trial->layers; k++)
        for (int role = 0; role < Y; role++)
            for (int s = 0; s < TRIAL_STATES; s++) {
                const int32_t I = trial->of[k]->I, H = trial->of[k]->H;
                fill(trial, &trial->array[k][role][s], role,
                     role == PARAMS ? 2 / sqrt((double)(I > H ? I : H)) : 1, &seed);
            }
}

static void forget(struct trial *trial, struct trial_array *array, int k, int role, int s)
{
    (void)trial, (void)k, (void)role, (void)s;
    if (array->host != NULL) /* a cell may have no parameters */
        memset(array->host, 0xFF, array->bytes);
}

void trial_forget(struct trial *trial)
{
    each(trial, Y, ROLES - 1, forget);
}

static void send(struct trial *trial, struct trial_array *array, int k, int role, int s)
{
    (void)k, (void)s;
    if (!(role == FINAL && trial->alias))
        check_ok(ecornn_upload(trial->device, array->there, array->host, array->bytes));
}

static void fill_block(const struct trial *trial, void *block, size_t bytes)
{
    void *const full = malloc(bytes + 1);
    memset(full, 0xFF, bytes + 1);
    if (bytes > 0)
        check_ok(ecornn_upload(trial->device, block, full, bytes));
    free(full);
}

void trial_send(struct trial *trial)
{
    trial_forget(trial);
    each(trial, 0, ROLES - 1, send);
    fill_block(trial, trial->workspace, trial->sizes.workspace_bytes);
    fill_block(trial, trial->reserve, trial->sizes.reserve_bytes);
    fill_block(trial, trial->dweights, trial->sizes.dweight_bytes);
    check_ok(ecornn_wait(trial->device, NULL)); /* copies to a GPU may still be under way */
    check_ok(ecornn_pack(trial->plan, trial->params, NULL, trial->weights, trial->io.stream));
}

ecornn_status trial_queue(const struct trial *trial)
{
    const ecornn_status status = ecornn_forward(trial->plan, trial->T, trial->N, &trial->io);
    return status == ECORNN_OK && trial->trains
               ? ecornn_backward(trial->plan, trial->T, trial->N, &trial->io, &trial->gradient)
               : status;
}

static void fetch(struct trial *trial, struct trial_array *array, int k, int role, int s)
{
    const char *const from =
        role == FINAL && trial->alias ? trial->array[k][INITIAL][s].there : array->there;
    check_ok(ecornn_download(trial->device, array->host, from, array->bytes));
}

void trial_download(struct trial *trial)
{
    check_ok(ecornn_wait(trial->device, trial->io.stream));
    each(trial, Y, ROLES - 1, fetch);
}

void trial_fetch(struct trial *trial)
{
    if (trial->trains)
        check_ok(ecornn_unpack(trial->plan, trial->dweights, trial->dparams, 0, trial->io.stream));
    trial_download(trial);
    if (trial->trains)
        ck_assert_int_eq(first_misplaced(trial->plan, trial->device, trial->dweights,
                                         trial->dparams, trial->array[0][DPARAMS][0].element),
                         -1);
}

void trial_run(struct trial *trial)
{
    trial_send(trial);
    check_ok(trial_queue(trial));
    trial_fetch(trial);
}
