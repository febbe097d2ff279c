/*
 * The main of programs that compare bits of runs on the CPU. They run a list of cases, or the case
 * in the argument, by every algorithm whose bits do not depend on the number of rows and steps.
 */
#ifndef ECO_TESTS_EXACT_H
#define ECO_TESTS_EXACT_H

#include "tests/kit/testing.h"

/* Are the bits right? If not, prints the difference. */
typedef bool exact_check(const struct test_case *test, const struct machine *machine,
                         const struct data *inputs);

/* Checks each such algorithm of "cpu:1" or another device; at least one must run. */
bool exact_on(const char *device, const struct test_case *test, const struct data *inputs,
              exact_check *check);

struct exact_program {
    const char *suite;
    const char *const *list; /* cases for which this holds: doc/numerics.md, "Rows" */
    int cases;
    exact_check *check; /* runs on one thread and on two; NULL: */
    /* runs on devices of its choice, through exact_on. */
    bool (*run)(const struct test_case *test, const struct data *inputs);
};
extern const struct exact_program exact_program; /* the test's */

#endif /* ECO_TESTS_EXACT_H */
