/*
 * The search of tuning; see tune.h.  It begins with the plan of the planner or of wisdom and goes
 * through the choices one after the other.  The values of a choice race against the best plan so
 * far; the winner is the best plan for the next choice.
 */
#include "lib/tune.h"

#include <math.h>
#include <string.h>

#include "common/backend.h"
#include "common/util.h"
#include "common/wisdom/wisdom.h"

enum { GROUP = 8, PASSES = 2, MOST_SEEN = 1024 };
/* At least three candidates of each problem are measured, if there are as many, even if the time is
 * over.  The first pass measures the two values of each choice that the planner predicts to be the
 * fastest; so little time is spread over all choices. */
enum { LEAST_MEASURED = 3, FIRST_GUESSES = 2 };
/* Racing plans keep their blocks.  Larger groups are split, down to one plan. */
static const double GROUP_BYTES = 4e9;
/* The default time: that of 200 runs of the first plan, within limits. */
static const double LEAST_SECONDS = 2, MOST_SECONDS = 30, USUAL_RUNS = 200;

struct search {
    ecornn_device *device;
    const struct eco_problem *problem;
    const struct eco_choice *choices;
    const ecornn_tuning *tuning;
    ecornn_tuning *tuned;
    double end;     /* of the time that the caller gave */
    bool late;      /* the last pass left out candidates for lack of time */
    bool no_memory; /* some candidate did not fit into memory */
    struct eco_tune_data data;
    struct eco_tune_results expected;
    struct eco_tune_bounds bounds;
    struct eco_trial planned, best;
    struct eco_trial guess[ECO_MAX_CANDIDATES]; /* the candidates of one choice */
    uint64_t seen[MOST_SEEN];                   /* hashes of choices that were tried */
    int n_seen;
};

/* ---- reports --------------------------------------------------------------------------------- */

static void report(const struct search *search, const char *choices, const char *refusal,
                   const double seconds[4])
{
    static const double none[4] = {0};
    if (search->tuning->report != NULL)
        search->tuning->report(search->tuning->own, choices, refusal,
                               seconds != NULL ? seconds : none);
}

static void report_time(const struct search *search, const struct eco_trial *trial)
{
    const struct eco_spread spread = eco_trial_spread(trial);
    report(search, trial->choices, NULL,
           (const double[]){spread.median, spread.low, spread.high, trial->estimate});
}

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

/* A candidate cannot be planned or run.  Returns the failure if tuning cannot go on. */
static ecornn_status refuse(struct search *search, const char *choices, ecornn_status failure)
{
    search->no_memory = search->no_memory || failure == ECORNN_NO_MEMORY;
    search->tuned->refused++;
    report(search, choices, ecornn_error_detail(), NULL);
    see(search, choices);
    return failure == ECORNN_FAILED ? failure : ECORNN_OK;
}

/* ---- one group ------------------------------------------------------------------------------- */

/* Compares a trial's results with those of the first plan.  If they differ, reports and frees it.
 */
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
    report(search, trial->choices, difference, NULL);
    eco_trial_free(trial);
    return status;
}

/* Starts a planned candidate.  False: it cannot take part in a race. */
static bool admit(struct search *search, struct eco_trial *trial, ecornn_status *status)
{
    see(search, trial->choices);
    const ecornn_status started = eco_trial_start(trial);
    if (started == ECORNN_OK) {
        search->tuned->candidates++;
        *status = check(search, trial);
        return *status == ECORNN_OK && trial->data != NULL;
    }
    *status = refuse(search, trial->choices, started);
    eco_trial_free(trial);
    return false;
}

/* Races trials against the first of them, which is the best one so far.  A faster one takes its
 * place. */
static ecornn_status race(struct search *search, struct eco_trial *const trials[], int n)
{
    const ecornn_status status = eco_trials_race(trials, n, INFINITY);
    if (status != ECORNN_OK)
        return status;
    for (int k = 1; k < n; k++)
        report_time(search, trials[k]);
    const int fastest = eco_trials_winner(trials, n);
    const struct eco_trial winner = *trials[fastest];
    *trials[fastest] = *trials[0];
    *trials[0] = winner;
    return ECORNN_OK;
}

/* ---- one choice ------------------------------------------------------------------------------ */

