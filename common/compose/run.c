/*
 * Runs of a plan, of one model or of several.
 */
#include "common/caller.h"
#include "common/compose/sequence.h"

void eco_sequence_run(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                      const struct eco_args *args)
{
    struct eco_args own = *args;
    own.stream = sequence->stream;
    own.alone = sequence->alone;
    if (sequence->status == ECORNN_OK)
        (plan->one != NULL ? eco_compose_models : eco_compose_one)(sequence, plan, &own);
}

ecornn_status eco_run_plan(const struct ecornn_plan *plan, const struct eco_args *args)
{
    struct eco_caller caller;
    struct eco_sequence sequence = eco_sequence_on(plan->device, args->stream);
    eco_caller_begin_run(&caller, plan->device->backend);
    (plan->one != NULL ? eco_compose_models : eco_compose_one)(&sequence, plan, args);
    eco_caller_end(&caller);
    return sequence.status;
}
