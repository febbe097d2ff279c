/*
 * Rounds.  Both sides run in turns, so a clock that drifts and neighbours that steal time hit both.
 * Each round gives one ratio, and the median of these ratios is what a table shows.
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "bench/cpu/peak.h"
#include "gpu_bound.h"
#include "ours.h"
#include "program.h"
#include "say.h"

enum { ROUNDS_MIN = 5, ROUNDS_MAX = 2000, WARM_UP_RUNS = 2, CALLS_MAX = 1 << 18 };
/* The third run may still prepare later ones. Calls that are queued follow others. */
enum { EAGER_WARM_UP_RUNS = 4, EAGER_CALLS = 4 };
/* A round of a side lasts at least this long; a GPU's clock is finer than a host's. */
static const double ROUND_SECONDS = 0.005, GPU_ROUND_SECONDS = 0.003;
static const double PEAK_SECONDS = 0.05;

/* What is measured in one way (eager, graph, ...): both sides, and room for their times. */
struct bout {
    const struct request *request;
    struct problem *problem;
    struct ours ours;
    struct side mine, other;
    const struct opponent *opponent; /* NULL: ecornn runs alone in this way */
    int repeats;                     /* runs of a side in a round */
    double pause, round_seconds;
    double *total, *core, *their_total, *their_core, *ratio; /* [ROUNDS_MAX] seconds of a run */
};

/* ---- one side -------------------------------------------------------------------------------- */

static bool run_once(struct side *side, int set)
{
    struct ours *ours = side->context;
    const bool good = ours_run(ours, set);
    side->seconds = ours->seconds;
    side->core_seconds = ours->core_seconds;
    return good;
}

static bool queue_once(void *self, void *stream)
{
    const struct side *side = self;
    return ours_queue(side->context, side->way == PACKING, side->way == EAGER, stream);
}

static double time_by_host(struct side *side, int repeats)
{
    const struct ours *ours = side->context;
    const double start = now();
    for (int k = 0; k < repeats; k++)
        if (!queue_once(side, NULL))
            return -1;
    return ecornn_wait(ours->device, NULL) == ECORNN_OK ? (now() - start) / repeats : -1;
}

static bool run_mine(struct bout *bout, int repeats)
{
    struct side *side = &bout->mine;
    if (side->way == ON_CPU)
        return side_repeat(side, repeats, run_once);
    side->seconds = program.time_queued
                        ? program.time_queued(side->device, queue_once, side, repeats)
                        : time_by_host(side, repeats);
    side->core_seconds = side->seconds;
    return side->seconds > 0;
}

static bool run_other(struct bout *bout, int repeats)
{
    return bout->opponent->run(&bout->other, repeats) ||
           say("%s: %s failed", bout->problem->text, bout->opponent->name);
}

/* One round of a side.  After a pause the threads have to be woken before they are timed. */
static bool run_round(struct bout *bout, bool (*run)(struct bout *bout, int repeats))
{
    if (bout->pause > 0) {
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * bout->pause)}, NULL);
        if (!run(bout, 3))
            return false;
    }
    return run(bout, bout->repeats);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Runs rounds until both sides ran long enough; returns their number, 0 on failure. */
static int run_rounds(struct bout *bout)
{
    const double wanted = bout->request->seconds;
    double mine = 0, theirs = bout->opponent ? 0 : wanted;
    int round = 0;
    while (round < ROUNDS_MIN || (round < ROUNDS_MAX && (mine < wanted || theirs < wanted))) {
        const bool other_first = bout->opponent && round % 2;
        if ((other_first && !run_round(bout, run_other)) || !run_round(bout, run_mine) ||
            (bout->opponent && !other_first && !run_round(bout, run_other)))
            return 0;
        bout->total[round] = bout->mine.seconds;
        bout->core[round] = bout->mine.core_seconds;
        mine += bout->mine.seconds * bout->repeats;
        if (bout->opponent) {
            bout->their_total[round] = bout->other.seconds;
            bout->their_core[round] = bout->other.core_seconds;
            bout->ratio[round] = bout->other.seconds / bout->mine.seconds;
            theirs += bout->other.seconds * bout->repeats;
        }
        round++;
    }
    return round;
}

