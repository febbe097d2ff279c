/*
 * Adam (Kingma and Ba 2015) with clipping of the gradient's norm.  Knows only arrays.
 */
#ifndef CHARLM_ADAM_H
#define CHARLM_ADAM_H

#include "util.h"

struct adam {
    float *mean, *square; /* [count] running averages of the gradient and of its square */
    size_t count;
    long steps;
};

bool adam_create(struct adam *adam, size_t count, struct complaint *why);
void adam_free(struct adam *adam);
/* One step of length `rate`; the gradient counts as scaled to norm `clip` where it is longer.  The
 * result does not depend on the number of threads. */
void adam_step(struct adam *adam, float *theta, const float *dtheta, float rate, float clip);

#endif /* CHARLM_ADAM_H */
