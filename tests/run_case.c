/*
 * Running a case through the public interface in guarded memory.  After each run: guards, inputs,
 * weights and reserve as they were, padding of y and dx 0.
 */
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "tests/guarded.h"

struct session {
    const struct test_case *test;
    const struct machine *machine;
    const struct data *inputs;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    int params;
    struct buffer x, y, initial[ECORNN_MAX_STATES], final[ECORNN_MAX_STATES];
    struct buffer dy, dfinal[ECORNN_MAX_STATES], dx, dinitial[ECORNN_MAX_STATES];
    struct buffer weights, dweights, workspace, reserve;
    struct buffer *param, *dparam; /* [params] */
    struct buffer lengths;
    struct memory memory;
};

/* ---- inputs ---------------------------------------------------------------------------------- */

static ecornn_type type_of(const struct session *session, const char *name)
{
    return session->machine->type == ECORNN_F64 ? ECORNN_F64 : case_type(session->test, name);
}

static size_t bytes_of(const struct session *session, const struct array *array)
{
    return array->count * eco_type_bytes(type_of(session, array->name));
}

/* Is element i of a [T,N,*] array in the case's order padding? */
static bool is_padding(const struct session *session, const struct array *array, size_t i)
{
    const size_t row = i / (size_t)array->extent[2], second = (size_t)array->extent[1];
    const size_t a = row / second, b = row % second;
    const bool batch_major = session->test->desc.order == ECORNN_BATCH_MAJOR;
    const int32_t t = (int32_t)(batch_major ? b : a), n = (int32_t)(batch_major ? a : b);
    return t >= case_length(session->inputs, n, session->test->T);
}

/* A buffer with the input of that name; no buffer where there is none.  Padding stays NaN. */
static void make_input(struct session *session, struct buffer *buffer, const char *name)
{
    const struct array *array = data_find(session->inputs, name);
    if (!array)
        return;
    buffer_make(&session->memory, buffer, name, bytes_of(session, array));
    const bool sequence = strcmp(name, "x") == 0 || strcmp(name, "dy") == 0;
    for (size_t i = 0; !session->memory.failed && i < array->count; i++)
        if (!sequence || !is_padding(session, array, i))
            eco_type_set(buffer->image + GUARD, i, type_of(session, name), array->value[i]);
    buffer_upload(&session->memory, buffer);
}

/* ---- results --------------------------------------------------------------------------------- */

static void get_result(struct session *session, const struct buffer *buffer, struct data *results,
                       const struct array *shape)
{
    unsigned char *now = buffer_fetch(&session->memory, buffer, false);
    if (!now)
        return;
    struct array *array = data_add(results, shape->name, shape->rank, shape->extent);
    const bool sequence = strcmp(array->name, "y") == 0 || strcmp(array->name, "dx") == 0;
    bool clean = true;
    for (size_t i = 0; i < array->count; i++) {
        array->value[i] = eco_type_get(now + GUARD, i, type_of(session, array->name));
        clean &= !sequence || !is_padding(session, array, i) || array->value[i] == 0;
    }
    if (!clean)
        memory_complain(&session->memory, "padding is not 0", array->name);
    free(now);
}

static struct array shape_of(const char *name, const struct array *like)
{
    struct array shape = *like;
    snprintf(shape.name, sizeof shape.name, "%s", name);
    return shape;
}

static struct array shape_of_y(const struct test_case *test)
{
    const ecornn_desc *desc = &test->desc;
    const bool batch_major = desc->order == ECORNN_BATCH_MAJOR;
    struct array shape = {.name = "y", .rank = 3};
    shape.extent[0] = batch_major ? test->N : test->T;
    shape.extent[1] = batch_major ? test->T : test->N;
    shape.extent[2] = (desc->proj ? desc->proj : desc->hidden) *
                      (desc->direction == ECORNN_BIDIRECTIONAL ? 2 : 1);
    shape.count = (size_t)shape.extent[0] * (size_t)shape.extent[1] * (size_t)shape.extent[2];
    return shape;
}

