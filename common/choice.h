/*
 * Choices of a backend's plans that are worth trying when a plan is tuned: one table a backend, and
 * how forced texts are made of it.  Knows no key.  common/tune/candidates.c.
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
    const char *algorithms; /* that have it, with blanks between; NULL: all */
    /* With blanks between; "/2" and "*2" are of the plan's own value.  NULL: list says. */
    const char *values;
    void (*list)(const struct ecornn_plan *plan, struct eco_text *text);
    bool training; /* of plans with a backward only */
    /* Changes where sums are cut, so last bits: none for a plan whose rows keep theirs. */
    bool cuts;
};

/* Adds those of forced pairs that a plan takes from wisdom. */
void eco_choices_take(struct eco_text *text, const char *pairs, const struct eco_backend *backend,
                      bool row_invariant);
/* A number that changes where the algorithms or the choices of a backend do. */
uint64_t eco_choices_hash(const struct eco_backend *backend);
/* The plan's choices as ECORNN_FORCE takes them: a plan that is forced so is the same. */
void eco_plan_choices(const struct ecornn_plan *plan, struct eco_text *text);

#endif /* ECO_CHOICE_H */
