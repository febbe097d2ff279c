/*
 * The locks of a module.  fork waits for all of them, so none is held in the new process by a
 * thread that it does not have.
 */
#ifndef ECO_NATIVE_LOCKS_H
#define ECO_NATIVE_LOCKS_H

/* In the order in which a thread takes them if it needs several. */
enum lock {
    LOCK_ADDING, /* gradients that threads add to */
    LOCK_MAKING, /* a plan of a stack */
    LOCK_LISTS,  /* what stacks keep */
    LOCK_JOBS,
    LOCK_PLANS, /* those that are found by their texts, and what plans share */
    LOCK_LAYOUTS,
    LOCKS
};

void lock_take(enum lock which);
void lock_release(enum lock which);

#endif /* ECO_NATIVE_LOCKS_H */
