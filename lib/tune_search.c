/*
 * The search: one choice after the other, from the planned plan on, the planner's or wisdom's; of
 * each the values that the backend calls worth trying, side by side; see tune.h.  What is found
 * goes to the wisdom.
 */
#include "lib/tune.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "common/backend.h"
#include "common/tune/tune.h"
#include "common/util.h"
#include "common/wisdom/wisdom.h"

enum { GROUP = 8, ROUNDS = 7, LAST_ROUNDS = 11, MAKINGS = 3, PASSES = 2, MOST_SEEN = 1024 };
/* Of long runs there are fewer rounds; each is many cycles of what disturbs it. */
static const double LONG = 0.01;
enum { LONG_ROUNDS = 5 };
/* Seconds that nobody asked for: so many runs of the planned plan, within limits. */
static const double LEAST_SECONDS = 2, MOST_SECONDS = 30, USUAL_RUNS = 200;
/* A candidate that is slower by more in each of its first rounds is not timed again. */
static const double HOPELESS = 1.5;
enum { FIRST_ROUNDS = 3 };

struct search {
    ecornn_device *device;
    const struct eco_problem *problem;
    const ecornn_tuning *tuning;
    ecornn_tuned *tuned;
    double end; /* of the time that the caller gave */
    struct eco_tune_data data;
    struct eco_tune_results expected;
    struct eco_tune_bounds bounds;
    struct eco_trial planned, best;
    uint64_t seen[MOST_SEEN]; /* choices that were tried */
    int n_seen;
};

/* ---- reports --------------------------------------------------------------------------------- */

static void report(const struct search *search, const ecornn_candidate *candidate)
{
    if (search->tuning->report != NULL)
        search->tuning->report(search->tuning->own, candidate);
}

static void report_trial(const struct search *search, struct eco_trial *trial)
{
    eco_trial_settle(trial);
    const ecornn_candidate candidate = {.choices = trial->choices,
                                        .seconds = trial->spread.median,
                                        .low = trial->spread.low,
                                        .high = trial->spread.high};
    report(search, &candidate);
}

/* ---- one group ------------------------------------------------------------------------------- */

static bool is_new(struct search *search, const char *choices)
{
    const uint64_t hash = eco_hash(ECO_HASH, choices, strlen(choices));
    for (int k = 0; k < search->n_seen; k++)
        if (search->seen[k] == hash)
            return false;
    if (search->n_seen < MOST_SEEN)
        search->seen[search->n_seen++] = hash;
    return true;
}

/* A plan with these choices, if it can be, is none that was tried, and computes the same.  status:
 * what nobody can go on after. */
static bool admit(struct search *search, struct eco_trial *trial, const char *choices,
                  ecornn_status *status)
{
    struct eco_tune_results results = {0};
    char text[128];
    const char *refusal = NULL;
    const ecornn_status made = eco_trial_make(trial, &search->data, choices);
    if (made != ECORNN_OK)
        refusal = ecornn_error_detail();
    if (made == ECORNN_OK && !is_new(search, trial->choices)) {
        eco_trial_free(trial);
        return false;
    }
    search->tuned->candidates += made == ECORNN_OK;
    search->tuned->refused += made != ECORNN_OK;
    if (made == ECORNN_OK) {
        *status = eco_trial_compute(trial);
        if (*status == ECORNN_OK)
            *status = eco_tune_results_fetch(&results, &search->data);
        if (*status == ECORNN_OK)
            refusal = eco_tune_difference(&search->expected, &results, &search->bounds, text);
        eco_tune_results_free(&results);
        search->tuned->wrong += refusal != NULL;
    } else if (made == ECORNN_FAILED) {
        *status = made;
    }
    if (refusal == NULL && *status == ECORNN_OK)
        return true;
    report(search, &(ecornn_candidate){.choices = choices, .refusal = refusal});
    eco_trial_free(trial);
    return false;
}

/* All take turns, so that a clock that drifts and neighbours that steal time hit all.  The first is
 * what the others are compared with: of few rounds a single slow one would count. */
static ecornn_status race(struct eco_trial *const trials[], int n, int rounds)
{
    ecornn_status status = ECORNN_OK;
    for (int k = 0; k < n; k++)
        trials[k]->rounds = 0;
    for (int round = 0; round < rounds; round++) {
        double fastest = INFINITY;
        for (int k = 0; round >= FIRST_ROUNDS && k < n; k++)
            fastest = fmin(fastest, eco_trial_least(trials[k]));
        for (int k = 0; status == ECORNN_OK && k < n; k++) {
            struct eco_trial *trial = trials[(k + round) % n];
            if (trial == trials[0] || round < FIRST_ROUNDS ||
                eco_trial_least(trial) <= HOPELESS * fastest)
                status = eco_trial_round(trial);
        }
    }
    return status;
}

