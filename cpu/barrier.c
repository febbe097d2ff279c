/*
 * The barrier of a team: every thread counts its arrival on a cache line that few others write, and
 * looks at the lines of all.  Who waits long sleeps.  Knows nothing of what the threads do.
 */
#include "cpu/barrier.h"

#include "common/util.h"

/* Looks between announcing a sleep and falling asleep: an arrival that was on its way when its
 * thread saw no sleepers is seen meanwhile.  Should it not be, a sleep ends by itself. */
enum { LOOKS_BEFORE_SLEEP = 50 };

static bool reached(unsigned arrived, unsigned target)
{
    return (int)(arrived - target) >= 0; /* counts may wrap */
}

static unsigned look(struct eco_line *line)
{
    return atomic_load_explicit(&line->arrived, memory_order_acquire);
}

static bool spin(struct eco_line *line, unsigned target, int looks)
{
    for (int i = 0; i < looks; i++) {
        if (reached(look(line), target))
            return true;
        ECO_PAUSE();
    }
    return reached(look(line), target);
}

/* A thread that spins keeps the system from moving one that has no processor to this one. */
static void sleep_until(const struct eco_team *team, struct eco_line *line, unsigned target)
{
    unsigned arrived;
    atomic_fetch_add(team->sleepers, 1);
    if (!spin(line, target, LOOKS_BEFORE_SLEEP))
        while (!reached(arrived = look(line), target))
            eco_sleep_while(&line->arrived, arrived);
    atomic_fetch_sub(team->sleepers, 1);
}

/* How many of the team's threads count on a line. */
static unsigned members(const struct eco_team *team, int line)
{
    return team->count <= team->lines
               ? 1
               : (unsigned)((team->count - line + team->lines - 1) / team->lines);
}

void eco_team_clear(const struct eco_team *team)
{
    for (int i = 0; i < team->lines; i++)
        atomic_store_explicit(&team->line[i].arrived, 0, memory_order_relaxed);
}

void eco_team_wait(const struct eco_team *team, int id, unsigned *round)
{
    const unsigned now = ++*round;
    const int lines = team->count < team->lines ? team->count : team->lines;
    const int mine = id < lines ? id : id % lines;
    if (members(team, mine) == 1)
        atomic_store_explicit(&team->line[mine].arrived, now, memory_order_release);
    else
        atomic_fetch_add_explicit(&team->line[mine].arrived, 1, memory_order_acq_rel);
    for (int i = 0, other = mine; i < lines; i++) {
        struct eco_line *line = &team->line[other];
        const unsigned target = now * members(team, other);
        if (!spin(line, target, team->spins))
            sleep_until(team, line, target);
        other = other + 1 < lines ? other + 1 : 0;
    }
    /* All are here: every sleeper is asleep on a line of one who passes here after it lay down. */
    if (atomic_load_explicit(team->sleepers, memory_order_relaxed) > 0)
        eco_wake_all(&team->line[mine].arrived);
}
