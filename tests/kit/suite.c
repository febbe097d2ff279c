/*
 * The main of test programs, see suite.h.
 */
#include "tests/kit/suite.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/calls.h"

/* Ends what would never end. */
enum { HANG_SECONDS = 3600 };

int suite_run_cases(Suite *suite, bool one_process)
{
    SRunner *runner = srunner_create(suite);
    if (one_process)
        srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int suite_run(const struct suite_program *program, const struct suite_test *tests)
{
    Suite *suite = suite_create(program->name);
    TCase *tcase = tcase_create(program->name);
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, HANG_SECONDS);
    if (program->one_process) /* Check's limit needs a process for each test */
        alarm(HANG_SECONDS);
    if (program->set_up)
        tcase_add_checked_fixture(tcase, program->set_up, program->tear_down);
    for (; tests->test; tests++)
        tcase_add_loop_test(tcase, tests->test, 0, tests->loops);
    return suite_run_cases(suite, program->one_process);
}

bool suite_skips(bool skips, const char *reason)
{
    if (skips)
        printf("# skipped: %s\n", reason);
    return skips;
}

bool suite_lacks(const char *device)
{
    return suite_skips(strncmp(device, "cuda", 4) == 0 && count_devices("cuda") == 0,
                       "no CUDA device");
}

void suite_set_path(const char *variable, const char *path)
{
    char all[PATH_MAX + 128];
    ck_assert_ptr_nonnull(getcwd(all, PATH_MAX));
    const size_t used = strlen(all), room = sizeof all - used;
    ck_assert_uint_lt((size_t)snprintf(all + used, room, "/%s", path), room);
    setenv(variable, all, 1);
}

bool suite_open_gpu(ecornn_device **device)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* if the program is killed, its output so far is kept */
    if (ecornn_device_open(device, "cuda") == ECORNN_OK)
        return true;
    printf("1..0 # SKIP %s\n", ecornn_error_detail());
    return false;
}
