/*
 * Keeps a model while it is trained: saves it now and then and at the end.  A save that fails loses
 * nothing but itself: training goes on, and the next save tries again.
 */
#ifndef CHARLM_KEEPER_H
#define CHARLM_KEEPER_H

#include "checkpoint.h"

struct keeper {
    const char *path; /* "": nothing is kept, and every function does nothing */
    struct checkpoint checkpoint;
    const struct model *model;
    long every; /* steps between two saves; 0: as often as costs little */
    long saved; /* the step that the file has; negative: none of this run */
    double due; /* by the clock, where `every` is 0 */
};

/* Whether the model can be saved and read again; asked when it is planned, before the first step.
 * `last`: the highest step there may be. */
bool keeper_check(const struct keeper *keeper, long last, struct complaint *why);
void keeper_start(struct keeper *keeper);
/* After each step: saves if it is time. */
bool keeper_step(struct keeper *keeper, long step, struct complaint *why);
/* After the last step.  Tries again for some seconds. */
bool keeper_finish(struct keeper *keeper, long step, struct complaint *why);

#endif /* CHARLM_KEEPER_H */
