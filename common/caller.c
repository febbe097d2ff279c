/*
 * The calling thread: its floating-point environment (fp.h), and cancellation (caller.h).  The
 * functions of fp.h are never inlined, so that no arithmetic moves across them.
 */
#include "common/caller.h"

#include <pthread.h>

#include "common/backend.h"
#include "common/util.h"

/* ---- floating point -------------------------------------------------------------------------- */

#if ECO_FP_SSE
#include <xmmintrin.h>

enum {
    MASKED = 0x1f80,
    FLUSH = 0x8000,
    ZEROS = 0x0040
}; /* no traps; flush results; flush inputs */

struct eco_fp eco_fp_get(void)
{
    return (struct eco_fp){_mm_getcsr()};
}

void eco_fp_set(struct eco_fp fp)
{
    _mm_setcsr((unsigned)fp.word);
}

static struct eco_fp of_mode(enum eco_fp_mode mode)
{
    return (struct eco_fp){mode == ECO_FP_FLUSH ? MASKED | FLUSH | ZEROS : MASKED};
}
#elif ECO_FP_ARM
enum { FLUSH = 1 << 24 }; /* FPCR: flush both */

struct eco_fp eco_fp_get(void)
{
    uint64_t control, status;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status));
    return (struct eco_fp){status << 32 | (uint32_t)control};
}

void eco_fp_set(struct eco_fp fp)
{
    const uint64_t control = (uint32_t)fp.word, status = fp.word >> 32;
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(control), "r"(status));
}

static struct eco_fp of_mode(enum eco_fp_mode mode)
{
    return (struct eco_fp){mode == ECO_FP_FLUSH ? FLUSH : 0};
}
#else
struct eco_fp eco_fp_get(void)
{
    return (struct eco_fp){0};
}

void eco_fp_set(struct eco_fp fp)
{
    (void)fp;
}

static struct eco_fp of_mode(enum eco_fp_mode mode)
{
    (void)mode;
    return (struct eco_fp){0};
}
#endif

struct eco_fp eco_fp_enter(enum eco_fp_mode mode)
{
    const struct eco_fp before = eco_fp_get();
    eco_fp_set(of_mode(mode));
    return before;
}

/* ---- calls ----------------------------------------------------------------------------------- */

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
