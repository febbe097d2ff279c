/*
 * Choices of the CPU's planner that ECORNN_FORCE takes from it; read when a plan is made.
 */
#ifndef ECO_CPU_ALGO_FORCE_H
#define ECO_CPU_ALGO_FORCE_H

#include <stdbool.h>

#include "common/plan.h"
#include "common/util.h"
#include "cpu/cpu.h"

/* Algorithms, by their choices. */
enum { ECO_FORCED_BLAS = 1, ECO_FORCED_PACKED = 2 };

/* NULL: what is forced can be.  Else why not, in a few words; alone: a thread can finish the units
 * that it multiplies. */
const char *eco_cpu_force_refuses(const struct eco_problem *problem, int algorithm, bool alone);
/* What a key was forced to, which is in its range; or what is usual. */
int eco_cpu_forced(const struct eco_problem *problem, const char *key, int usual);

/* handed.c: has the cell stages that hand on values to later ones? */
bool eco_cpu_hands_on(const struct eco_problem *problem);
/* The wishes for such values. */
void eco_cpu_wish_handed(const struct eco_problem *problem, const struct eco_caps *caps,
                         struct eco_cpu_request *request);

/* The same of how threads share out steps; false: nothing is forced, the grid stays. */
bool eco_cpu_forced_grid(const struct eco_problem *problem, struct eco_grid *grid);

/* What is worth measuring, as eco_backend.tunables; tunables.c. */
extern const struct eco_choice eco_cpu_tunables[];

/* What a plan chose, as eco_backend.choices. */
void eco_cpu_choices(const struct ecornn_plan *plan, struct eco_text *text);

#endif /* ECO_CPU_ALGO_FORCE_H */
