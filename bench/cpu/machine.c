/*
 * Bandwidths, the cost of a pointwise quotient and of a barrier, and the bound made of them.
 */
#include "machine.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "passes.h"
#include "peak.h"
#include "bench/core/stats.h"
#include "bench/core/named.h"
#include "bench/core/system.h"

static const double LOOP_SECONDS = 0.03;
enum { INNER_BYTES = 1 << 20, OUTER_BYTES = 1 << 24, QUOTIENTS = 1 << 11 };
/* Barriers are timed in at most SAMPLES samples of TURNS each; flags are FLAG_STRIDE ints apart. */
enum { SAMPLES = 200, TURNS = 100, FLAG_STRIDE = 32 };

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_X86 1
#endif

/* Reads all words, with one load and one cheap operation for each vector, and returns their bits
 * combined; count is a multiple of 64. */
typedef uint64_t (*reader)(const uint64_t *words, size_t count);

#ifdef HAVE_X86
__attribute__((target("avx512f"))) static uint64_t read_avx512(const uint64_t *words, size_t count)
{
    __m512i all[8] = {0};
    for (size_t k = 0; k < count; k += 64)
#pragma GCC unroll 8
        for (size_t j = 0; j < 8; j++)
            all[j] = _mm512_or_si512(all[j], _mm512_load_si512(words + k + 8 * j));
    for (int j = 1; j < 8; j++)
        all[0] = _mm512_or_si512(all[0], all[j]);
    return (uint64_t)_mm512_reduce_or_epi64(all[0]);
}
#endif

static uint64_t read_plain(const uint64_t *words, size_t count)
{
    uint64_t all[4] = {0};
    for (size_t k = 0; k < count; k += 4)
        for (size_t j = 0; j < 4; j++)
            all[j] |= words[k + j];
    return all[0] | all[1] | all[2] | all[3];
}

static reader widest(void)
{
#ifdef HAVE_X86
    if (__builtin_cpu_supports("avx512f"))
        return read_avx512;
#endif
    return read_plain;
}

/* Bytes per second of the slowest thread; each reads its own block. */
static double bandwidth(int threads, size_t bytes)
{
    const reader read_all = widest();
    double slowest = INFINITY;
#pragma omp parallel num_threads(threads) reduction(min : slowest)
    {
        enum { PAGE = 4096 };
        char *const memory = malloc(bytes + PAGE);
        uint64_t *const block = memory ? (void *)(memory + PAGE - (uintptr_t)memory % PAGE) : NULL;
        volatile uint64_t keep = 0;
        double read = 0, elapsed = 0;
        if (block) {
            memset(block, 1, bytes);
            keep = read_all(block, bytes / sizeof *block);
        }
#pragma omp barrier
        const double start = now();
        do {
            keep = block ? read_all(block, bytes / sizeof *block) : 0;
            read += (double)bytes;
            elapsed = now() - start;
        } while (elapsed < LOOP_SECONDS);
        (void)keep;
        slowest = read / elapsed;
        free(memory);
    }
    return slowest;
}

static double quotients(void)
{
    static float values[QUOTIENTS], results[QUOTIENTS];
    const struct rectangle rectangle = {
        1, QUOTIENTS, {results, QUOTIENTS}, {values, QUOTIENTS}, {values, QUOTIENTS}};
    double done = 0, elapsed = 0;
    const double start = now();
    do {
        for (int k = 0; k < 16; k++)
            pass_row[PASS_SIGMOID](rectangle.to.data, rectangle.a.data, rectangle.b.data,
                                   QUOTIENTS);
        done += 16 * QUOTIENTS;
        elapsed = now() - start;
    } while (elapsed < LOOP_SECONDS);
    return done / elapsed;
}

/* One flag for each thread, in separate cache lines; all threads read all flags. */
struct meeting {
    int threads;
    _Atomic int *flags; /* [threads,FLAG_STRIDE] */
    _Atomic bool over;  /* set by thread 0 before a sample, read by all after its first turn */
};

static void meet(struct meeting *meeting, int id, int turn)
{
    atomic_store_explicit(&meeting->flags[id * FLAG_STRIDE], turn, memory_order_release);
    for (int other = 0; other < meeting->threads; other++)
        while (atomic_load_explicit(&meeting->flags[other * FLAG_STRIDE], memory_order_acquire) <
               turn)
            ;
}

/* Fills samples with the seconds of a turn; returns their number. */
static int meet_for_a_while(struct meeting *meeting, int id, double *samples)
{
    const double begin = now();
    int count = 0;
    for (int turn = 0;; count++) {
        const double start = now();
        if (id == 0 && (count == SAMPLES || start - begin > LOOP_SECONDS))
            atomic_store(&meeting->over, true);
        meet(meeting, id, ++turn);
        if (atomic_load(&meeting->over))
            return count;
        for (int k = 1; k < TURNS; k++)
            meet(meeting, id, ++turn);
        if (id == 0)
            samples[count] = (now() - start) / TURNS;
    }
}

