/*
 * What a composite program does between runs of plans: calls that a backend queues on a stream, and
 * jobs that run at the same time.  Nets, models, tangents, masks and start values are all made of
 * runs, these calls and jobs (common/compose/sequence.h).
 */
#ifndef ECO_CALL_H
#define ECO_CALL_H

#include "common/compact_run.h"
#include "common/join.h"
#include "common/stream_rows.h"

struct ecornn_plan;
struct eco_args;

/* Copies bytes of `from`, or, if that is NULL, sets elements to `value`; 0 is valid for any type.
 * name and from_name are the argument names for errors. */
struct eco_fill {
    const char *name, *from_name;
    void *to;
    const void *from;
    size_t bytes;
    double value;
    ecornn_type type;
};

/* to[r][j] = from[r][j], or zeros if from is NULL; add: to[r][j] += from[r][j]. */
struct eco_rows_move {
    void *to;
    const void *from;
    size_t to_row, from_row; /* elements from row to row */
    size_t rows, width;
    bool add;
    ecornn_type type;
};

/* to[n] = number of steps that from[n] steps become when `steps` are joined. */
struct eco_join_lengths {
    int32_t *to;
    const int32_t *from;
    int32_t N, steps;
};

/* to[t,n,j] = 0 if its draw is below the threshold, else scale * from[t,n,j]: dropout as between
 * the layers of a plan, before layer `layer`. */
struct eco_drop {
    void *to;
    const void *from;
    int32_t T, N, width;
    bool batch_major;
    ecornn_type type;
    double p;
    uint64_t seed;
    uint32_t layer, first_step, first_row;
};

/* Packs parameters into weights.  added[k] is added to vector k, unless it is NULL; added NULL:
 * nothing is added. */
struct eco_pack {
    const struct ecornn_plan *plan;
    const void *const *params, *const *added;
    void *weights;
};

/* Moves packed gradients to parameters, or adds them; NULL: not wanted. */
struct eco_unpack {
    const struct ecornn_plan *plan;
    const void *dweights;
    void *const *params;
    bool add;
};

/* Fills counted and lengths of a compacted run; args: the caller's, to check. */
struct eco_count {
    const struct eco_compact_run *run;
    const struct eco_args *args;
};

/* One move of a compacted run. */
struct eco_compact {
    const struct eco_compact_run *run;
    const struct eco_compact_move *move;
};

enum eco_verb {
    ECO_CALL_FILL,
    ECO_CALL_MOVE,
    ECO_CALL_JOIN,
    ECO_CALL_LENGTHS,
    ECO_CALL_BYTES,
    ECO_CALL_DROP,
    ECO_CALL_COUNT,
    ECO_CALL_COMPACT,
    ECO_CALL_STREAMS, /* of a backend whose steps do not read io.rows */
    ECO_CALL_PACK,
    ECO_CALL_UNPACK,
    ECO_CALLS
};

struct eco_call {
    enum eco_verb verb;
    union {
        struct eco_fill fill;
        struct eco_rows_move move;
        struct eco_join join;
        struct eco_join_lengths lengths;
        struct eco_join_bytes bytes;
        struct eco_drop drop;
        struct eco_count count;
        struct eco_compact compact;
        struct eco_stream_rows streams;
        struct eco_pack pack;
        struct eco_unpack unpack;
    };
};

/* Jobs that do not depend on each other, `lanes` at a time.  `one` queues a job on a stream; its
 * lane is below `lanes`, and jobs of one lane run one after the other.  `last` queues what comes
 * after all of them. */
struct eco_jobs {
    int jobs, lanes;
    ecornn_status (*one)(void *user_data, int job, int lane, void *stream);
    ecornn_status (*last)(void *user_data, void *stream);
    void *user_data;
    /* With several models: all of it may be captured as one graph.  NULL: not. */
    const struct ecornn_plan *plan;
    const struct eco_args *args;
};

#endif /* ECO_CALL_H */
