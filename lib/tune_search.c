/*
 * The search: one choice after the other, from the planned plan on, the planner's or wisdom's; of
 * each the values that the backend calls worth trying, side by side; see tune.h.  What is found
 * goes to the wisdom.
 */
#include "lib/tune.h"

#include <math.h>
#include <string.h>

#include "common/backend.h"
#include "common/tune/tune.h"
#include "common/util.h"
#include "common/wisdom/wisdom.h"

enum { GROUP = 8, PASSES = 2, MOST_SEEN = 1024 };
/* Each problem has so many candidates measured at least, whatever the time, if there are as many;
 * and of each choice, before all of any, so many that the planner calls fastest. */
enum { LEAST_MEASURED = 3, FIRST_GUESSES = 2 };
/* Plans that race keep their blocks; so many bytes of them at most, where one does not need more.
 */
static const double GROUP_BYTES = 4e9;
/* Seconds that nobody asked for: so many runs of the planned plan, within limits. */
static const double LEAST_SECONDS = 2, MOST_SECONDS = 30, USUAL_RUNS = 200;

struct search {
    ecornn_device *device;
    const struct eco_problem *problem;
    const ecornn_tuning *tuning;
    ecornn_tuned *tuned;
    double end; /* of the time that the caller gave */
    bool left;  /* a candidate was not measured, for want of time or memory */
    struct eco_tune_data data;
    struct eco_tune_results expected;
    struct eco_tune_bounds bounds;
    struct eco_trial planned, best;
    struct eco_trial guess[ECO_MAX_CANDIDATES]; /* plans of one choice, without blocks */
    uint64_t seen[MOST_SEEN];                   /* choices that were tried */
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
                                        .high = trial->spread.high,
                                        .estimate = trial->estimate};
    report(search, &candidate);
}

/* ---- one group ------------------------------------------------------------------------------- */

static bool is_seen(const struct search *search, const char *choices)
{
    const uint64_t hash = eco_hash(ECO_HASH, choices, strlen(choices));
    for (int k = 0; k < search->n_seen; k++)
        if (search->seen[k] == hash)
            return true;
    return false;
}

static void see(struct search *search, const char *choices)
{
    if (search->n_seen < MOST_SEEN && !is_seen(search, choices))
        search->seen[search->n_seen++] = eco_hash(ECO_HASH, choices, strlen(choices));
}

static void refuse(struct search *search, const char *choices, const char *why)
{
    search->tuned->refused++;
    report(search, &(ecornn_candidate){.choices = choices, .refusal = why});
    see(search, choices);
}

/* Does it compute the same?  Else it leaves the race, and says why. */
static ecornn_status check(struct search *search, struct eco_trial *trial)
{
    struct eco_tune_results results = {0};
    char text[128];
    const char *difference = NULL;
    ecornn_status status = eco_trial_compute(trial);
    if (status == ECORNN_OK)
        status = eco_tune_results_fetch(&results, &search->data);
    if (status == ECORNN_OK)
        difference = eco_tune_difference(&search->expected, &results, &search->bounds, text);
    eco_tune_results_free(&results);
    if (difference == NULL)
        return status;
    search->tuned->wrong++;
    report(search, &(ecornn_candidate){.choices = trial->choices, .refusal = difference});
    eco_trial_free(trial);
    return status;
}

/* A plan becomes one that can be timed, and is none that was.  status: what nobody can go on
 * after. */
static bool admit(struct search *search, struct eco_trial *trial, ecornn_status *status)
{
    see(search, trial->choices);
    const ecornn_status started = eco_trial_start(trial);
    if (started == ECORNN_OK) {
        search->tuned->candidates++;
        *status = check(search, trial);
        return *status == ECORNN_OK && trial->data != NULL;
    }
    if (started == ECORNN_FAILED)
        *status = started;
    search->left = true;
    refuse(search, trial->choices, ecornn_error_detail());
    eco_trial_free(trial);
    return false;
}

