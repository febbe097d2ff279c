/*
 * Choices of plans that tuning tries, of all backends in one table, and the texts of forced choices
 * that follow from it.  common/tune/candidates.c.
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

/* When a choice is tried. */
enum {
    ECO_CHOICE_TRAINING = 1, /* only in training */
    ECO_CHOICE_FULL_F32 = 2, /* only in F32 without ECORNN_FAST_MATH */
    ECO_CHOICE_FAST_F32 = 4, /* only in F32 with it */
    /* It changes the order of sums, so last bits; it is not tried for row-invariant plans, nor
     * taken from wisdom. */
    ECO_CHOICE_SUMS = 8,
};
/* A key of forced choices (ECORNN_FORCE) and the values worth trying. */
struct eco_choice {
    const char *backend, *key;
    const char *algorithms; /* that have the key, separated by blanks; NULL: all */
    /* Separated by blanks.  "/2" and "*2" are relative to the plan's value, "GRIDS" stands for all
     * grids of threads. */
    const char *values;
    int flags;
};
/* In order of what they usually gain; ends with a key NULL. */
extern const struct eco_choice eco_choices[];

/* Does the choice matter for this plan? */
bool eco_choice_applies(const struct eco_choice *choice, const struct ecornn_plan *plan);
/* The plan's choices, each time with another value of this one.  Returns their number. */
enum { ECO_MAX_CANDIDATES = 64 };
int eco_candidates(const struct eco_choice *choice, const struct ecornn_plan *plan,
                   char candidates[ECO_MAX_CANDIDATES][ECO_MAX_FORCE]);

/* Adds the forced pairs that a plan takes from wisdom. */
void eco_choices_take(struct eco_text *text, const char *pairs, const struct eco_backend *backend,
                      bool row_invariant);
/* A hash of the algorithms and choices of a backend: wisdom of other ones is not used. */
uint64_t eco_choices_hash(const struct eco_backend *backend);
/* The plan's choices in the form of ECORNN_FORCE, which makes the same plan again. */
void eco_plan_choices(const struct ecornn_plan *plan, struct eco_text *text);

#endif /* ECO_CHOICE_H */
