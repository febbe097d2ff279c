/*
 * The barrier of a team of threads, barrier.c.  Memory is the caller's; nothing is allocated.
 */
#ifndef ECO_BARRIER_H
#define ECO_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

/* Threads count their arrivals here: alone in two cache lines, which processors fetch together. */
struct eco_line {
    _Alignas(128) _Atomic unsigned arrived;
};

/* Thread id counts on line id % lines. */
struct eco_team {
    struct eco_line *line;      /* [lines], cleared before the first wait */
    _Atomic unsigned *sleepers; /* threads that sleep; teams may share it */
    int count, lines;           /* threads, lines */
    int spins;                  /* looks before a waiting thread sleeps */
};

void eco_team_clear(const struct eco_team *team);
/* Waits until every thread of the team is here for the *round-th time (each counts from 0); what
 * they wrote before is then visible to all. */
void eco_team_wait(const struct eco_team *team, int id, unsigned *round);

#endif /* ECO_BARRIER_H */
