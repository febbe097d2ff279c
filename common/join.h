/*
 * Joining steps, as nets do between layers.  Plain C, so that a GPU compiler takes it too.
 */
#ifndef ECO_JOIN_H
#define ECO_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "ecornn.h"

/* The number of steps after joining `steps` at a time; the last may have fewer. */
static inline int32_t eco_joined(int32_t T, int32_t steps)
{
    return T / steps + (T % steps != 0);
}

/* Copies steps of a narrow array [T,N,width] to columns of a wide one [U,N,row]:
 *
 *     wide[t / steps, n, at + t % steps * width + j] = narrow[t,n,j],
 *
 * with zeros if row n has no step t.  back: copies those columns to narrow, with the same zeros. */
struct eco_join {
    void *narrow, *wide;    /* the source may be NULL: zeros */
    const int32_t *lengths; /* [N]; NULL: all rows have T */
    int32_t T, U, N, steps, width, row, at;
    bool batch_major; /* [N,T,width] and [N,U,row] */
    bool back;
    ecornn_type type;
};

#endif /* ECO_JOIN_H */
