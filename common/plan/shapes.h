/*
 * Shared by the files that build a layout: the shapes of its arrays.
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

/* scratch.c: the length of a row that products read, with alias padding if it needs some. */
size_t eco_layout_alias_padded(const struct eco_layout *layout, size_t width);
/* `count` planes of a state, both directions side by side; ... */
struct eco_layout_rows eco_layout_planes(const struct eco_layout *layout, int state, int32_t count);
/* ... planes of y of a layer below the last; ... */
struct eco_layout_rows eco_layout_sequence_rows(const struct eco_layout *layout);
/* ... alternating planes; ... */
struct eco_layout_rows eco_layout_turn_planes(const struct eco_layout *layout, int state,
                                              int32_t count);
/* ... the elements of one direction in their rows; unread states are stored like copies; ... */
size_t eco_layout_plane_part(const struct eco_layout *layout, int state);
/* ... and those copies, in a lean run; replay.c. */
struct eco_layout_rows eco_layout_copies(const struct eco_layout *layout, int state);

/* With resets: states before a step, resets applied; backward for all of dacc's steps. */
struct eco_layout_rows eco_layout_reset_rows(const struct eco_layout *layout, int state,
                                             bool backward);

/* The same for a run that may replay: what its reserve holds. */
struct eco_layout_rows eco_layout_lean_rows(const struct eco_layout *layout, int state);
/* replay.c: the checkpoints of a run that is not lean, and the number of alternating planes if
 * those of a chunk are copied after it, a power of two. */
struct eco_layout_rows eco_layout_checkpoint_rows(const struct eco_layout *layout, int state);
int32_t eco_layout_ring(int32_t chunk);

/* scratch.c */
struct eco_layout_rows eco_layout_scratch_rows(const struct eco_layout *layout, bool backward,
                                               enum eco_scratch scratch);
/* Bytes of ECO_SCRATCH_PACK, which has no rows. */
struct eco_size eco_layout_pack_bytes(const struct eco_layout *layout);
/* Bytes of ECO_SCRATCH_GRADIENT. */
struct eco_size eco_layout_gradient_bytes(const struct eco_layout *layout);
/* Bytes of a layer's matrices in the type of rows, for weight ids from <= id < before. */
struct eco_size eco_layout_matrix_bytes(const struct eco_layout *layout, int layer, int from,
                                        int before);
struct eco_size eco_layout_product_bytes(ecornn_type type, size_t a, size_t b, size_t c);

#endif /* ECO_SHAPES_H */
