/*
 * Joining steps, as nets do between layers.  Plain C, so that a GPU compiler takes it too.
 */
#ifndef ECO_JOIN_H
#define ECO_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "ecornn/types.h"

/* The number of steps after joining `steps` at a time; the last may have fewer. */
static inline int32_t eco_joined(int32_t T, int32_t steps)
{
    return T / steps + (T % steps != 0);
}

/* Copies steps of a narrow array [T,N,width] to columns of a wide one [U,N,row]:
 *
 *     wide[t / steps, n, at + t % steps * width + j] = narrow[t,n,j],
 *
 * with zeros if row n has no step t, or the mask says that it does not count.  back: copies those
 * columns to narrow, with the same zeros. */
struct eco_join {
    void *narrow, *wide;    /* the source may be NULL: zeros */
    const int32_t *lengths; /* [N]; NULL: all rows have T */
    const uint8_t *mask;    /* [T,N]; NULL: all steps count */
    int32_t T, U, N, steps, width, row, at;
    bool batch_major; /* [N,T,width] and [N,U,row] */
    bool back;
    ecornn_type type;
};

/* to[u,n] = 1 if from[t,n] is not 0 for any step t of joined step u that row n has and that counts;
 * else 0.  So a joined step counts if any of its steps does, and begins an episode if any of those
 * that count does. */
struct eco_join_bytes {
    uint8_t *to;                /* [U,N] */
    const uint8_t *from, *mask; /* [T,N] */
    const int32_t *lengths;
    int32_t T, U, N, steps;
};

#endif /* ECO_JOIN_H */
