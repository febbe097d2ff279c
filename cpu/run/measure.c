/*
 * Measures rates of a CPU on request: the memory bandwidth of one thread, and the time of a barrier
 * of all threads. Products are timed as runs of problems.
 */
#include "cpu/cpu.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "common/util.h"
#include "cpu/run/barrier.h"

enum { ROUNDS = 5 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes a second, the best of several rounds, because disturbances only take time. */
static double measure_memory(struct ecornn_device *device)
{
    enum { BYTES = 128 << 20, WORDS = BYTES / 8, CHAINS = 8 };
    uint64_t *words = eco_alloc(BYTES);
    uint64_t sum[CHAINS] = {0};
    double least = INFINITY;
    (void)device;
    if (words == NULL)
        return 0;
    memset(words, 1, BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = now();
        for (size_t i = 0; i < WORDS; i += CHAINS)
            for (int k = 0; k < CHAINS; k++)
                sum[k] += words[i + (size_t)k];
        least = fmin(least, now() - begin);
        words[0] = sum[0]; /* each round depends on the previous one */
    }
    for (int k = 1; k < CHAINS; k++)
        words[0] += sum[k];
    const bool good = words[0] != 0;
    eco_free(words);
    return good ? BYTES / least : 0;
}

/* ---- barriers -------------------------------------------------------------------------------- */

struct waiting {
    struct eco_team team;
    double least; /* s */
};

static void wait_often(void *own, int id, int count)
{
    enum { TIMES = 2000 };
    struct waiting *waiting = own;
    unsigned turn = 0;
    if (count != waiting->team.count)
        return;
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = now();
        for (int k = 0; k < TIMES; k++)
            eco_team_wait(&waiting->team, id, &turn);
        if (id == 0)
            waiting->least = fmin(waiting->least, (now() - begin) / TIMES);
    }
}

static double measure_barrier(struct ecornn_device *device)
{
    const struct eco_cpu *cpu = device->context;
    const size_t line = sizeof(struct eco_team_line);
    _Atomic unsigned sleepers = 0;
    char *block = eco_alloc(((size_t)cpu->threads + 1) * line); /* one more, for alignment */
    if (block == NULL)
        return 0;
    struct waiting waiting = {
        .team = {.line = (void *)(block + (line - (uintptr_t)block % line) % line),
                 .sleepers = &sleepers,
                 .count = cpu->threads,
                 .spins = cpu->threads <= cpu->cpus ? cpu->spins : 0}, /* as in a run */
        .least = INFINITY};
    eco_team_clear(&waiting.team);
    eco_cpu_run_on_threads(cpu, cpu->threads, wait_often, &waiting);
    eco_free(block);
    return isfinite(waiting.least) ? waiting.least : 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Products of many rows, which dominate the run: 2 T N 4H (I + H) flops. */
#define PROBLEM(type) "lstm/" type "/infer/T8/N128/I768/H256"
#define WORK          (2. * 8 * 128 * 4 * 256 * (768 + 256))

const struct eco_measure eco_cpu_measures[] = {
    [ECO_MEASURED_F32] = {"f32-mflops", 1e6, 1e8, 1e13, NULL, PROBLEM("f32"), "algorithm=packed",
                          WORK},
    [ECO_MEASURED_F64] = {"f64-mflops", 1e6, 1e8, 1e13, NULL, PROBLEM("f64"), "", WORK},
    [ECO_MEASURED_BF16] = {"bf16-mflops", 1e6, 1e8, 1e14, NULL, PROBLEM("bf16"), "", WORK},
    [ECO_MEASURED_MEMORY] = {"memory-mbps", 1e6, 1e8, 1e12, measure_memory, NULL, NULL, 0},
    [ECO_MEASURED_BARRIER] = {"barrier-ps", 1e-12, 1e-9, 1e-3, measure_barrier, NULL, NULL, 0},
    {.key = NULL},
};
