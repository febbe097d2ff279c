/*
 * An opponent in a process of its own: one that disturbs ecornn's runs in the same process, or one
 * that is a Python program.
 *
 * The child reads commands, a line each, and answers each with a line:
 *     prepare WAY THREADS DEVICE FILE PROBLEM   ->  ready WEIGHTS WORKSPACE RESERVE DETAIL
 *     run REPEATS                               ->  seconds TOTAL CORE
 *     results                                   ->  ready 0 0 0
 *     free                                      ->  ready 0 0 0
 * or with "no REASON" to any; the reason goes on after the name of the opponent.
 * FILE, for a Python opponent, holds inputs, dy and parameters in F32 (write_data in remote.c); the
 * opponent writes y and dx there on "results".  For others it is "-".
 */
#ifndef BENCH_REMOTE_H
#define BENCH_REMOTE_H

#include "opponent.h"

/* Starts the child of an opponent whose `where` is not IN_PROCESS, before any device is opened: a
 * process that forks cannot share its GPU with a child.  Returns the opponent to measure, which
 * talks to the child; NULL on failure. */
const struct opponent *remote_start(const struct opponent *opponent, const char *script);
/* Ends the child, if there is one. */
void remote_stop(void);

#endif /* BENCH_REMOTE_H */
