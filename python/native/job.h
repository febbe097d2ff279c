/*
 * What all runs of one shape share: the plan, the shapes of inputs and results, and the position of
 * parameters in a framework's tensors.  Made once from numbers that Python passes (_native.py).
 *
 * Operators take a job by its number.  Anyone can call an operator, so a number without a job is
 * refused.  Job 5 in entry 2 of the table has the number 5 << 20 | 2; numbers are not reused.
 */
#ifndef ECO_TORCH_JOB_H
#define ECO_TORCH_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

/* Python runs larger nets, which have no job. */
enum { MOST_RANK = 3, MOST_WEIGHTS = 200, MOST_PARAMS = 512 };

struct shape {
    int64_t rank, size[MOST_RANK], stride[MOST_RANK];
};

/* Bytes of a dense array of that type, an ecornn_type. */
int64_t shape_bytes(const struct shape *shape, int64_t type);

/* A position in one of the weights; tensor -1: none. */
struct place {
    int64_t tensor, offset; /* bytes */
};

struct job {
    int64_t number;
    int users;    /* calls that hold it */
    bool dropped; /* dropped by Python: the last call that holds it frees it */
    const ecornn_plan *plan;
    int64_t reserve, workspace, packed, dpacked; /* bytes */
    int64_t cuda, device;                        /* is it a GPU, and its number */
    int64_t type, param_type;                    /* as ecornn_type */
    int64_t steps, batch, states, weights, params;
    const void *zeros; /* source of a parameter that is in no tensor */
    struct shape x, y, state[ECORNN_MAX_STATES];
    struct shape *weight; /* [weights] */
    struct place *from;   /* [params] source of a parameter */
    struct place *more;   /* [params] what is added to it */
    struct place *to;     /* [params] destination of its gradient */
    struct place *twin;   /* [params] second destination of the gradient */
    bool adds;            /* does any parameter have one in `more`? */
    int64_t copy;         /* bytes of all weights */
};

bool jobs_begin(void); /* called once; false: jobs are not available */
/* Makes a job from numbers (job_read).  Returns its number; 0: no memory or wrong numbers. */
int64_t job_make(const int64_t *numbers, size_t count);
void job_drop(int64_t number);
/* Holds the job of that number until job_let_go; NULL: there is none. */
struct job *job_hold(int64_t number);
void job_let_go(struct job *job); /* NULL is allowed */

#endif /* ECO_TORCH_JOB_H */