/* Takes the median, because a thread may lose its processor.  0 if threads share processors: the
 * time would be the scheduler's. */
static double barrier(int threads)
{
    double samples[SAMPLES] = {0};
    struct meeting meeting = {.threads = threads};
    int count = 0, processors = 1;
#ifdef _OPENMP
    processors = omp_get_num_procs();
#endif
    if (threads < 2 || threads > processors)
        return 0;
    void *const memory = calloc((size_t)(threads * FLAG_STRIDE), sizeof *meeting.flags);
    if (!memory)
        return 0;
    meeting.flags = memory;
#pragma omp parallel num_threads(threads) reduction(max : count)
    {
        int id = 0;
#ifdef _OPENMP
        id = omp_get_thread_num();
#endif
        count = meet_for_a_while(&meeting, id, samples);
    }
    free(memory);
    return count ? spread_of(samples, count).median : 0;
}

static double resident(void)
{
    const size_t bytes = system_cache_bytes();
    return 0.8 * (double)(bytes > 0 ? bytes : 1 << 20);
}

struct machine machine_measure(ecornn_type type, int threads)
{
    return (struct machine){.threads = threads,
                            .flops = 1e9 * peak_gflops(type, threads, LOOP_SECONDS),
                            .inner = bandwidth(threads, INNER_BYTES),
                            .outer = bandwidth(threads, OUTER_BYTES),
                            .resident = resident(),
                            .quotients = quotients(),
                            .barrier = barrier(threads)};
}

/* ---- the bound ------------------------------------------------------------------------------- */

/* Quotients that the pointwise part of a unit needs, with shared denominators where the equations
 * allow it.  Backward an LSTM computes tanh(c) once more. */
static const struct {
    const char *cell;
    double forward, backward;
} counts[] = {{"lstm", 3, 1}, {"gru", 2, 0}, {"gru-reset-first", 2, 0}, {"rnn-tanh", 1, 0}};

static void count_quotients(const struct problem *problem, double *forward, double *backward)
{
    *forward = *backward = 0;
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        if (problem->desc.cell == cell_named(counts[k].cell)) {
            *forward = counts[k].forward;
            *backward = counts[k].backward;
        }
}

/* Seconds to read weights of this size; each thread reads its share. */
static double reading(const struct machine *machine, double bytes)
{
    const double mine = bytes / machine->threads, cached = fmin(mine, machine->resident);
    return cached / machine->inner + (mine - cached) / machine->outer;
}

/* Seconds of a product of rows with matrices, which are read once. */
static double product(const struct problem *problem, const struct machine *machine, double rows,
                      double elements)
{
    return fmax(2 * rows * elements / machine->flops,
                reading(machine, elements * (double)type_bytes(problem->weight_type)));
}

/* Seconds of the pointwise part and the barrier of a step of one layer and direction. */
static double pointwise(const struct problem *problem, const struct machine *machine, double rows,
                        double quotients_each)
{
    return rows * problem->desc.hidden * quotients_each / machine->quotients / machine->threads +
           machine->barrier;
}

struct bound bound_of(const struct problem *problem, const ecornn_plan *plan,
                      const struct machine *machine)
{
    const int layers = problem->desc.layers ? problem->desc.layers : 1;
    const double steps = (double)problem->desc.steps * layers * problem->directions;
    double input = 0, recurrent = 0, forward, backward;
    for (int k = 0; k < count_of_params(plan); k++) {
        ecornn_param param = {.size = sizeof param};
        if (ecornn_param_get(plan, k, &param) != ECORNN_OK)
            continue;
        const double elements = (double)param.rows * param.cols;
        if (strstr(param.name, ".W."))
            input += elements;
        else if (strstr(param.name, ".R.") || strstr(param.name, "proj"))
            recurrent += elements;
    }
    count_quotients(problem, &forward, &backward);
    const double all = problem->rows, rows = all / problem->desc.steps;
    const double each = recurrent / layers / problem->directions;
    const double large = product(problem, machine, all, input);
    const double step = product(problem, machine, rows, each);
    struct bound bound = {problem->flops / machine->flops,
                          steps * pointwise(problem, machine, rows, forward)};
    if (problem->streaming) /* W and R share the caches */
        bound.bound += product(problem, machine, all, input + recurrent);
    else
        bound.bound += large + steps * step;
    if (problem->training) /* dx, dW and dR are products over all steps */
        bound.bound += 2 * large + product(problem, machine, all, recurrent) +
                       steps * (step + pointwise(problem, machine, rows, backward));
    return bound;
}
