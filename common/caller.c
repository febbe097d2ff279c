/*
 * The calling thread; see caller.h.
 */
#include "common/caller.h"

#include <pthread.h>

#include "common/backend.h"

int eco_cancel_hold(void)
{
    int before = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

void eco_cancel_release(int before)
{
    int held;
    pthread_setcancelstate(before, &held);
}

void eco_caller_begin(struct eco_caller *caller)
{
    caller->runs = false;
    caller->held = true;
    caller->cancel = eco_cancel_hold();
    fegetenv(&caller->environment);
    fesetenv(FE_DFL_ENV);
}

void eco_caller_begin_run(struct eco_caller *caller, const struct eco_backend *backend)
{
    caller->runs = true;
    caller->held = backend->share != NULL; /* a GPU driver has cancellation points */
    if (caller->held)
        caller->cancel = eco_cancel_hold();
    caller->fp = eco_fp_enter(backend->mode);
}

void eco_caller_end(const struct eco_caller *caller)
{
    if (caller->runs)
        eco_fp_set(caller->fp);
    else
        fesetenv(&caller->environment);
    if (caller->held)
        eco_cancel_release(caller->cancel);
}
