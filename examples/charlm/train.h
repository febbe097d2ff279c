/*
 * The training loop: truncated back-propagation through time over many places of the text at once,
 * with states carried from window to window.
 */
#ifndef CHARLM_TRAIN_H
#define CHARLM_TRAIN_H

#include "keeper.h"
#include "model.h"
#include "text.h"

/* A text in places of the alphabet, and when to end. */
struct training {
    const struct text *text;
    struct keeper *keeper;
    long first_step, steps; /* steps 0: no limit */
    double seconds;         /* 0: no limit */
    float rate;
    uint64_t seed;
};

struct training_result {
    long steps;       /* done, first_step included */
    double held_bits; /* per character of the held-out text; negative: unknown */
};

/* What asks the program to end (Ctrl-C, SIGTERM, a terminal or reader of its output that is gone)
 * ends the training after its current step from now on. */
void train_catch_signals(void);
bool train_interrupted(void);

/* The learning rate follows the steps where their number is given, else the clock: so the same seed
 * gives the same losses with the same number of steps. */
bool train(struct model *model, const struct training *training, struct training_result *result,
           struct complaint *why);

#endif /* CHARLM_TRAIN_H */
