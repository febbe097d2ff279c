/*
 * Programs that compare bits of runs on the CPU: a list of cases, or that of the argument, by every
 * algorithm whose bits do not depend on how many rows and steps there are.  Their main is here.
 */
#ifndef ECO_TESTS_EXACT_H
#define ECO_TESTS_EXACT_H

#include "tests/kit/testing.h"

/* Are the bits those that they should be?  If not it has said so. */
typedef bool exact_check(const struct test_case *test, const struct machine *machine,
                         const struct data *inputs);

/* By each such algorithm of "cpu:1" or another device; at least one runs. */
bool exact_on(const char *device, const struct test_case *test, const struct data *inputs,
              exact_check *check);

struct exact_program {
    const char *suite;
    const char *const *list; /* doc/numerics.md, "Rows", says of which cases it can be asked */
    int cases;
    exact_check *check; /* on one thread and on two; NULL: */
    /* on some devices, through exact_on. */
    bool (*run)(const struct test_case *test, const struct data *inputs);
};
extern const struct exact_program exact_program; /* the test's */

#endif /* ECO_TESTS_EXACT_H */
