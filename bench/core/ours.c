/*
 * Runs of ecornn.  Weights are packed, and arrays allocated and uploaded, before runs begin; a
 * training step packs and unpacks in each run.
 */
#include "ours.h"

#include <stdlib.h>

#include "say.h"
#include "stats.h"
#include "bench/core/named.h"

static bool check(const struct ours *ours, ecornn_status status)
{
    if (status != ECORNN_OK)
        say("%s: %s: %s", ours->problem->text, ecornn_status_name(status), ecornn_error_detail());
    return status == ECORNN_OK;
}

bool ours_plan(struct ours *ours, const struct problem *problem, const char *device)
{
    *ours = (struct ours){
        .problem = problem, .sizes.size = sizeof ours->sizes, .info.size = sizeof ours->info};
    if (!check(ours, ecornn_device_open(&ours->device, device)) ||
        !check(ours, ecornn_device_query(ours->device, &ours->info)) ||
        !check(ours, ecornn_plan_create_desc(&ours->plan, ours->device, &problem->desc)))
        return false;
    ecornn_plan_sizes(ours->plan, &ours->sizes);
    return true;
}

/* Addresses in turn for arrays of queued runs, more than the library keeps graphs. The data of x
 * and dy is only where they begin first; times do not depend on it. */
enum { TURNS = 8, TURN_BYTES = 512, ROOM_FOR_TURNS = TURNS * TURN_BYTES };

static void *array(const struct ours *ours, size_t bytes)
{
    return ecornn_alloc(ours->device, bytes + ROOM_FOR_TURNS);
}

static void *moved(const struct ours *ours, void *first)
{
    return first ? (char *)first + (size_t)ours->turn * TURN_BYTES : NULL;
}

/* from NULL: only allocates. */
static bool upload(struct ours *ours, void **to, const void *from, size_t bytes)
{
    *to = array(ours, bytes);
    return *to && (!from || check(ours, ecornn_upload(ours->device, *to, from, bytes)));
}

static bool make_pointers(struct ours *ours)
{
    const int count = count_of_params(ours->plan);
    ours->pointers = calloc((size_t)count, sizeof *ours->pointers);
    ours->dpointers = calloc((size_t)count, sizeof *ours->dpointers);
    for (int k = 0; ours->pointers && ours->dpointers && k < count; k++) {
        ecornn_param param = {.size = sizeof param};
        if (!check(ours, ecornn_param_get(ours->plan, k, &param)))
            return false;
        const size_t offset = param.offset * ours->problem->param_element;
        ours->pointers[k] = (char *)ours->params + offset;
        if (ours->dparams)
            ours->dpointers[k] = (char *)ours->dparams + offset;
    }
    return ours->pointers && ours->dpointers;
}

static bool pack(const struct ours *ours, void *stream)
{
    return check(ours, ecornn_pack(ours->plan, (const void *const *)ours->pointers, NULL,
                                   ours->weights, stream));
}

static bool unpack(const struct ours *ours, void *stream)
{
    return check(
        ours, ecornn_unpack(ours->plan, moved(ours, ours->dweights), ours->dpointers, 0, stream));
}

/* Makes the states of a streaming problem, which stay from call to call and begin with zeros. */
static bool make_states(struct ours *ours)
{
    const ecornn_desc *desc = &ours->problem->desc;
    const size_t layers = (size_t)(desc->layers ? desc->layers : 1);
    const size_t models = (size_t)(desc->models > 1 ? desc->models : 1);
    const size_t rows = models * layers * (size_t)ours->problem->directions * (size_t)desc->batch;
    bool good = true;
    for (int s = 0; good && s < states_of_cell(desc->cell); s++) {
        size_t elements = 0;
        good = check(ours, ecornn_plan_state(ours->plan, s, &elements, NULL));
        void *const zeros = calloc(rows * elements, sizeof(double)); /* enough for any type */
        good = good && zeros &&
               upload(ours, &ours->states[s], zeros, rows * elements * sizeof(double));
        free(zeros);
    }
    return good;
}

