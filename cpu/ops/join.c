/*
 * Joins (common/backend.h) on a CPU: each thread has some of the rows.
 */
#include "common/host.h"
#include "cpu/cpu.h"

static void join_part(void *own, int id, int count)
{
    eco_host_join_part(own, id, count);
}

ecornn_status eco_cpu_join(struct ecornn_device *device, const struct eco_join *join, void *stream)
{
    enum { BYTES_OF_A_THREAD = 1 << 20 };
    const size_t bytes = (size_t)join->T * (size_t)join->N * (size_t)join->width *
                         eco_type_bytes(join->type),
                 worth = 1 + bytes / BYTES_OF_A_THREAD;
    const int threads = device->info.threads;
    struct eco_join own = *join;
    (void)stream;
    eco_cpu_run_on_threads(device->context, worth < (size_t)threads ? (int)worth : threads,
                           join_part, &own);
    return ECORNN_OK;
}
