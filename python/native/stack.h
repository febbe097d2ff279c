/*
 * A stack of layers: its plans, each for all runs in a bucket of T and N, and the packed weights of
 * its parameters.  Knows no framework.
 *
 * For example a layer of numpy arrays has one.  A first run of T100 makes the plan of T104, which
 * serves T97 to T104, whatever runs later.  Parameters are in one block of host memory that the
 * caller may write at any time; each run compares it with the copy that its packed weights were
 * made from, and packs again where they differ.
 */
#ifndef ECO_NATIVE_STACK_H
#define ECO_NATIVE_STACK_H

#include "python/native/packed.h"
#include "python/native/plans.h"

struct stack;

/* A run's sizes, types and flags: all but its arrays. */
struct ask {
    size_t size; /* of this structure: that of another version is refused */
    ecornn_device *device;
    int32_t on_gpu;
    int32_t steps, batch;     /* may be 0 */
    int32_t type, param_type; /* ecornn_type */
    uint32_t flags;           /* of the plan, in addition to the stack's: ECORNN_TRAINING, ... */
    double measure_seconds;   /* for a new plan; 0: none; below 0: no new plan */
};

/* Holds the plan for such runs until plan_let_go; NULL after a failure, or without one. */
ecornn_status stack_plan(struct stack *stack, const struct ask *ask, struct plan **found);

/* Holds the weights for a run of that plan until packed_drop. */
ecornn_status stack_packed(struct stack *stack, struct plan *plan, const struct ask *ask,
                           struct packed **found);

#endif /* ECO_NATIVE_STACK_H */
