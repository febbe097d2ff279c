/*
 * The choices that ECORNN_FORCE takes from the CPU's planner.
 */
#ifndef ECO_CPU_ALGO_FORCE_H
#define ECO_CPU_ALGO_FORCE_H

#include <stdbool.h>

#include "common/plan.h"
#include "common/util.h"
#include "cpu/cpu.h"

/* eco_backend.read_choice */
bool eco_cpu_read_choice(enum eco_forced_key key, const char *text, int32_t *value);

/* Why the forced choices are impossible, or NULL; alone: threads can finish the units they
 * multiply. */
const char *eco_cpu_force_refuses(const struct eco_problem *problem, const char *algorithm,
                                  bool alone);

/* The grid of ECO_FORCE_GRID's value. */
struct eco_grid eco_cpu_unpack_grid(int32_t value);

/* Has the cell stages that pass values on to later ones? */
static inline bool eco_cpu_carries_values(const struct eco_problem *problem)
{
    const int *n = problem->cell->lowered.n_columns;
    return n[false] + n[true] > 0;
}

/* carried.c: requests room for such values. */
void eco_cpu_request_carried(const struct eco_problem *problem, const struct eco_caps *caps,
                             struct eco_cpu_request *request);

/* A plan's choices, eco_backend.choices. */
void eco_cpu_choices(const struct ecornn_plan *plan, struct eco_text *text);

#endif /* ECO_CPU_ALGO_FORCE_H */
