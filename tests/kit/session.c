/*
 * A case's plan and arrays, see session.h.
 */
#include "tests/kit/session.h"
#include "tests/kit/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

static ecornn_type type_of(const struct session *session, const char *name)
{
    return session->machine->type == ECORNN_F64 ? ECORNN_F64 : case_type(session->test, name);
}

static size_t bytes_of(const struct session *session, const struct array *array)
{
    return array->count * eco_type_bytes(type_of(session, array->name));
}

/* Is element i of a [T,N,*] array, in the case's order, padding? In x and dx that is a step that
 * does not count, in y and dy a step that repeats no other. */
static bool is_padding(const struct session *session, const struct array *array, size_t i)
{
    const bool input = strchr(array->name, 'x') != NULL;
    const bool repeats = (session->test->desc.flags & ECORNN_REPEAT_PADDING) != 0,
               shown = strstr(array->name, "states") != NULL;
    const size_t row = i / (size_t)array->extent[2], second = (size_t)array->extent[1];
    const size_t a = row / second, b = row % second;
    const bool batch_major = (session->test->desc.flags & ECORNN_BATCH_MAJOR) != 0 && !shown;
    const int32_t t = (int32_t)(batch_major ? b : a) % session->test->T,
                  n = (int32_t)(batch_major ? a : b);
    if (input)
        return !case_counts(session->test, session->inputs, t, n);
    return !repeats && t >= case_length(session->inputs, n, session->test->T);
}

/* Makes a buffer with the input of this name, if there is one. Padding stays NaN. */
static void make_input(struct session *session, struct buffer *buffer, const char *name)
{
    const struct array *array = data_find(session->inputs, name);
    if (!array)
        return;
    buffer_make(&session->memory, buffer, name, bytes_of(session, array));
    const ecornn_type type = type_of(session, name);
    const bool sequence =
        strcmp(name, "x") == 0 || strcmp(name, "dy") == 0 || strncmp(name, "dstates", 7) == 0;
    for (size_t i = 0; !session->memory.failed && i < array->count; i++)
        if (!sequence || !is_padding(session, array, i))
            eco_type_set(buffer->image + GUARD, i, type, array->value[i]);
    buffer_upload(&session->memory, buffer);
}

/* ---- results --------------------------------------------------------------------------------- */

void session_result(struct session *session, const struct buffer *buffer, struct data *results,
                    const struct array *shape)
{
    unsigned char *now = buffer_fetch(&session->memory, buffer, false);
    if (!now)
        return;
    struct array *array = data_add(results, shape->name, shape->rank, shape->extent);
    const ecornn_type type = type_of(session, array->name);
    const bool sequence = strcmp(array->name, "y") == 0 || strcmp(array->name, "dx") == 0 ||
                          strncmp(array->name, "states", 6) == 0;
    bool clean = true;
    for (size_t i = 0; i < array->count; i++) {
        array->value[i] = eco_type_get(now + GUARD, i, type);
        clean &= !sequence || !is_padding(session, array, i) || array->value[i] == 0;
    }
    if (!clean)
        memory_complain(&session->memory, "padding is not 0", array->name);
    free(now);
}

struct array session_y_shape(const struct test_case *test)
{
    const ecornn_desc *desc = &test->desc;
    const bool batch_major = (desc->flags & ECORNN_BATCH_MAJOR) != 0;
    struct array shape = {.name = "y", .rank = 3};
    shape.extent[0] = batch_major ? test->N : test->T;
    shape.extent[1] = batch_major ? test->T : test->N;
    shape.extent[2] =
        (desc->proj ? desc->proj : desc->hidden) * ((desc->flags & ECORNN_BIDIRECTIONAL) ? 2 : 1);
    shape.count = (size_t)shape.extent[0] * (size_t)shape.extent[1] * (size_t)shape.extent[2];
    return shape;
}

struct array session_state_shape(const struct test_case *test, const char *kind, int s)
{
    const ecornn_desc *desc = &test->desc;
    struct array shape = {.rank = 3};
    snprintf(shape.name, sizeof shape.name, "%s%d", kind, s);
    shape.extent[0] =
        (desc->layers ? desc->layers : 1) * ((desc->flags & ECORNN_BIDIRECTIONAL) ? 2 : 1);
    shape.extent[1] = test->N;
    shape.extent[2] = s == 0 && desc->proj ? desc->proj : desc->hidden;
    shape.count = (size_t)shape.extent[0] * (size_t)shape.extent[1] * (size_t)shape.extent[2];
    return shape;
}

struct array session_shown_shape(const struct test_case *test, int s)
{
    struct array shape = session_state_shape(test, "states", s);
    shape.count *= (size_t)test->T;
    shape.extent[0] *= test->T;
    return shape;
}

/* ---- set up ---------------------------------------------------------------------------------- */

static void make_bytes(struct session *session, struct buffer *buffer, const char *name)
{
    const struct array *array = data_find(session->inputs, name);
    if (!array)
        return;
    buffer_make(&session->memory, buffer, name, array->count);
    for (size_t i = 0; !session->memory.failed && i < array->count; i++)
        buffer->image[GUARD + i] = (unsigned char)array->value[i];
    buffer_upload(&session->memory, buffer);
}

