/*
 * Running a case: every buffer has guards before and after and starts as NaN, padding included;
 * after each run the kit checks that nothing was written that must not be, and that padding of y
 * and dx is 0.  Device memory is reached through the public interface only.
 */
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256 }; /* bytes, a multiple of the alignment */

/* A block on the device and what it held when last written from here. */
struct buffer {
    const char *name;
    size_t bytes;
    unsigned char *device; /* guards included */
    unsigned char *image;
};

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
    int32_t *lengths;
    bool failed;
};

/* ---- buffers --------------------------------------------------------------------------------- */

static void complain(struct session *session, const char *what, const char *which)
{
    session->failed = true;
    fprintf(stderr, "%s: %s: %s\n", session->test->text, which, what);
}

static bool succeeded(struct session *session, ecornn_status status, const char *call)
{
    if (status != ECORNN_OK)
        complain(session, ecornn_error_detail(), call);
    return status == ECORNN_OK;
}

static void *inside(const struct buffer *buffer)
{
    return buffer->device ? buffer->device + GUARD : NULL;
}

static void upload(struct session *session, struct buffer *buffer)
{
    if (buffer->device)
        succeeded(session,
                  ecornn_upload(session->machine->device, buffer->device, buffer->image,
                                buffer->bytes + 2 * GUARD),
                  "upload");
}

static size_t element_bytes(const struct session *session)
{
    return session->machine->type == ECORNN_F64 ? 8 : 4;
}

/* All bytes 0xFF are NaN in both types; guards are something else, each byte with its place. */
static void make(struct session *session, struct buffer *buffer, const char *name, size_t bytes)
{
    *buffer = (struct buffer){.name = name, .bytes = bytes};
    buffer->image = malloc(bytes + 2 * GUARD);
    buffer->device = ecornn_alloc(session->machine->device, bytes + 2 * GUARD);
    if (!buffer->image || !buffer->device) {
        complain(session, "no memory", name);
        return;
    }
    memset(buffer->image + GUARD, 0xFF, bytes);
    for (size_t i = 0; i < GUARD; i++) {
        buffer->image[i] = (unsigned char)(0x5A ^ i);
        buffer->image[GUARD + bytes + i] = (unsigned char)(0xA5 ^ i);
    }
    upload(session, buffer);
}

static void refill_nan(struct session *session, struct buffer *buffer)
{
    if (!buffer->device)
        return;
    memset(buffer->image + GUARD, 0xFF, buffer->bytes);
    upload(session, buffer);
}

static void put_element(const struct session *session, struct buffer *buffer, size_t i,
                        double value)
{
    if (session->machine->type == ECORNN_F64)
        memcpy(buffer->image + GUARD + 8 * i, &value, 8);
    else
        memcpy(buffer->image + GUARD + 4 * i, &(float){(float)value}, 4);
}

static double get_element(const struct session *session, const unsigned char *at, size_t i)
{
    double wide;
    float narrow;
    if (session->machine->type == ECORNN_F64)
        return memcpy(&wide, at + 8 * i, 8), wide;
    return memcpy(&narrow, at + 4 * i, 4), (double)narrow;
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
    make(session, buffer, name, array->count * element_bytes(session));
    const bool sequence = strcmp(name, "x") == 0 || strcmp(name, "dy") == 0;
    for (size_t i = 0; !session->failed && i < array->count; i++)
        if (!sequence || !is_padding(session, array, i))
            put_element(session, buffer, i, array->value[i]);
    upload(session, buffer);
}

/* Fetches a buffer and checks its guards; constant: all of it.  The caller frees. */
static unsigned char *fetch(struct session *session, const struct buffer *buffer, bool constant)
{
    const size_t bytes = buffer->bytes + 2 * GUARD;
    unsigned char *now = buffer->device ? malloc(bytes) : NULL;
    if (!now ||
        !succeeded(session, ecornn_download(session->machine->device, now, buffer->device, bytes),
                   "download")) {
        free(now);
        return NULL;
    }
    for (size_t i = 0; i < bytes; i++) {
        const bool guard = i < GUARD || i >= GUARD + buffer->bytes;
        if (now[i] == buffer->image[i] || (!guard && !constant))
            continue;
        char what[96];
        snprintf(what, sizeof what, "%s was written, %td bytes from its start of %zu",
                 guard ? "a guard" : "an input", (ptrdiff_t)i - GUARD, buffer->bytes);
        complain(session, what, buffer->name);
        break;
    }
    return now;
}

static void check(struct session *session, const struct buffer *buffer, bool constant)
{
    free(fetch(session, buffer, constant));
}

static void drop(struct session *session, struct buffer *buffer)
{
    ecornn_free(session->machine->device, buffer->device);
    free(buffer->image);
    *buffer = (struct buffer){0};
}

