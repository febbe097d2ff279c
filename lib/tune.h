/*
 * Tuning: plans of one problem, each with other choices, take turns on the same data; the fastest
 * whose results are those of the others wins.  Uses the public functions as a program would.
 */
#ifndef ECO_LIB_TUNE_H
#define ECO_LIB_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"
#include "common/plan.h"

double eco_tune_now(void); /* seconds of a clock that never goes back */

/* ---- data, tune_data.c ----------------------------------------------------------------------- */

/* What all plans of a problem read, and where they write: in the device's memory. */
struct eco_tune_data {
    ecornn_device *device;
    const struct eco_problem *problem;
    size_t x_elements, y_elements, params;
    int sets;                     /* of x, used in turn, so that none stays in a cache */
    char *x;                      /* [sets, x_elements] */
    void *y, *dx, *dy, *dparams;  /* the last three in training */
    void *block;                  /* the parameters */
    void **pointers, **dpointers; /* to each of them */
};
/* plan: any of the problem.  NO_MEMORY; the data is then to be freed too. */
ecornn_status eco_tune_data_make(struct eco_tune_data *data, const struct ecornn_plan *plan);
void eco_tune_data_free(struct eco_tune_data *data);

/* Results on the host: y, then dx and gradients of the parameters. */
enum { ECO_TUNE_RESULTS = 3 };
struct eco_tune_results {
    void *value[ECO_TUNE_RESULTS]; /* NULL: none of it */
    size_t count[ECO_TUNE_RESULTS];
    ecornn_type type[ECO_TUNE_RESULTS];
};
ecornn_status eco_tune_results_fetch(struct eco_tune_results *results,
                                     const struct eco_tune_data *data);
void eco_tune_results_free(struct eco_tune_results *results);

/* ---- bounds, tune_bounds.c ------------------------------------------------------------------- */

/* How far two plans of a problem may be apart: norms of differences over norms. */
struct eco_tune_bounds {
    double most[ECO_TUNE_RESULTS];
};
/* Takes some hundredths of a second; NO_MEMORY. */
ecornn_status eco_tune_bounds_find(struct eco_tune_bounds *bounds,
                                   const struct eco_problem *problem);
/* NULL: they are within the bounds; else what differs, in words put into text. */
const char *eco_tune_difference(const struct eco_tune_results *a, const struct eco_tune_results *b,
                                const struct eco_tune_bounds *bounds, char text[128]);

/* ---- one plan, tune_trial.c ------------------------------------------------------------------ */

enum { ECO_TUNE_ROUNDS = 41 };
/* A median and its quartiles. */
struct eco_spread {
    double median, low, high;
};
struct eco_trial {
    char choices[ECO_MAX_FORCE]; /* as the plan prints them */
    const struct eco_tune_data *data;
    struct ecornn_plan *plan;
    void *weights, *workspace, *reserve, *dweights;
    int set, repeats; /* the next input; runs of a round */
    double first;     /* seconds of a run when it was made */
    double estimate;  /* the planner's, of a run */
    int rounds;
    double seconds[ECO_TUNE_ROUNDS]; /* of a run */
    struct eco_spread spread;        /* after eco_trial_settle */
};
/* A plan with these choices, "": the planner's, without blocks. */
ecornn_status eco_trial_plan(struct eco_trial *trial, const struct eco_tune_data *data,
                             const char *choices);
/* Its blocks, and first runs of it.  When it fails the trial is still to be freed. */
ecornn_status eco_trial_start(struct eco_trial *trial);
/* A plan with its blocks. */
ecornn_status eco_trial_open(struct eco_trial *trial, const struct eco_tune_data *data,
                             const char *choices);
/* All of that. */
ecornn_status eco_trial_make(struct eco_trial *trial, const struct eco_tune_data *data,
                             const char *choices);
void eco_trial_free(struct eco_trial *trial);
/* Of the same input for all: results lie in the data. */
ecornn_status eco_trial_compute(struct eco_trial *trial);
/* One more time, of some runs. */
ecornn_status eco_trial_round(struct eco_trial *trial);
void eco_trial_settle(struct eco_trial *trial);
/* Seconds of its fastest round; infinite without one. */
double eco_trial_least(const struct eco_trial *trial);
/* Is it faster than another that took turns with it, by more than chance?  ratio: of its time. */
bool eco_trial_is_faster(const struct eco_trial *trial, const struct eco_trial *other,
                         double *ratio);

/* ---- races, tune_race.c ---------------------------------------------------------------------- */

/* Some trials take turns; those that are hopeless beside the fastest only at first. */
ecornn_status eco_trials_race(struct eco_trial *const trials[], int n);
/* For longer, and made anew several times.  times[n]: the rounds of all these races, and choices;
 * no plans. */
ecornn_status eco_trials_race_again(struct eco_trial *const trials[], int n,
                                    struct eco_trial times[]);

/* ---- the search, tune_search.c --------------------------------------------------------------- */

ecornn_status eco_tune(ecornn_device *device, const struct eco_problem *problem,
                       const ecornn_tuning *tuning, ecornn_tuned *tuned);

#endif /* ECO_LIB_TUNE_H */
