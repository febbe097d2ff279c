/*
 * Which plans are worth measuring: texts of forced choices, from a plan and the table of its
 * backend.  Knows no key but algorithm; measuring is lib's.
 */
#ifndef ECO_TUNE_H
#define ECO_TUNE_H

#include "common/choice.h"
#include "common/plan.h"

enum { ECO_MAX_CANDIDATES = 64 }; /* of one choice */

/* Does the choice matter for this plan? */
bool eco_choice_applies(const struct eco_choice *choice, const struct ecornn_plan *plan);
/* The plan's choices, each with another value of this one; returns how many. */
int eco_candidates(const struct eco_choice *choice, const struct ecornn_plan *plan,
                   char candidates[ECO_MAX_CANDIDATES][ECO_MAX_FORCE]);

#endif /* ECO_TUNE_H */
