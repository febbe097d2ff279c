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
#include <sys/mman.h>

#include "common/locks.h"
#include "common/util.h"

#ifdef OPENBLAS_VERSION
/* Internal functions of OpenBLAS, in no header; a build may hide them. */
__attribute__((weak)) void *blas_memory_alloc(int unused);
__attribute__((weak)) void blas_memory_free(void *buffer);

/* Every build of OpenBLAS has room for 50, and ends the process beyond that. */
enum { BUFFER = 128 << 20, MOST = 48 };

static atomic_int made, used; /* made changes under ECO_LOCK_BLAS */

static bool has_room(void)
{
    void *room = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, BUFFER) == 0;
}

/* Allocates all buffers that are used at once, if possible. Those of `others` may be in use now and
 * are allocated a second time. */
static void make(int all, int others)
{
    void *buffer[MOST];
    const int had = atomic_load(&made), spare = had - others;
    int n = 0;
    while (n < all && n < MOST && (n < spare || has_room())) {
        buffer[n] = blas_memory_alloc != NULL ? blas_memory_alloc(0) : NULL;
        n++;
    }
    for (int k = 0; k < n; k++)
        if (buffer[k] != NULL)
            blas_memory_free(buffer[k]);
    if (n > had)
        atomic_store(&made, n);
}

int eco_cpu_blas_take(int threads)
{
    const int others = atomic_fetch_add(&used, threads), all = others + threads;
    if (all <= atomic_load(&made))
        return threads;
    eco_lock(ECO_LOCK_BLAS);
    make(all, others);
    const int has = atomic_load(&made), room = has < MOST ? has - others : threads;
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
