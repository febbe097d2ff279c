/*
 * Steps beside one another: what nets move between layers.  Plain C: a GPU's compiler takes it,
 * too.
 */
#ifndef ECO_JOIN_H
#define ECO_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "ecornn.h"

/* How many steps T become when so many are joined: the last may have fewer. */
static inline int32_t eco_joined(int32_t T, int32_t steps)
{
    return T / steps + (T % steps != 0);
}

/* Steps of a narrow array [T,N,width] as columns of a wide one [U,N,row]:
 *
 *     wide[t / steps, n, at + t % steps * width + j] = narrow[t,n,j], zeros where row n has no step
 * t
 *
 * or back: narrow = those columns of wide, zeros where row n has no step t. */
struct eco_join {
    void *narrow, *wide;    /* the one that is only read may be NULL: zeros */
    const int32_t *lengths; /* [N]; NULL: all rows have T */
    int32_t T, U, N, steps, width, row, at;
    bool batch_major; /* [N,T,width] and [N,U,row] */
    bool back, add;   /* add: back, to what is there, in all rows */
    ecornn_type type;
};

#endif /* ECO_JOIN_H */
