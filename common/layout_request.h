/*
 * What an algorithm wishes of layout and tape.
 */
#ifndef ECO_LAYOUT_REQUEST_H
#define ECO_LAYOUT_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ECO_ALIGNED_ROW = 8 };

/* Bytes that depend on how many rows a run has, of a plan of N rows: the most that any run needs,
 * and what one needs that lacks few of them.  fewer[k] is for runs that lack k to k + 1 64ths of N.
 * A plan of 128 rows has fewer[0] for 127, fewer[1] for 126 and 125; below 113 it is the most. */
enum { ECO_FEWER = 8, ECO_FEWER_PARTS = 64 };
struct eco_by_rows {
    size_t most, fewer[ECO_FEWER];
};
/* The place in fewer, or ECO_FEWER. */
static inline int32_t eco_fewer_index(int32_t planned, int32_t rows)
{
    const int64_t index = (int64_t)ECO_FEWER_PARTS * (planned - rows) / planned;
    return index < ECO_FEWER ? (int32_t)index : ECO_FEWER;
}
/* The most rows that have that place. */
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

/* What the chosen algorithm wants: of any backend, then what only the backend's kind asks for. */
struct eco_layout_request {
    bool plain; /* weights are the parameter block itself, no workspace, no reserve (reference) */
    bool wavefront;  /* layers overlap in chunks: scratch for each (layer, direction), not for each
                      * direction */
    bool fuse_input; /* a step multiplies its input too: accumulators of one step only */
    int32_t chunk, chunk_backward;  /* steps of acc and of dacc that are alive at a time; 0: all */
    size_t exchange_bytes;          /* of ECO_SCRATCH_EXCHANGE; or, where steps exchange, */
    struct eco_by_rows exchange[2]; /* forward, back: of a step of a chunk */
    struct eco_cpu_request {
        /* packed weights */
        bool wide; /* matrices in the type of sums, each number rounded to its own before */
        int32_t lane_groups; /* groups of lanes units in a block; of a matrix that is one alone (n
                              * == 1): as many as a panel has vectors */
        int32_t lanes, vectors; /* panels of so many vectors of so many lanes; 0: dense */
        int32_t group, pair;    /* in a panel: k in groups of so many, and k of a lane that are
                                 * neighbours; 0: 1 */
        /* workspace */
        bool by_length;        /* with lengths, rows lie in their order: dx takes the way through a
                                * copy */
        bool by_rows;          /* forward, fewer rows have longer chunks, of as many rows in all */
        int32_t fuse_rows;     /* fuse_input holds in runs of so many rows or more */
        int32_t acc_units;     /* of a block of accumulators, a power of two; 0: all */
        int32_t gradient_rows; /* of so many rows weight gradients are summed apart before they
                                * join the sum of all, if a run has more; 0: never */
        int32_t
            pack_rows;   /* most rows of dacc and of operands that ECO_SCRATCH_PACK has room for */
        int32_t threads; /* that have scratch of their own for rows of a product; 0: none */
        int32_t carried_threads, carried_rows[2]; /* that have room for what stages hand on, of so
                                                   * many rows forward and back; 0: none */
        bool sums_vectors;   /* steps add up gradients of vectors: ECO_SCRATCH_DVECTOR */
        int32_t run_threads; /* of a run, at most; */
        size_t team_bytes;   /* that they share */
        size_t alias_bytes;  /* rows that products read, of a multiple of so many bytes, get
                              * ECO_ALIGNMENT more; 0: none */
        /* steps: nothing lies elsewhere for them */
        bool own_units;  /* a thread's products write the units that its pointwise passes read */
        bool whole_rows; /* a step's products take the whole batch */
        int32_t block;   /* rows that go through all panels together, at most; 0: what stays near */
        int32_t block_steps; /* of a scan that threads share out by time; 0: by units or rows */
        int32_t block_from;  /* steps of a run that has such blocks, at least */
        enum eco_asked { ECO_USUAL, ECO_ASKED_NO, ECO_ASKED_YES } pass_after, near, strips, help;
    } cpu;
    struct eco_gpu_request {
        int32_t weights_chunks; /* backward: weight gradients once in so many chunks, whose dacc
                                 * stays alive; 0: in every one */
        bool rows_independent;  /* forward, no row of an input product depends on what others hold:
                                 * those  of padding may be read, and of a batch as it is no copy is
                                 * made */
        bool lean; /* the reserve keeps no output state of the last layer, which backward reads from
                    * y, and all states in the type of rows; forward they lie as in inference */
        bool aligned; /* units of an accumulator, and rows of what products read, in whole groups of
                       * ECO_ALIGNED_ROW elements, in weights and workspace; the reserve stays
                       * dense */
        bool padded;  /* with that: products are of whole groups; what is the caller's or the
                       * reserve's is copied into such rows where its own are not */
        bool widened; /* products read weights in the type of rows: ECO_SCRATCH_WIDENED */
        bool transposed[2]; /* forward, back: there is a transposed R, ECO_SCRATCH_TRANSPOSED */
        size_t prepared_bytes[2];   /* forward, back: of ECO_SCRATCH_PREPARED */
        struct eco_by_rows product; /* of ECO_SCRATCH_PRODUCT; */
        size_t product_bytes;       /* of this run */
    } gpu;
};

/* So many elements, in whole groups if that is wished. */
static inline size_t eco_request_row(const struct eco_layout_request *request, size_t width)
{
    const size_t group = request->gpu.aligned ? ECO_ALIGNED_ROW : 1;
    return (width + group - 1) / group * group;
}
/* Does a product want a copy of such rows, which are not ours? */
static inline bool eco_request_needs_copy(const struct eco_layout_request *request, size_t width)
{
    return request->gpu.padded && eco_request_row(request, width) != width;
}

#endif /* ECO_LAYOUT_REQUEST_H */
