/*
 * Memory of the CBLAS. OpenBLAS takes a buffer of up to 128 MB of address space for each thread
 * that multiplies, keeps it for the next product, and retries for ever if it gets none. So before a
 * run multiplies, its buffers are allocated here, each after a check for room, and the run uses as
 * many threads as have one. Buffers stay allocated, so later runs only count: a run with 4 threads
 * allocates 4, then one with 2 allocates none, and both at once need 2 more.
 */
#include "cpu/cpu.h"

#include <cblas.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/locks.h"
#include "common/util.h"

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

static bool has_room(void)
{
    void *room = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, BUFFER) == 0;
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
    while (atomic_load(&made) < all && n < all && (n < spare || has_room())) {
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
