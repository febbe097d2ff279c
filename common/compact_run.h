/*
 * What is moved in a squeezed run (compaction.h), and which of its steps is a step of the caller's.
 * Plain C with static functions only: a GPU's compiler takes it, too.
 */
#ifndef ECO_COMPACT_RUN_H
#define ECO_COMPACT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

#ifndef ECO_DEVICE_FUNCTION
#define ECO_DEVICE_FUNCTION static inline
#endif

struct eco_compact_run {
    int32_t T, N;
    /* The caller's; NULL: all steps count, none begins anew, all rows have T. */
    const uint8_t *mask, *resets; /* [T,N] */
    const int32_t *whole;         /* [N] */
    /* The run's. */
    int32_t *counted;    /* [T,N]: steps of the row that count, up to this one and with it */
    int32_t *lengths;    /* [N]: all that count */
    uint8_t *run_resets; /* [T,N]; NULL: there are none */
    bool repeats;        /* padding repeats the last output */
    bool reversed[2];    /* by direction, */
    int32_t directions;  /* of which there are so many */
};

enum eco_compact_kind {
    ECO_COMPACT_GATHER,  /* to the place of a step that counts, what it has; zeros behind those */
    ECO_COMPACT_SUMS,    /* the same, and what the steps have that repeat it */
    ECO_COMPACT_SCATTER, /* to a step that counts, what its place has; to others zeros */
    ECO_COMPACT_REPEATS, /* the same; to others what the step has that they repeat, or zeros */
    ECO_COMPACT_KINDS
};

/* [lanes][T,N,width] of the caller's order; `from` and `to` lie alike.  Of two directions lane i is
 * of direction i % 2. */
struct eco_compact_move {
    enum eco_compact_kind kind;
    const void *from;
    void *to;
    ecornn_type type;
    size_t step, row, lane; /* elements from one to the next */
    int32_t lanes, width;
};

/* By what the caller gave. */
ECO_DEVICE_FUNCTION bool eco_compact_is_counted(const struct eco_compact_run *run, int32_t t,
                                                int32_t n)
{
    const bool padding = run->whole != 0 && t >= run->whole[n];
    return !padding && (run->mask == 0 || run->mask[(int64_t)t * run->N + n] != 0);
}

/* The step of the squeezed run that a step of the caller's is, or whose y it repeats in a
 * direction; -1: none. */
ECO_DEVICE_FUNCTION int32_t eco_compact_source(const struct eco_compact_run *run, int32_t direction,
                                               int32_t t, int32_t n)
{
    const int32_t counted = run->counted[(int64_t)t * run->N + n];
    if (eco_compact_is_counted(run, t, n))
        return counted - 1;
    if (!run->repeats && run->whole != 0 && t >= run->whole[n])
        return -1;
    if (!run->reversed[direction])
        return counted - 1;
    return counted < run->lengths[n] ? counted : -1;
}

/* Where a step that does not count leaves a place behind all that do. */
ECO_DEVICE_FUNCTION int32_t eco_compact_past_end(const struct eco_compact_run *run, int32_t t,
                                                 int32_t n)
{
    return run->lengths[n] + t - run->counted[(int64_t)t * run->N + n];
}

#endif /* ECO_COMPACT_RUN_H */
