/*
 * Choices of a backend's plans that are worth trying in tuning, one table for each backend, and the
 * forced texts made from it.  Knows no key.  common/tune/candidates.c.
 */
#ifndef ECO_CHOICE_H
#define ECO_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/force.h"

struct ecornn_plan;
struct eco_backend;
struct eco_text;

/* A key of forced choices. */
struct eco_choice {
    const char *key;
    const char *algorithms; /* algorithms that have it, separated by blanks; NULL: all */
    /* Values separated by blanks; "/2" and "*2" are relative to the plan's.  NULL: call `list`. */
    const char *values;
    void (*list)(const struct ecornn_plan *plan, struct eco_text *text);
    bool training; /* only for plans with a backward */
    /* Affects the order of sums, and so last bits: not for row-invariant plans. */
    bool cuts;
};

/* Appends the forced pairs that a plan accepts from wisdom. */
void eco_choices_take(struct eco_text *text, const char *pairs, const struct eco_backend *backend,
                      bool row_invariant);
/* A hash of the backend's algorithms and choices. */
uint64_t eco_choices_hash(const struct eco_backend *backend);
/* Prints the plan's choices in the form of ECORNN_FORCE.  Forcing them gives the same plan. */
void eco_plan_choices(const struct ecornn_plan *plan, struct eco_text *text);

#endif /* ECO_CHOICE_H */
