/*
 * Shared by the files that build a layout: arrays are appended to blocks, and runs are cut into
 * chunks.
 */
#ifndef ECO_CURSOR_H
#define ECO_CURSOR_H

#include "common/plan/shapes.h"

/* A block that arrays are appended to. */
struct eco_cursor {
    enum eco_block block;
    int32_t N;
    struct eco_size end;
};

/* layout.c */
/* Appends count arrays of [steps, N, width]. */
struct eco_series eco_put(struct eco_cursor *cursor, int count, struct eco_layout_rows rows);
/* Appends count blocks of bytes that are not rows. */
struct eco_series eco_put_bytes(struct eco_cursor *cursor, int count, struct eco_size bytes);

/* layout_states.c */
/* Do layers run at the same time, so that each needs arrays of its own? In lockstep two sequences
 * are enough: layer l writes over the sequence of layer l - 2, of which layer l - 1 has read that
 * step. */
bool eco_layout_overlaps(const struct eco_layout *layout, bool backward);
/* States in planes: of all steps, or alternating. */
void eco_put_states(struct eco_layout *layout, struct eco_cursor *cursor);
/* With replay, backward reads checkpoints; planes exist for the current chunk only. */
void eco_put_states_of_chunk(struct eco_layout *layout, struct eco_cursor *cursor,
                             struct eco_cursor *reserve);
/* Saved values, and u of a projection: of all steps in the reserve, of a chunk, or of one step. */
void eco_put_values(struct eco_layout *layout, struct eco_cursor *cursor);
/* Saved values and u in the save type. */
void eco_put_narrowed(struct eco_layout *layout, struct eco_cursor *reserve);
/* The states that a lean backward reads: all except y, which is the caller's.  In inference only
 * those that the next layer reads. */
void eco_put_checkpoints(struct eco_layout *layout, struct eco_cursor *cursor);
/* The states of a chunk in a lean run without all checkpoints. */
void eco_put_recent(struct eco_layout *layout, struct eco_cursor *cursor);

/* layout_scratch.c */
/* What operations of a pass use while they run: eco_scratch, carried gradients, dx of layers. */
void eco_put_scratch(struct eco_layout *layout, struct eco_cursor *cursor, bool backward);

/* layout_chunks.c */
/* Backward with a replay, which uses backward's room. */
bool eco_layout_is_replay(const struct eco_layout *layout);
/* A requested chunk, at most all steps; 0: all. */
int32_t eco_clip_chunk(int32_t chunk, int32_t T);
/* Chunk length of a run with fewer steps than planned: chunks as even as those of a plan of its
 * own, so that it needs no more memory; if few steps are missing, as many chunks as the plan has.
 */
int32_t eco_even_chunk(const struct eco_layout *layout, int32_t requested);
/* Backward chunk: with replay a multiple of the checkpoint interval. */
int32_t eco_backward_chunk(const struct eco_layout *layout);
/* Forward: saved values that are narrowed after a chunk stay in the L2.  Replay: on a GPU so do
 * accumulators between products and stages. */
int32_t eco_forward_chunk(const struct eco_layout *layout);

#endif /* ECO_CURSOR_H */
