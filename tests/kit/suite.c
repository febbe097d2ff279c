/*
 * The end of every program that uses Check, see suite.h.
 */
#include "tests/kit/suite.h"

#include <stdlib.h>

int suite_run(Suite *suite, bool fork)
{
    SRunner *runner = srunner_create(suite);
    if (!fork)
        srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
