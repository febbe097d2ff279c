/*
 * Runs of several models, and of one; see models.h.
 */
#include "tests/kit/models.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/seed.h"
#include "common/type.h"
#include "tests/kit/choices.h"

/* Runs model m alone and compares it; dx of models that share x is compared by the caller. */
static void check_one(struct trial *all, struct trial *one, int32_t m, bool shared)
{
    const struct part whole = {.of = all, .model = m}, part = {.of = one};
    char what[40];
    snprintf(what, sizeof what, "model %d", m);
    part_copy_inputs(part, whole);
    one->io.seed = eco_seed_of(11, ECO_SEED_MODEL, (uint32_t)m);
    trial_run(one);
    part_check(part, whole, Y, shared ? STATES : DX, what);
    part_check(part, whole, DINITIAL, DPARAMS, what);
}

/* The dx of models that share x is the sum over the models; in a net, whose layers add first, only
 * nearly. */
static void check_sum(const struct trial_array *is, const char *sum, bool net)
{
    double most = 0;
    for (size_t i = 0; i < is->bytes / is->element; i++) {
        const double x = eco_type_get(is->host, i, is->type), y = eco_type_get(sum, i, is->type);
        ck_assert_msg(fabs(x - y) <= (net ? 1e-5 : 0), "dx[%zu] is %g, must be %g", i, x, y);
        most = x > most ? x : most;
    }
    ck_assert(most > 0);
}

void models_check(const struct models_case *test, const char *device)
{
    struct trial all, one;
    char problem[300];
    const size_t common = strcspn(test->problem, ";");
    const bool net = test->problem[common] == ';', gpu = strcmp(device, "cuda") == 0;
    snprintf(problem, sizeof problem, "%.*s/models:%d%s%s", (int)common, test->problem,
             test->models, test->shared ? "/shared-x" : "", test->problem + common);
    trial_open_on(&all, device, problem);
    if (gpu && !net)
        ck_assert(choices_take(all.plan));
    trial_open(&one, all.device, test->problem, NULL);
    unsetenv("ECORNN_FORCE");
    ck_assert_int_eq(all.sizes.param_count, test->models * one.sizes.param_count);
    trial_fill(&all, 3);
    all.ragged = one.ragged = test->lengths;
    trial_point(&all), trial_point(&one);
    all.io.seed = 11;
    const struct trial_array *const dx = &one.array[0][DX][0];
    char *const sum = malloc(dx->bytes + 1);
    for (int time = 0; time < (gpu ? 3 : 1); time++) {
        trial_run(&all);
        for (int m = 0; m < test->models; m++) {
            check_one(&all, &one, m, test->shared);
            if (all.trains && m == 0)
                memcpy(sum, dx->host, dx->bytes);
            else if (all.trains)
                eco_type_add(sum, dx->type, dx->host, dx->type, dx->bytes / dx->element);
        }
        if (test->shared && all.trains)
            check_sum(&all.array[0][DX][0], sum, net);
    }
    free(sum);
    trial_close(&one);
    trial_close(&all);
}

/* ---- threads --------------------------------------------------------------------------------- */

struct runner {
    const struct trial *trial;
    pthread_t thread;
    ecornn_status status;
    char detail[200];
};

static void *run_in_thread(void *own)
{
    enum { TIMES = 8 };
    struct runner *runner = own;
    const struct trial *trial = runner->trial;
    for (int time = 0; time < 2 * TIMES && runner->status == ECORNN_OK; time++)
        runner->status = time % 2 == 0 ? ecornn_pack(trial->plan, trial->params, NULL,
                                                     trial->weights, trial->io.stream)
                                       : trial_queue(trial);
    snprintf(runner->detail, sizeof runner->detail, "%s", ecornn_error_detail());
    return NULL;
}

void models_check_threads(struct trial run[], int count)
{
    struct runner *runner = calloc((size_t)count, sizeof *runner);
    trial_fill(&run[0], 19);
    trial_run(&run[0]);
    for (int k = 1; k < count; k++) {
        part_copy_inputs((struct part){.of = &run[k]}, (struct part){.of = &run[0]});
        trial_send(&run[k]);
        runner[k].trial = &run[k];
    }
    for (int k = 1; k < count; k++)
        ck_assert_int_eq(pthread_create(&runner[k].thread, NULL, run_in_thread, &runner[k]), 0);
    for (int k = 1; k < count; k++)
        ck_assert_int_eq(pthread_join(runner[k].thread, NULL), 0);
    for (int k = 1; k < count; k++) {
        ck_assert_msg(runner[k].status == ECORNN_OK, "thread %d: %s", k, runner[k].detail);
        trial_fetch(&run[k]);
        part_check((struct part){.of = &run[k]}, (struct part){.of = &run[0]}, Y, DPARAMS,
                   "a thread");
    }
    free(runner);
}
