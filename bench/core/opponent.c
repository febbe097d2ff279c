/*
 * A run of an opponent, or of ecornn, made of single timed calls.
 */
#include "opponent.h"

#include <string.h>

#include "program.h"

bool side_repeat(struct side *side, int repeats, bool (*once)(struct side *side, int set))
{
    double seconds = 0, core_seconds = 0;
    for (int k = 0; k < repeats; k++) {
        side->set = (side->set + 1) % side->problem->sets;
        if (!once(side, side->set))
            return false;
        seconds += side->seconds / repeats;
        core_seconds += side->core_seconds / repeats;
        if (side->call_count < side->most_calls)
            side->calls[side->call_count++] = side->seconds;
    }
    side->seconds = seconds;
    side->core_seconds = core_seconds;
    return true;
}

const struct opponent *program_opponent(const char *name)
{
    for (int k = 0; program.opponents[k] != NULL; k++)
        if (strcmp(program.opponents[k]->name, name) == 0)
            return program.opponents[k];
    return NULL;
}
