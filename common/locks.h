/*
 * The locks of the process: every mutex that outlives a call, but for those of a GPU's device,
 * which no child of a fork can use.  A fork takes all of them before and gives them back after, so
 * that a child, which has one thread only, finds none held for ever.
 */
#ifndef ECO_COMMON_LOCKS_H
#define ECO_COMMON_LOCKS_H

/* In the order in which they are taken: who holds one may take a later one, never an earlier. */
enum eco_lock {
    ECO_LOCK_FILES,   /* the reading of wisdom's files, once */
    ECO_LOCK_TELLING, /* what was measured of a device, told to it once */
    ECO_LOCK_WISDOM,  /* the wisdom of this process */
    ECO_LOCK_BLAS,    /* how many runs have taken BLAS's own threads away */
    ECO_LOCKS
};

/* Waits for it; not again in the same thread, nor while the thread forks. */
void eco_lock(enum eco_lock which);
void eco_unlock(enum eco_lock which);

#endif
