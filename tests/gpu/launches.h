/*
 * Which kernels a run of the CUDA backend launches, by their names: the run is captured, its graph
 * is read, then launched.
 */
#ifndef ECO_TESTS_LAUNCHES_H
#define ECO_TESTS_LAUNCHES_H

#include "tests/kit/testing.h"

enum { LAUNCH_NAME = 160, MOST_LAUNCHED = 64 };

/* Of a run: each name once. */
struct launched {
    int n;
    char name[MOST_LAUNCHED][LAUNCH_NAME];
};

struct launches {
    struct watch watch;    /* for a machine */
    struct launched of[2]; /* forward, backward: of all runs since they were set to 0 */
};

/* False, with a word: CUDA cannot. */
bool launches_open(struct launches *launches);
void launches_close(struct launches *launches);

#endif /* ECO_TESTS_LAUNCHES_H */
