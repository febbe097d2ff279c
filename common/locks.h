/*
 * The locks of the process: every mutex that outlives a call, except those of a GPU's device, which
 * the child of a fork cannot use.  A fork acquires all but ECO_LOCK_MEASURE before and releases
 * them after, so that its child, which has one thread only, finds none held forever.
 */
#ifndef ECO_COMMON_LOCKS_H
#define ECO_COMMON_LOCKS_H

/* In order of acquisition: a thread that holds one may acquire only a later one. */
enum eco_lock {
    ECO_LOCK_MEASURE, /* one plan is measured at a time */
    ECO_LOCK_FILES,   /* wisdom files are read once */
    ECO_LOCK_WISDOM,  /* the wisdom of this process */
    ECO_LOCK_BLAS,    /* number of runs that have disabled BLAS threads */
    ECO_LOCKS
};

/* Acquires the lock; not reentrant, and not while the thread forks. */
void eco_lock(enum eco_lock which);
void eco_unlock(enum eco_lock which);

#endif