static struct array shape_of_state(const struct test_case *test, const char *kind, int s)
{
    const ecornn_desc *desc = &test->desc;
    struct array shape = {.rank = 3};
    snprintf(shape.name, sizeof shape.name, "%s%d", kind, s);
    shape.extent[0] =
        (desc->layers ? desc->layers : 1) * (desc->direction == ECORNN_BIDIRECTIONAL ? 2 : 1);
    shape.extent[1] = test->N;
    shape.extent[2] = s == 0 && desc->proj ? desc->proj : desc->hidden;
    shape.count = (size_t)shape.extent[0] * (size_t)shape.extent[1] * (size_t)shape.extent[2];
    return shape;
}

/* ---- set up ---------------------------------------------------------------------------------- */

static void make_sequences(struct session *session)
{
    const struct test_case *test = session->test;
    const size_t element = eco_type_bytes(session->machine->type);
    make_input(session, &session->x, "x");
    make_input(session, &session->dy, "dy");
    if (!(test->null & NULL_Y))
        buffer_make(&session->memory, &session->y, "y", shape_of_y(test).count * element);
    if (!(test->null & NULL_DX))
        buffer_make(&session->memory, &session->dx, "dx",
                    data_find(session->inputs, "x")->count * element);
    if (data_find(session->inputs, "lengths")) {
        buffer_make(&session->memory, &session->lengths, "lengths",
                    (size_t)test->N * sizeof(int32_t));
        for (int32_t n = 0; !session->memory.failed && n < test->N; n++) {
            const int32_t length = case_length(session->inputs, n, test->T);
            memcpy(session->lengths.image + GUARD + (size_t)n * sizeof length, &length,
                   sizeof length);
        }
        buffer_upload(&session->memory, &session->lengths);
    }
}

static void make_states(struct session *session)
{
    const struct test_case *test = session->test;
    for (int s = 0; s < test->states; s++) {
        char name[32];
        snprintf(name, sizeof name, "initial%d", s);
        make_input(session, &session->initial[s], name);
        snprintf(name, sizeof name, "dfinal%d", s);
        make_input(session, &session->dfinal[s], name);
        session->initial[s].name = "initial", session->dfinal[s].name = "dfinal";
        const struct array final = shape_of_state(test, "final", s);
        const size_t bytes = bytes_of(session, &final);
        const bool alias = test->alias && session->initial[s].device;
        if (!(test->null & NULL_FINAL) && !alias)
            buffer_make(&session->memory, &session->final[s], "final", bytes);
        if (!(test->null & NULL_DINITIAL))
            buffer_make(&session->memory, &session->dinitial[s], "dinitial", bytes);
    }
}

/* From here on the buffer may not change. */
static void keep(struct session *session, struct buffer *buffer)
{
    unsigned char *now = buffer_fetch(&session->memory, buffer, false);
    if (now)
        memcpy(buffer->image, now, buffer->bytes + 2 * GUARD);
    free(now);
}

static bool pack(struct session *session)
{
    struct memory *memory = &session->memory;
    const void **from = calloc((size_t)session->params, sizeof *from);
    for (int i = 0; i < session->params; i++) {
        ecornn_param param;
        ecornn_param_get(session->plan, i, &param);
        make_input(session, &session->param[i], param.name);
        session->param[i].name = "parameter";
        from[i] = buffer_inside(&session->param[i]);
        if (!from[i])
            memory_complain(memory, "is not among the inputs", param.name);
    }
    const bool ok =
        !memory->failed &&
        memory_succeeded(memory,
                         ecornn_pack(session->plan, from, buffer_inside(&session->weights), NULL),
                         "pack");
    for (int i = 0; i < session->params; i++)
        buffer_check(memory, &session->param[i], true);
    free(from);
    keep(session, &session->weights);
    return ok;
}

