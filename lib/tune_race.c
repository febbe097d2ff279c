/*
 * Races: trials that take turns; see tune.h.
 */
#include "lib/tune.h"

#include <math.h>
#include <string.h>

/* A trial whose first rounds are all slower than the fastest by this ratio is not timed again. */
static const double HOPELESS = 1.5;
/* Long runs need fewer rounds, since each of them averages disturbances. */
static const struct {
    double least;      /* seconds of a run, at least */
    int first;         /* rounds of all trials */
    int rounds;        /* with the first ones */
    int last, makings; /* the same in the last race; how often trials are made for that */
} plans_of_races[] = {{0, 3, 7, 11, 3}, {0.01, 1, 5, 5, 3}, {0.1, 1, 3, 3, 1}};

static int length_of(const struct eco_trial *trial)
{
    enum { LENGTHS = sizeof plans_of_races / sizeof *plans_of_races };
    int length = 0;
    while (length + 1 < LENGTHS && trial->first > plans_of_races[length + 1].least)
        length++;
    return length;
}

/* Taking turns exposes all trials to the same drift of clocks and the same other programs.  The
 * first trial, with which the others are compared, runs in every round. */
static ecornn_status race(struct eco_trial *const trials[], int n, int first, int rounds,
                          double end)
{
    ecornn_status status = ECORNN_OK;
    for (int k = 0; k < n; k++)
        trials[k]->rounds = 0;
    for (int round = 0; round < rounds && (round < ECO_TUNE_LEAST_ROUNDS || eco_tune_now() < end);
         round++) {
        double fastest = INFINITY;
        for (int k = 0; round >= first && k < n; k++)
            fastest = fmin(fastest, eco_trial_least(trials[k]));
        for (int k = 0; status == ECORNN_OK && k < n; k++) {
            struct eco_trial *trial = trials[(k + round) % n];
            if (trial == trials[0] || round < first || eco_trial_least(trial) <= HOPELESS * fastest)
                status = eco_trial_round(trial);
        }
    }
    return status;
}

ecornn_status eco_trials_race(struct eco_trial *const trials[], int n, double end)
{
    const int length = length_of(trials[0]);
    return race(trials, n, plans_of_races[length].first, plans_of_races[length].rounds, end);
}

int eco_trials_winner(struct eco_trial *const trials[], int n)
{
    double least = 1, ratio;
    int fastest = 0;
    for (int k = 1; k < n; k++)
        if (eco_trial_is_faster(trials[k], trials[0], &ratio) && ratio < least) {
            least = ratio;
            fastest = k;
        }
    return fastest;
}

/* ---- once more ------------------------------------------------------------------------------- */

/* Makes a trial again, which moves its memory. */
static ecornn_status make_again(struct eco_trial *trial)
{
    const struct eco_tune_data *data = trial->data;
    char choices[ECO_MAX_FORCE];
    memcpy(choices, trial->choices, sizeof choices);
    eco_trial_free(trial);
    return eco_trial_make(trial, data, choices);
}

static void append(struct eco_trial *all, const struct eco_trial *trial, int rounds)
{
    for (int k = 0; k < rounds && all->rounds < ECO_TUNE_ROUNDS; k++)
        all->seconds[all->rounds++] = trial->seconds[k];
}

ecornn_status eco_trials_race_again(struct eco_trial *const trials[], int n,
                                    struct eco_trial times[])
{
    const int length = length_of(trials[0]);
    ecornn_status status = ECORNN_OK;
    for (int k = 0; k < n; k++) {
        times[k] = (struct eco_trial){.estimate = trials[k]->estimate};
        memcpy(times[k].choices, trials[k]->choices, sizeof times[k].choices);
    }
    for (int making = 0; making < plans_of_races[length].makings; making++) {
        for (int k = 0; status == ECORNN_OK && making > 0 && k < n; k++)
            status = make_again(trials[k]);
        if (status == ECORNN_OK)
            status = race(trials, n, plans_of_races[length].first, plans_of_races[length].last,
                          INFINITY);
        if (status != ECORNN_OK)
            return status;
        int all = trials[0]->rounds;
        for (int k = 1; k < n; k++)
            all = trials[k]->rounds < all ? trials[k]->rounds : all;
        for (int k = 0; k < n; k++)
            append(&times[k], trials[k], all);
    }
    return ECORNN_OK;
}
