/*
 * The locks of the process; see locks.h.  The fork handlers are installed when the library is
 * loaded.
 */
#include "common/locks.h"

#include <pthread.h>

#include "common/os.h"

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

/* A measurement takes long, so a fork does not wait for it, and the child begins with a new lock.
 */
static void take_all(void)
{
    for (int k = ECO_LOCK_MEASURE + 1; k < ECO_LOCKS; k++)
        pthread_mutex_lock(&locks[k]);
}

static void give_all(void)
{
    for (int k = ECO_LOCKS - 1; k > ECO_LOCK_MEASURE; k--)
        pthread_mutex_unlock(&locks[k]);
}

static void give_child(void)
{
    give_all();
    locks[ECO_LOCK_MEASURE] = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

__attribute__((constructor)) static void watch_forks(void)
{
    eco_os_at_fork(take_all, give_all, give_child);
}
