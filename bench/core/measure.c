/*
 * Rounds.  Both sides take turns in one process, so that a clock that drifts and neighbours that
 * steal time hit both; what counts is the median of the ratios of single rounds.
 */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "bench/cpu/peak.h"
#include "report.h"
#include "say.h"

enum { ROUNDS_MIN = 5, ROUNDS_MAX = 2000, WARM_UP_RUNS = 2, CALLS_MAX = 1 << 18 };
static const double ROUND_SECONDS = 0.005; /* at least, of runs of one side */
static const double PEAK_SECONDS = 0.05;

/* Everything that one measurement holds. */
struct bout {
    struct problem problem;
    struct ours ours;
    struct opponent opponent;
    int set, repeats; /* next input; runs of a side in one round */
    double *calls[2]; /* [CALLS_MAX] seconds of single calls, ours and theirs */
    int call_count[2];
    double *total, *core, *other, *other_core, *ratio; /* [ROUNDS_MAX] seconds of a run */
};

static int next_set(struct bout *bout)
{
    bout->set = (bout->set + 1) % bout->problem.sets;
    return bout->set;
}

static bool run_other(struct bout *bout, int set)
{
    if (bout->opponent.kind->run(&bout->opponent, set))
        return true;
    return say("%s: %s failed", bout->problem.text, bout->opponent.kind->name);
}

static void note_call(struct bout *bout, int side, double seconds)
{
    if (bout->problem.streaming && bout->call_count[side] < CALLS_MAX)
        bout->calls[side][bout->call_count[side]++] = seconds;
}

static bool round_of_ours(struct bout *bout, int round)
{
    bout->total[round] = bout->core[round] = 0;
    for (int k = 0; k < bout->repeats; k++) {
        if (!ours_run(&bout->ours, next_set(bout)))
            return false;
        note_call(bout, 0, bout->ours.seconds);
        bout->total[round] += bout->ours.seconds / bout->repeats;
        bout->core[round] += bout->ours.core_seconds / bout->repeats;
    }
    return true;
}

static bool round_of_other(struct bout *bout, int round)
{
    bout->other[round] = bout->other_core[round] = 0;
    for (int k = 0; k < bout->repeats; k++) {
        if (!run_other(bout, next_set(bout)))
            return false;
        note_call(bout, 1, bout->opponent.seconds);
        bout->other[round] += bout->opponent.seconds / bout->repeats;
        bout->other_core[round] += bout->opponent.core_seconds / bout->repeats;
    }
    return true;
}

/* Rounds until both sides ran for so long; returns how many, 0 on failure. */
static int run_rounds(struct bout *bout, const struct request *request)
{
    double ours = 0, other = request->versus ? 0 : request->seconds;
    int round = 0;
    while (round < ROUNDS_MIN ||
           (round < ROUNDS_MAX && (ours < request->seconds || other < request->seconds))) {
        const bool other_first = request->versus && round % 2;
        if ((other_first && !round_of_other(bout, round)) || !round_of_ours(bout, round) ||
            (request->versus && !other_first && !round_of_other(bout, round)))
            return 0;
        ours += bout->total[round] * bout->repeats;
        if (request->versus) {
            other += bout->other[round] * bout->repeats;
            bout->ratio[round] = bout->other[round] / bout->total[round];
        }
        round++;
    }
    return round;
}

/* Largest difference over the largest value of ours; infinite where one is not a number. */
static double difference(const struct bout *bout, const void *ours_device, const float *other,
                         size_t elements, ecornn_type type)
{
    void *mine = ours_download(&bout->ours, ours_device, elements * type_bytes(type));
    double most = 0, scale = 0;
    for (size_t k = 0; mine && k < elements; k++) {
        const double value = type_get(mine, k, type), d = fabs(value - (double)other[k]);
        most = d <= most ? most : isfinite(d) ? d : INFINITY;
        scale = fmax(scale, fabs(value));
    }
    free(mine);
    return mine ? most / (scale > 0 ? scale : 1) : INFINITY;
}

