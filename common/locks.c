/*
 * The locks of the process; see locks.h.  The fork handlers are installed when the library is
 * loaded.
 */
#include "common/locks.h"

#include <pthread.h>

static pthread_mutex_t locks[ECO_LOCKS] = {
    PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER,
};
_Static_assert(ECO_LOCKS == 4, "an initializer for each");

void eco_lock(enum eco_lock which)
{
    pthread_mutex_lock(&locks[which]);
}

void eco_unlock(enum eco_lock which)
{
    pthread_mutex_unlock(&locks[which]);
}

static void take_all(void)
{
    for (int k = 0; k < ECO_LOCKS; k++)
        pthread_mutex_lock(&locks[k]);
}

static void give_all(void)
{
    for (int k = ECO_LOCKS - 1; k >= 0; k--)
        pthread_mutex_unlock(&locks[k]);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(take_all, give_all, give_all);
}
