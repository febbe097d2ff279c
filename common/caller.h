/*
 * What a public function changes of the thread that calls it, for the time of the call: the
 * floating-point environment (fp.h), and that the thread cannot be cancelled.  Opening and reading
 * a file, waiting for threads, a driver's calls are points of cancellation; a thread that ended
 * there would leave a lock, a file or memory behind.  A request of that time acts after the call.
 */
#ifndef ECO_CALLER_H
#define ECO_CALLER_H

#include <fenv.h>
#include <stdbool.h>

#include "common/fp.h"

struct eco_backend;

/* From here to the other no request to cancel the thread acts.  May lie in each other. */
int eco_cancel_hold(void);
void eco_cancel_release(int before);

/* The thread as it was. */
struct eco_caller {
    fenv_t environment; /* outside runs */
    struct eco_fp fp;   /* of a run */
    bool runs, held;
    int cancel;
};

/* C's default environment, also of what parses and prints numbers.  Calls may lie in each other. */
void eco_caller_begin(struct eco_caller *caller);
/* A run's.  The twenty nanoseconds that cancellation takes would show in a small run on a CPU,
 * which has no point of it: it holds requests itself where it takes threads (cpu/run/team.c). */
void eco_caller_begin_run(struct eco_caller *caller, const struct eco_backend *backend);
void eco_caller_end(const struct eco_caller *caller);

#endif /* ECO_CALLER_H */
