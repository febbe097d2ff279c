/*
 * Forced choices, by which a test or a user overrides the planner:
 * ECORNN_FORCE="algorithm=packed,block=8".  Each file that chooses has its own keys;
 * doc/contributing/testing.md lists them.  A plan reads them when it is made, and keeps them in its
 * problem (eco_problem.forced).
 */
#ifndef ECO_FORCE_H
#define ECO_FORCE_H

#include <stdbool.h>
#include <stddef.h>

enum { ECO_MAX_FORCE = 256 };

/* Copies the value of a key in the text `forced`, which may be NULL, cut off at size - 1
 * characters; false: not forced. */
bool eco_force_text(const char *forced, const char *key, char *value, size_t size);
/* The value as an int; false also if it is not a number. */
bool eco_force_number(const char *forced, const char *key, int *value);
/* The only algorithm allowed, by forced choices, else by ECORNN_ALGORITHM; false: any. */
enum { ECO_MAX_ALGORITHM = 16 };
bool eco_force_algorithm(const char *forced, char name[ECO_MAX_ALGORITHM]);

#endif /* ECO_FORCE_H */
