/*
 * The problems and layout requests with which layout, tape and problem strings are tested.
 */
#ifndef ECO_TESTS_PROBLEMS_H
#define ECO_TESTS_PROBLEMS_H

#include "common/problem.h"
#include "common/layout_request.h"

enum { PROBLEMS = 26, REQUESTS = 16 };

extern const char *const problems[PROBLEMS];
extern const struct eco_layout_request requests[REQUESTS];

/* Fails the test if the string is wrong. */
void problem_of(struct eco_problem *problem, const char *text);

#endif /* ECO_TESTS_PROBLEMS_H */
