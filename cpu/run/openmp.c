/* Two cases in which OpenMP would hang or end the process: forks, and threads that cannot be made.
 */
#include "cpu/cpu.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/os.h"

/* ---- forks ----------------------------------------------------------------------------------- */

/*
 * Forks. A child has only the calling thread, but its OpenMP still expects the threads of regions
 * that the parent opened, in any library, and would wait for them for ever. Forks are watched from
 * the moment the library is loaded.
 */

static _Atomic bool had_threads; /* the parent, when it forked */
static _Atomic bool forked;

static void before_fork(void)
{
    /* If this is the only thread, no region has threads left. */
    atomic_store(&had_threads, !eco_os_is_alone());
}

static void child_after_fork(void)
{
    if (!atomic_load(&had_threads))
        return;
    atomic_store(&forked, true);
    eco_cpu_blas_forked();
    eco_cpu_blas_give_all();
}

__attribute__((constructor)) static void watch(void)
{
    eco_os_at_fork(before_fork, NULL, child_after_fork);
}

bool eco_cpu_forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}

/* ---- threads that can be made ---------------------------------------------------------------- */

/*
 * Finds out whether the system can create the threads that a region of OpenMP wants. libgomp ends
 * the process if it cannot (a limit on processes, no memory), so as many are created here first,
 * all at once, and ended again; then the region takes no more than that.
 */

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
