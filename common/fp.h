/*
 * The floating-point environment of a thread: rounding, traps, and denormals.  Every function that
 * computes sets its own environment and restores the caller's, so that results do not depend on it
 * (doc/numerics.md, "Denormals, rounding, traps").
 */
#ifndef ECO_FP_H
#define ECO_FP_H

#include <stdint.h>

/* Modes: round to nearest, no traps.  FLUSH treats denormals as zeros where possible. */
enum eco_fp_mode { ECO_FP_EXACT, ECO_FP_FLUSH };

/* Mode and flags as the processor has them: SSE's MXCSR, Arm's FPCR and FPSR; otherwise empty. */
struct eco_fp {
    uint64_t word;
};

/* Reads and sets the calling thread's environment. */
struct eco_fp eco_fp_get(void);
void eco_fp_set(struct eco_fp fp);
/* Sets a mode and returns the previous environment.  Takes some ten nanoseconds. */
struct eco_fp eco_fp_enter(enum eco_fp_mode mode);

#endif /* ECO_FP_H */
