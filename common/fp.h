/*
 * The floating-point environment of a thread: rounding, traps, and whether denormals are numbers or
 * zeros.  What the library computes does not depend on its caller's: every function that computes
 * sets one of its own and puts the caller's back (doc/numerics.md, "Denormals, rounding, traps").
 */
#ifndef ECO_FP_H
#define ECO_FP_H

#include <stdint.h>

/* Of a run: to nearest, no traps; FLUSH takes denormals for zeros, in what is read and in results,
 * where the processor can. */
enum eco_fp_mode { ECO_FP_EXACT, ECO_FP_FLUSH };

/* One processor's word for mode and flags: SSE's MXCSR, Arm's FPCR and FPSR; elsewhere nothing. */
struct eco_fp {
    uint64_t word;
};

/* What the calling thread has; sets it. */
struct eco_fp eco_fp_get(void);
void eco_fp_set(struct eco_fp fp);
/* Sets a mode and returns what was there before.  Some ten nanoseconds. */
struct eco_fp eco_fp_enter(enum eco_fp_mode mode);

#endif /* ECO_FP_H */
