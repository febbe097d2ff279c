/*
 * Measuring when a plan is made; see tune.h.  Everything that takes time has its share of the limit
 * or is begun only if the time that it needs is left, by what the same took before.
 */
#include "lib/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/locks.h"
#include "common/util.h"
#include "lib/check.h"

/* Trials besides the planner's plan; of one choice; candidates that are estimated. */
enum { FEW = 4, OF_A_CHOICE = 2, MOST_GUESSES = 256 };
/* Runs that two trials take at least: to warm up, and in a race. */
enum { LEAST_RUNS = 2 * (3 + ECO_TUNE_LEAST_ROUNDS) };

struct guess {
    double estimate; /* seconds of a run */
    int choice;      /* its number in eco_choices */
    char choices[ECO_MAX_FORCE];
};

struct measuring {
    const struct eco_problem *problem;
    double begin, limit; /* seconds */
    struct eco_measuring own;
    struct eco_tune_data data;
    struct eco_trial trial[1 + FEW]; /* the planner's plan, then others */
    int trials;
    double making; /* seconds that the slowest trial took until it was warm */
    double round;  /* seconds of a round of all trials */
    struct guess guess[MOST_GUESSES];
    int guesses;
    bool late; /* some candidates were left out for lack of time */
};

static double elapsed(const struct measuring *measuring)
{
    return eco_tune_now() - measuring->begin;
}

/* ---- candidates ------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    const double x = ((const struct guess *)a)->estimate, y = ((const struct guess *)b)->estimate;
    return (x > y) - (x < y);
}

/* Lists the values of all choices, for at most a fourth of the time. */
static void list_guesses(struct measuring *measuring, const struct ecornn_plan *plan)
{
    char candidates[ECO_MAX_CANDIDATES][ECO_MAX_FORCE];
    for (int row = 0; eco_choices[row].key != NULL; row++) {
        const int count = eco_choice_applies(&eco_choices[row], plan)
                              ? eco_candidates(&eco_choices[row], plan, candidates)
                              : 0;
        for (int k = 0; k < count && measuring->guesses < MOST_GUESSES; k++) {
            if (elapsed(measuring) > measuring->limit / 4) {
                measuring->late = true;
                return;
            }
            struct guess *guess = &measuring->guess[measuring->guesses];
            struct eco_problem forced = *measuring->problem;
            memcpy(forced.force.text, candidates[k], sizeof forced.force.text);
            memcpy(guess->choices, candidates[k], sizeof guess->choices);
            guess->choice = row;
            guess->estimate = eco_plan_estimate(plan->device, &forced);
            measuring->guesses += isfinite(guess->estimate);
        }
    }
}

/* Makes a trial and warms it up.  One that cannot run, or that has the choices of another, is left
 * out. */
static ecornn_status add_trial(struct measuring *measuring, const char *choices)
{
    struct eco_trial *trial = &measuring->trial[measuring->trials];
    const double begin = eco_tune_now();
    bool is_new = true;
    ecornn_status status = eco_trial_plan(trial, &measuring->data, choices);
    for (int k = 0; status == ECORNN_OK && k < measuring->trials; k++)
        is_new = is_new && strcmp(measuring->trial[k].choices, trial->choices) != 0;
    if (status == ECORNN_OK && is_new)
        status = eco_trial_start(trial);
    if (status != ECORNN_OK || !is_new) {
        eco_trial_free(trial);
        return status;
    }
    measuring->trials++;
    measuring->making = fmax(measuring->making, eco_tune_now() - begin);
    measuring->round += trial->first * trial->repeats;
    return ECORNN_OK;
}

/* Is the time left to make one more trial and race all of them? */
static bool has_time(const struct measuring *measuring)
{
    const double trials = measuring->trials, round = measuring->round * (trials + 1) / trials;
    return elapsed(measuring) + measuring->making + ECO_TUNE_LEAST_ROUNDS * round <=
           measuring->limit;
}

/* Adds the candidates that are estimated to be the fastest. */
static ecornn_status add_guesses(struct measuring *measuring)
{
    int used[MOST_GUESSES] = {0};
    ecornn_status status = ECORNN_OK;
    qsort(measuring->guess, (size_t)measuring->guesses, sizeof *measuring->guess, compare);
    for (int k = 0; status != ECORNN_FAILED && k < measuring->guesses && measuring->trials <= FEW;
         k++) {
        const struct guess *guess = &measuring->guess[k];
        const int before = measuring->trials;
        if (used[guess->choice] == OF_A_CHOICE)
            continue;
        if (!has_time(measuring)) {
            measuring->late = true;
            break;
        }
        status = add_trial(measuring, guess->choices);
        used[guess->choice] += measuring->trials - before;
    }
    return status == ECORNN_FAILED ? status : ECORNN_OK;
}

/* ---- one plan -------------------------------------------------------------------------------- */

