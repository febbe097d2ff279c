/*
 * What all runs of one shape share: the plan, the shapes of what they read and write, and where
 * parameters lie in a framework's tensors.  Made once from numbers that Python gives (_native.py).
 *
 * A job has a number, which operators take: anybody can call them, so a number that is no job's is
 * refused.  Job 5 in place 2 of the table is number 5 << 20 | 2; numbers are not used again.
 */
#ifndef ECO_TORCH_JOB_H
#define ECO_TORCH_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

/* Larger nets have no job: Python runs them. */
enum { MOST_RANK = 3, MOST_WEIGHTS = 200, MOST_PARAMS = 512 };

struct shape {
    int64_t rank, size[MOST_RANK], stride[MOST_RANK];
};

/* Of a dense array of that type, as ecornn_type. */
int64_t shape_bytes(const struct shape *shape, int64_t type);

/* A place in one of the weights; tensor -1: none. */
struct place {
    int64_t tensor, offset; /* bytes */
};

struct job {
    int64_t number;
    int users;    /* calls that hold it */
    bool dropped; /* by Python: the last call that holds it frees it */
    const ecornn_plan *plan;
    int64_t reserve, workspace, packed, dpacked; /* bytes */
    int64_t cuda, device;                        /* on a GPU? its number */
    int64_t type, param_type;                    /* as ecornn_type */
    int64_t steps, batch, states, weights, params;
    const void *zeros; /* what a parameter of no tensor is packed from */
    struct shape x, y, state[ECORNN_MAX_STATES];
    struct shape *weight; /* [weights] */
    struct place *from;   /* [params] that a parameter is packed from */
    struct place *more;   /* [params] that is added to it */
    struct place *to;     /* [params] of its gradient */
    struct place *twin;   /* [params] that has the same gradient */
    bool adds;            /* is there any in `more`? */
    int64_t copy;         /* bytes of all weights */
};

bool jobs_begin(void); /* once; false: there can be none */
/* numbers: see job_read in job.c; count of them.  Returns the job's number, or 0: no memory, or
 * wrong numbers. */
int64_t job_make(const int64_t *numbers, size_t count);
void job_drop(int64_t number);
/* The job of that number, to be let go after the call; NULL: there is none. */
struct job *job_hold(int64_t number);
void job_let_go(struct job *job); /* NULL is allowed */

#endif /* ECO_TORCH_JOB_H */
