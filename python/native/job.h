/*
 * What all runs of one shape share: the plan, the shapes of inputs and results, and the place of
 * parameters in torch's tensors.
 *
 * Operators take a job by its number.  Anyone can call an operator, so a number without a job is
 * refused.  Job 5 in entry 2 of the table has the number 5 << 20 | 2; numbers are not reused.
 */
#ifndef ECO_TORCH_JOB_H
#define ECO_TORCH_JOB_H

#include "python/native/layout.h"

/* Python runs larger nets, which have no job. */
enum { MOST_WEIGHTS = 200 };

struct job {
    int64_t number;
    int users;    /* calls that hold it */
    bool dropped; /* dropped by Python: the last call that holds it frees it */
    struct plan *of;
    const struct layout *layout;
    int64_t reserve, workspace, packed, dpacked; /* bytes */
    int64_t cuda, device, steps, batch;          /* is it a GPU, and its number */
    struct shape x, y, state[ECORNN_MAX_STATES];
};

/* What Python passes for a job: a plan, which lives as long, and a run of it. */
struct job_wish {
    size_t size; /* of this structure: that of another version is refused */
    const ecornn_plan *plan;
    const ecornn_desc *desc; /* what the plan was made for */
    const char *cell;        /* its name or text */
    int64_t bias;            /* do the layers have any? */
    int64_t cuda, device, steps, batch;
};

/* Makes a job of a plan of such a kind for a run of T and N; the caller holds the plan as long.
 * Returns what is wrong, or NULL.  wish: cuda to batch. */
const char *job_of(struct job *job, struct plan *plan, const struct job_wish *wish);

/* Returns the number of a new job; 0: no memory, or the library or this file refuses the wish. */
SHOWN int64_t ecornn_torch_job(const struct job_wish *wish);
SHOWN void ecornn_torch_job_free(int64_t number);
/* Holds the job of that number until job_let_go; NULL: there is none. */
struct job *job_hold(int64_t number);
void job_let_go(struct job *job); /* NULL is allowed */

#endif /* ECO_TORCH_JOB_H */
