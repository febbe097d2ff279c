/*
 * When a model is saved.
 */
#define _POSIX_C_SOURCE 200809L
#include "keeper.h"

#include <stdio.h>
#include <time.h>

#include "replace.h"

enum { TRIES = 3 }; /* of the last save, a second apart */
/* Seconds between two saves: at least so many, and so many times what a save takes. */
static const double PAUSE = 10, PAUSE_OF_SAVE = 20;

bool keeper_check(const struct keeper *keeper, long last, struct complaint *why)
{
    struct checkpoint checkpoint = keeper->checkpoint;
    uint64_t bytes = 0;
    checkpoint.step = last;
    return !*keeper->path || (checkpoint_preview(&checkpoint, keeper->model, &bytes, why) &&
                              replacement_possible(keeper->path, bytes, why));
}

void keeper_start(struct keeper *keeper)
{
    keeper->saved = -1;
    keeper->due = clock_seconds() + PAUSE;
}

static bool save(struct keeper *keeper, long step, struct complaint *why)
{
    const double start = clock_seconds();
    keeper->checkpoint.step = step;
    const bool good = checkpoint_save(&keeper->checkpoint, keeper->model, keeper->path, why);
    const double now = clock_seconds(), pause = PAUSE_OF_SAVE * (now - start);
    keeper->due = now + (pause > PAUSE ? pause : PAUSE);
    if (good)
        keeper->saved = step;
    return good;
}

bool keeper_step(struct keeper *keeper, long step, struct complaint *why)
{
    const bool due = keeper->every ? step % keeper->every == 0 : clock_seconds() >= keeper->due;
    return !*keeper->path || !due || save(keeper, step, why);
}

bool keeper_finish(struct keeper *keeper, long step, struct complaint *why)
{
    struct complaint reason = {{0}};
    if (!*keeper->path || keeper->saved == step)
        return true;
    for (int k = 0; k < TRIES; k++) {
        const struct timespec second = {.tv_sec = k > 0};
        nanosleep(&second, NULL);
        if (save(keeper, step, &reason))
            return true;
    }
    if (keeper->saved < 0)
        return complain(why, "step %ld is not saved: %.200s; the file is as it was", step,
                        reason.text);
    return complain(why, "step %ld is not saved: %.200s; the file has step %ld", step, reason.text,
                    keeper->saved);
}
