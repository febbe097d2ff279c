/*
 * The main of test programs.  A program ends with the list of its tests, each with the number of
 * times that Check calls it (with _i = 0, 1, ...; 0: the test is left out):
 *
 *     TEST_MAIN("tape", {a_tape_takes_no_memory, 1}, {tape_covers_all, PROBLEMS * WISHES})
 *
 * No test has a time limit of its own: a slow or busy machine would exceed it. Only what hangs for
 * an hour is ended.
 */
#ifndef ECO_TESTS_SUITE_H
#define ECO_TESTS_SUITE_H

#include <check.h>
#include <ecornn.h>
#include <stdbool.h>
#include <stddef.h>

/* Sanitizers replace malloc; in a child of a process with threads it may wait for a lock forever.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

struct suite_test {
    const TTest *test;
    int loops;
};

struct suite_program {
    const char *name;
    void (*set_up)(void), (*tear_down)(void); /* around each test; may be NULL */
    bool one_process;                         /* CUDA does not survive a fork */
};

/* Runs the tests up to the first that is NULL, each in a process of its own unless one_process is
 * set; returns the exit status. */
int suite_run(const struct suite_program *program, const struct suite_test *tests);

/* The same for a suite that was made by Check's own functions. */
int suite_run_cases(Suite *suite, bool one_process);

/* Opens the GPU; if there is none, prints that the program is skipped, and why, and returns false.
 */
bool suite_open_gpu(ecornn_device **device);

/* Prints, for quickstart's summary, that a part is skipped, if `skips`, which it returns. */
bool suite_skips(bool skips, const char *reason);
/* The same for tests of a device of this name that the machine does not have. */
bool suite_lacks(const char *device);

/* Sets a variable of the environment to the absolute form of a path in the current folder. */
void suite_set_path(const char *variable, const char *path);

#define SUITE_TESTS(...) ((const struct suite_test[]){__VA_ARGS__, {NULL, 0}})

#define TEST_MAIN(name, ...) TEST_MAIN_AROUND(name, NULL, NULL, __VA_ARGS__)

#define TEST_MAIN_AROUND(name, set_up, tear_down, ...)                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct suite_program program = {name, set_up, tear_down, false};                     \
        return suite_run(&program, SUITE_TESTS(__VA_ARGS__));                                      \
    }

/* All tests in one process, on the GPU that `device` points to. */
#define GPU_TEST_MAIN(name, device, ...)                                                           \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct suite_program program = {name, NULL, NULL, true};                             \
        if (!suite_open_gpu(device))                                                               \
            return 0;                                                                              \
        const int status = suite_run(&program, SUITE_TESTS(__VA_ARGS__));                          \
        ecornn_device_close(*(device));                                                            \
        return status;                                                                             \
    }

#endif /* ECO_TESTS_SUITE_H */
