/*
 * The barrier of a team (Hensgen, Finkel and Manber 1988): in round r every thread tells the thread
 * 2^r further on that it has heard of all threads before it. Example with 5 threads: after three
 * rounds each has heard of 1, 2 and 4 others, so of all. A thread reads its own line only, and
 * sleeps after a long wait. Also tasks that threads take from each other between two waits. Knows
 * nothing of what the threads do.
 */
#include "cpu/run/barrier.h"

#include "common/util.h"

/* Looks between announcing a sleep and sleeping, during which a word from a thread that saw no
 * sleepers arrives. If it does not, the sleep times out. */
enum { LOOKS_BEFORE_SLEEP = 50 };
/* About 100 us: shorter waits are not timed. */
enum { LOOKS_OF_USUAL_WAITS = 2500 };

static bool heard(const _Atomic unsigned *word, unsigned turn)
{
    /* Counts may wrap, and the other thread may be a turn ahead. */
    return (int)(atomic_load_explicit(word, memory_order_acquire) - turn) >= 0;
}

static bool look(const _Atomic unsigned *word, unsigned turn, int looks)
{
    for (int i = 0; i < looks; i++) {
        if (heard(word, turn))
            return true;
        ECO_PAUSE();
    }
    return heard(word, turn);
}

static void sleep_until(const struct eco_team *team, _Atomic unsigned *word, unsigned turn)
{
    atomic_fetch_add(team->sleepers, 1);
    for (int looks = LOOKS_BEFORE_SLEEP; !look(word, turn, looks); looks = 0)
        eco_sleep_while(word, turn - 1);
    atomic_fetch_sub(team->sleepers, 1);
}

/* A spinning thread keeps the system from moving a thread without a processor to this one. */
static void hear(const struct eco_team *team, _Atomic unsigned *word, unsigned turn)
{
    const int soon = team->spins < LOOKS_OF_USUAL_WAITS ? team->spins : LOOKS_OF_USUAL_WAITS;
    if (look(word, turn, soon))
        return;
    const int64_t begin = eco_os_now();
    const bool spun = look(word, turn, team->spins - soon);
    const int64_t then = eco_os_now();
    if (!spun)
        sleep_until(team, word, turn);
    if (team->waits != NULL)
        eco_waits_add(team->waits, then - begin, spun ? 0 : eco_os_now() - then);
}

static void announce(const struct eco_team *team, _Atomic unsigned *word, unsigned turn)
{
    atomic_store_explicit(word, turn, memory_order_release);
    if (atomic_load_explicit(team->sleepers, memory_order_relaxed) > 0)
        eco_wake_all(word);
}

void eco_team_clear(const struct eco_team *team)
{
    for (int i = 0; i < team->count; i++) {
        for (int r = 0; r < ECO_TEAM_ROUNDS; r++)
            atomic_store_explicit(&team->line[i].heard[r], 0, memory_order_relaxed);
        atomic_store_explicit(&team->line[i].taken, 0, memory_order_relaxed);
    }
}

/* A thread that takes a task sees what the task reads since the team's last wait. */
int32_t eco_team_take(const struct eco_team *team, int id, uint32_t product, int32_t tasks)
{
    _Atomic uint64_t *const taken = &team->line[id].taken;
    uint64_t seen = atomic_load_explicit(taken, memory_order_relaxed);
    for (;;) {
        const int32_t ahead = (int32_t)((uint32_t)(seen >> 32) - product);
        const int32_t next = ahead == 0 ? (int32_t)(uint32_t)seen : 0;
        if (ahead > 0 || next >= tasks)
            return -1;
        const uint64_t then = (uint64_t)product << 32 | (uint32_t)(next + 1);
        if (atomic_compare_exchange_weak_explicit(taken, &seen, then, memory_order_relaxed,
                                                  memory_order_relaxed))
            return next;
    }
}

void eco_team_wait(const struct eco_team *team, int id, unsigned *turn)
{
    const unsigned now = ++*turn;
    for (int r = 0, away = 1; away < team->count; r++, away *= 2) {
        const int other = id + away < team->count ? id + away : id + away - team->count;
        announce(team, &team->line[other].heard[r], now);
        hear(team, &team->line[id].heard[r], now);
    }
}
