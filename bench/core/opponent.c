/*
 * The list of opponents.
 */
#include "opponent.h"

#include <string.h>

static const struct opponent_kind *const kinds[] = {
    &opponent_unfused,
    &opponent_naive,
#ifdef HAVE_ONEDNN
    &opponent_onednn,
#endif
};

const struct opponent_kind *opponent_find(const char *name)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(kinds[k]->name, name))
            return kinds[k];
    return NULL;
}

const struct opponent_kind *opponent_at(int index)
{
    const int count = (int)(sizeof kinds / sizeof *kinds);
    return index < count ? kinds[index] : NULL;
}
