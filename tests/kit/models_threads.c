/*
 * Runs of one plan of several models in many threads; see models.h.
 */
#include "tests/kit/models.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct runner {
    const struct models_run *run;
    pthread_t thread;
    ecornn_status status;
    char detail[200];
};

static void *run_in_thread(void *own)
{
    enum { TIMES = 4 };
    struct runner *runner = own;
    const struct models_run *run = runner->run;
    for (int time = 0; time < TIMES && runner->status == ECORNN_OK; time++)
        runner->status = models_try(run, NULL, NULL, 5);
    if (runner->status == ECORNN_OK)
        runner->status = ecornn_wait(run->device, run->stream);
    snprintf(runner->detail, sizeof runner->detail, "%s", ecornn_error_detail());
    return NULL;
}

/* Copies the inputs of the first run and clears the results. */
static void copy_inputs(const struct models_run *to, const struct models_run *from)
{
    for (int array = X; array <= PARAMS; array++)
        memcpy(to->array[array], from->array[array], (size_t)to->models * to->bytes[array]);
    models_forget(to);
}

void models_check_threads(const struct models_run run[], int count)
{
    struct runner *runner = calloc((size_t)count, sizeof *runner);
    uint64_t seed = 19;
    models_fill(&run[0], &seed);
    models_forget(&run[0]);
    models_queue(&run[0], NULL, NULL, 5);
    check_ok(ecornn_wait(run[0].device, run[0].stream));
    for (int k = 1; k < count; k++)
        copy_inputs(&run[k], &run[0]);
    for (int k = 1; k < count; k++) {
        runner[k].run = &run[k];
        ck_assert_int_eq(pthread_create(&runner[k].thread, NULL, run_in_thread, &runner[k]), 0);
    }
    for (int k = 1; k < count; k++)
        ck_assert_int_eq(pthread_join(runner[k].thread, NULL), 0);
    for (int k = 1; k < count; k++) {
        ck_assert_msg(runner[k].status == ECORNN_OK, "thread %d: %s", k, runner[k].detail);
        for (int array = Y; array < MODELS_ARRAYS; array++)
            ck_assert_mem_eq(run[k].array[array], run[0].array[array],
                             (size_t)run[k].models * run[k].bytes[array]);
    }
    free(runner);
}