/* Once, before anything is timed: both compute the same. */
static bool compare(struct bout *bout, struct measurement *m)
{
    const struct problem *p = &bout->problem;
    const char *const names[3] = {"y", "dx", "dweights"};
    bool good = true;
    const struct opponent *other = &bout->opponent;
    if (!ours_run(&bout->ours, 0) || !run_other(bout, 0) || !other->kind->fetch(&bout->opponent))
        return false;
    m->error[0] = difference(bout, bout->ours.y, other->y, p->y_elements, p->type);
    if (p->training) {
        m->error[1] = difference(bout, bout->ours.dx, other->dx, p->x_elements, p->type);
        m->error[2] =
            difference(bout, bout->ours.dparams, other->dparams, p->param_elements, p->param_type);
    }
    for (int k = 0; k < 3; k++) {
        m->tolerance[k] = type_tolerance(p->weight_type)[k];
        if (m->error[k] <= m->tolerance[k])
            continue;
        say("%s: %s differs from the opponent's by %g, must be at most %g", p->text, names[k],
            m->error[k], m->tolerance[k]);
        good = false;
    }
    return good;
}

static bool prepare(struct bout *bout, const struct request *request)
{
    char device[32];
    snprintf(device, sizeof device, "cpu:%d", request->threads);
#ifdef _OPENMP
    omp_set_num_threads(request->threads); /* of the opponent's BLAS and passes */
#endif
    return problem_parse(&bout->problem, request->problem, request->cell) &&
           ours_plan(&bout->ours, &bout->problem, request->device ? request->device : device) &&
           problem_fill(&bout->problem, bout->ours.plan, 1) && ours_upload(&bout->ours) &&
           (!request->versus || request->versus->create(&bout->opponent, bout->ours.plan));
}

static bool warm_up(struct bout *bout, const struct request *request)
{
    for (int k = 0; k < WARM_UP_RUNS; k++) {
        if (!ours_run(&bout->ours, next_set(bout)))
            return false;
        if (request->versus && !run_other(bout, next_set(bout)))
            return false;
    }
    bout->repeats = 1 + (int)(ROUND_SECONDS / fmax(bout->ours.seconds, 1e-6));
    return true;
}

static bool time_and_print(struct bout *bout, const struct request *request)
{
    struct measurement m = {.ours = &bout->ours,
                            .threads = request->threads,
                            .capped = request->capped,
                            .versus = request->versus ? &bout->opponent : NULL};
    const ecornn_type type = bout->problem.type;
    if ((request->versus && !compare(bout, &m)) || !warm_up(bout, request))
        return false;
    m.machine = machine_measure(type, request->threads);
    m.peak_before = peak_gflops(type, request->threads, PEAK_SECONDS);
    m.rounds = run_rounds(bout, request);
    m.peak_after = peak_gflops(type, request->threads, PEAK_SECONDS);
    if (!m.rounds)
        return false;
    m.total = spread_of(bout->total, m.rounds);
    m.core = spread_of(bout->core, m.rounds);
    if (request->versus) {
        m.other = spread_of(bout->other, m.rounds);
        m.other_core = spread_of(bout->other_core, m.rounds);
        m.ratio = spread_of(bout->ratio, m.rounds);
    }
    for (int side = 0; side < 2; side++)
        if (bout->call_count[side])
            m.calls[side] = spread_of(bout->calls[side], bout->call_count[side]);
    m.machine.flops = 1e9 * fmax(m.peak_before, m.peak_after);
    m.bound = bound_of(&bout->problem, bout->ours.plan, &m.machine);
    report_print(&m, request->form);
    return true;
}

bool measure(const struct request *request)
{
    struct bout bout = {.opponent = {.kind = request->versus, .problem = &bout.problem}};
    double *seconds = calloc((size_t)5 * ROUNDS_MAX + (size_t)2 * CALLS_MAX, sizeof *seconds);
    bout.total = seconds;
    bout.core = seconds + ROUNDS_MAX;
    bout.other = seconds + (size_t)2 * ROUNDS_MAX;
    bout.other_core = seconds + (size_t)3 * ROUNDS_MAX;
    bout.ratio = seconds + (size_t)4 * ROUNDS_MAX;
    bout.calls[0] = seconds + (size_t)5 * ROUNDS_MAX;
    bout.calls[1] = bout.calls[0] + CALLS_MAX;
    const bool good = seconds && prepare(&bout, request) && time_and_print(&bout, request);
    if (request->versus)
        request->versus->free(&bout.opponent);
    ours_free(&bout.ours);
    problem_free(&bout.problem);
    free(seconds);
    return good;
}
