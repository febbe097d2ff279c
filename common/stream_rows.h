/*
 * Moves states of streams (io.rows) between the caller's arrays and dense ones, whose row n is of
 * stream rows[n].  Plain C, so that a GPU compiler takes it too.
 */
#ifndef ECO_STREAM_ROWS_H
#define ECO_STREAM_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "ecornn/types.h"

/* Dense arrays are [lanes,N,width], the caller's [lanes,streams,width]. */
struct eco_stream_state {
    void *to;
    const void *from;
    int32_t width;
};

struct eco_stream_rows {
    const int32_t *rows; /* [N]; outside of 0 to streams - 1: reads zeros, writes nothing */
    int32_t N, streams, lanes;
    bool scatter; /* from dense arrays to the caller's; else back */
    ecornn_type type;
    int32_t states;
    struct eco_stream_state state[ECORNN_MAX_STATES];
};

#endif /* ECO_STREAM_ROWS_H */
