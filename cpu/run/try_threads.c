/*
 * Whether the system gives the threads that a region of OpenMP wants.  libgomp ends the process
 * where one cannot be made (a limit on processes, no memory), so as many are made here before, all
 * at once, and ended again; then the region takes no more than there were.
 */
#include "cpu/cpu.h"

#include <pthread.h>

/* Threads of the last region that this thread opened, which OpenMP keeps for the next, and regions
 * since then that wanted fewer. */
static _Thread_local int kept = 1, spared;
/* After so many the others are let go.  OpenMP ends threads that a region does not take.  The next
 * one that does takes about a millisecond to make them and until the system has moved them to CPUs
 * of their own; to have them along takes about a microsecond. */
enum { SPARED = 1000 };

static void *wait_for(void *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

/* How many of `wanted` could be made; at most ECO_TEAM_MOST. */
static int make(int wanted)
{
    pthread_t thread[ECO_TEAM_MOST];
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int made = 0;
    pthread_mutex_lock(&mutex); /* none ends before all are there */
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
