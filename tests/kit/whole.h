/*
 * A case that has been run, as a trial with its inputs and results, and trials for its parts.
 */
#ifndef ECO_TESTS_WHOLE_H
#define ECO_TESTS_WHOLE_H

#include "tests/kit/testing.h"
#include "tests/kit/trial.h"

/* Runs the case, and gives its inputs and results to a trial, which does not run. */
bool whole_open(struct trial *whole, const struct machine *machine, const struct test_case *test,
                const struct data *inputs);
/* Opens a trial for parts of T steps and N rows, whose training saves all. */
void whole_part(struct trial *part, const struct machine *machine, const struct test_case *test,
                int32_t T, int32_t N);
/* Are the numbers of the part those of the whole? If not, prints which. */
bool whole_same(struct part part, int role, struct part whole, int whole_role);

#endif /* ECO_TESTS_WHOLE_H */
