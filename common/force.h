/*
 * Choices that a test or a person takes from the planner: ECORNN_FORCE="algorithm=packed,block=8".
 * One form for all of them; each file that chooses names its own keys, doc/contributing/testing.md
 * has them all.  A plan's are read when it is made, and stay with its problem (eco_problem.forced).
 */
#ifndef ECO_FORCE_H
#define ECO_FORCE_H

#include <stdbool.h>
#include <stddef.h>

enum { ECO_MAX_FORCE = 256 };

/* Of the text `forced`, or NULL, the value of a key, cut off at size - 1 characters; false: the
 * choice is the planner's. */
bool eco_force_text(const char *forced, const char *key, char *value, size_t size);
/* As a number of int's range; false also where the value is none. */
bool eco_force_number(const char *forced, const char *key, int *value);
/* The one algorithm that is left: that of forced choices, else that of ECORNN_ALGORITHM; false: any
 * may be. */
enum { ECO_MAX_ALGORITHM = 16 };
bool eco_force_algorithm(const char *forced, char name[ECO_MAX_ALGORITHM]);

#endif /* ECO_FORCE_H */
