/*
 * Finds out whether the system can create the threads that a region of OpenMP wants. libgomp ends
 * the process if it cannot (a limit on processes, no memory), so as many are created here first,
 * all at once, and ended again; then the region takes no more than that.
 */
#include "cpu/cpu.h"

#include <pthread.h>

/* Threads of the last region that this thread opened, which OpenMP keeps for the next one, and
 * regions since then that wanted fewer. */
static _Thread_local int kept = 1, spared;
/* After this many regions the other threads are released. OpenMP ends threads that a region does
 * not take, and the next region that needs them spends about a millisecond until they exist and run
 * on CPUs of their own. Keeping them costs about a microsecond in each region. */
enum { SPARED = 1000 };

static void *wait_for(void *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

/* How many of `wanted` threads could be created; at most ECO_TEAM_MOST. */
static int make(int wanted)
{
    pthread_t thread[ECO_TEAM_MOST];
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int made = 0;
    pthread_mutex_lock(&mutex); /* none ends before all exist */
    while (made < wanted && pthread_create(&thread[made], NULL, wait_for, &mutex) == 0)
        made++;
    pthread_mutex_unlock(&mutex);
    for (int k = 0; k < made; k++)
        pthread_join(thread[k], NULL);
    return made;
}

int eco_cpu_try_threads(int threads, int most)
{
    if (threads < kept && kept <= most && ++spared < SPARED)
        return kept;
    spared = 0;
    if (threads > kept)
        threads = kept + make(threads - kept);
    return kept = threads;
}