static bool set_up(struct session *session)
{
    const struct test_case *test = session->test;
    ecornn_desc desc = test->desc;
    desc.type = session->machine->type;
    if (desc.type != test->desc.type)
        desc.param_type = desc.weight_type = ECORNN_F32; /* defaults */
    if (!memory_succeeded(&session->memory,
                          ecornn_plan_create(&session->plan, session->machine->device, &desc),
                          "plan"))
        return false;
    ecornn_plan_sizes(session->plan, &session->sizes);
    session->params = ecornn_param_count(session->plan);
    session->param = calloc((size_t)session->params, sizeof *session->param);
    session->dparam = calloc((size_t)session->params, sizeof *session->dparam);
    make_sequences(session);
    make_states(session);
    buffer_make(&session->memory, &session->weights, "weights", session->sizes.weights);
    buffer_make(&session->memory, &session->workspace, "workspace", session->sizes.workspace);
    if ((desc.flags & ECORNN_TRAINING) && !test->noreserve)
        buffer_make(&session->memory, &session->reserve, "reserve", session->sizes.reserve);
    if ((desc.flags & ECORNN_TRAINING) && !(test->null & NULL_DWEIGHTS))
        buffer_make(&session->memory, &session->dweights, "dweights", session->sizes.dweights);
    return !session->memory.failed && pack(session);
}

static void tear_down(struct session *session)
{
    struct buffer *const all[] = {&session->x,         &session->y,       &session->dy,
                                  &session->dx,        &session->weights, &session->dweights,
                                  &session->workspace, &session->reserve, &session->lengths};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buffer_drop(&session->memory, all[i]);
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        buffer_drop(&session->memory, &session->initial[s]);
        buffer_drop(&session->memory, &session->final[s]);
        buffer_drop(&session->memory, &session->dfinal[s]);
        buffer_drop(&session->memory, &session->dinitial[s]);
    }
    for (int i = 0; session->param && session->dparam && i < session->params; i++) {
        buffer_drop(&session->memory, &session->param[i]);
        buffer_drop(&session->memory, &session->dparam[i]);
    }
    free(session->param);
    free(session->dparam);
    ecornn_plan_free(session->plan);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static ecornn_io io_of(const struct session *session)
{
    const struct test_case *test = session->test;
    ecornn_io io = {.size = sizeof io,
                    .steps = test->T == test->desc.steps ? 0 : test->T,
                    .batch = test->N == test->desc.batch ? 0 : test->N,
                    .lengths = buffer_inside(&session->lengths),
                    .x = buffer_inside(&session->x),
                    .y = buffer_inside(&session->y),
                    .weights = buffer_inside(&session->weights),
                    .workspace = buffer_inside(&session->workspace),
                    .reserve = buffer_inside(&session->reserve),
                    .seed = test->seed};
    for (int s = 0; s < test->states; s++) {
        io.initial[s] = buffer_inside(&session->initial[s]);
        io.final[s] = buffer_inside(test->alias && session->initial[s].device ? &session->initial[s]
                                                                              : &session->final[s]);
        if (test->null & NULL_FINAL)
            io.final[s] = NULL;
    }
    return io;
}

static void check_after_run(struct session *session, bool backward)
{
    buffer_check(&session->memory, &session->x, true);
    buffer_check(&session->memory, &session->lengths, true);
    buffer_check(&session->memory, &session->dy, true);
    buffer_check(&session->memory, &session->weights, true);
    buffer_check(&session->memory, &session->workspace, false);
    buffer_check(&session->memory, &session->reserve, backward);
    for (int s = 0; s < session->test->states; s++) {
        buffer_check(&session->memory, &session->initial[s], backward || !session->test->alias);
        buffer_check(&session->memory, &session->dfinal[s], true);
    }
}

static bool run_forward(struct session *session, struct data *results)
{
    const struct test_case *test = session->test;
    const ecornn_io io = io_of(session);
    if (!memory_succeeded(&session->memory, ecornn_forward(session->plan, &io), "forward") ||
        !memory_succeeded(&session->memory, ecornn_wait(session->machine->device, NULL), "wait"))
        return false;
    check_after_run(session, false);
    const struct array y = shape_of_y(test);
    get_result(session, &session->y, results, &y);
    for (int s = 0; s < test->states; s++) {
        const struct array final = shape_of_state(test, "final", s);
        if (io.final[s])
            get_result(session,
                       io.final[s] == io.initial[s] ? &session->initial[s] : &session->final[s],
                       results, &final);
        if (test->alias)
            buffer_upload(&session->memory,
                          &session->initial[s]); /* as it was: backward reads it */
    }
    keep(session, &session->reserve);
    return !session->memory.failed;
}

