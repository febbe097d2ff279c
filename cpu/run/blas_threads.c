/*
 * A CBLAS with threads of its own (OpenBLAS built for POSIX threads, which Debian prefers where it
 * is installed): while runs call it from their threads it must not use those, which would share out
 * a product and round it otherwise.  Its number of threads is one for the whole process, so the
 * first of such runs takes them away and the last gives them back.
 */
#include "cpu/cpu.h"

#include <cblas.h>
#include <pthread.h>

#ifdef OPENBLAS_VERSION
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int runs, threads; /* under the mutex */

bool eco_cpu_blas_has_threads(void)
{
    return openblas_get_parallel() == 1;
}

void eco_cpu_blas_alone(void)
{
    pthread_mutex_lock(&mutex);
    if (runs++ == 0) {
        threads = openblas_get_num_threads();
        openblas_set_num_threads(1);
    }
    pthread_mutex_unlock(&mutex);
}

void eco_cpu_blas_as_before(void)
{
    pthread_mutex_lock(&mutex);
    if (--runs == 0)
        openblas_set_num_threads(threads);
    pthread_mutex_unlock(&mutex);
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
#endif