static bool is_long(const struct search *search)
{
    return search->planned.first > LONG;
}

/* The fastest of some plans becomes the best, if it is faster than that. */
static ecornn_status compare_group(struct search *search, struct eco_trial group[], int n)
{
    struct eco_trial *trials[GROUP + 1] = {&search->best};
    double least = 1, ratio;
    int fastest = -1;
    for (int k = 0; k < n; k++)
        trials[k + 1] = &group[k];
    const ecornn_status status = race(trials, n + 1, is_long(search) ? LONG_ROUNDS : ROUNDS);
    if (status != ECORNN_OK)
        return status;
    for (int k = 0; k < n; k++) {
        report_trial(search, &group[k]);
        if (eco_trial_is_faster(&group[k], &search->best, &ratio) && ratio < least) {
            least = ratio;
            fastest = k;
        }
    }
    if (fastest >= 0) {
        const struct eco_trial slower = search->best;
        search->best = group[fastest];
        group[fastest] = slower;
    }
    return ECORNN_OK;
}

/* ---- one choice ------------------------------------------------------------------------------ */

static bool is_late(const struct search *search)
{
    return eco_tune_now() > search->end;
}

static ecornn_status try_choice(struct search *search, const struct eco_choice *choice)
{
    char candidates[ECO_MAX_CANDIDATES][ECO_MAX_FORCE];
    ecornn_status status = ECORNN_OK;
    const int count = eco_choice_applies(choice, search->best.plan)
                          ? eco_candidates(choice, search->best.plan, candidates)
                          : 0;
    for (int k = 0; status == ECORNN_OK && k < count && !is_late(search);) {
        struct eco_trial group[GROUP] = {{.data = NULL}};
        int n = 0;
        for (; status == ECORNN_OK && k < count && n < GROUP && !is_late(search); k++)
            n += admit(search, &group[n], candidates[k], &status);
        if (status == ECORNN_OK && n > 0)
            status = compare_group(search, group, n);
        for (int i = 0; i < GROUP; i++)
            eco_trial_free(&group[i]);
    }
    return status;
}

static ecornn_status try_choices(struct search *search)
{
    ecornn_status status = ECORNN_OK;
    for (int pass = 0; pass < PASSES; pass++) {
        char before[ECO_MAX_FORCE];
        memcpy(before, search->best.choices, sizeof before);
        for (const struct eco_choice *choice = search->device->backend->tunables;
             choice != NULL && choice->key != NULL && status == ECORNN_OK && !is_late(search);
             choice++)
            status = try_choice(search, choice);
        if (status != ECORNN_OK || strcmp(before, search->best.choices) == 0)
            break;
    }
    return status;
}