static bool is_algorithm(const struct eco_choice *choice)
{
    return strcmp(choice->key, "algorithm") == 0;
}

/* Is there no time for more candidates?  Algorithms are all measured, whatever the time. */
static bool is_late(const struct search *search, const struct eco_choice *choice)
{
    return eco_tune_now() > search->end && !is_algorithm(choice) &&
           search->tuned->candidates - search->tuned->wrong >= LEAST_MEASURED;
}

/* Sorts a planned trial into the guesses by its estimate, or frees it if it is not new. */
static void add_guess(struct search *search, struct eco_trial *made, int *n)
{
    bool is_new = !is_seen(search, made->choices);
    for (int i = 0; i < *n; i++)
        is_new = is_new && strcmp(search->guess[i].choices, made->choices) != 0;
    if (!is_new) {
        eco_trial_free(made);
        return;
    }
    int at = (*n)++;
    for (; at > 0 && search->guess[at - 1].estimate > made->estimate; at--)
        search->guess[at] = search->guess[at - 1];
    search->guess[at] = *made;
}

/* Plans the new candidates of a choice, the fastest by estimate first.  Returns their number. */
static int make_guesses(struct search *search, const struct eco_choice *choice,
                        ecornn_status *status)
{
    char candidates[ECO_MAX_CANDIDATES][ECO_MAX_FORCE];
    const int count = eco_candidates(choice, search->best.plan, candidates);
    int n = 0;
    for (int k = 0; *status == ECORNN_OK && k < count; k++) {
        struct eco_trial made;
        if (is_seen(search, candidates[k]))
            continue;
        const ecornn_status planned = eco_trial_plan(&made, &search->data, candidates[k]);
        if (planned == ECORNN_OK)
            add_guess(search, &made, &n);
        else
            *status = refuse(search, candidates[k], planned);
    }
    return n;
}

/* The number of plans that may race at once. */
static int group_size(const struct search *search)
{
    const ecornn_sizes *sizes = &search->planned.plan->sizes;
    const double bytes = (double)sizes->weight_bytes + (double)sizes->dweight_bytes +
                         (double)sizes->workspace_bytes + (double)sizes->reserve_bytes;
    return bytes * GROUP < GROUP_BYTES ? GROUP : (int)fmax(1, GROUP_BYTES / bytes);
}

/* Tries the candidates of a choice, or only the `most` that are predicted to be fastest. */
static ecornn_status try_choice(struct search *search, const struct eco_choice *choice, int most)
{
    ecornn_status status = ECORNN_OK;
    const int made = make_guesses(search, choice, &status), size = group_size(search),
              count = made < most ? made : most;
    int k = 0;
    while (status == ECORNN_OK && k < count && !is_late(search, choice)) {
        struct eco_trial *trials[GROUP + 1] = {&search->best};
        const int begin = k;
        int n = 1;
        for (; status == ECORNN_OK && k < count && n <= size && !is_late(search, choice); k++)
            if (admit(search, &search->guess[k], &status))
                trials[n++] = &search->guess[k];
        if (status == ECORNN_OK && n > 1)
            status = race(search, trials, n);
        for (int i = begin; i < k; i++)
            eco_trial_free(&search->guess[i]);
    }
    search->late = search->late || k < count;
    for (; k < made; k++)
        eco_trial_free(&search->guess[k]);
    return status;
}

static ecornn_status try_choices(struct search *search, int most)
{
    ecornn_status status = ECORNN_OK;
    search->late = false;
    for (const struct eco_choice *choice = search->choices;
         choice->key != NULL && status == ECORNN_OK; choice++) {
        if (!eco_choice_applies(choice, search->best.plan))
            continue;
        if (is_late(search, choice))
            search->late = true;
        else
            status = try_choice(search, choice, is_algorithm(choice) ? ECO_MAX_CANDIDATES : most);
    }
    return status;
}

/* First the likely values of all choices, then all values, until a pass changes nothing. */
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

