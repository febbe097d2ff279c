/*
 * The sequencer; see sequence.h.
 */
#include "common/compose/sequence.h"

#include "common/caller.h"

void eco_sequence_calls(struct eco_sequence *sequence, const struct eco_call *calls, int count)
{
    if (sequence->status == ECORNN_OK && count > 0)
        sequence->status =
            sequence->device->backend->queue(sequence->device, calls, count, sequence->stream);
}

void eco_sequence_move(struct eco_sequence *sequence, const struct eco_rows_move *move)
{
    eco_sequence_calls(sequence, &(struct eco_call){ECO_CALL_MOVE, {.move = *move}}, 1);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct forked {
    const struct eco_program_jobs *jobs;
    struct ecornn_device *device;
    bool alone;
};

static ecornn_status queue_one(void *user_data, int job, int lane, void *stream)
{
    const struct forked *const forked = user_data;
    struct eco_sequence own = eco_sequence_on(forked->device, stream);
    own.lane = lane;
    own.alone = forked->alone;
    forked->jobs->one(forked->jobs->program, job, &own);
    return own.status;
}

static ecornn_status queue_last(void *user_data, void *stream)
{
    const struct forked *const forked = user_data;
    struct eco_sequence own = eco_sequence_on(forked->device, stream);
    forked->jobs->last(forked->jobs->program, &own);
    return own.status;
}

void eco_sequence_jobs(struct eco_sequence *sequence, const struct eco_program_jobs *jobs)
{
    const bool threads = sequence->device->backend->share == NULL;
    struct forked forked = {jobs, sequence->device, threads && jobs->lanes > 1};
    const struct eco_jobs all = {.jobs = jobs->jobs,
                                 .lanes = jobs->lanes,
                                 .one = queue_one,
                                 .last = queue_last,
                                 .user_data = &forked,
                                 .plan = jobs->plan,
                                 .args = jobs->args};
    if (sequence->status == ECORNN_OK)
        sequence->status =
            sequence->device->backend->fork(sequence->device, &all, sequence->stream);
}

ecornn_status eco_run_call(struct ecornn_device *device, const struct eco_call *call, void *stream)
{
    struct eco_caller caller;
    struct eco_sequence sequence = eco_sequence_on(device, stream);
    eco_caller_begin_run(&caller, device->backend);
    eco_sequence_calls(&sequence, call, 1);
    eco_caller_end(&caller);
    return sequence.status;
}
