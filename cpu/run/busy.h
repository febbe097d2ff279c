/*
 * How many threads runs of a device take while other work has some of the CPUs, busy.c.
 *
 * A thread whose CPU runs something else is late by milliseconds, and all others wait for it.  A
 * region of threads notices long waits and has the next regions measured.  A measured region
 * compares what its threads did with what fewer threads would do.  If two in a row did less, they
 * say how many the next ones take.  After a pause all threads are tried again.  Example with two
 * CPUs, one of which is busy: two runs take 3 ms each instead of 60 us, so one thread does all runs
 * of the next 12 ms.  The two runs that try two threads after that take 3 ms again, so the next
 * pause is 24 ms, and so on up to a second.
 */
#ifndef ECO_BUSY_H
#define ECO_BUSY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One for each device, zero at first; any running thread may change it. ns. */
struct eco_busy {
    _Atomic int most;                   /* most threads of a region; 0: no limit */
    _Atomic int measure;                /* regions that are still to be measured */
    _Atomic int losses;                 /* regions in a row that lost time */
    _Atomic int64_t lost;               /* by them */
    _Atomic int64_t again, pause, last; /* the next try, the pause before it, the last loss */
};

/* One region of threads; on the caller's stack. */
struct eco_region {
    struct eco_busy *busy; /* NULL: no limit, and nothing is measured */
    int threads, opened;   /* threads of OpenMP beyond `threads` do nothing */
    bool tries, measured;  /* takes more threads than `most` */
    int64_t begin, left;   /* when the caller began, and when its own thread was done; ns */
    _Atomic int64_t done;  /* CPU time of all threads without long waits; ns */
    _Atomic bool waited;   /* a thread waited for a LONG_WAIT */
    _Atomic int late;      /* threads that lacked a CPU for long */
};

/* How long a thread of a region waited for others, long waits only; ns. */
struct eco_waits {
    int64_t spun, slept;
    int64_t cpu; /* its CPU time when it entered, in a measured region */
};
void eco_waits_add(struct eco_waits *waits, int64_t spun, int64_t slept);

/* Sets region->threads for a region that wants `threads` threads. */
void eco_region_begin(struct eco_region *region, struct eco_busy *busy, int threads);
/* Called by each thread when it enters and before it leaves. */
void eco_region_enter(const struct eco_region *region, struct eco_waits *waits);
void eco_region_leave(struct eco_region *region, const struct eco_waits *waits, int id);
/* Called by the caller, thread 0, when all have left. */
void eco_region_end(struct eco_region *region);

#endif /* ECO_BUSY_H */
