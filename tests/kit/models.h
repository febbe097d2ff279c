/*
 * Runs of several models and of one: the check that a model has the same bits in a run of several
 * as alone, and runs of one plan in many threads.
 */
#ifndef ECO_TESTS_MODELS_H
#define ECO_TESTS_MODELS_H

#include "tests/kit/trial.h"

/* A problem of layers or of a net, for this number of models; are io.lengths given? */
struct models_case {
    const char *problem;
    int models;
    bool shared, lengths;
};

/* Runs all models, and each model alone. On a GPU it repeats the run, also from a graph, and forces
 * the printed choices on the single runs. The test fails if bits differ. */
void models_check(const struct models_case *test, const char *device);
/* Runs each in its own thread, all at the same time, several times. The test fails if a run fails
 * or its bits differ from those of an earlier run. */
void models_check_threads(struct trial run[], int count);

#endif /* ECO_TESTS_MODELS_H */
