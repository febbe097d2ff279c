/*
 * The locks of a module.
 */
#include "python/native/locks.h"

#include <pthread.h>

static pthread_mutex_t locks[LOCKS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

void lock_take(enum lock which)
{
    pthread_mutex_lock(&locks[which]);
}

void lock_release(enum lock which)
{
    pthread_mutex_unlock(&locks[which]);
}

#ifndef _WIN32 /* it has no forks */
static void take_all(void)
{
    for (int which = 0; which < LOCKS; which++)
        lock_take((enum lock)which);
}

static void release_all(void)
{
    for (int which = LOCKS; which-- > 0;)
        lock_release((enum lock)which);
}

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(take_all, release_all, release_all);
}
#endif