/* Where wisdom chose the plan: the planner's own, which may be faster. */
static ecornn_status try_planner(struct search *search)
{
    struct eco_trial own = {.data = NULL};
    ecornn_status status = ECORNN_OK;
    if (search->tuned->by_wisdom && admit(search, &own, "", &status))
        status = compare_group(search, &own, 1);
    eco_trial_free(&own);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The plan to begin with, the data, and what all must compute. */
static ecornn_status begin(struct search *search)
{
    char forced[ECO_MAX_FORCE];
    struct ecornn_plan *plan;
    ecornn_status status = search->tuning->wisdom
                               ? eco_plan_create(&plan, search->device, search->problem)
                               : eco_plan_make(&plan, search->device, search->problem);
    if (status != ECORNN_OK)
        return status;
    memcpy(forced, plan->problem.forced, sizeof forced); /* by wisdom, or nothing */
    search->tuned->by_wisdom = plan->by_wisdom;
    status = eco_tune_data_make(&search->data, plan);
    search->data.problem = search->problem;
    ecornn_plan_free(plan);
    if (status == ECORNN_OK)
        status = eco_trial_make(&search->planned, &search->data, forced);
    if (status == ECORNN_OK)
        status = eco_trial_make(&search->best, &search->data, forced);
    if (status == ECORNN_OK)
        status = eco_trial_compute(&search->planned);
    if (status == ECORNN_OK)
        status = eco_tune_results_fetch(&search->expected, &search->data);
    if (status == ECORNN_OK)
        status = eco_tune_bounds_find(&search->bounds, search->problem);
    if (status == ECORNN_OK)
        is_new(search, search->planned.choices);
    return status;
}

/* Made anew, in memory that lies elsewhere. */
static ecornn_status make_again(struct search *search, struct eco_trial *trial)
{
    char choices[ECO_MAX_FORCE];
    memcpy(choices, trial->choices, sizeof choices);
    eco_trial_free(trial);
    return eco_trial_make(trial, &search->data, choices);
}

static void append(struct eco_trial *all, const struct eco_trial *trial, int rounds)
{
    for (int k = 0; k < rounds && all->rounds < ECO_TUNE_ROUNDS; k++)
        all->seconds[all->rounds++] = trial->seconds[k];
}

/* Once more, the two that matter, for longer: chance made one of many the fastest.  Where their
 * memory lies is chance, too (large pages, aliases in a cache): they are made several times. */
static ecornn_status race_again(struct search *search, struct eco_trial *planned,
                                struct eco_trial *best)
{
    struct eco_trial *trials[2] = {&search->planned, &search->best};
    const int rounds = is_long(search) ? LONG_ROUNDS : LAST_ROUNDS;
    ecornn_status status = ECORNN_OK;
    for (int making = 0; making < MAKINGS; making++) {
        for (int k = 0; status == ECORNN_OK && making > 0 && k < 2; k++)
            status = make_again(search, trials[k]);
        if (status == ECORNN_OK)
            status = race(trials, 2, rounds);
        if (status != ECORNN_OK)
            return status;
        const int both =
            trials[0]->rounds < trials[1]->rounds ? trials[0]->rounds : trials[1]->rounds;
        append(planned, trials[0], both);
        append(best, trials[1], both);
    }
    return ECORNN_OK;
}

static ecornn_status decide(struct search *search)
{
    struct eco_trial planned = {.rounds = 0}, best = {.rounds = 0};
    ecornn_tuned *tuned = search->tuned;
    double ratio = 1;
    memcpy(planned.choices, search->planned.choices, sizeof planned.choices);
    memcpy(best.choices, search->best.choices, sizeof best.choices);
    const ecornn_status status = race_again(search, &planned, &best);
    if (status != ECORNN_OK)
        return status;
    const bool other = strcmp(planned.choices, best.choices) != 0;
    const bool faster = other && eco_trial_is_faster(&best, &planned, &ratio);
    report_trial(search, &planned);
    if (other)
        report_trial(search, &best);
    const struct eco_trial *taken = faster ? &best : &planned;
    memcpy(tuned->planned, planned.choices, sizeof tuned->planned);
    memcpy(tuned->best, taken->choices, sizeof tuned->best);
    tuned->planned_seconds = planned.spread.median;
    tuned->best_seconds = taken->spread.median;
    tuned->best_low = taken->spread.low;
    tuned->best_high = taken->spread.high;
    tuned->regret = faster ? 1 / ratio - 1 : 0;
    return ECORNN_OK;
}

static ecornn_status learn(const struct search *search)
{
    const ecornn_tuned *tuned = search->tuned;
    const double most = 1e8, nanoseconds = 1e9 * fmin(tuned->best_seconds, most);
    char date[16];
    struct tm day;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &day) == NULL || strftime(date, sizeof date, "%Y-%m-%d", &day) == 0)
        return eco_fail(ECORNN_FAILED, "there is no date");
    const struct eco_wisdom_line line = {
        .problem = search->problem->text,
        .choices = tuned->best,
        .date = date,
        .cell = eco_cell_identity(search->problem->cell),
        .nanoseconds = nanoseconds < 1 ? 1 : (uint64_t)nanoseconds,
        .spread = (uint64_t)(1e9 * fmin(tuned->best_high - tuned->best_low, most)),
    };
    return eco_wisdom_learn(search->device, &line);
}

ecornn_status eco_tune(ecornn_device *device, const struct eco_problem *problem,
                       const ecornn_tuning *tuning, ecornn_tuned *tuned)
{
    const double start = eco_tune_now();
    char before[ECO_MAX_DETAIL];
    eco_fail_keep(before);
    struct search *search = eco_alloc_zeroed(sizeof *search);
    if (search == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of a search", sizeof *search);
    search->device = device;
    search->problem = problem;
    search->tuning = tuning;
    search->tuned = tuned;
    ecornn_status status = begin(search);
    search->end =
        start + (tuning->seconds > 0
                     ? tuning->seconds
                     : fmin(fmax(LEAST_SECONDS, USUAL_RUNS * search->planned.first), MOST_SECONDS));
    if (status == ECORNN_OK)
        status = try_planner(search);
    if (status == ECORNN_OK)
        status = try_choices(search);
    if (status == ECORNN_OK)
        status = decide(search);
    if (status == ECORNN_OK && !tuning->forget)
        status = learn(search);
    if (status == ECORNN_OK)
        eco_fail_restore(before); /* what candidates said is in reports */
    tuned->seconds = eco_tune_now() - start;
    eco_tune_results_free(&search->expected);
    eco_trial_free(&search->planned);
    eco_trial_free(&search->best);
    eco_tune_data_free(&search->data);
    eco_free(search);
    return status;
}
