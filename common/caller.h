/*
 * What a public function changes in the calling thread for the duration of the call: the
 * floating-point environment (fp.h), and cancellation, which is disabled.  Opening and reading
 * files, waiting for threads and calls to a driver are cancellation points; a thread that ended
 * there would leak a lock, a file or memory.  A pending request takes effect after the call.
 */
#ifndef ECO_CALLER_H
#define ECO_CALLER_H

#include <fenv.h>
#include <stdbool.h>

#include "common/fp.h"

struct eco_backend;

/* Disables and restores cancellation.  Pairs may be nested. */
int eco_cancel_hold(void);
void eco_cancel_release(int before);

/* The thread's state before the call. */
struct eco_caller {
    fenv_t environment; /* outside runs */
    struct eco_fp fp;   /* in a run */
    bool runs, held;
    int cancel;
};

/* C's default environment, also for parsing and printing numbers.  Pairs may be nested. */
void eco_caller_begin(struct eco_caller *caller);
/* The environment of a run.  Disabling cancellation takes twenty nanoseconds, which would be
 * noticeable in a small CPU run.  Such a run has no cancellation point, except where it starts
 * threads, and cpu/run/team.c disables cancellation there. */
void eco_caller_begin_run(struct eco_caller *caller, const struct eco_backend *backend);
void eco_caller_end(const struct eco_caller *caller);

#endif /* ECO_CALLER_H */
