/*
 * The barrier of a team of threads, barrier.c.  Memory is the caller's; nothing is allocated.
 */
#ifndef ECO_BARRIER_H
#define ECO_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

enum { ECO_TEAM_ROUNDS = 10, ECO_TEAM_MOST = 1 << ECO_TEAM_ROUNDS };

/* What a thread has heard: alone in two cache lines, which processors fetch together. */
struct eco_line {
    _Alignas(128) _Atomic unsigned heard[ECO_TEAM_ROUNDS];
};

struct eco_team {
    struct eco_line *line;      /* [count], cleared before the first wait */
    _Atomic unsigned *sleepers; /* threads that sleep; teams may share it */
    int count;                  /* threads, at most ECO_TEAM_MOST */
    int spins;                  /* looks before a waiting thread sleeps */
};

void eco_team_clear(const struct eco_team *team);
/* Waits until every thread of the team is here for the *turn-th time (each counts from 0); what
 * they wrote before is then visible to all. */
void eco_team_wait(const struct eco_team *team, int id, unsigned *turn);

#endif /* ECO_BARRIER_H */
