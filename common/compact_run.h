/*
 * The steps of a compacted run (compaction.h), how they relate to the caller's steps, and what is
 * moved.  Plain C with static functions only, so that a GPU compiler takes it too.
 */
#ifndef ECO_COMPACT_RUN_H
#define ECO_COMPACT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn/types.h"

#ifndef ECO_DEVICE_FUNCTION
#define ECO_DEVICE_FUNCTION static inline
#endif

struct eco_compact_run {
    int32_t T, N;
    /* The caller's; NULL: all steps count, all rows have T. */
    const uint8_t *mask;  /* [T,N] */
    const int32_t *whole; /* [N] */
    /* The compacted run's. */
    int32_t *counted;   /* [T,N]: number of counted steps of the row up to and including this one */
    int32_t *lengths;   /* [N]: number of counted steps */
    bool repeats;       /* padding repeats the last output */
    bool reversed[2];   /* by direction */
    int32_t directions; /* number of directions */
};

enum eco_compact_kind {
    ECO_COMPACT_GATHER,  /* moves counted steps together; zeros after the last */
    ECO_COMPACT_SUMS,    /* the same, plus the steps that repeat it */
    ECO_COMPACT_SCATTER, /* moves each index back to its counted step; other steps become zeros */
    ECO_COMPACT_REPEATS, /* the same; other steps get the step that they repeat, or zeros */
    ECO_COMPACT_KINDS
};

/* Arrays [lanes][T,N,width] in the caller's order; `from` and `to` have the same strides.  With two
 * directions lane i belongs to direction i % 2. */
struct eco_compact_move {
    enum eco_compact_kind kind;
    const void *from;
    void *to;
    ecornn_type type;
    size_t step, row, lane; /* elements from one to the next */
    int32_t lanes, width;
};

/* Does the step count for the row, by the caller's mask and lengths? */
ECO_DEVICE_FUNCTION bool eco_compact_is_counted(const struct eco_compact_run *run, int32_t t,
                                                int32_t n)
{
    const bool padding = run->whole != 0 && t >= run->whole[n];
    return !padding && (run->mask == 0 || run->mask[(int64_t)t * run->N + n] != 0);
}

/* The compacted step that a caller's step becomes, or whose y it repeats; -1: none. */
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

/* For a step that does not count: an index after the counted ones that no other step uses. */
ECO_DEVICE_FUNCTION int32_t eco_compact_past_end(const struct eco_compact_run *run, int32_t t,
                                                 int32_t n)
{
    return run->lengths[n] + t - run->counted[(int64_t)t * run->N + n];
}

#endif /* ECO_COMPACT_RUN_H */
