/*
 * What tests expect of calls of the library.  Included by programs that use Check.
 */
#ifndef ECO_TESTS_STATUS_H
#define ECO_TESTS_STATUS_H

#include "ecornn.h"

/* Fails the test, with the detail, if the status is not OK. */
void check_ok(ecornn_status status);
/* A device or plan that must be there; with built-in cells. */
ecornn_device *device_on(const char *name);
ecornn_plan *plan_on(ecornn_device *device, const char *problem);
/* The call failed as expected, and its detail has the word. */
void check_refused(ecornn_status status, ecornn_status expected, const char *word);
#define REFUSES(call, word) check_refused(call, ECORNN_BAD_ARGUMENT, word)

#endif /* ECO_TESTS_STATUS_H */
