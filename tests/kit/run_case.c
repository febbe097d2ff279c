/*
 * Running a case through the public interface in guarded memory.  After each run: guards, inputs,
 * weights and reserve as they were, padding of y and dx 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/session.h"
#include "tests/kit/calls.h"

/* Sets pointers of io or gradient. */
static void point(const struct session *session, void *to, bool gradient)
{
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        for (int s = 0; s < eco_run_array[a].count; s++) {
            void *const at = buffer_inside(&session->array[a][s]);
            if (eco_run_array[a].gradient == gradient)
                memcpy((char *)to + eco_run_array[a].given + (size_t)s * sizeof at, &at, sizeof at);
        }
}

ecornn_io session_io(const struct session *session)
{
    const struct test_case *test = session->test;
    ecornn_io io = {.size = sizeof io,
                    .seed = test->seed,
                    .first_step = (uint32_t)test->first_step,
                    .first_row = (uint32_t)test->first_row};
    point(session, &io, false);
    for (int s = 0; s < test->states; s++)
        if (test->alias && !(test->null >> case_array("final") & 1) && io.initial[s])
            io.final[s] = (void *)(uintptr_t)io.initial[s];
    return io;
}

ecornn_gradient session_gradient(const struct session *session)
{
    ecornn_gradient gradient = {.size = sizeof gradient};
    point(session, &gradient, true);
    return gradient;
}

bool session_trains(const struct session *session)
{
    return (session->test->desc.flags & ECORNN_TRAINING) && !session->test->noreserve;
}

/* Inputs stay as they were, and, in backward, what forward wrote; so does an initial state but for
 * a forward run that has the final one there. Results are checked where they are read. */
static void check_after_run(struct session *session, bool backward)
{
    const int initial = case_array("initial"), y = case_array("y"), reserve = case_array("reserve");
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        for (int s = 0; s < eco_run_array[a].count; s++) {
            const bool same = eco_run_array[a].output
                                  ? backward && (a == y || a == reserve)
                                  : a != initial || backward || !session->test->alias;
            if (same || !eco_run_array[a].output || eco_run_array[a].element == ECO_ARRAY_BLOCK)
                buffer_check(&session->memory, &session->array[a][s], same);
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
    ecornn_io io = session_io(session);
    if (!run(session, &io, NULL))
        return false;
    check_after_run(session, false);
    session_results(session, false, results);
    for (int s = 0; session->test->alias && s < session->test->states; s++)
        buffer_upload(&session->memory, /* must not change, because backward reads it */
                      &session_array(session, "initial")[s]);
    session_keep(session, session_array(session, "reserve"));
    session_keep(session, session_array(session, "y"));
    return !session->memory.failed;
}

static void get_dparams(struct session *session, struct data *results)
{
    const void *const dweights = buffer_inside(session_array(session, "dweights"));
    const size_t element = eco_type_bytes(param_type_of(&session->test->desc));
    void **to = calloc((size_t)session->params, sizeof *to);
    for (int i = 0; i < session->params; i++) {
        buffer_drop(&session->memory, &session->dparam[i]);
        buffer_make(&session->memory, &session->dparam[i], "dparameter", session->param[i].bytes);
        to[i] = buffer_inside(&session->dparam[i]);
    }
    memory_succeeded(&session->memory, ecornn_unpack(session->plan, dweights, to, 0, NULL),
                     "unpack");
    if (first_misplaced(session->plan, session->memory.device, dweights, to, element) >= 0)
        memory_complain(&session->memory, "gradients are not where they should be", "dweights");
    for (int i = 0; i < session->params; i++) {
        ecornn_param param;
        param_at(session->plan, i, &param);
        struct array shape = *data_find(session->inputs, param.name);
        snprintf(shape.name, sizeof shape.name, "d:%s", param.name);
        session_result(session, &session->dparam[i], results, &shape);
    }
    free(to);
}

/* Calls backward once; before: the first call, to whose gradients the second adds. */
static bool call_backward(struct session *session, bool before)
{
    const struct test_case *test = session->test;
    struct memory *memory = &session->memory;
    ecornn_io io = session_io(session);
    ecornn_gradient gradient = session_gradient(session);
    buffer_refill(memory, session_array(session, "workspace"));
    for (int a = ECO_IO_ARRAYS; a < ECO_RUN_ARRAYS; a++)
        for (int s = 0; s < eco_run_array[a].count; s++)
            if (eco_run_array[a].output && a != case_array("dweights"))
                buffer_refill(memory, &session->array[a][s]);
    gradient.add = test->accumulate && !before;
    if (!session->reads_y)
        io.y = NULL;
    memset(io.final, 0, sizeof io.final);
    if (before)
        memset(gradient.dfinal, 0, sizeof gradient.dfinal);
    const bool ok = !memory->failed && run(session, &io, &gradient);
    check_after_run(session, true);
    return ok && !memory->failed;
}

bool session_backward(struct session *session, struct data *results)
{
    const struct test_case *test = session->test;
    buffer_refill(&session->memory, session_array(session, "dweights"));
    if ((test->accumulate && !call_backward(session, true)) || !call_backward(session, false))
        return false;
    session_results(session, true, results);
    if (session_array(session, "dweights")->device)
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
