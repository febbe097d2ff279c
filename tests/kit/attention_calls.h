/*
 * Attention as tests use it: plans of descriptions, which the public interface does not have, and
 * runs of all planned steps, positions and rows.
 */
#ifndef ECO_TESTS_ATTENTION_CALLS_H
#define ECO_TESTS_ATTENTION_CALLS_H

#include "ecornn/experimental.h"

#include "common/attention/attention.h"
#include "tests/kit/calls.h"

static inline ecornn_status attention_create(ecornn_plan **plan, ecornn_device *on,
                                             const struct eco_attention_desc *desc)
{
    struct eco_attention problem;
    const ecornn_status status = eco_attention_build(&problem, desc);
    return status == ECORNN_OK ? ecornn_plan_create(plan, on, problem.text, NULL) : status;
}

static inline ecornn_status attention_forward_all(const ecornn_plan *plan,
                                                  const ecornn_attention_io *io)
{
    ecornn_sizes sizes;
    const ecornn_status status = get_sizes(plan, &sizes);
    return status == ECORNN_OK
               ? ecornn_attention_forward(plan, sizes.steps, sizes.source, sizes.batch, io)
               : status;
}

static inline ecornn_status attention_backward_all(const ecornn_plan *plan,
                                                   const ecornn_attention_io *io,
                                                   const ecornn_attention_gradient *gradient)
{
    ecornn_sizes sizes;
    const ecornn_status status = get_sizes(plan, &sizes);
    return status == ECORNN_OK ? ecornn_attention_backward(plan, sizes.steps, sizes.source,
                                                           sizes.batch, io, gradient)
                               : status;
}

#endif /* ECO_TESTS_ATTENTION_CALLS_H */
