/*
 * The one sequencer of composite programs: runs of plans, calls and jobs, in order.
 *
 * A net, several models, a tangent, or a plan with masks or start values is a function that queues
 * its runs and calls in a sequence.  Each is queued after the one before it; after a failure none
 * is.  Jobs fork from the sequence, each in a sequence of its own, and join it again.  On a GPU a
 * sequence is a stream; on a CPU it is the thread that computes, and jobs are threads.
 */
#ifndef ECO_SEQUENCE_H
#define ECO_SEQUENCE_H

#include "common/backend.h"

struct eco_sequence {
    struct ecornn_device *device;
    void *stream;
    int lane;   /* of a job: which memory of those that jobs use at the same time is its own */
    bool alone; /* other jobs run on other threads, so this one uses a single thread */
    ecornn_status status; /* of the first failure; its detail is the thread's */
};

/* Begins a sequence of a device and a caller's stream. */
static inline struct eco_sequence eco_sequence_on(struct ecornn_device *device, void *stream)
{
    return (struct eco_sequence){.device = device, .stream = stream};
}

/* Queues calls.  A call may read what an earlier call of the same list has written only if both
 * are ECO_CALL_COUNT or ECO_CALL_COMPACT, in which each row of the batch is for itself. */
void eco_sequence_calls(struct eco_sequence *sequence, const struct eco_call *calls, int count);
void eco_sequence_move(struct eco_sequence *sequence, const struct eco_rows_move *move);

/* run_one.c: queues the run of a plan of one model or several.  The arguments have been checked;
 * those that belong to the sequence, stream and alone, are set here. */
void eco_sequence_run(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                      const struct eco_args *args);

/* Jobs of a program; `last` comes after all of them, in the sequence itself. */
struct eco_program_jobs {
    int jobs, lanes;
    void (*one)(const void *program, int job, struct eco_sequence *sequence);
    void (*last)(const void *program, struct eco_sequence *sequence);
    const void *program;
    const struct ecornn_plan *plan; /* of several models, and its arguments; or NULL */
    const struct eco_args *args;
};
void eco_sequence_jobs(struct eco_sequence *sequence, const struct eco_program_jobs *jobs);

/* For a public function: runs a plan (models_run.c), or queues a call, in the calling thread's
 * environment of a run (caller.h). */
ecornn_status eco_run_plan(const struct ecornn_plan *plan, const struct eco_args *args);
ecornn_status eco_run_call(struct ecornn_device *device, const struct eco_call *call, void *stream);

/* run_one.c: the run of a plan of one model; empty.c: without steps or rows; models_run.c: of
 * several models. */
void eco_compose_one(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                     const struct eco_args *args);
void eco_compose_empty(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                       const struct eco_args *args);
void eco_compose_models(struct eco_sequence *sequence, const struct ecornn_plan *plan,
                        const struct eco_args *args);

/* run_one.c, checks that need a layout.  The layout of a run of the planned size; y is required if
 * the reserve has no second copy of it; the sizes that the caller states for its blocks. */
const struct eco_layout *eco_args_layout(const struct ecornn_plan *plan,
                                         const struct eco_args *args);
ecornn_status eco_args_check_y(const struct eco_layout *layout, const struct eco_args *args);
ecornn_status eco_check_bytes(const char *name, size_t given, size_t needed);
ecornn_status eco_args_check_bytes(const struct eco_args *args, size_t workspace, size_t reserve);

#endif /* ECO_SEQUENCE_H */