/* If wisdom chose the first plan, the planner's own plan may be faster. */
static ecornn_status try_planner(struct search *search)
{
    struct eco_trial *own = &search->guess[0], *trials[] = {&search->best, own};
    ecornn_status status = ECORNN_OK;
    if (!search->tuned->by_wisdom)
        return ECORNN_OK;
    const ecornn_status planned = eco_trial_plan(own, &search->data, "");
    if (planned != ECORNN_OK)
        return planned;
    if (!is_seen(search, own->choices) && admit(search, own, &status))
        status = race(search, trials, 2);
    eco_trial_free(own);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Makes the first plan, the data and the expected results. */
static ecornn_status begin(struct search *search)
{
    char forced[ECO_MAX_FORCE];
    struct ecornn_plan *plan;
    ecornn_status status = search->tuning->wisdom
                               ? eco_plan_create(&plan, search->device, search->problem)
                               : eco_plan_make(&plan, search->device, search->problem);
    if (status != ECORNN_OK)
        return status;
    memcpy(forced, plan->problem.force.text, sizeof forced); /* by wisdom, or nothing */
    search->tuned->by_wisdom = plan->by_wisdom;
    status = eco_tune_data_make(&search->data, plan, search->problem, NULL);
    eco_plan_free(plan);
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

/* Races the first and the best plan once more, for longer: the best of many was partly chosen by
 * chance.  Both are made several times, since it matters where their memory happens to be (large
 * pages, cache aliases). */
static ecornn_status decide(struct search *search)
{
    struct eco_trial *trials[2] = {&search->planned, &search->best}, times[2];
    ecornn_tuning *tuned = search->tuned;
    double ratio = 1;
    const bool two = strcmp(search->planned.choices, search->best.choices) != 0;
    const ecornn_status status = eco_trials_race_again(trials, 1 + two, times);
    if (status != ECORNN_OK)
        return status;
    for (int k = 0; k < 1 + two; k++)
        report_time(search, &times[k]);
    const bool faster = two && eco_trial_is_faster(&times[1], &times[0], &ratio);
    const struct eco_spread planned = eco_trial_spread(&times[0]),
                            best = eco_trial_spread(&times[faster]);
    memcpy(tuned->planned, times[0].choices, sizeof tuned->planned);
    memcpy(tuned->best, times[faster].choices, sizeof tuned->best);
    tuned->planned_seconds = planned.median;
    tuned->best_seconds = best.median;
    tuned->best_low = best.low;
    tuned->best_high = best.high;
    tuned->regret = faster ? 1 / ratio - 1 : 0;
    tuned->complete = !search->late && !search->no_memory;
    tuned->measured = tuned->candidates - tuned->wrong >= LEAST_MEASURED ||
                      (tuned->complete && tuned->candidates > tuned->wrong);
    return ECORNN_OK;
}

static ecornn_status run(struct search *search)
{
    const double asked = search->tuning->limit_seconds;
    ecornn_status status = begin(search);
    search->end =
        eco_tune_now() +
        (asked > 0 ? asked
                   : fmin(fmax(LEAST_SECONDS, USUAL_RUNS * search->planned.first), MOST_SECONDS));
    if (status == ECORNN_OK)
        status = try_planner(search);
    if (status == ECORNN_OK)
        status = try_all(search);
    if (status == ECORNN_OK)
        status = decide(search);
    return status;
}

ecornn_status eco_tune(ecornn_device *device, const struct eco_problem *problem,
                       const struct eco_choice *choices, const ecornn_tuning *tuning,
                       ecornn_tuning *tuned)
{
    const double start = eco_tune_now();
    char before[ECO_MAX_DETAIL];
    eco_fail_keep(before);
    struct search *search = eco_alloc_zeroed(sizeof *search);
    if (search == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes of a search", sizeof *search);
    search->device = device;
    search->problem = problem;
    search->choices = choices;
    search->tuning = tuning;
    search->tuned = tuned;
    ecornn_status status = run(search);
    if (status == ECORNN_OK && !tuning->forget)
        status = eco_wisdom_learn(device, problem, tuned->best, tuned->best_seconds,
                                  tuned->best_high - tuned->best_low);
    if (status == ECORNN_OK)
        eco_fail_restore(before); /* refusals of candidates are no failures of the caller */
    tuned->seconds = eco_tune_now() - start;
    eco_tune_results_free(&search->expected);
    eco_trial_free(&search->planned);
    eco_trial_free(&search->best);
    eco_tune_data_free(&search->data);
    eco_free(search);
    return status;
}
