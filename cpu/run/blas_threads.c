/*
 * A CBLAS with threads of its own (OpenBLAS built for POSIX threads, which Debian prefers if it is
 * installed). While runs call it from their threads it must not use its own, which would divide a
 * product and change its rounding. Its number of threads is global, so the first such run sets it
 * to one and the last restores it.
 */
#include "cpu/cpu.h"

#include <cblas.h>

#include "common/locks.h"

#ifdef OPENBLAS_VERSION
/* Under ECO_LOCK_BLAS. */
static int runs;
static bool taken;
static int threads; /* the CBLAS's number of threads before the first run */

bool eco_cpu_blas_has_threads(void)
{
    return openblas_get_parallel() == 1;
}

void eco_cpu_blas_alone(void)
{
    eco_lock(ECO_LOCK_BLAS);
    if (runs++ == 0 && !taken) {
        threads = openblas_get_num_threads();
        openblas_set_num_threads(1);
        taken = true;
    }
    eco_unlock(ECO_LOCK_BLAS);
}

void eco_cpu_blas_as_before(void)
{
    eco_lock(ECO_LOCK_BLAS);
    if (--runs == 0) {
        openblas_set_num_threads(threads);
        taken = false;
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
