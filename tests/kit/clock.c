/* A clock that only the test moves, see clock.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/kit/clock.h"

#include <time.h>

_Atomic int64_t clock_now, clock_step;

int __wrap_clock_gettime(clockid_t id, struct timespec *time);

int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    const int64_t step = clock_step;
    const int64_t now = id == CLOCK_MONOTONIC ? atomic_fetch_add(&clock_now, step) + step : 0;
    *time = (struct timespec){now / 1000000000, now % 1000000000};
    return 0;
}
