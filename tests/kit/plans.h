/*
 * Kept plans: what the planner chooses on a described device, as text in tests/data, so that a
 * change of a formula shows which plans it changes.
 */
#ifndef ECO_TESTS_PLANS_H
#define ECO_TESTS_PLANS_H

#include "common/backend.h"

/* Makes the plans of all problems in a file with lines "PROBLEM CHOICES", and fails the test, with
 * both versions of each line, if one differs. With ECORNN_KEEP_PLANS=1 it writes the file instead.
 */
void keep_plans(const char *file, struct ecornn_device *device);
/* For each line "PROBLEM CHOICES" of stdin: prints "replay SECONDS CHOICES"; 0: it is refused. */
void replay_plans(struct ecornn_device *device);

#endif /* ECO_TESTS_PLANS_H */
