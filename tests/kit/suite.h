/*
 * The end of every program that uses Check.
 */
#ifndef ECO_TESTS_SUITE_H
#define ECO_TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>

/* Runs the suite, each test in a process of its own if fork, and frees it; the exit status. */
int suite_run(Suite *suite, bool fork);

#endif /* ECO_TESTS_SUITE_H */