static void get_dparams(struct session *session, struct data *results)
{
    void **to = calloc((size_t)session->params, sizeof *to);
    for (int i = 0; i < session->params; i++) {
        buffer_drop(&session->memory, &session->dparam[i]);
        buffer_make(&session->memory, &session->dparam[i], "dparameter", session->param[i].bytes);
        to[i] = buffer_inside(&session->dparam[i]);
    }
    memory_succeeded(&session->memory,
                     ecornn_unpack(session->plan, buffer_inside(&session->dweights), to, 0, NULL),
                     "unpack");
    for (int i = 0; i < session->params; i++) {
        ecornn_param param;
        char name[64];
        ecornn_param_get(session->plan, i, &param);
        snprintf(name, sizeof name, "d:%s", param.name);
        const struct array shape = shape_of(name, data_find(session->inputs, param.name));
        get_result(session, &session->dparam[i], results, &shape);
    }
    free(to);
}

/* One call; before: the one that accumulation adds to. */
static bool call_backward(struct session *session, bool before)
{
    const struct test_case *test = session->test;
    struct memory *memory = &session->memory;
    buffer_refill(memory, &session->workspace);
    buffer_refill(memory, &session->dx);
    ecornn_io io = io_of(session);
    ecornn_gradient gradient = {.size = sizeof gradient,
                                .dy = buffer_inside(&session->dy),
                                .dx = buffer_inside(&session->dx),
                                .dweights = buffer_inside(&session->dweights),
                                .accumulate = test->accumulate && !before};
    io.y = NULL;
    for (int s = 0; s < test->states; s++) {
        buffer_refill(memory, &session->dinitial[s]);
        io.final[s] = NULL;
        gradient.dfinal[s] = before ? NULL : buffer_inside(&session->dfinal[s]);
        gradient.dinitial[s] = buffer_inside(&session->dinitial[s]);
    }
    const bool ok =
        !memory->failed &&
        memory_succeeded(memory, ecornn_backward(session->plan, &io, &gradient), "backward") &&
        memory_succeeded(memory, ecornn_wait(session->machine->device, NULL), "wait");
    check_after_run(session, true);
    return ok && !memory->failed;
}

static bool run_backward(struct session *session, struct data *results)
{
    const struct test_case *test = session->test;
    buffer_refill(&session->memory, &session->dweights);
    if ((test->accumulate && !call_backward(session, true)) || !call_backward(session, false))
        return false;
    const struct array dx = shape_of("dx", data_find(session->inputs, "x"));
    get_result(session, &session->dx, results, &dx);
    for (int s = 0; s < test->states; s++) {
        const struct array dinitial = shape_of_state(test, "dinitial", s);
        get_result(session, &session->dinitial[s], results, &dinitial);
    }
    if (session->dweights.device)
        get_dparams(session, results);
    return !session->memory.failed;
}

bool case_run(const struct test_case *test, const struct machine *machine,
              const struct data *inputs, struct data *results)
{
    struct session session = {.test = test,
                              .machine = machine,
                              .inputs = inputs,
                              .memory = {machine->device, test->text, false}};
    const bool trains = (test->desc.flags & ECORNN_TRAINING) && !test->noreserve;
    bool ok = set_up(&session) && run_forward(&session, results);
    for (int k = 0; ok && trains && k < machine->backwards; k++) {
        struct data again = {0};
        ok = run_backward(&session, k == 0 ? results : &again);
        ok = ok && (k == 0 || results_same(test, "backward again", &again, results));
        data_free(&again);
    }
    tear_down(&session);
    return ok && !session.memory.failed;
}
