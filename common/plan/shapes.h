/*
 * Shared by the files that build a layout: the shapes of its arrays, and the lengths of chunks.
 */
#ifndef ECO_SHAPES_H
#define ECO_SHAPES_H

#include "common/layout.h"
#include "common/util.h"

/* The rows of an array. */
struct eco_layout_rows {
    ecornn_type type;
    int32_t steps; /* 0: one step, shared by all */
    size_t width;  /* 0: there is no such array */
};

/* A row of array_rows.inc for one layout, one pass and one state. */
struct eco_shape {
    enum eco_block block;
    int count; /* as in struct eco_series; 0: there is no such array */
    struct eco_layout_rows rows;
    bool shared;           /* other arrays of the pass may be in its memory */
    size_t row;            /* elements from one row to the next; 0: the width */
    struct eco_size bytes; /* of an array that has no rows */
    size_t wrap;
    enum eco_begins begins;
    size_t part;
};

/* ---- shapes.c -------------------------------------------------------------------------------- */

/* The length of a row that products read, with alias padding if it needs some. */
static inline size_t eco_layout_alias_padded(const struct eco_layout *layout, size_t width)
{
    const size_t element = eco_type_bytes(layout->type),
                 alias_bytes = layout->request.cpu.alias_bytes;
    const bool aliases = width > 0 && alias_bytes > 0 && width * element % alias_bytes == 0;
    return width + (aliases ? ECO_ALIGNMENT / element : 0);
}
static inline struct eco_size eco_layout_product_bytes(ecornn_type type, size_t a, size_t b,
                                                       size_t c)
{
    struct eco_size bytes = eco_size_mul(eco_size_of(a), b);
    return eco_size_mul(eco_size_mul(bytes, c), eco_type_bytes(type));
}
/* States: `turns` alternating planes, or, if 0, all planes of the run or of a chunk.  Both
 * directions are side by side; ... */
struct eco_layout_rows eco_layout_state_rows(const struct eco_layout *layout, int state,
                                             int32_t turns);
/* ... how many alternate; ... */
int32_t eco_layout_turns(const struct eco_layout *layout);
/* ... the elements of one direction in rows of these; unread states are stored like copies; ... */
size_t eco_layout_plane_part(const struct eco_layout *layout, int state);
/* u. */
size_t eco_layout_output_width(const struct eco_layout *layout);
/* Are rows of all states, of u and of P padded? A kernel of many rows then has whole groups. */
static inline bool eco_layout_pads_units(const struct eco_problem *problem,
                                         const struct eco_layout_request *request)
{
    return request->gpu.padded && problem->projected && !problem->training;
}
/* ... planes of y of a layer below the last; ... */
struct eco_layout_rows eco_layout_sequence_rows(const struct eco_layout *layout);
/* ... and checkpoints, or, in a lean run, copies of states. */
struct eco_layout_rows eco_layout_checkpoint_rows(const struct eco_layout *layout, int state);
bool eco_layout_has_checkpoint(const struct eco_layout *layout, int state);
/* With resets: states before a step, resets applied; backward for all of dacc's steps. */
struct eco_layout_rows eco_layout_reset_rows(const struct eco_layout *layout, int state,
                                             bool backward);
/* Elements of a row of ECO_INNER_ACC, _GATHER, _DACC and _HISTORY; 0: not needed. */
size_t eco_layout_acc_width(const struct eco_layout *layout);
size_t eco_layout_gather_width(const struct eco_layout *layout, bool backward);
size_t eco_layout_dacc_width(const struct eco_layout *layout);
size_t eco_layout_history_width(const struct eco_layout *layout);
/* Bytes of the arrays of these names. */
struct eco_size eco_layout_exchange_bytes(const struct eco_layout *layout, bool backward);
struct eco_size eco_layout_widened_bytes(const struct eco_layout *layout);
struct eco_size eco_layout_transposed_bytes(const struct eco_layout *layout, bool backward);
struct eco_size eco_layout_pack_bytes(const struct eco_layout *layout);
struct eco_size eco_layout_gradient_bytes(const struct eco_layout *layout);

/* ---- arrays.c -------------------------------------------------------------------------------- */

/* Are planes of the output state, which the reserve or the workspace keeps, y of lower layers? */
bool eco_layout_planes_are_y(const struct eco_layout *layout);
/* Steps after which others may follow. */
int32_t eco_layout_followed(const struct eco_layout *layout);
/* Are checkpoints an array of all steps?  Without a computation no replay finds the last one. */
bool eco_layout_keeps_all(const struct eco_layout *layout);
/* The type of checkpoints in a run that is not lean. */
ecornn_type eco_layout_checkpoint_type(const struct eco_layout *layout);
/* Bytes of a layer's matrices in the type of rows, for weight ids from <= id < before. */
struct eco_size eco_layout_matrix_bytes(const struct eco_layout *layout, int layer, int from,
                                        int before);

/* ---- layout_chunks.c ------------------------------------------------------------------------- */

/* Backward with a replay, which uses backward's room. */
bool eco_layout_is_replay(const struct eco_layout *layout);
/* Chunk length of a run with fewer steps than planned: chunks as even as those of a plan of its
 * own, so that it needs no more memory; if few steps are missing, as many chunks as the plan has.
 */
int32_t eco_even_chunk(const struct eco_layout *layout, int32_t requested);
/* Backward chunk: with replay a multiple of the checkpoint interval. */
int32_t eco_backward_chunk(const struct eco_layout *layout);
/* Forward: saved values that are narrowed after a chunk stay in the L2.  Replay: on a GPU so do
 * accumulators between products and stages. */
int32_t eco_forward_chunk(const struct eco_layout *layout);

#endif /* ECO_SHAPES_H */
