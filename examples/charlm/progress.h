/*
 * The line that says how far a training run is: one line kept up to date on a terminal, otherwise a
 * new line every ten seconds.
 */
#ifndef CHARLM_PROGRESS_H
#define CHARLM_PROGRESS_H

#include "util.h"

struct progress {
    double start, printed; /* seconds of the clock */
    double bits;           /* per character, a running average; negative: none yet */
    double held_bits;      /* negative: none yet */
    double characters;     /* read since the start */
    double fraction;       /* of the whole run, 0 to 1 */
    long step;
    bool terminal, pending;
};

struct progress progress_start(void);
/* Counts a window of so many characters with so many bits each. */
void progress_add(struct progress *progress, double bits, double characters);
/* Prints if it is time, or always. */
void progress_print(struct progress *progress, bool always);
/* Ends the line. */
void progress_end(struct progress *progress);

#endif /* CHARLM_PROGRESS_H */
