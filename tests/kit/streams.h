/*
 * Ticks of streams, whose initial and final states are one array, and the same streams run apart,
 * with states that the host keeps.
 */
#ifndef ECO_TESTS_STREAMS_H
#define ECO_TESTS_STREAMS_H

#include "tests/kit/trial.h"

struct streams {
    struct trial tick, own;
    struct trial kept; /* initial states: those of each stream after its separate runs */
    int32_t count;
    int32_t *rows; /* [count] in memory of the device */
    bool gathered; /* a separate run has all rows of a tick, not one */
};

/* All states are 0. The device must stay open. */
void streams_open(struct streams *s, ecornn_device *device, const char *problem, int32_t count,
                  bool gathered);
void streams_close(struct streams *s);
/* Sets a stream's states to 0. */
void streams_restart(struct streams *s, int32_t stream);
/* Sets the rows of the next tick and fills its other inputs; the caller runs s->tick. */
void streams_fill(struct streams *s, const int32_t *rows, int32_t N, uint64_t seed);
/* Runs the rows apart; the test fails if y or a state of the tick is another. */
void streams_check(struct streams *s, const int32_t *rows, int32_t N);

#endif /* ECO_TESTS_STREAMS_H */