static bool warm_up(struct bout *bout)
{
    const bool eager = bout->mine.way == EAGER;
    for (int k = 0; k < (eager ? EAGER_WARM_UP_RUNS : WARM_UP_RUNS); k++)
        if (!run_mine(bout, 1) || (bout->opponent && !run_other(bout, 1)))
            return false;
    if (!run_mine(bout, 1))
        return false;
    bout->repeats = 1 + (int)(bout->round_seconds / fmax(bout->mine.seconds, 1e-6));
    if (eager && bout->repeats < EAGER_CALLS)
        bout->repeats = EAGER_CALLS;
    bout->mine.call_count = bout->other.call_count = 0;
    return true;
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* The largest difference over ecornn's largest value; infinite where a value is not a number. */
static double difference(const struct bout *bout, const void *mine_on_device, const float *other,
                         size_t elements, ecornn_type type)
{
    void *mine = ours_download(&bout->ours, mine_on_device, elements * type_bytes(type));
    double most = 0, scale = 0;
    for (size_t k = 0; mine && k < elements; k++) {
        const double value = type_get(mine, k, type), d = fabs(value - (double)other[k]);
        most = d <= most ? most : isfinite(d) ? d : INFINITY;
        scale = fmax(scale, fabs(value));
    }
    free(mine);
    return mine ? most / (scale > 0 ? scale : 1) : INFINITY;
}

/* Both sides compute the same: checked once, before anything is timed. */
static bool compare(struct bout *bout)
{
    const struct problem *p = bout->problem;
    const struct side *other = &bout->other;
    bool good = true;
    if (!bout->opponent || !bout->opponent->results)
        return true;
    if (!ours_run(&bout->ours, 0) || !bout->opponent->results(&bout->other))
        return false;
    const struct {
        const char *name;
        const void *mine;
        const float *theirs;
        size_t elements;
        ecornn_type type;
    } arrays[] = {
        {"y", bout->ours.y, other->y, p->y_elements, p->type},
        {"dx", bout->ours.dx, other->dx, p->x_elements, p->type},
        {"dweights", bout->ours.dparams, other->dparams, p->param_elements, p->param_type}};
    for (int k = 0; k < (p->training ? 3 : 1); k++) {
        const double limit = type_tolerance(p->weight_type)[k];
        const double found = arrays[k].theirs ? difference(bout, arrays[k].mine, arrays[k].theirs,
                                                           arrays[k].elements, arrays[k].type)
                                              : 0;
        if (found <= limit)
            continue;
        say("%s: %s differs from %s's by %g, must be at most %g", p->text, arrays[k].name,
            bout->opponent->name, found, limit);
        good = false;
    }
    return good;
}

/* ---- one way --------------------------------------------------------------------------------- */

static bool prepare(struct bout *bout, enum way way)
{
    const struct side side = {.problem = bout->problem,
                              .plan = bout->ours.plan,
                              .device = bout->request->device,
                              .threads = (int)bout->ours.info.threads,
                              .way = way};
    bout->round_seconds = way == ON_CPU ? ROUND_SECONDS : GPU_ROUND_SECONDS;
#ifdef _OPENMP
    omp_set_num_threads(side.threads > 0 ? side.threads : 1); /* for the opponent */
#endif
    bout->mine = bout->other = side;
    bout->mine.context = &bout->ours;
    if (bout->problem->streaming && way == ON_CPU) {
        bout->mine.calls = bout->ratio + ROUNDS_MAX;
        bout->other.calls = bout->mine.calls + CALLS_MAX;
        bout->mine.most_calls = bout->other.most_calls = CALLS_MAX;
    }
    if (!bout->opponent)
        return true;
    bout->pause = bout->opponent->pause;
    bout->round_seconds = fmax(bout->round_seconds, bout->opponent->round_seconds);
    return bout->opponent->prepare(&bout->other);
}

static void keep(const struct bout *bout, struct measurement *m)
{
    m->problem = bout->problem;
    m->info = bout->ours.info;
    m->sizes = bout->ours.sizes;
    m->opponent = bout->opponent;
    m->side = bout->other;
    m->total = spread_of(bout->total, m->rounds);
    m->core = spread_of(bout->core, m->rounds);
    if (bout->opponent) {
        m->other = spread_of(bout->their_total, m->rounds);
        m->other_core = spread_of(bout->their_core, m->rounds);
        m->ratio = spread_of(bout->ratio, m->rounds);
    }
    if (bout->mine.call_count)
        m->calls[0] = spread_of(bout->mine.calls, bout->mine.call_count);
    if (bout->other.call_count)
        m->calls[1] = spread_of(bout->other.calls, bout->other.call_count);
}

static bool time_way(struct bout *bout, struct measurement *m)
{
    const ecornn_type type = bout->problem->type;
    const bool bounds = bout->request->bounds && m->way == ON_CPU;
    const int threads = bout->mine.threads;
    struct machine machine = {.threads = threads};
    if (!compare(bout) || !warm_up(bout))
        return false;
    if (bounds) {
        machine = machine_measure(type, threads);
        m->peak_before = peak_gflops(type, threads, PEAK_SECONDS);
    }
    m->rounds = run_rounds(bout);
    if (bounds) {
        m->peak_after = peak_gflops(type, threads, PEAK_SECONDS);
        machine.flops = 1e9 * fmax(m->peak_before, m->peak_after);
        m->bound = bound_of(bout->problem, bout->ours.plan, &machine);
    } else if (m->way != ON_CPU) {
        m->bound = gpu_bound_of(bout->problem, bout->ours.plan);
    }
    if (m->rounds)
        keep(bout, m);
    return m->rounds > 0;
}

/* seconds: memory for the times of one way. */
static bool measure_way(const struct request *request, struct problem *problem, enum way way,
                        double *seconds, struct measurement *m)
{
    struct bout bout = {.request = request,
                        .problem = problem,
                        .total = seconds,
                        .core = seconds + ROUNDS_MAX,
                        .their_total = seconds + (size_t)2 * ROUNDS_MAX,
                        .their_core = seconds + (size_t)3 * ROUNDS_MAX,
                        .ratio = seconds + (size_t)4 * ROUNDS_MAX};
    const char *refusal = NULL;
    m->way = way;
    bool good = ours_plan(&bout.ours, problem, request->device) &&
                (problem->x || problem_fill(problem, bout.ours.plan, 1)) && ours_upload(&bout.ours);
    if (request->opponent && way != PACKING) {
        refusal = request->opponent->refuses ? request->opponent->refuses(problem) : NULL;
        bout.opponent = refusal ? NULL : request->opponent;
    }
    if (refusal)
        say("%s: %s %s", problem->text, request->opponent->name, refusal);
    good = good && prepare(&bout, way) && time_way(&bout, m);
    if (bout.opponent)
        bout.opponent->free(&bout.other);
    ours_free(&bout.ours);
    return good;
}

bool measure(const struct request *request,
             void (*report)(void *context, const struct measurement *list, int n), void *context)
{
    struct measurement list[MOST_WAYS] = {{.rounds = 0}};
    struct problem problem;
    double *seconds = calloc((size_t)5 * ROUNDS_MAX + (size_t)2 * CALLS_MAX, sizeof *seconds);
    bool good = seconds && problem_parse(&problem, request->problem, request->cell);
    if (good) {
        const enum way first = request->gpu ? EAGER : ON_CPU, last = !request->gpu      ? ON_CPU
                                                                     : problem.training ? PACKING
                                                                                        : GRAPH;
        int n = 0;
        if (request->gpu)
            problem.most_sets = 1; /* each input would need a graph of its own */
        for (enum way way = first; good && way <= last; way++)
            good = measure_way(request, &problem, way, seconds, &list[n++]);
        if (good)
            report(context, list, n);
        good = good && (!request->opponent || list[0].opponent);
        problem_free(&problem);
    }
    free(seconds);
    return good;
}