/* ---- results --------------------------------------------------------------------------------- */

static void get_result(struct session *session, const struct buffer *buffer, struct data *results,
                       const struct array *shape)
{
    unsigned char *now = fetch(session, buffer, false);
    if (!now)
        return;
    struct array *array = data_add(results, shape->name, shape->rank, shape->extent);
    const bool sequence = strcmp(array->name, "y") == 0 || strcmp(array->name, "dx") == 0;
    bool clean = true;
    for (size_t i = 0; i < array->count; i++) {
        array->value[i] = get_element(session, now + GUARD, i);
        clean &= !sequence || !is_padding(session, array, i) || array->value[i] == 0;
    }
    if (!clean)
        complain(session, "padding is not 0", array->name);
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
    const size_t element = element_bytes(session);
    make_input(session, &session->x, "x");
    make_input(session, &session->dy, "dy");
    if (!(test->null & NULL_Y))
        make(session, &session->y, "y", shape_of_y(test).count * element);
    if (!(test->null & NULL_DX))
        make(session, &session->dx, "dx", data_find(session->inputs, "x")->count * element);
    if (data_find(session->inputs, "lengths")) {
        session->lengths = malloc((size_t)test->N * sizeof *session->lengths);
        for (int32_t n = 0; n < test->N; n++)
            session->lengths[n] = case_length(session->inputs, n, test->T);
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
        const size_t bytes = shape_of_state(test, "final", s).count * element_bytes(session);
        const bool alias = test->alias && session->initial[s].device;
        if (!(test->null & NULL_FINAL) && !alias)
            make(session, &session->final[s], "final", bytes);
        if (!(test->null & NULL_DINITIAL))
            make(session, &session->dinitial[s], "dinitial", bytes);
    }
}

static ecornn_status pack(struct session *session, struct buffer *to, const char *front)
{
    const void **from = calloc((size_t)session->params, sizeof *from);
    for (int i = 0; i < session->params; i++) {
        ecornn_param param;
        char name[64];
        ecornn_param_get(session->plan, i, &param);
        snprintf(name, sizeof name, "%s%s", front, param.name);
        drop(session, &session->param[i]);
        make_input(session, &session->param[i], name);
        session->param[i].name = "parameter";
        from[i] = inside(&session->param[i]);
        if (!from[i])
            complain(session, "is not among the inputs", name);
    }
    const ecornn_status status =
        session->failed ? ECORNN_FAILED : ecornn_pack(session->plan, from, inside(to), NULL);
    for (int i = 0; i < session->params; i++)
        check(session, &session->param[i], true);
    free(from);
    unsigned char *now = fetch(session, to, false); /* from here on it may not change */
    if (now)
        memcpy(to->image, now, to->bytes + 2 * GUARD);
    free(now);
    return status;
}

static bool set_up(struct session *session)
{
    const struct test_case *test = session->test;
    ecornn_desc desc = test->desc;
    desc.type = session->machine->type;
    if (!succeeded(session, ecornn_plan_create(&session->plan, session->machine->device, &desc),
                   "plan"))
        return false;
    ecornn_plan_sizes(session->plan, &session->sizes);
    session->params = ecornn_param_count(session->plan);
    session->param = calloc((size_t)session->params, sizeof *session->param);
    session->dparam = calloc((size_t)session->params, sizeof *session->dparam);
    make_sequences(session);
    make_states(session);
    make(session, &session->weights, "weights", session->sizes.weights);
    make(session, &session->workspace, "workspace", session->sizes.workspace);
    if ((desc.flags & ECORNN_TRAINING) && !test->noreserve)
        make(session, &session->reserve, "reserve", session->sizes.reserve);
    if ((desc.flags & ECORNN_TRAINING) && !(test->null & NULL_DWEIGHTS))
        make(session, &session->dweights, "dweights", session->sizes.weights);
    return !session->failed && succeeded(session, pack(session, &session->weights, ""), "pack");
}

