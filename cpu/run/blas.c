/* What a run does to a CBLAS that has threads or buffers of its own. */
#include "cpu/cpu.h"
#include "common/locks.h"
#include "common/util.h"

#include <cblas.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- threads --------------------------------------------------------------------------------- */

/*
 * A CBLAS with threads of its own (OpenBLAS built for POSIX threads, which Debian prefers if it is
 * installed). While runs call it from their threads it must not use its own, which would divide a
 * product and change its rounding. Its number of threads is global, so the first such run sets it
 * to one and the last restores it.
 */

#ifdef OPENBLAS_VERSION
/* Under ECO_LOCK_BLAS. */
static int runs;
static bool is_one;        /* its number of threads */
static int threads_before; /* the first run set it */

bool eco_cpu_blas_has_threads(void)
{
    return openblas_get_parallel() == 1;
}

void eco_cpu_blas_alone(void)
{
    eco_lock(ECO_LOCK_BLAS);
    if (runs++ == 0 && !is_one) {
        threads_before = openblas_get_num_threads();
        openblas_set_num_threads(1);
        is_one = true;
    }
    eco_unlock(ECO_LOCK_BLAS);
}

void eco_cpu_blas_as_before(void)
{
    eco_lock(ECO_LOCK_BLAS);
    if (--runs == 0) {
        openblas_set_num_threads(threads_before);
        is_one = false;
    }
    eco_unlock(ECO_LOCK_BLAS);
}

void eco_cpu_blas_forked(void)
{
    runs = 0;
}
#else
bool eco_cpu_blas_has_threads(void)
{
    return false;
}

void eco_cpu_blas_alone(void)
{
}

void eco_cpu_blas_as_before(void)
{
}

void eco_cpu_blas_forked(void)
{
}
#endif

/* ---- memory ---------------------------------------------------------------------------------- */

/*
 * Memory of the CBLAS. OpenBLAS takes a buffer of up to 128 MB of address space for each thread
 * that multiplies, keeps it for the next product, and retries for ever if it gets none. So before a
 * run multiplies, its buffers are allocated here, each after a check for room, and the run uses as
 * many threads as have one. Buffers stay allocated, so later runs only count: a run with 4 threads
 * allocates 4, then one with 2 allocates none, and both at once need 2 more.
 */

#ifdef OPENBLAS_VERSION
/* Internal functions of OpenBLAS, in no header; a build may hide them. */
__attribute__((weak)) void *blas_memory_alloc(int unused);
__attribute__((weak)) void blas_memory_free(void *buffer);

enum { BUFFER = 128 << 20, MOST = 1024 };

static void *known[MOST];     /* [made] buffers; changes under ECO_LOCK_BLAS, like made */
static atomic_int made, used; /* used: buffers that runs may hold */

/* OpenBLAS has two places for buffers for each thread that it was built for, at least 50, and ends
 * the process if all are held.  Two are left to others. */
static int places(void)
{
    const char *threads = strstr(openblas_get_config(), "MAX_THREADS=");
    const int twice = threads != NULL ? 2 * atoi(strchr(threads, '=') + 1) : 0;
    return (twice < 50 ? 50 : twice > MOST ? MOST : twice) - 2;
}

static void note(const void *buffer)
{
    const int had = atomic_load(&made);
    for (int k = 0; k < had; k++)
        if (known[k] == buffer)
            return;
    if (buffer != NULL && had < MOST) {
        known[had] = (void *)(uintptr_t)buffer;
        atomic_store(&made, had + 1);
    }
}

/* Allocates buffers until `all` are known, if possible.  Those that other runs hold now are known,
 * and OpenBLAS gives the free ones first, so no buffer is allocated while one is free. */
static void make(int all, int others)
{
    void *buffer[MOST];
    const int spare = atomic_load(&made) - others;
    int n = 0;
    while (atomic_load(&made) < all && n < all && (n < spare || eco_os_has_room(BUFFER))) {
        buffer[n] = blas_memory_alloc != NULL ? blas_memory_alloc(0) : NULL;
        note(buffer[n++]);
    }
    if (blas_memory_alloc == NULL && n > atomic_load(&made))
        atomic_store(&made, n); /* this build's buffers are not known */
    for (int k = 0; k < n; k++)
        if (buffer[k] != NULL)
            blas_memory_free(buffer[k]);
}

int eco_cpu_blas_take(int threads)
{
    const int others = atomic_fetch_add(&used, threads), all = others + threads;
    if (all <= atomic_load(&made))
        return threads;
    eco_lock(ECO_LOCK_BLAS);
    const int most = places();
    make(all < most ? all : most, others);
    const int room = atomic_load(&made) - others;
    eco_unlock(ECO_LOCK_BLAS);
    const int taken = room < 0 ? 0 : room < threads ? room : threads;
    atomic_fetch_sub(&used, threads - taken);
    return taken;
}

void eco_cpu_blas_give(int threads)
{
    atomic_fetch_sub(&used, threads);
}

void eco_cpu_blas_give_all(void)
{
    atomic_store(&used, 0);
}
#else
int eco_cpu_blas_take(int threads)
{
    return threads;
}

void eco_cpu_blas_give(int threads)
{
    (void)threads;
}

void eco_cpu_blas_give_all(void)
{
}
#endif
