/*
 * Many processes and threads use wisdom at the same time.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/backend.h"
#include "tests/kit/calls.h"
#include "tests/kit/status.h"
#include "tests/kit/suite.h"
#include "tests/kit/wisdom.h"

/* ---- processes ------------------------------------------------------------------------------- */

/* Many processes write a file; a reader finds the whole file of one of them. */
START_TEST(many_processes)
{
    enum { PROCESSES = 4, TIMES = 25 };
    int status;
    learn(LSTM CHUNK(7));
    check_ok(ecornn_wisdom_save(in_folder("saved")));
    for (int k = 0; k < PROCESSES; k++)
        if (fork() == 0) {
            for (int i = 0; i < TIMES; i++)
                if (ecornn_wisdom_save(in_folder("saved")) != ECORNN_OK ||
                    ecornn_wisdom_load(in_folder("saved")) != ECORNN_OK)
                    _exit(1);
            _exit(0);
        }
    for (int k = 0; k < PROCESSES; k++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
}
END_TEST

START_TEST(records_problems)
{
    enum { PROCESSES = 4, TIMES = 20 };
    char line[300];
    int status, lines = 0;
    ck_assert_int_eq(setenv("ECORNN_RECORD", in_folder("recorded"), 1), 0);
    for (int k = 0; k < PROCESSES; k++)
        if (fork() == 0) {
            for (int i = 0; i < TIMES; i++)
                plan_of(LSTM, NULL);
            _exit(0);
        }
    for (int k = 0; k < PROCESSES; k++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    FILE *file = fopen(in_folder("recorded"), "r");
    ck_assert_ptr_nonnull(file);
    for (; fgets(line, sizeof line, file) != NULL; lines++)
        ck_assert_str_eq(line, LSTM "\n");
    fclose(file);
    ck_assert_int_eq(lines, PROCESSES * TIMES);
    ck_assert_int_eq(setenv("ECORNN_RECORD", in_folder("no/such"), 1), 0);
    ck_assert(says(LSTM, "ECORNN_RECORD: "));
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

static void *plan_and_learn(void *own)
{
    const int number = *(const int *)own;
    for (int i = 0; i < 300; i++) {
        ecornn_desc desc;
        ecornn_plan *plan = NULL;
        if (number % 2 == 0 && ecornn_wisdom_from_text(WISDOM_HEAD) != ECORNN_OK)
            return own;
        if (parse_desc(&desc, LSTM, NULL) != ECORNN_OK ||
            ecornn_plan_create_desc(&plan, wisdom_device, &desc) != ECORNN_OK)
            return own;
        ecornn_plan_free(plan);
    }
    return NULL;
}

START_TEST(many_threads)
{
    enum { THREADS = 6 };
    pthread_t thread[THREADS];
    int number[THREADS];
    learn(LSTM CHUNK(7));
    for (int k = 0; k < THREADS; k++) {
        number[k] = k;
        ck_assert_int_eq(pthread_create(&thread[k], NULL, plan_and_learn, &number[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        void *failed;
        ck_assert_int_eq(pthread_join(thread[k], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert(says(LSTM, ",chunk=7,"));
}
END_TEST

/* ---- forks ----------------------------------------------------------------------------------- */

/* The library Check has a lock too, so threads and children of this test do not assert. */
static bool opens_and_plans(void)
{
    ecornn_device *device;
    ecornn_plan *plan = NULL;
    ecornn_desc desc;
    if (ecornn_device_open(&device, "cpu:1") != ECORNN_OK)
        return false;
    const bool planned = parse_desc(&desc, LSTM, NULL) == ECORNN_OK &&
                         ecornn_plan_create_desc(&plan, device, &desc) == ECORNN_OK;
    ecornn_plan_free(plan);
    ecornn_device_close(device);
    return planned;
}

/* Makes all calls that take the locks of plans repeatedly, until told to stop. */
static void *take_locks(void *stop)
{
    while (!atomic_load((atomic_bool *)stop))
        if (ecornn_wisdom_from_text(WISDOM_HEAD) != ECORNN_OK || !opens_and_plans())
            return stop;
    return NULL;
}

/* Whatever other threads are doing at a fork, the child can open a device and make a plan. */
START_TEST(forks)
{
    enum { THREADS = 3, FORKS = 200 };
    pthread_t thread[THREADS];
    atomic_bool stop = false;
    void *failed;
    int status;
    for (int k = 0; k < THREADS; k++)
        ck_assert_int_eq(pthread_create(&thread[k], NULL, take_locks, &stop), 0);
    for (int k = 0; k < FORKS; k++) {
        const pid_t child = fork();
        if (child == 0)
            _exit(opens_and_plans() ? 0 : 1);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    atomic_store(&stop, true);
    for (int k = 0; k < THREADS; k++) {
        ck_assert_int_eq(pthread_join(thread[k], &failed), 0);
        ck_assert_ptr_null(failed);
    }
}
END_TEST

/* ---- files ----------------------------------------------------------------------------------- */

static void *plan_once(void *own)
{
    plan_of(LSTM, NULL);
    return own;
}

static sem_t reading;

/* The linker gives calls of eco_wisdom_add to the second (tests.am). */
ecornn_status __real_eco_wisdom_add(const char *text, size_t bytes, const char *path);
ecornn_status __wrap_eco_wisdom_add(const char *text, size_t bytes, const char *path);

ecornn_status __wrap_eco_wisdom_add(const char *text, size_t bytes, const char *path)
{
    sem_post(&reading);
    return __real_eco_wisdom_add(text, bytes, path);
}

/* Forgets wisdom while the first plan reads files; no entry of these files may appear later. */
START_TEST(forgets_what_is_being_read)
{
    enum { LINES = 10000 };
    pthread_t thread;
    FILE *file = fopen(in_folder("large"), "w");
    ck_assert_ptr_nonnull(file);
    fputs(text_of(wisdom_device->identity, ""), file);
    for (int k = 0; k < LINES; k++)
        fprintf(file,
                "lstm/f32/infer/T100/N20/I64/H%d - %016" PRIx64
                " algorithm=packed,chunk=7 1000 10 2026-01-31\n",
                64 + k, wisdom_device->id);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(setenv("ECORNN_WISDOM", in_folder("large"), 1), 0);
    ck_assert_int_eq(sem_init(&reading, 0, 0), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, plan_once, NULL), 0);
    while (sem_wait(&reading) != 0)
        ;
    ecornn_wisdom_forget();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_str_eq(whole(), WISDOM_HEAD);
}
END_TEST

TEST_MAIN_AROUND("wisdom threads", make_folder, remove_folder, {many_processes, 1},
                 {records_problems, 1}, {many_threads, 1}, {forks, !SANITIZED},
                 {forgets_what_is_being_read, 1})
