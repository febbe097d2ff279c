/*
 * A strategy of training: what is saved, by which algorithm, in chunks of how many steps, and what
 * this costs in bytes and time.  Computed without allocating anything.  plan/strategy.c.
 */
#ifndef ECO_STRATEGY_H
#define ECO_STRATEGY_H

#include "common/backend.h"

struct eco_strategy {
    const struct eco_algo *algo;
    struct eco_saving saving;
    int halvings; /* how often the chunks are halved */
    struct eco_layout_request request;
    size_t reserve, workspace; /* bytes; 0: not computed yet; SIZE_MAX: overflow */
    double seconds;            /* of a run, forward and backward */
};

/* The strategy for the plan's problem with a supporting algorithm and default chunks. */
struct eco_strategy eco_strategy_of(const struct ecornn_plan *plan, const struct eco_algo *algo,
                                    struct eco_saving saving);
/* Chooses the fastest strategy within the plan's memory_limit, among all policies if the plan's is
 * to save all.  Whatever affects the bits of results is the same for any number of CPU threads.
 * can: does an algorithm support the plan?
 *   BAD_ARGUMENT: none fits, and the detail names the smallest limit that would do. */
ecornn_status eco_strategy_choose(struct eco_strategy *strategy, const struct ecornn_plan *plan,
                                  bool (*can)(const struct ecornn_plan *plan,
                                              const struct eco_algo *algo));
/* Prints a table of some policies with the plan's algorithm, and of the plan itself. */
void eco_strategies_describe(struct eco_text *text, const struct ecornn_plan *plan);

#endif /* ECO_STRATEGY_H */