static void tear_down(struct session *session)
{
    struct buffer *const all[] = {&session->x,         &session->y,       &session->dy,
                                  &session->dx,        &session->weights, &session->dweights,
                                  &session->workspace, &session->reserve};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        drop(session, all[i]);
    for (int s = 0; s < ECORNN_MAX_STATES; s++) {
        drop(session, &session->initial[s]);
        drop(session, &session->final[s]);
        drop(session, &session->dfinal[s]);
        drop(session, &session->dinitial[s]);
    }
    for (int i = 0; session->param && session->dparam && i < session->params; i++) {
        drop(session, &session->param[i]);
        drop(session, &session->dparam[i]);
    }
    free(session->param);
    free(session->dparam);
    free(session->lengths);
    ecornn_plan_free(session->plan);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static ecornn_io io_of(const struct session *session)
{
    const struct test_case *test = session->test;
    ecornn_io io = {.size = sizeof io,
                    .steps = test->T == test->desc.steps ? 0 : test->T,
                    .batch = test->N == test->desc.batch ? 0 : test->N,
                    .lengths = session->lengths,
                    .x = inside(&session->x),
                    .y = inside(&session->y),
                    .weights = inside(&session->weights),
                    .workspace = inside(&session->workspace),
                    .reserve = inside(&session->reserve),
                    .seed = test->seed};
    for (int s = 0; s < test->states; s++) {
        io.initial[s] = inside(&session->initial[s]);
        io.final[s] = inside(test->alias && session->initial[s].device ? &session->initial[s]
                                                                       : &session->final[s]);
        if (test->null & NULL_FINAL)
            io.final[s] = NULL;
    }
    return io;
}

static void check_after_run(struct session *session, bool backward)
{
    check(session, &session->x, true);
    check(session, &session->dy, true);
    check(session, &session->weights, true);
    check(session, &session->workspace, false);
    check(session, &session->reserve, backward);
    for (int s = 0; s < session->test->states; s++) {
        check(session, &session->initial[s], backward || !session->test->alias);
        check(session, &session->dfinal[s], true);
    }
}

static bool run_forward(struct session *session, struct data *results)
{
    const struct test_case *test = session->test;
    const ecornn_io io = io_of(session);
    if (!succeeded(session, ecornn_forward(session->plan, &io), "forward") ||
        !succeeded(session, ecornn_wait(session->machine->device, NULL), "wait"))
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
            upload(session, &session->initial[s]); /* as it was: backward reads it */
    }
    unsigned char *reserve = fetch(session, &session->reserve, false);
    if (reserve)
        memcpy(session->reserve.image, reserve, session->reserve.bytes + 2 * GUARD);
    free(reserve);
    return !session->failed;
}

static void get_dparams(struct session *session, struct data *results)
{
    void **to = calloc((size_t)session->params, sizeof *to);
    for (int i = 0; i < session->params; i++) {
        drop(session, &session->dparam[i]);
        make(session, &session->dparam[i], "dparameter", session->param[i].bytes);
        to[i] = inside(&session->dparam[i]);
    }
    succeeded(session, ecornn_unpack(session->plan, inside(&session->dweights), to, 0, NULL),
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

static bool run_backward(struct session *session, struct data *results)
{
    const struct test_case *test = session->test;
    refill_nan(session, &session->workspace);
    refill_nan(session, &session->dx);
    refill_nan(session, &session->dweights);
    if (test->accumulate && session->dweights.device)
        succeeded(session, pack(session, &session->dweights, "before:"), "pack");
    ecornn_io io = io_of(session);
    ecornn_gradient gradient = {.size = sizeof gradient,
                                .dy = inside(&session->dy),
                                .dx = inside(&session->dx),
                                .dweights = inside(&session->dweights),
                                .accumulate = test->accumulate};
    io.y = NULL;
    for (int s = 0; s < test->states; s++) {
        refill_nan(session, &session->dinitial[s]);
        io.final[s] = NULL;
        gradient.dfinal[s] = inside(&session->dfinal[s]);
        gradient.dinitial[s] = inside(&session->dinitial[s]);
    }
    if (session->failed ||
        !succeeded(session, ecornn_backward(session->plan, &io, &gradient), "backward") ||
        !succeeded(session, ecornn_wait(session->machine->device, NULL), "wait"))
        return false;
    check_after_run(session, true);
    const struct array dx = shape_of("dx", data_find(session->inputs, "x"));
    get_result(session, &session->dx, results, &dx);
    for (int s = 0; s < test->states; s++) {
        const struct array dinitial = shape_of_state(test, "dinitial", s);
        get_result(session, &session->dinitial[s], results, &dinitial);
    }
    if (session->dweights.device)
        get_dparams(session, results);
    return !session->failed;
}

bool case_run(const struct test_case *test, const struct machine *machine,
              const struct data *inputs, struct data *results)
{
    struct session session = {.test = test, .machine = machine, .inputs = inputs};
    const bool trains = (test->desc.flags & ECORNN_TRAINING) && !test->noreserve;
    bool ok = set_up(&session) && run_forward(&session, results);
    for (int k = 0; ok && trains && k < machine->backwards; k++) {
        struct data again = {0};
        ok = run_backward(&session, k == 0 ? results : &again);
        ok = ok && (k == 0 || results_same(test, "backward again", &again, results));
        data_free(&again);
    }
    tear_down(&session);
    return ok && !session.failed;
}
