/*
 * The barrier of a team of threads, barrier.c. The caller provides memory; nothing is allocated.
 */
#ifndef ECO_BARRIER_H
#define ECO_BARRIER_H

#include "cpu/run/busy.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { ECO_TEAM_ROUNDS = 10, ECO_TEAM_MOST = 1 << ECO_TEAM_ROUNDS };

/* What a thread has heard, and which of its tasks are taken. Each has a pair of cache lines,
 * because processors fetch pairs. */
struct eco_team_line {
    _Alignas(128) _Atomic unsigned heard[ECO_TEAM_ROUNDS];
    _Alignas(128) _Atomic uint64_t
        taken; /* number of a product, then the number of its tasks that are taken */
};

struct eco_team {
    struct eco_team_line *line; /* [count], cleared before the first wait */
    _Atomic unsigned *sleepers; /* threads that sleep; teams may share it */
    int count;                  /* threads, at most ECO_TEAM_MOST */
    int spins;                  /* looks before a waiting thread sleeps */
    struct eco_waits *waits;    /* of the thread; or NULL */
};

void eco_team_clear(const struct eco_team *team);
/* Takes one of the `tasks` tasks of thread id in product number `product`, which grows by one from
 * product to product. Each task is taken once, by the first thread that asks. -1: all are taken. */
int32_t eco_team_take(const struct eco_team *team, int id, uint32_t product, int32_t tasks);
/* Waits until every thread of the team is here for the *turn-th time (each counts from 0). What
 * they wrote before is then visible to all. */
void eco_team_wait(const struct eco_team *team, int id, unsigned *turn);

#endif /* ECO_BARRIER_H */
