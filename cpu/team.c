/*
 * One OpenMP region per run: every thread walks the tape, with a barrier of our own after each op.
 * Knows nothing of what the ops do.
 */
#include "cpu/cpu.h"

#include <omp.h>
#include <pthread.h>

#include "common/util.h"

/* Looks of a waiting thread before it sleeps: some 20 us. */
enum { SPINS_BEFORE_SLEEP = 1000 };

static _Atomic bool forked;

static void child_after_fork(void)
{
    atomic_store(&forked, true);
}

static void watch_once(void)
{
    pthread_atfork(NULL, NULL, child_after_fork);
}

void eco_cpu_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_once);
}

/* The last to arrive lets the others go.  Who waits long sleeps: a thread that spins keeps the
 * system from moving one that has no processor to this one. */
void eco_cpu_wait(const struct eco_cpu_run *run)
{
    if (run->count == 1)
        return;
    struct eco_team *team = run->team;
    const unsigned generation = atomic_load_explicit(&team->generation, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) == run->count - 1) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_store(&team->generation, generation + 1);
        if (atomic_load(&team->sleepers) > 0)
            eco_wake_all(&team->generation);
        return;
    }
    for (int spins = 0; spins < SPINS_BEFORE_SLEEP; spins++) {
        if (atomic_load_explicit(&team->generation, memory_order_acquire) != generation)
            return;
        ECO_PAUSE();
    }
    atomic_fetch_add(&team->sleepers, 1);
    while (atomic_load(&team->generation) == generation)
        eco_sleep_while(&team->generation, generation);
    atomic_fetch_sub(&team->sleepers, 1);
}

struct eco_share eco_cpu_part(const struct eco_cpu_run *run, int32_t n, int32_t group)
{
    if (run->count == 1) /* no divisions, which a short step would notice */
        return (struct eco_share){0, n};
    const int64_t groups = ((int64_t)n + group - 1) / group;
    const int64_t from = groups * run->id / run->count * group;
    const int64_t to = groups * (run->id + 1) / run->count * group;
    return (struct eco_share){from < n ? (int32_t)from : n, to < n ? (int32_t)to : n};
}

static const eco_cpu_kernel kernel[ECO_OP_KINDS] = {
    [ECO_BEGIN] = eco_cpu_begin,
    [ECO_GATHER] = eco_cpu_gather,
    [ECO_INPUT] = eco_cpu_input,
    [ECO_STEP] = eco_cpu_step,
    [ECO_END] = eco_cpu_end,
    [ECO_D_BEGIN] = eco_cpu_d_begin,
    [ECO_D_STEP] = eco_cpu_d_step,
    [ECO_D_INPUT] = eco_cpu_d_input,
    [ECO_D_SCATTER] = eco_cpu_d_scatter,
    [ECO_D_WEIGHTS] = eco_cpu_d_weights,
    [ECO_D_END] = eco_cpu_d_end,
};

/* The steps may be done by some of the team only, who have a barrier of their own. */
static void walk(const struct eco_cpu_run *run, const struct eco_tape *tape)
{
    struct eco_cpu_run few = *run;
    few.team = run->team + 1;
    few.count = run->count < run->step_threads ? run->count : run->step_threads;
    for (int i = 0; i < tape->n; i++) {
        struct eco_op op;
        if (!eco_op_clip(&tape->op[i], run->args->T, &op))
            continue;
        const bool steps = op.kind == ECO_STEP || op.kind == ECO_D_STEP;
        if (!steps)
            kernel[op.kind](run, &op);
        else if (few.id < few.count)
            kernel[op.kind](&few, &op);
        eco_cpu_wait(run);
    }
}

ecornn_status eco_cpu_walk(const struct eco_cpu_run *run, const struct eco_tape *tape, int threads)
{
    struct eco_team team[2] = {{0}}; /* all, those who do the steps */
    /* CBLAS asks OpenMP how many threads it may use: one, each of ours calls it on its own. */
    const int before = omp_get_max_threads();
    if (atomic_load_explicit(&forked, memory_order_relaxed))
        threads = 1;
    omp_set_num_threads(1);
    struct eco_cpu_run alone = *run;
    alone.team = team;
    alone.id = 0;
    alone.count = 1;
    if (threads == 1) /* a region of one thread would allocate */
        walk(&alone, tape);
    else
#pragma omp parallel num_threads(threads)
    {
        struct eco_cpu_run mine = alone;
        mine.id = omp_get_thread_num();
        mine.count = omp_get_num_threads();
        walk(&mine, tape);
    }
    omp_set_num_threads(before);
    return ECORNN_OK;
}
