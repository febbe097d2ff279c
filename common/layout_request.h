/*
 * What an algorithm asks of layout and tape.
 */
#ifndef ECO_LAYOUT_REQUEST_H
#define ECO_LAYOUT_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ECO_ALIGNED_ROW = 8 };

/* Bytes that depend on the number of rows of a run, for a plan of N rows.  `most` is enough for any
 * run.  fewer[k] is enough for a run that lacks k/64 to (k+1)/64 of N.  With N = 128, fewer[0] is
 * for 127 rows, fewer[1] for 126 and 125; runs of less than 113 rows use `most`. */
enum { ECO_FEWER = 8, ECO_FEWER_PARTS = 64 };
struct eco_by_rows {
    size_t most, fewer[ECO_FEWER];
};
/* The index in fewer, or ECO_FEWER for `most`. */
static inline int32_t eco_fewer_index(int32_t planned, int32_t rows)
{
    const int64_t index = (int64_t)ECO_FEWER_PARTS * (planned - rows) / planned;
    return index < ECO_FEWER ? (int32_t)index : ECO_FEWER;
}
/* The largest number of rows with that index. */
static inline int32_t eco_fewer_rows(int32_t planned, int32_t index)
{
    const int64_t lacking = ((int64_t)index * planned + ECO_FEWER_PARTS - 1) / ECO_FEWER_PARTS;
    return (int32_t)(planned - lacking);
}
static inline size_t eco_bytes_by_rows(const struct eco_by_rows *bytes, int32_t planned,
                                       int32_t rows)
{
    const int32_t index = eco_fewer_index(planned, rows);
    return rows < planned && index < ECO_FEWER ? bytes->fewer[index] : bytes->most;
}

struct eco_layout;
/* The request of the chosen algorithm: first for any backend, then for one kind. */
struct eco_layout_request {
    bool plain; /* weights are the parameter block itself; no workspace, no reserve (reference) */
    void (*sizes)(struct eco_layout *layout); /* plain: but the algorithm's own of these bytes */
    bool gathers; /* states of streams (io.rows) are copied to the workspace: steps read no rows */
    bool wavefront;  /* layers overlap in chunks: each (layer, direction) has its own scratch */
    bool lockstep;   /* forward, layers overlap, and a level waits for the level before it */
    bool fuse_input; /* a step multiplies its input too: accumulators of one step only */
    int32_t chunk, chunk_backward;  /* steps whose acc or dacc are kept at a time; 0: all */
    size_t exchange_bytes;          /* of ECO_INNER_EXCHANGE; if steps exchange instead: */
    struct eco_by_rows exchange[2]; /* [forward, backward]: for each step of a chunk */
    struct eco_cpu_request {
        /* packed weights */
        bool wide;           /* matrices have the type of sums, rounded to the weight type */
        int32_t lane_groups; /* groups of `lanes` units in a block; a single matrix has `vectors` */
        int32_t lanes, vectors; /* a panel's row: vectors of `lanes` lanes; 0: dense matrices */
        int32_t group, pair;    /* in a panel: k per group, neighbouring k of a lane; 0: 1 */
        /* workspace */
        bool by_length; /* rows are ordered by length; dx goes through a copy */
        bool by_rows; /* forward, runs of fewer rows use longer chunks, with as many rows in all */
        int32_t fuse_rows;     /* fuse_input applies to runs of at least this many rows */
        int32_t acc_units;     /* units in a block of accumulators, a power of two; 0: all */
        int32_t gradient_rows; /* rows whose weight gradients are summed separately before they join
                                  the total, if a run has more rows; 0: never */
        int32_t pack_rows;     /* most rows of dacc and of operands in ECO_INNER_PACK */
        int32_t threads;       /* threads with scratch for rows of a product; 0: none */
        /* threads with room for carried values, and rows of it [forward, backward]; 0: none */
        int32_t carried_threads, carried_rows[2];
        bool sums_vectors;   /* steps sum gradients of vectors in ECO_INNER_DVECTOR */
        int32_t run_threads; /* threads of a run, at most */
        size_t team_bytes;   /* bytes that these share */
        size_t alias_bytes;  /* rows that products read get ECO_ALIGNMENT bytes of padding if their
                                size is a multiple of this, so that they do not map to the same cache
                                sets; 0: never */
        /* steps; no effect on the layout */
        bool own_units;  /* a thread's products write the units that its pointwise passes read */
        bool whole_rows; /* a step's products take the whole batch */
        bool scans;      /* steps have no products */
        int32_t block;   /* most rows that go through all panels together; 0: by cache size */
        int32_t block_steps; /* steps in a block of a scan divided by time; 0: by units or rows */
        int32_t block_from;  /* least steps of a run that uses such blocks */
        enum eco_asked { ECO_USUAL, ECO_ASKED_NO, ECO_ASKED_YES } pass_after;
        enum eco_asked cached, strips, help;
    } cpu;
    struct eco_gpu_request {
        int32_t weights_chunks; /* backward: compute weight gradients once for this many chunks,
                                   whose dacc is kept; 0: for each */
        int32_t carry_planes;   /* the gradient of state 0 between steps is the sum of this many
                                   planes; 0: one plane */
        bool half_back;         /* backward, if a run allows it: rows of dacc are F16, with R in
                                   ECO_INNER_PREPARED */
        bool rows_independent; /* forward, no row of an input product depends on other rows: rows of
                                  padding may be read, and batch-major input is not copied */
        bool scans;            /* steps have no products: those of a chunk's input need room */
        bool lean; /* the reserve has no output state of the last layer, which backward reads from
                      y, and all states in the type of rows; forward uses two alternating planes, as
                      in inference */
        bool aligned; /* units of an accumulator, and rows that products read, are padded to
                         multiples of ECO_ALIGNED_ROW elements in weights and workspace; the reserve
                         stays dense */
        bool padded;  /* needs aligned: products run over the padding too, and rows of the caller or
                         the reserve are copied to padded rows */
        bool steps_exchange; /* all steps exchange states in ECO_INNER_EXCHANGE, and none uses
                                ECO_INNER_PRODUCT */
        bool shares[2]; /* [forward, backward]: with steps_exchange, the exchange is in the memory
                           of room of products and gathered rows */
        bool widened;   /* products read weights in the type of rows: ECO_INNER_WIDENED */
        bool transposed[2]; /* [forward, backward]: keep a transposed R, ECO_INNER_TRANSPOSED */
        int32_t resident;   /* matrix states: blocks of backward steps that have room */
        size_t prepared_bytes[2];   /* [forward, backward]: of ECO_INNER_PREPARED */
        struct eco_by_rows product; /* of ECO_INNER_PRODUCT */
        size_t product_bytes;       /* the same for this run */
    } gpu;
};

/* The length of a row of `width` elements, padded if the request is for aligned rows. */
static inline size_t eco_request_row(const struct eco_layout_request *request, size_t width)
{
    const size_t group = request->gpu.aligned ? ECO_ALIGNED_ROW : 1;
    return (width + group - 1) / group * group;
}
/* Does a product need a padded copy of rows of this width in the caller's memory or the reserve? */
static inline bool eco_request_needs_copy(const struct eco_layout_request *request, size_t width)
{
    return request->gpu.padded && eco_request_row(request, width) != width;
}

#endif /* ECO_LAYOUT_REQUEST_H */
