/*
 * Tuning.  Plans of one problem that differ in their choices ("trials") run in turns on the same
 * data; the fastest whose results agree with those of the planner's plan wins.
 */
#ifndef ECO_LIB_TUNE_H
#define ECO_LIB_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"
#include "common/choice.h"
#include "common/plan.h"

double eco_tune_now(void); /* seconds of a monotonic clock */

/* ---- data, tune_data.c ----------------------------------------------------------------------- */

/* The arrays of all plans of a problem, in the device's memory. */
struct eco_tune_data {
    ecornn_device *device;
    void *stream; /* of all runs */
    const struct eco_problem *problem;
    size_t x_elements, y_elements, params;
    int sets;                     /* of x, used in turn, so that none stays in a cache */
    char *x;                      /* [sets, x_elements] */
    void *y, *dx, *dy, *dparams;  /* the last three in training */
    void *states;                 /* of a single step: zeros, as its callers pass states */
    void *block;                  /* the parameters, */
    void **pointers, **dpointers; /* and pointers to each and to its gradient */
};
/* plan: any plan of the problem.  own: of a plan that is measured, which takes little memory; NULL
 * of tuning.  NO_MEMORY; the caller frees the data then, too. */
struct eco_measuring;
ecornn_status eco_tune_data_make(struct eco_tune_data *data, const struct ecornn_plan *plan,
                                 const struct eco_problem *problem,
                                 const struct eco_measuring *own);
void eco_tune_data_free(struct eco_tune_data *data);

/* Results on the host: y, dx, gradients of the parameters. */
enum { ECO_TUNE_RESULTS = 3 };
struct eco_tune_results {
    void *value[ECO_TUNE_RESULTS]; /* NULL: not computed in inference */
    size_t count[ECO_TUNE_RESULTS];
    ecornn_type type[ECO_TUNE_RESULTS];
};
ecornn_status eco_tune_results_fetch(struct eco_tune_results *results,
                                     const struct eco_tune_data *data);
void eco_tune_results_free(struct eco_tune_results *results);

/* ---- bounds, tune_bounds.c ------------------------------------------------------------------- */

/* How much the results of two plans of a problem may differ: norm of the difference over norm. */
struct eco_tune_bounds {
    double most[ECO_TUNE_RESULTS];
};
/* Takes some hundredths of a second; NO_MEMORY. */
ecornn_status eco_tune_bounds_find(struct eco_tune_bounds *bounds,
                                   const struct eco_problem *problem);
/* NULL if the differences are within the bounds, else a sentence, written to text. */
const char *eco_tune_difference(const struct eco_tune_results *a, const struct eco_tune_results *b,
                                const struct eco_tune_bounds *bounds, char text[128]);

/* ---- one plan, tune_trial.c ------------------------------------------------------------------ */

enum { ECO_TUNE_ROUNDS = 41 };
struct eco_spread {
    double median, low, high; /* low, high: quartiles */
};
struct eco_trial {
    char choices[ECO_MAX_FORCE]; /* as the plan prints them */
    const struct eco_tune_data *data;
    struct ecornn_plan *plan;
    void *weights, *workspace, *reserve, *dweights;
    int set, repeats; /* the next set of x; runs in a round */
    double first;     /* seconds of a run, measured when the trial was started */
    double estimate;  /* seconds of a run, predicted by the planner */
    int rounds;
    double seconds[ECO_TUNE_ROUNDS]; /* of a run, in each round */
};
/* Makes a plan with these choices ("": the planner's), without blocks. */
ecornn_status eco_trial_plan(struct eco_trial *trial, const struct eco_tune_data *data,
                             const char *choices);
/* Allocates the blocks and makes the first runs. */
ecornn_status eco_trial_start(struct eco_trial *trial);
/* Both. */
ecornn_status eco_trial_make(struct eco_trial *trial, const struct eco_tune_data *data,
                             const char *choices);
void eco_trial_free(struct eco_trial *trial); /* also after a failure of the above, and twice */
/* Clears the results in the data and computes them from the first set of x. */
ecornn_status eco_trial_compute(struct eco_trial *trial);
/* Times one round of `repeats` runs. */
ecornn_status eco_trial_round(struct eco_trial *trial);
struct eco_spread eco_trial_spread(const struct eco_trial *trial);
/* Seconds of a run in the fastest round; infinite without rounds. */
double eco_trial_least(const struct eco_trial *trial);
/* Is the trial faster, by more than chance, than one that took turns with it?  ratio: of times. */
bool eco_trial_is_faster(const struct eco_trial *trial, const struct eco_trial *other,
                         double *ratio);

/* ---- races, tune_race.c ---------------------------------------------------------------------- */

/* Times n trials in turns.  Those that are much slower than the fastest stop early.  At the end, on
 * the clock of eco_tune_now, all stop, but not before these rounds. */
enum { ECO_TUNE_LEAST_ROUNDS = 3 };
ecornn_status eco_trials_race(struct eco_trial *const trials[], int n, double end);
/* The trial that is clearly faster than the first of a race, and most so; 0: none. */
int eco_trials_winner(struct eco_trial *const trials[], int n);
/* Races for longer, and several times, with all trials made again between them.  times[n]: the
 * rounds of all races and the choices, without plans. */
ecornn_status eco_trials_race_again(struct eco_trial *const trials[], int n,
                                    struct eco_trial times[]);

/* ---- the search, tune_search.c --------------------------------------------------------------- */

/* choices: the table to try, usually eco_choices. */
ecornn_status eco_tune(ecornn_device *device, const struct eco_problem *problem,
                       const struct eco_choice *choices, const ecornn_tuning *tuning,
                       ecornn_tuning *tuned);

/* ---- measuring, tune_measure.c --------------------------------------------------------------- */

/* Races a plan that wisdom did not choose, or that of one of its models, against the few others
 * that are estimated to be the fastest, for at most these seconds, and adds the winner to wisdom.
 * False: wisdom is as it was.  Adds to the note what was measured, or why nothing was. */
bool eco_measure(const struct ecornn_plan *plan, double seconds, struct eco_text *note);

#endif /* ECO_LIB_TUNE_H */
