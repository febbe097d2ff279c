/*
 * Ways of training: what is saved, by which algorithm, in chunks of how many steps; and what each
 * costs in bytes and time.  Nothing is allocated to find out.  plan/strategy.c.
 */
#ifndef ECO_STRATEGY_H
#define ECO_STRATEGY_H

#include "common/backend.h"

struct eco_strategy {
    const struct eco_algo *algo;
    struct eco_saving saving;
    int halvings; /* how often the steps of its chunks are halved */
    struct eco_layout_request request;
    size_t reserve, workspace; /* bytes, 0: not counted yet; SIZE_MAX: too many to count */
    double seconds;            /* of a run, forward and backward */
};

/* The way of the plan's problem with this algorithm, which can, and its usual chunks. */
struct eco_strategy eco_strategy_of(const struct ecornn_plan *plan, const struct eco_algo *algo,
                                    struct eco_saving saving);
/* The fastest within the plan's memory_limit: of all policies, if the plan's is to save all.  What
 * its bits depend on is the same for any number of a CPU's threads.  can: whether an algorithm can.
 *   BAD_ARGUMENT: none fits, and the detail names the least that does. */
ecornn_status eco_strategy_choose(struct eco_strategy *strategy, const struct ecornn_plan *plan,
                                  bool (*can)(const struct ecornn_plan *plan,
                                              const struct eco_algo *algo));
/* A table of some policies, with the plan's algorithm, and of the plan itself. */
void eco_strategies_describe(struct eco_text *text, const struct ecornn_plan *plan);

#endif /* ECO_STRATEGY_H */