bool ours_upload(struct ours *ours)
{
    const struct problem *p = ours->problem;
    const size_t workspace = ours->sizes.workspace_bytes ? ours->sizes.workspace_bytes : 1;
    ours->weights = array(ours, ours->sizes.weight_bytes);
    ours->workspace = array(ours, workspace);
    bool good = ours->weights && ours->workspace &&
                upload(ours, &ours->x, p->x, p->x_elements * (size_t)p->sets * p->element) &&
                upload(ours, &ours->y, NULL, p->y_elements * p->element) &&
                upload(ours, &ours->params, p->params, p->param_elements * p->param_element);
    if (good && p->lengths)
        good = upload(ours, &ours->lengths, p->lengths, (size_t)p->desc.batch * sizeof *p->lengths);
    if (good && p->reset)
        good = upload(ours, &ours->resets, p->reset, p->reset_rows);
    if (good && p->streaming)
        good = make_states(ours);
    if (good && p->training) {
        ours->dweights = array(ours, ours->sizes.dweight_bytes);
        ours->reserve = array(ours, ours->sizes.reserve_bytes);
        good = ours->dweights && ours->reserve &&
               upload(ours, &ours->dy, p->dy, p->y_elements * p->element) &&
               upload(ours, &ours->dx, NULL, p->x_elements * p->element) &&
               upload(ours, &ours->dparams, NULL, p->param_elements * p->param_element);
    }
    if (!good)
        say("%s: no memory on the device", p->text);
    return good && make_pointers(ours) && pack(ours, NULL) &&
           check(ours, ecornn_wait(ours->device, NULL));
}

/* Forward, and in training backward. */
static bool compute(const struct ours *ours, int set, void *stream)
{
    const struct problem *p = ours->problem;
    ecornn_io io = {.size = sizeof io,
                    .lengths = ours->lengths,
                    .x = (const char *)moved(ours, ours->x) +
                         (size_t)set * p->x_elements * p->element,
                    .y = moved(ours, ours->y),
                    .weights = ours->weights,
                    .workspace = moved(ours, ours->workspace),
                    .reserve = moved(ours, ours->reserve),
                    .seed = 1,
                    .stream = stream,
                    .resets = ours->resets};
    for (int s = 0; s < ECORNN_MAX_STATES; s++)
        io.initial[s] = io.final[s] = ours->states[s];
    const ecornn_gradient gradient = {.size = sizeof gradient,
                                      .dy = moved(ours, ours->dy),
                                      .dx = moved(ours, ours->dx),
                                      .dweights = moved(ours, ours->dweights)};
    return check(ours, ecornn_forward(ours->plan, ours->sizes.steps, ours->sizes.batch, &io)) &&
           (!p->training || check(ours, ecornn_backward(ours->plan, ours->sizes.steps,
                                                        ours->sizes.batch, &io, &gradient)));
}

bool ours_run(struct ours *ours, int set)
{
    const bool training = ours->problem->training;
    const double start = now();
    ours->turn = 0;
    if (training && !pack(ours, NULL))
        return false;
    const double core = now();
    if (!compute(ours, set, NULL) || !check(ours, ecornn_wait(ours->device, NULL)))
        return false;
    ours->core_seconds = now() - core;
    if (training && (!unpack(ours, NULL) || !check(ours, ecornn_wait(ours->device, NULL))))
        return false;
    ours->seconds = now() - start;
    return true;
}

bool ours_queue(struct ours *ours, bool packs, bool moves, void *stream)
{
    ours->turn = moves ? (ours->turn + 1) % TURNS : 0;
    packs = packs && ours->problem->training;
    return (!packs || pack(ours, stream)) && compute(ours, 0, stream) &&
           (!packs || unpack(ours, stream));
}

void *ours_download(const struct ours *ours, const void *from, size_t bytes)
{
    void *to = malloc(bytes);
    if (to && !check(ours, ecornn_download(ours->device, to, from, bytes))) {
        free(to);
        to = NULL;
    }
    return to;
}

void ours_free(struct ours *ours)
{
    void *const blocks[] = {ours->x,       ours->y,         ours->dx,      ours->dy,
                            ours->params,  ours->dparams,   ours->weights, ours->dweights,
                            ours->reserve, ours->workspace, ours->lengths, ours->resets};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
        ecornn_free(ours->device, blocks[k]);
    for (int s = 0; s < ECORNN_MAX_STATES; s++)
        ecornn_free(ours->device, ours->states[s]);
    free(ours->pointers);
    free(ours->dpointers);
    ecornn_plan_free(ours->plan);
    ecornn_device_close(ours->device);
    *ours = (struct ours){.problem = NULL};
}