/* The fastest of some plans becomes the best, if it is faster than that. */
static ecornn_status compare_group(struct search *search, struct eco_trial group[], int n)
{
    struct eco_trial *trials[GROUP + 1] = {&search->best};
    double least = 1, ratio;
    int fastest = -1;
    for (int k = 0; k < n; k++)
        trials[k + 1] = &group[k];
    const ecornn_status status = eco_trials_race(trials, n + 1);
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

static bool is_algorithm(const struct eco_choice *choice)
{
    return strcmp(choice->key, "algorithm") == 0;
}

/* Is there no time for another candidate?  Each algorithm is measured whatever the time. */
static bool is_late(const struct search *search, const struct eco_choice *choice)
{
    return eco_tune_now() > search->end && !is_algorithm(choice) &&
           search->tuned->candidates - search->tuned->wrong >= LEAST_MEASURED;
}

/* Plans of a choice's values that were not measured, by estimate, the fastest first.  Returns how
 * many. */
static int make_guesses(struct search *search, const struct eco_choice *choice,
                        ecornn_status *status)
{
    char candidates[ECO_MAX_CANDIDATES][ECO_MAX_FORCE];
    const int count = eco_choice_applies(choice, search->best.plan)
                          ? eco_candidates(choice, search->best.plan, candidates)
                          : 0;
    int n = 0;
    for (int k = 0; *status == ECORNN_OK && k < count; k++) {
        struct eco_trial made;
        if (is_seen(search, candidates[k]))
            continue;
        const ecornn_status planned = eco_trial_plan(&made, &search->data, candidates[k]);
        if (planned == ECORNN_FAILED)
            *status = planned;
        if (planned != ECORNN_OK) {
            search->left = search->left || planned == ECORNN_NO_MEMORY;
            refuse(search, candidates[k], ecornn_error_detail());
            continue;
        }
        bool is_new = !is_seen(search, made.choices);
        for (int i = 0; i < n; i++)
            is_new = is_new && strcmp(search->guess[i].choices, made.choices) != 0;
        if (!is_new) {
            eco_trial_free(&made);
            continue;
        }
        int at = n++;
        for (; at > 0 && search->guess[at - 1].estimate > made.estimate; at--)
            search->guess[at] = search->guess[at - 1];
        search->guess[at] = made;
    }
    return n;
}

/* Plans that may race at once. */
static int group_of(const struct search *search)
{
    const ecornn_sizes *sizes = &search->planned.plan->sizes;
    const double bytes = (double)sizes->weights + (double)sizes->dweights +
                         (double)sizes->workspace + (double)sizes->reserve;
    return bytes * GROUP < GROUP_BYTES ? GROUP : (int)fmax(1, GROUP_BYTES / bytes);
}

/* The candidates of a choice, or of these so many that should be fastest. */
static ecornn_status try_choice(struct search *search, const struct eco_choice *choice, int most)
{
    ecornn_status status = ECORNN_OK;
    const int made = make_guesses(search, choice, &status), size = group_of(search),
              count = made < most ? made : most;
    int k = 0;
    while (status == ECORNN_OK && k < count && !is_late(search, choice)) {
        struct eco_trial group[GROUP] = {{.data = NULL}};
        int n = 0;
        for (; status == ECORNN_OK && k < count && n < size && !is_late(search, choice); k++) {
            group[n] = search->guess[k];
            search->guess[k].data = NULL; /* it is the group's */
            n += admit(search, &group[n], &status);
        }
        if (status == ECORNN_OK && n > 0)
            status = compare_group(search, group, n);
        for (int i = 0; i < GROUP; i++)
            eco_trial_free(&group[i]);
    }
    search->left = search->left || k < count;
    for (; k < made; k++)
        eco_trial_free(&search->guess[k]);
    return status;
}

static ecornn_status try_choices(struct search *search, int most)
{
    ecornn_status status = ECORNN_OK;
    for (const struct eco_choice *choice = search->device->backend->tunables;
         choice != NULL && choice->key != NULL && status == ECORNN_OK; choice++) {
        if (is_late(search, choice))
            search->left = true;
        else
            status = try_choice(search, choice, is_algorithm(choice) ? ECO_MAX_CANDIDATES : most);
    }
    return status;
}

/* What the planner calls fastest of each choice, then everything, until nothing changes. */
static ecornn_status try_all(struct search *search)
{
    ecornn_status status = try_choices(search, FIRST_GUESSES);
    for (int pass = 0; status == ECORNN_OK && pass < PASSES; pass++) {
        char before[ECO_MAX_FORCE];
        memcpy(before, search->best.choices, sizeof before);
        status = try_choices(search, ECO_MAX_CANDIDATES);
        if (strcmp(before, search->best.choices) == 0)
            break;
    }
    return status;
}

/* Where wisdom chose the plan: the planner's own, which may be faster. */
static ecornn_status try_planner(struct search *search)
{
    struct eco_trial own = {.data = NULL};
    ecornn_status status = ECORNN_OK;
    if (!search->tuned->by_wisdom)
        return ECORNN_OK;
    const ecornn_status planned = eco_trial_plan(&own, &search->data, "");
    if (planned != ECORNN_OK)
        return planned;
    if (!is_seen(search, own.choices) && admit(search, &own, &status))
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
        see(search, search->planned.choices);
    return status;
}

/* Once more, the two that matter, for longer: chance made one of many the fastest.  Where their
 * memory lies is chance, too (large pages, aliases in a cache): they are made several times. */
static ecornn_status decide(struct search *search)
{
    struct eco_trial *trials[2] = {&search->planned, &search->best}, times[2];
    struct eco_trial *planned = &times[0], *best = &times[1];
    ecornn_tuned *tuned = search->tuned;
    double ratio = 1;
    const bool other = strcmp(search->planned.choices, search->best.choices) != 0;
    const ecornn_status status = eco_trials_race_again(trials, 1 + other, times);
    if (status != ECORNN_OK)
        return status;
    const bool faster = other && eco_trial_is_faster(best, planned, &ratio);
    planned->estimate = search->planned.estimate;
    report_trial(search, planned);
    if (other) {
        best->estimate = search->best.estimate;
        report_trial(search, best);
    }
    const struct eco_trial *taken = faster ? best : planned;
    memcpy(tuned->planned, planned->choices, sizeof tuned->planned);
    memcpy(tuned->best, taken->choices, sizeof tuned->best);
    tuned->planned_seconds = planned->spread.median;
    tuned->best_seconds = taken->spread.median;
    tuned->best_low = taken->spread.low;
    tuned->best_high = taken->spread.high;
    tuned->regret = faster ? 1 / ratio - 1 : 0;
    tuned->complete = !search->left;
    tuned->measured = tuned->candidates - tuned->wrong >= LEAST_MEASURED ||
                      (tuned->complete && tuned->candidates > tuned->wrong);
    return ECORNN_OK;
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
        eco_tune_now() +
        (tuning->seconds > 0
             ? tuning->seconds
             : fmin(fmax(LEAST_SECONDS, USUAL_RUNS * search->planned.first), MOST_SECONDS));
    if (status == ECORNN_OK)
        status = try_planner(search);
    if (status == ECORNN_OK)
        status = try_all(search);
    if (status == ECORNN_OK)
        status = decide(search);
    if (status == ECORNN_OK && !tuning->forget)
        status = eco_wisdom_learn(device, problem, tuned->best, tuned->best_seconds,
                                  tuned->best_high - tuned->best_low);
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