static ecornn_status race(struct measuring *measuring)
{
    struct eco_trial *trials[1 + FEW];
    for (int k = 0; k < measuring->trials; k++)
        trials[k] = &measuring->trial[k];
    const double end = measuring->begin + measuring->limit - measuring->round;
    const ecornn_status status = eco_trials_race(trials, measuring->trials, end);
    if (status != ECORNN_OK)
        return status;
    const struct eco_trial *winner = trials[eco_trials_winner(trials, measuring->trials)];
    const struct eco_spread spread = eco_trial_spread(winner);
    return eco_wisdom_learn(measuring->data.device, measuring->problem, winner->choices,
                            spread.median, spread.high - spread.low);
}

static ecornn_status measure(struct measuring *measuring, const struct ecornn_plan *plan)
{
    ecornn_status status =
        eco_tune_data_make(&measuring->data, plan, measuring->problem, &measuring->own);
    if (status == ECORNN_OK)
        status = add_trial(measuring, "");
    if (status != ECORNN_OK)
        return status;
    list_guesses(measuring, plan);
    status = add_guesses(measuring);
    if (status == ECORNN_OK && measuring->trials == 1 && measuring->late)
        return eco_fail(ECORNN_UNSUPPORTED, "%.3g ms are too few for a second plan",
                        1e3 * measuring->limit);
    if (status == ECORNN_OK && measuring->trials == 1)
        return eco_fail(ECORNN_UNSUPPORTED, "no second plan could run");
    return status == ECORNN_OK ? race(measuring) : status;
}

/* Measures, and frees everything.  The caller's error text stays. */
static bool measure_plan(const struct ecornn_plan *plan, double seconds, struct eco_text *note)
{
    struct ecornn_device *device = plan->device;
    const struct eco_backend *backend = device->backend;
    struct measuring *measuring = eco_alloc_zeroed(sizeof *measuring);
    char before[ECO_MAX_DETAIL];
    ecornn_status status = ECORNN_OK;
    if (measuring == NULL) {
        eco_text_add(note, "not measured: no memory");
        return false;
    }
    eco_fail_keep(before);
    measuring->begin = eco_tune_now();
    measuring->limit = seconds;
    measuring->problem = &plan->problem;
    if (backend->begin_measuring != NULL)
        status = backend->begin_measuring(device, &measuring->own);
    if (status == ECORNN_OK) {
        status = measure(measuring, plan);
        for (int k = 0; k <= FEW; k++)
            eco_trial_free(&measuring->trial[k]);
        eco_tune_data_free(&measuring->data);
        if (backend->end_measuring != NULL)
            backend->end_measuring(device, &measuring->own);
    }
    if (status == ECORNN_OK)
        eco_text_add(note, "measured %d plans in %.3g ms", measuring->trials,
                     1e3 * elapsed(measuring));
    else
        eco_text_add(note, "not measured: %s", eco_fail_detail());
    eco_fail_restore(before);
    eco_free(measuring);
    return status == ECORNN_OK;
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* NULL: the plan can be measured. */
static const char *refusal_of(const struct ecornn_plan *plan, const struct ecornn_plan *one)
{
    const struct ecornn_cell *cell = one->problem.cell;
    if (one->device->backend->choices == NULL)
        return "the device has no choices";
    if (eco_plan_asked(one->device->backend) != NULL)
        return "the environment makes the choices, for instance ECORNN_FORCE";
    if (one->problem.memory_limit > 0)
        return "there is a memory_limit";
    if (plan->concurrent > 1 || one->owned_device != NULL)
        return "it runs next to others on a part of the device";
    if (cell->builtin < 0 && eco_cell_source_text(cell) == NULL)
        return "tangents are not tuned";
    if (cell->builtin < 0 && one->device->caps.own_memory)
        return "each candidate's kernels would be compiled: ecornn_tune does that";
    return NULL;
}

/* Has another thread measured the problem after this plan was made? */
static bool is_known(const struct ecornn_plan *plan)
{
    struct eco_wisdom_found found;
    eco_wisdom_find(&plan->problem, plan->device, &found);
    return found.choices[0] != '\0' && strncmp(found.note, plan->note, strlen(found.note)) != 0;
}

bool eco_measure(const struct ecornn_plan *plan, double seconds, struct eco_text *note)
{
    const struct ecornn_plan *one = plan->one != NULL ? plan->one : plan;
    const char *refusal = refusal_of(plan, one);
    const double needed = LEAST_RUNS * one->seconds;
    if (refusal != NULL)
        eco_text_add(note, "not measured: %s", refusal);
    else if (needed > seconds)
        eco_text_add(note, "not measured: %d runs take about %.3g ms, the limit is %.3g",
                     LEAST_RUNS, 1e3 * needed, 1e3 * seconds);
    if (refusal != NULL || needed > seconds)
        return false;
    eco_lock(ECO_LOCK_MEASURE);
    const bool learned = is_known(one) || measure_plan(one, seconds, note);
    eco_unlock(ECO_LOCK_MEASURE);
    return learned;
}
