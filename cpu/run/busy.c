/*
 * Uses fewer threads while other work occupies some CPUs, and all of them again when it has ended;
 * see busy.h. Results do not depend on the number of threads. Knows nothing of what the threads do.
 */
#include "cpu/run/busy.h"

#include "common/os.h"

/* ns: longer than any wait on a quiet machine, except for uneven shares, and shorter than the time
 * for which a scheduler runs another thread. */
static const int64_t LONG_WAIT = 50000;
/* Regions measured after a long wait, as a thread that has just slept is not late at once. */
enum { MEASURED = 16 };
/* A thread is late if it had no CPU for this part of the region. */
enum { LATE_PART = 8 };
/* Losses in a row after which fewer threads are taken. A CPU that has slept for long may take
 * milliseconds to wake, which delays one region, not the next. */
enum { LOSSES = 2 };
/* The efficiency of fewer threads with a CPU each: a region does other things than products. */
static const double FEWER = 0.9;
/* A pause lasts this many times as long as both losses together, and twice as long as the previous
 * pause if that has just ended. So failing tries cost little. */
enum { FIRST_PAUSE = 2, JUST = 8, LONGEST = 16 };
static const int64_t LONGEST_PAUSE = 1000000000;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- a region -------------------------------------------------------------------------------- */

/* Is it time to try all threads again? Only one of several concurrent regions does. */
static bool may_try(struct eco_busy *busy, int64_t now)
{
    int64_t again = atomic_load_explicit(&busy->again, memory_order_relaxed);
    const int64_t next = now + atomic_load_explicit(&busy->pause, memory_order_relaxed);
    return now >= again && atomic_compare_exchange_strong(&busy->again, &again, next);
}

void eco_region_begin(struct eco_region *region, struct eco_busy *busy, int threads)
{
    *region = (struct eco_region){.busy = busy, .threads = threads};
    if (busy == NULL)
        return;
    const int free = atomic_load_explicit(&busy->most, memory_order_relaxed);
    region->begin = eco_os_now();
    region->measured = atomic_load_explicit(&busy->measure, memory_order_relaxed) > 0;
    if (free == 0 || threads <= free)
        return;
    region->tries = may_try(busy, region->begin);
    region->measured = region->measured || region->tries;
    if (!region->tries)
        region->threads = free;
}

void eco_region_enter(const struct eco_region *region, struct eco_waits *waits)
{
    *waits = (struct eco_waits){.cpu = region->measured ? eco_os_thread_now() : 0};
}

void eco_waits_add(struct eco_waits *waits, int64_t spun, int64_t slept)
{
    if (spun + slept < LONG_WAIT)
        return;
    waits->spun += spun;
    waits->slept += slept;
}

void eco_region_leave(struct eco_region *region, const struct eco_waits *waits, int id)
{
    if (region->busy == NULL)
        return;
    if (waits->spun + waits->slept > 0)
        atomic_store_explicit(&region->waited, true, memory_order_relaxed);
    if (id == 0)
        region->left = eco_os_now();
    if (!region->measured)
        return;
    const int64_t cpu = eco_os_thread_now() - waits->cpu, elapsed = eco_os_now() - region->begin,
                  lost = elapsed - cpu - waits->slept;
    atomic_fetch_add_explicit(&region->done, most(cpu - waits->spun, 0), memory_order_relaxed);
    if (lost >= LONG_WAIT && lost > elapsed / LATE_PART)
        atomic_fetch_add_explicit(&region->late, 1, memory_order_relaxed);
}

/* ---- consequences of a measurement ----------------------------------------------------------- */

static void forget_losses(struct eco_busy *busy)
{
    atomic_store_explicit(&busy->losses, 0, memory_order_relaxed);
    atomic_store_explicit(&busy->lost, 0, memory_order_relaxed);
}

/* Counts a loss of a region. The first in a row changes nothing: after a try, the next region tries
 * again. The second says how many threads regions take until the pause has ended. */
static void note_loss(const struct eco_region *region, int threads, int64_t now)
{
    struct eco_busy *const busy = region->busy;
    const int64_t loss = now - region->begin - region->done / region->threads;
    const int64_t lost = atomic_fetch_add_explicit(&busy->lost, loss, memory_order_relaxed) + loss;
    if (atomic_fetch_add_explicit(&busy->losses, 1, memory_order_relaxed) + 1 < LOSSES) {
        atomic_store_explicit(&busy->measure, MEASURED, memory_order_relaxed);
        if (region->tries)
            atomic_store_explicit(&busy->again, now, memory_order_relaxed);
        return;
    }
    forget_losses(busy);
    const int64_t before = atomic_load_explicit(&busy->pause, memory_order_relaxed),
                  last = atomic_exchange_explicit(&busy->last, now, memory_order_relaxed);
    int64_t pause = FIRST_PAUSE * lost;
    if (now - last < JUST * before)
        pause = most(pause, 2 * before);
    pause = least(pause, most(LONGEST_PAUSE, LONGEST * lost));
    atomic_store_explicit(&busy->pause, pause, memory_order_relaxed);
    atomic_store_explicit(&busy->again, now + pause, memory_order_relaxed);
    atomic_store_explicit(&busy->most, threads, memory_order_relaxed);
}

void eco_region_end(struct eco_region *region)
{
    struct eco_busy *const busy = region->busy;
    if (busy == NULL)
        return;
    const int64_t now = eco_os_now(), wall = now - region->begin, tail = now - region->left;
    const bool long_tail = tail >= LONG_WAIT, waited = region->waited || long_tail;
    const int late = region->late + (long_tail && tail > wall / LATE_PART);
    const int fewer = region->threads > late ? region->threads - late : 1;
    if (waited || region->tries)
        atomic_store_explicit(&busy->measure, MEASURED, memory_order_relaxed);
    else if (region->measured)
        atomic_fetch_sub_explicit(&busy->measure, 1, memory_order_relaxed);
    if (!region->measured)
        return;
    if (late > 0 && (double)region->done < FEWER * fewer * (double)wall) {
        note_loss(region, fewer, now);
        return;
    }
    forget_losses(busy);
    if (region->tries)
        atomic_store_explicit(&busy->most, 0, memory_order_relaxed);
}
