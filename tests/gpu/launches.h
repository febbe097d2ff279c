/*
 * Finds the names of the kernels that a run of the CUDA backend launches. The run is captured, its
 * graph is read and then launched.
 */
#ifndef ECO_TESTS_LAUNCHES_H
#define ECO_TESTS_LAUNCHES_H

#include "tests/kit/testing.h"

enum { LAUNCH_NAME = 160, MOST_LAUNCHED = 64 };

/* The kernels of a run, each name once. */
struct launched {
    int n;
    char name[MOST_LAUNCHED][LAUNCH_NAME];
};

struct launches {
    struct watch watch;    /* for a machine */
    struct launched of[2]; /* forward, backward: of all runs since they were set to 0 */
};

/* False, with a message: CUDA cannot do this. */
bool launches_open(struct launches *launches);
void launches_close(struct launches *launches);

#endif /* ECO_TESTS_LAUNCHES_H */
