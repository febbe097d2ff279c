/*
 * A case's plan and arrays, see session.h.
 */
#include "tests/kit/session.h"
#include "tests/kit/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"

struct buffer *session_array(struct session *session, const char *name)
{
    const int row = case_array(name);
    if (row < 0)
        memory_complain(&session->memory, "is no array", name);
    return session->array[row < 0 ? 0 : row];
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static ecornn_type type_of(const struct session *session, const char *name)
{
    return session->machine->type == ECORNN_F64 ? ECORNN_F64 : case_type(session->test, name);
}

/* Is element i of an array with steps padding? In x and dx that is a step that does not count, in
 * others a step that repeats no other. */
static bool is_padding(const struct session *session, const struct eco_run_array *row,
                       const struct array *array, size_t i)
{
    const uint32_t flags = session->test->desc.flags;
    const size_t at = i / (size_t)array->extent[2], second = (size_t)array->extent[1];
    const size_t a = at / second, b = at % second;
    const bool row_major =
        (flags & ECORNN_BATCH_MAJOR) != 0 && (row->letters & (ECO_I | ECO_Y)) != 0;
    const int32_t t = (int32_t)(row_major ? b : a) % session->test->T,
                  n = (int32_t)(row_major ? a : b);
    if ((row->letters & ECO_T) == 0 || row->element > ECO_ARRAY_STATE)
        return false;
    if ((row->letters & ECO_I) != 0)
        return !case_counts(session->test, session->inputs, t, n);
    return !(flags & ECORNN_REPEAT_PADDING) &&
           t >= case_length(session->inputs, n, session->test->T);
}

/* Bytes of an element, of this type if it is a number. */
static size_t element_of(const struct eco_run_array *row, ecornn_type type)
{
    return row->element == ECO_ARRAY_MARK ? 1
           : row->element == ECO_ARRAY_LENGTH || row->element == ECO_ARRAY_INDEX
               ? sizeof(int32_t)
               : eco_type_bytes(type);
}

static void set(unsigned char *to, const struct eco_run_array *row, size_t i, ecornn_type type,
                double value)
{
    const int32_t length = element_of(row, ECORNN_F64) == sizeof length ? (int32_t)value : 0;
    if (element_of(row, ECORNN_F64) == sizeof length)
        memcpy(to + i * sizeof length, &length, sizeof length);
    else if (row->element == ECO_ARRAY_MARK)
        to[i] = (unsigned char)value;
    else
        eco_type_set(to, i, type, value);
}

/* Makes a buffer with the input of this name, if there is one. Padding stays NaN. */
static void make_input(struct session *session, struct buffer *buffer,
                       const struct eco_run_array *row, const char *name)
{
    const struct array *array = data_find(session->inputs, name);
    const ecornn_type type = type_of(session, name);
    if (!array)
        return;
    buffer_make(&session->memory, buffer, row->name, array->count * element_of(row, type));
    for (size_t i = 0; !session->memory.failed && i < array->count; i++)
        if (!is_padding(session, row, array, i))
            set(buffer->image + GUARD, row, i, type, array->value[i]);
    buffer_upload(&session->memory, buffer);
}

/* ---- results --------------------------------------------------------------------------------- */

static struct array shape_of(const struct session *session, const struct eco_run_array *row, int s)
{
    struct array shape = {.rank = 3};
    case_name(shape.name, row, s);
    case_shape(session->test, row, s, shape.extent);
    shape.count = (size_t)shape.extent[0] * (size_t)shape.extent[1] * (size_t)shape.extent[2];
    return shape;
}

static void add_result(struct session *session, const struct buffer *buffer,
                       const struct eco_run_array *row, struct data *results,
                       const struct array *shape)
{
    unsigned char *now = buffer_fetch(&session->memory, buffer, false);
    if (!now)
        return;
    struct array *array = data_add(results, shape->name, shape->rank, shape->extent);
    const ecornn_type type = type_of(session, array->name);
    bool clean = true;
    for (size_t i = 0; i < array->count; i++) {
        array->value[i] = eco_type_get(now + GUARD, i, type);
        clean &= !row || !is_padding(session, row, array, i) || array->value[i] == 0;
    }
    if (!clean)
        memory_complain(&session->memory, "padding is not 0", array->name);
    free(now);
}

void session_result(struct session *session, const struct buffer *buffer, struct data *results,
                    const struct array *shape)
{
    add_result(session, buffer, NULL, results, shape);
}

/* Is the caller's final state where the initial one is? */
static bool is_alias(const struct session *session, const struct eco_run_array *row, int s)
{
    return session->test->alias && row == &eco_run_array[case_array("final")] &&
           !(session->test->null >> case_array("final") & 1) &&
           session->array[case_array("initial")][s].device;
}

void session_results(struct session *session, bool backward, struct data *results)
{
    for (int s = 0; s < ECORNN_MAX_STATES; s++)
        for (int a = 0; a < ECO_RUN_ARRAYS; a++) {
            const struct eco_run_array *const row = &eco_run_array[a];
            if (!row->output || row->element == ECO_ARRAY_BLOCK || row->gradient != backward ||
                s >= (row->count > 1 ? session->test->states : 1))
                continue;
            const struct array shape = shape_of(session, row, s);
            add_result(session,
                       is_alias(session, row, s) ? &session->array[case_array("initial")][s]
                                                 : &session->array[a][s],
                       row, results, &shape);
        }
}

/* ---- set up ---------------------------------------------------------------------------------- */

/* Is there memory for what a run writes? */
static bool is_wanted(const struct session *session, int a, int s)
{
    const struct test_case *test = session->test;
    const struct eco_run_array *const row = &eco_run_array[a];
    const bool training = (test->desc.flags & ECORNN_TRAINING) != 0;
    if (strcmp(row->name, "io.y") == 0 && session->reads_y)
        return true;
    if (strcmp(row->name, "io.reserve") == 0)
        return training && !test->noreserve;
    if (strcmp(row->name, "gradient.dweights") == 0 && !training)
        return false;
    if (strcmp(row->name, "gradient.dreset_state") == 0)
        return test->resets >= 0 && !(test->null >> case_array("dinitial") & 1);
    return (row->flag & ~test->desc.flags) == 0 && !(test->null >> a & 1) &&
           !is_alias(session, row, s);
}

static void make_array(struct session *session, int a, int s)
{
    const struct eco_run_array *const row = &eco_run_array[a];
    const struct array shape = shape_of(session, row, s);
    const size_t bytes = row->element == ECO_ARRAY_BLOCK
                             ? eco_run_array_bytes(row, &session->sizes)
                             : shape.count * eco_type_bytes(type_of(session, shape.name));
    if (row->output ? is_wanted(session, a, s) : row->element == ECO_ARRAY_BLOCK)
        buffer_make(&session->memory, &session->array[a][s], row->name, bytes);
    else if (!row->output)
        make_input(session, &session->array[a][s], row, shape.name);
}

void session_keep(struct session *session, struct buffer *buffer)
{
    unsigned char *now = buffer_fetch(&session->memory, buffer, false);
    if (now)
        memcpy(buffer->image, now, buffer->bytes + 2 * GUARD);
    free(now);
}

static void make_param(struct session *session, struct buffer *buffer, const char *name)
{
    static const struct eco_run_array row = {.name = "parameter", .element = ECO_ARRAY_BLOCK};
    make_input(session, buffer, &row, name);
}

static bool pack(struct session *session)
{
    struct memory *memory = &session->memory;
    struct buffer *const weights = session_array(session, "weights");
    const void **from = calloc((size_t)session->params, sizeof *from);
    for (int i = 0; i < session->params; i++) {
        ecornn_param param;
        param_at(session->plan, i, &param);
        make_param(session, &session->param[i], param.name);
        from[i] = buffer_inside(&session->param[i]);
        if (!from[i])
            memory_complain(memory, "is not among the inputs", param.name);
    }
    struct watch *watch = session->machine->watch;
    void *const stream = watch ? watch->stream : NULL;
    bool ok = !memory->failed && (watch == NULL || watch->begin(watch));
    ok = ok && memory_succeeded(
                   memory, ecornn_pack(session->plan, from, NULL, buffer_inside(weights), stream),
                   "pack");
    if (watch != NULL && !memory->failed)
        ok = watch->end(watch, false) && ok;
    for (int i = 0; i < session->params; i++)
        buffer_check(memory, &session->param[i], true);
    free(from);
    session_keep(session, weights);
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
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        for (int s = 0; s < (eco_run_array[a].count > 1 ? test->states : 1); s++)
            make_array(session, a, s);
    return !session->memory.failed && pack(session);
}

void session_close(struct session *session)
{
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        for (int s = 0; s < ECORNN_MAX_STATES; s++)
            buffer_drop(&session->memory, &session->array[a][s]);
    for (int i = 0; session->param && session->dparam && i < session->params; i++) {
        buffer_drop(&session->memory, &session->param[i]);
        buffer_drop(&session->memory, &session->dparam[i]);
    }
    free(session->param);
    free(session->dparam);
    ecornn_plan_free(session->plan);
}
