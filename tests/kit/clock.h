/*
 * A clock that only the test moves, for programs whose calls of clock_gettime the linker replaces
 * (tests.am).
 */
#ifndef ECO_TESTS_CLOCK_H
#define ECO_TESTS_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* CLOCK_MONOTONIC, in ns, and by how much each reading moves it. The clocks of CPU time stand
 * still. */
extern _Atomic int64_t clock_now, clock_step;

#endif /* ECO_TESTS_CLOCK_H */
