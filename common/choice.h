/*
 * Which choices tuning tries, and the texts of forced choices that follow from the table of
 * force.h. common/tune/candidates.c.
 */
#ifndef ECO_CHOICE_H
#define ECO_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/force.h"

struct ecornn_plan;

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
