/*
 * Forks. A child has only the calling thread, but its OpenMP still expects the threads of regions
 * that the parent opened, in any library, and would wait for them for ever. Forks are watched from
 * the moment the library is loaded.
 */
#include "cpu/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#ifdef __linux__
#include <sys/stat.h>
#endif

static _Atomic bool had_threads; /* the parent, when it forked */
static _Atomic bool forked;

/* Is this the only thread of the process? Then no region has threads left. */
static bool is_alone(void)
{
#ifdef __linux__
    enum { LINKS_OF_A_FOLDER = 2 }; /* plus one for each subdirectory */
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == LINKS_OF_A_FOLDER + 1;
#else
    return false;
#endif
}

static void before_fork(void)
{
    atomic_store(&had_threads, !is_alone());
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
    pthread_atfork(before_fork, NULL, child_after_fork);
}

bool eco_cpu_forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}