static void make_sequences(struct session *session)
{
    const struct test_case *test = session->test;
    const size_t element = eco_type_bytes(session->machine->type);
    make_input(session, &session->x, "x");
    make_input(session, &session->dy, "dy");
    if (session->reads_y || !(test->null & NULL_Y))
        buffer_make(&session->memory, &session->y, "y", session_y_shape(test).count * element);
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
    make_bytes(session, &session->resets, "resets");
    make_bytes(session, &session->mask, "mask");
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
        snprintf(name, sizeof name, "start%d", s);
        make_input(session, &session->start[s], name);
        session->initial[s].name = "initial", session->dfinal[s].name = "dfinal";
        session->start[s].name = "start";
        snprintf(name, sizeof name, "dstates%d", s);
        make_input(session, &session->dstates[s], name);
        session->dstates[s].name = "dstates";
        if (test->desc.flags & ECORNN_ALL_STATES) {
            const struct array shown = session_shown_shape(test, s);
            buffer_make(&session->memory, &session->states[s], "states", bytes_of(session, &shown));
        }
        const struct array final = session_state_shape(test, "final", s);
        const size_t bytes = bytes_of(session, &final);
        const bool alias = test->alias && session->initial[s].device;
        if (!(test->null & NULL_FINAL) && !alias)
            buffer_make(&session->memory, &session->final[s], "final", bytes);
        if (!(test->null & NULL_DINITIAL))
            buffer_make(&session->memory, &session->dinitial[s], "dinitial", bytes);
        if (test->resets >= 0 && !(test->null & NULL_DINITIAL))
            buffer_make(&session->memory, &session->dstart[s], "dstart", bytes);
    }
}

void session_keep(struct session *session, struct buffer *buffer)
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
        param_at(session->plan, i, &param);
        make_input(session, &session->param[i], param.name);
        session->param[i].name = "parameter";
        from[i] = buffer_inside(&session->param[i]);
        if (!from[i])
            memory_complain(memory, "is not among the inputs", param.name);
    }
    struct watch *watch = session->machine->watch;
    void *const stream = watch ? watch->stream : NULL;
    bool ok = !memory->failed && (watch == NULL || watch->begin(watch));
    ok = ok && memory_succeeded(
                   memory,
                   ecornn_pack(session->plan, from, NULL, buffer_inside(&session->weights), stream),
                   "pack");
    if (watch != NULL && !memory->failed)
        ok = watch->end(watch, false) && ok;
    for (int i = 0; i < session->params; i++)
        buffer_check(memory, &session->param[i], true);
    free(from);
    session_keep(session, &session->weights);
    return ok;
}

bool session_open(struct session *session)
{
    const struct test_case *test = session->test;
    ecornn_desc desc = test->desc;
    desc.type = session->machine->type;
    if (desc.type != test->desc.type) {
        desc.param_type = desc.weight_type = desc.save_type = 0;
        desc.flags &= ~(uint32_t)ECORNN_INT8;
    }
    if (!memory_succeeded(&session->memory,
                          ecornn_plan_create_desc(&session->plan, session->machine->device, &desc),
                          "plan"))
        return false;
    get_sizes(session->plan, &session->sizes);
    session->params = count_params(session->plan);
    ecornn_device_info info;
    query_device(session->machine->device, &info);
    session->reads_y = (desc.flags & ECORNN_TRAINING) && !test->noreserve &&
                       (strcmp(info.backend, "cuda") == 0 || desc.save_every != 0 ||
                        (desc.flags & ECORNN_SAVE_STATES) || desc.memory_limit > 0 ||
                        (desc.save_type != 0 && desc.save_type != desc.type));
    session->param = calloc((size_t)session->params, sizeof *session->param);
    session->dparam = calloc((size_t)session->params, sizeof *session->dparam);
    make_sequences(session);
    make_states(session);
    buffer_make(&session->memory, &session->weights, "weights", session->sizes.weight_bytes);
    buffer_make(&session->memory, &session->workspace, "workspace", session->sizes.workspace_bytes);
    if ((desc.flags & ECORNN_TRAINING) && !test->noreserve)
        buffer_make(&session->memory, &session->reserve, "reserve", session->sizes.reserve_bytes);
    if ((desc.flags & ECORNN_TRAINING) && !(test->null & NULL_DWEIGHTS))
        buffer_make(&session->memory, &session->dweights, "dweights", session->sizes.dweight_bytes);
    return !session->memory.failed && pack(session);
}

void session_close(struct session *session)
{
    struct buffer *const all[] = {&session->x,         &session->y,       &session->dy,
                                  &session->dx,        &session->weights, &session->dweights,
                                  &session->workspace, &session->reserve, &session->lengths,
                                  &session->resets,    &session->mask};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buffer_drop(&session->memory, all[i]);
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        buffer_drop(&session->memory, &session->initial[s]);
        buffer_drop(&session->memory, &session->final[s]);
        buffer_drop(&session->memory, &session->dfinal[s]);
        buffer_drop(&session->memory, &session->dinitial[s]);
        buffer_drop(&session->memory, &session->start[s]);
        buffer_drop(&session->memory, &session->dstart[s]);
        buffer_drop(&session->memory, &session->states[s]);
        buffer_drop(&session->memory, &session->dstates[s]);
    }
    for (int i = 0; session->param && session->dparam && i < session->params; i++) {
        buffer_drop(&session->memory, &session->param[i]);
        buffer_drop(&session->memory, &session->dparam[i]);
    }
    free(session->param);
    free(session->dparam);
    ecornn_plan_free(session->plan);
}
