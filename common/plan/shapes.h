/*
 * Between the files that make a layout: the shapes of its arrays.
 */
#ifndef ECO_SHAPES_H
#define ECO_SHAPES_H

#include "common/layout.h"
#include "common/util.h"

/* Rows of an array. */
struct eco_layout_rows {
    ecornn_type type;
    int32_t steps; /* 0: one step, shared by all */
    size_t width;  /* 0: there is no such array */
};

/* planes.c: so many elements of a row that products read, and more where rows would crowd each
 * other. */
size_t eco_layout_alias_padded(const struct eco_layout *layout, size_t width);
/* So many planes of a state, both directions side by side, ... */
struct eco_layout_rows eco_layout_planes(const struct eco_layout *layout, int state, int32_t count);
/* ... some that take turns, ... */
struct eco_layout_rows eco_layout_turn_planes(const struct eco_layout *layout, int state,
                                              int32_t count);
/* ... elements of one direction in a row of these; states that no product reads lie as their copies
 * do. */
size_t eco_layout_plane_part(const struct eco_layout *layout, int state);
/* ... and those copies, of a lean run. */
struct eco_layout_rows eco_layout_copies(const struct eco_layout *layout, int state);

/* With resets: states before a step, starts in their places; backward of so many steps as weight
 * gradients take. */
struct eco_layout_rows eco_layout_reset_rows(const struct eco_layout *layout, int state,
                                             bool backward);

/* The same where the run may replay: what its reserve has. */
struct eco_layout_rows eco_layout_lean_rows(const struct eco_layout *layout, int state);
/* replay.c: states kept for the replay, of a run that is not lean; planes that take turns where
 * those of a chunk are copied after it, a power of two. */
struct eco_layout_rows eco_layout_checkpoint_rows(const struct eco_layout *layout, int state);
int32_t eco_layout_ring(int32_t chunk);

/* scratch.c */
struct eco_layout_rows eco_layout_scratch_rows(const struct eco_layout *layout, bool backward,
                                               enum eco_scratch scratch);
/* Of ECO_SCRATCH_PACK, which is no rows. */
struct eco_size eco_layout_pack_bytes(const struct eco_layout *layout);
/* Of ECO_SCRATCH_GRADIENT. */
struct eco_size eco_layout_gradient_bytes(const struct eco_layout *layout);
/* Of a layer's matrices in the type of rows, from part `from` on and before part `before`. */
struct eco_size eco_layout_matrix_bytes(const struct eco_layout *layout, int layer, int from,
                                        int before);
struct eco_size eco_layout_product_bytes(ecornn_type type, size_t a, size_t b, size_t c);

#endif /* ECO_SHAPES_H */
