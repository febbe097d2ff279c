/*
 * Running a case through the public interface in guarded memory.  After each run: guards, inputs,
 * weights and reserve as they were, padding of y and dx 0.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/kit/session.h"
#include "tests/kit/calls.h"

ecornn_io session_io(const struct session *session)
{
    const struct test_case *test = session->test;
    ecornn_io io = {.size = sizeof io,
                    .lengths = buffer_inside(&session->lengths),
                    .x = buffer_inside(&session->x),
                    .y = buffer_inside(&session->y),
                    .weights = buffer_inside(&session->weights),
                    .workspace = buffer_inside(&session->workspace),
                    .reserve = buffer_inside(&session->reserve),
                    .resets = buffer_inside(&session->resets),
                    .mask = buffer_inside(&session->mask),
                    .seed = test->seed,
                    .first_step = (uint32_t)test->first_step,
                    .first_row = (uint32_t)test->first_row};
    for (int s = 0; s < test->states; s++) {
        io.initial[s] = buffer_inside(&session->initial[s]);
        io.reset_state[s] = buffer_inside(&session->start[s]);
        io.states[s] = buffer_inside(&session->states[s]);
        io.final[s] = buffer_inside(test->alias && session->initial[s].device ? &session->initial[s]
                                                                              : &session->final[s]);
        if (test->null & NULL_FINAL)
            io.final[s] = NULL;
    }
    return io;
}

ecornn_gradient session_gradient(const struct session *session)
{
    ecornn_gradient gradient = {.size = sizeof gradient,
                                .dy = buffer_inside(&session->dy),
                                .dx = buffer_inside(&session->dx),
                                .dweights = buffer_inside(&session->dweights)};
    for (int s = 0; s < session->test->states; s++) {
        gradient.dfinal[s] = buffer_inside(&session->dfinal[s]);
        gradient.dinitial[s] = buffer_inside(&session->dinitial[s]);
        gradient.dreset_state[s] = buffer_inside(&session->dstart[s]);
        gradient.dstates[s] = buffer_inside(&session->dstates[s]);
    }
    return gradient;
}

bool session_trains(const struct session *session)
{
    return (session->test->desc.flags & ECORNN_TRAINING) && !session->test->noreserve;
}

static void check_after_run(struct session *session, bool backward)
{
    buffer_check(&session->memory, &session->x, true);
    buffer_check(&session->memory, &session->lengths, true);
    buffer_check(&session->memory, &session->resets, true);
    buffer_check(&session->memory, &session->mask, true);
    buffer_check(&session->memory, &session->dy, true);
    buffer_check(&session->memory, &session->weights, true);
    buffer_check(&session->memory, &session->workspace, false);
    buffer_check(&session->memory, &session->reserve, backward);
    buffer_check(&session->memory, &session->y, backward);
    for (int s = 0; s < session->test->states; s++) {
        buffer_check(&session->memory, &session->initial[s], backward || !session->test->alias);
        buffer_check(&session->memory, &session->dfinal[s], true);
        buffer_check(&session->memory, &session->start[s], true);
        buffer_check(&session->memory, &session->dstates[s], true);
        buffer_check(&session->memory, &session->states[s], false);
    }
}

/* Runs forward, or backward if there is a gradient, and waits. */
static bool run(struct session *session, ecornn_io *io, const ecornn_gradient *gradient)
{
    struct watch *watch = session->machine->watch;
    struct memory *memory = &session->memory;
    const int32_t T = session->test->T, N = session->test->N;
    if (watch != NULL)
        io->stream = watch->stream;
    bool ok = watch == NULL || watch->begin(watch);
    if (ok && gradient != NULL)
        ok = memory_succeeded(memory, ecornn_backward(session->plan, T, N, io, gradient),
                              "backward");
    else if (ok)
        ok = memory_succeeded(memory, ecornn_forward(session->plan, T, N, io), "forward");
    if (watch != NULL)
        ok = watch->end(watch, gradient != NULL) && ok;
    return ok &&
           memory_succeeded(memory, ecornn_wait(session->machine->device, io->stream), "wait");
}

bool session_forward(struct session *session, struct data *results)
{
    const struct test_case *test = session->test;
    ecornn_io io = session_io(session);
    if (!run(session, &io, NULL))
        return false;
    check_after_run(session, false);
    const struct array y = session_y_shape(test);
    session_result(session, &session->y, results, &y);
    for (int s = 0; s < test->states; s++) {
        const struct array final = session_state_shape(test, "final", s);
        if (io.final[s])
            session_result(session,
                           io.final[s] == io.initial[s] ? &session->initial[s] : &session->final[s],
                           results, &final);
        if (io.states[s]) {
            const struct array shown = session_shown_shape(test, s);
            session_result(session, &session->states[s], results, &shown);
        }
        if (test->alias)
            buffer_upload(&session->memory,
                          &session->initial[s]); /* must not change, because backward reads it */
    }
    session_keep(session, &session->reserve);
    session_keep(session, &session->y);
    return !session->memory.failed;
}

static struct array shape_of(const char *name, const struct array *like)
{
    struct array shape = *like;
    snprintf(shape.name, sizeof shape.name, "%s", name);
    return shape;
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
        param_at(session->plan, i, &param);
        snprintf(name, sizeof name, "d:%s", param.name);
        const struct array shape = shape_of(name, data_find(session->inputs, param.name));
        session_result(session, &session->dparam[i], results, &shape);
    }
    free(to);
}

/* Calls backward once; before: the first call, to whose gradients the second adds. */
static bool call_backward(struct session *session, bool before)
{
    const struct test_case *test = session->test;
    struct memory *memory = &session->memory;
    buffer_refill(memory, &session->workspace);
    buffer_refill(memory, &session->dx);
    ecornn_io io = session_io(session);
    ecornn_gradient gradient = session_gradient(session);
    gradient.add = test->accumulate && !before;
    if (!session->reads_y)
        io.y = NULL;
    for (int s = 0; s < test->states; s++) {
        buffer_refill(memory, &session->dinitial[s]);
        buffer_refill(memory, &session->dstart[s]);
        io.final[s] = NULL;
        if (before)
            gradient.dfinal[s] = NULL;
    }
    const bool ok = !memory->failed && run(session, &io, &gradient);
    check_after_run(session, true);
    return ok && !memory->failed;
}

bool session_backward(struct session *session, struct data *results)
{
    const struct test_case *test = session->test;
    buffer_refill(&session->memory, &session->dweights);
    if ((test->accumulate && !call_backward(session, true)) || !call_backward(session, false))
        return false;
    const struct array dx = shape_of("dx", data_find(session->inputs, "x"));
    session_result(session, &session->dx, results, &dx);
    for (int s = 0; s < test->states; s++) {
        const struct array dinitial = session_state_shape(test, "dinitial", s);
        session_result(session, &session->dinitial[s], results, &dinitial);
        const struct array dstart = session_state_shape(test, "dstart", s);
        session_result(session, &session->dstart[s], results, &dstart);
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
    bool ok = session_open(&session) && session_forward(&session, results);
    for (int k = 0; ok && session_trains(&session) && k < machine->backwards; k++) {
        struct data again = {0};
        ok = session_backward(&session, k == 0 ? results : &again);
        ok = ok && (k == 0 || results_same(test, "backward again", &again, results));
        data_free(&again);
    }
    session_close(&session);
    return ok && !session.memory.failed;
}
