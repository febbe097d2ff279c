/*
 * The layout: the offset, strides and type of every array in weights, workspace and reserve, a pure
 * function of problem, request, T and N.  plan/layout*.c, shapes.c, arrays.c.
 *
 * Example, "lstm/f32/train/L2/T100/N32/I512/H512" on a CPU.  The reserve has for each layer the
 * planes of both states, [102,32,512], and the saved values [100,32,saves,512].  Step t reads plane
 * t and writes plane t + 1; planes 1 to 100 of h are the layer's output.  The workspace has the
 * accumulators of one chunk, [chunk,32,4,512], which layers use in turn, since one layer ends
 * before the next begins.
 */
#ifndef ECO_LAYOUT_H
#define ECO_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/problem.h"
#include "common/type.h"
#include "common/weights.h"

struct eco_op;

enum eco_block { ECO_BLOCK_NONE, ECO_BLOCK_WEIGHTS, ECO_BLOCK_WORKSPACE, ECO_BLOCK_RESERVE };

/* An array over steps and rows inside a block. */
struct eco_array {
    enum eco_block block;
    size_t offset; /* bytes from the block's start */
    size_t step;   /* elements from one step to the next; 0: all steps share one */
    size_t row;    /* elements from one batch row to the next */
    size_t wrap;   /* the step index is taken modulo this; 0: not */
    ecornn_type type;
    enum eco_begins { ECO_BEGINS_RUN, ECO_BEGINS_CHUNK, ECO_BEGINS_SPAN } begins; /* its steps */
};

/* The rows of array_rows.inc: ECO_INNER_ACC is one array, ECO_INNER_STATE one for each state.
 * ECO_SERIES_ACC is where struct eco_layout has it, or the first of several. */
#define ARRAY(name, ...) ECO_INNER_##name,
enum eco_inner {
#include "common/array_rows.inc"
    ECO_INNERS,
    ECO_INNER_DGATHER /* GATHER of backward, as sums */
};
#undef ARRAY
enum { ECO_ONE = 1, ECO_BOTH = 2, ECO_STATES = ECO_MAX_STATES };
enum { ECO_FORWARD = 1, ECO_BACKWARD = 2 };
extern const struct eco_inner_row { /* its first series, their number, passes that have it */
    uint8_t series, number, passes;
} eco_inner_row[ECO_INNERS];
#define ARRAY(name, number, ...)                                                                   \
    ECO_SERIES_##name, ECO_SERIES_END_##name = ECO_SERIES_##name + ECO_##number - 1,
enum {
#include "common/array_rows.inc"
    ECO_SERIES
};
#undef ARRAY

/* Steps that add to one sum of ECO_INNER_DVECTOR; keeps chains of additions short. */
enum { ECO_SUM_STEPS = 32 };

/* Offsets of packed weights and their gradients, in bytes; independent of T and N. */
struct eco_packing {
    size_t form[ECO_FORMS];         /* start of each form */
    size_t direction[ECO_FORMS][2]; /* size of one direction of layer 0, and of a later layer */
    size_t weight[2][ECO_FORMS]
                 [ECO_WEIGHT_IDS]; /* [layer > 0][form][weight id]: offset inside a direction */
    struct eco_matrix matrix[2][ECO_WEIGHT_IDS];
    struct eco_panels panels[2][2][ECO_WEIGHT_IDS]; /* [layer > 0][transposed] */
};

/*
 * The layout of one run.  The plan keeps those for its own T and N; the layout of a smaller run is
 * made from them on the stack.  Use the functions below to find arrays, never the fields.
 */
struct eco_layout {
    const struct eco_problem *problem;
    bool training; /* this run keeps a reserve */
    bool back;     /* a backward run that replays, which has arrays of its own */
    int32_t T, N;
    int32_t chunk, chunk_backward; /* steps whose acc or dacc are kept at a time */
    bool fuse_input;               /* as requested for this number of rows */
    int32_t weights_steps; /* steps of dacc, if weight gradients take several chunks together */
    ecornn_type type;      /* type of rows that products read, and of the caller's arrays */
    ecornn_type sum; /* type of sums, gradients between steps, vectors, dweights and other states */
    ecornn_type weight; /* type of packed matrices */
    size_t weights_bytes, dweights_bytes, workspace_bytes, reserve_bytes;
    size_t order; /* offset of the order of rows by length, on request: int32_t [N], [T+1] */
    struct eco_layout_request request;
    const struct eco_packing *packing; /* of the layout that this one was made from */
    struct eco_series {                /* arrays of equal size, one after the other */
        struct eco_array first;
        size_t bytes; /* bytes from one array to the next */
        int count;    /* array k is stored at index k % count */
        size_t
            part; /* elements of a direction in rows of both, by layer; 0: by layer and direction */
    } series[ECO_SERIES];
    size_t thread_offset, thread_bytes; /* scratch of thread 0 in the workspace, of each */
    int32_t threads;                    /* threads that have scratch */
    size_t team_offset; /* offset in the workspace of what threads share, on request */
    size_t starts, streams, compaction; /* offsets for starts.h and compaction.h */
    struct eco_packing own_packing;     /* must be last: resized layouts omit it */
};

/* Arrays of at most this size stay in a GPU's L2 from writing to reading, on an H100 with 50 MB in
 * two halves. */
enum { ECO_L2_BYTES = 16 << 20 };

/* The kinds of run.  If backward replays, forward and backward have a layout each and share one
 * reserve; otherwise ECO_LAYOUT_TRAIN serves both. */
enum eco_layout_kind { ECO_LAYOUT_INFER, ECO_LAYOUT_TRAIN, ECO_LAYOUT_BACK, ECO_LAYOUTS };

/* Builds a layout.  Sizes that overflow are SIZE_MAX; planner.c refuses such a plan. */
void eco_layout_build(struct eco_layout *layout, const struct eco_problem *problem,
                      const struct eco_layout_request *request, int32_t T, int32_t N,
                      enum eco_layout_kind kind);
/* Builds the layout for another T and N.  What does not depend on them is copied or stays in
 * `from`, which must outlive it. */
void eco_layout_resize(struct eco_layout *layout, const struct eco_layout *from, int32_t T,
                       int32_t N);

/* ---- replay: arrays.c -------------------------------------------------------------------------
 *
 * With a policy other than ECO_SAVE_ALL and ECO_SAVE_NARROW the reserve keeps y of all layers but
 * the last, and checkpoints of the other states.  Forward uses alternating planes of states in the
 * workspace. Backward has states, saved values and u of one chunk in the workspace: ECO_REPLAY
 * fills them, and later ops read them as they would read the reserve. */
bool eco_layout_replays(const struct eco_layout *layout);
/* Are the exchange, room of products and gathered rows of a pass in the same memory?  Steps use the
 * first of them, and operations between steps the others. */
bool eco_layout_shares_exchange(const struct eco_layout *layout, bool backward);
/* Is the state after step t a checkpoint?  For states other than the output state. */
bool eco_layout_is_checkpoint(const struct eco_layout *layout, int d, int32_t t);
/* The index of that step in ECO_INNER_CHECKPOINT. */
size_t eco_layout_checkpoint_index(const struct eco_layout *layout, int d, int32_t t);
/* Does the reserve keep saved values and u in the save type?  ECO_KEEP converts those of a chunk
 * from the workspace, and ECO_REPLAY converts them back. */
bool eco_layout_narrows(const struct eco_layout *layout);
/* Are all states of all steps known before a replay? */
bool eco_layout_knows_states(const struct eco_layout *layout);
/* In a lean run, do steps write checkpoints directly into the reserve, and does backward read them
 * there?  If not, both use the states of a chunk, ECO_INNER_RECENT. */
bool eco_layout_copies_direct(const struct eco_layout *layout);

/* ---- workspace and reserve: arrays.c --------------------------------------------------------- */

/* An array of a layer and direction.  backward: which of two that each pass has its own of; index:
 * the state, or the weight id in ECO_INNER_WIDENED and _TRANSPOSED. */
struct eco_array eco_layout_array(const struct eco_layout *layout, enum eco_inner which,
                                  bool backward, int layer, int d, int index);
/* Are saved values kept, or those of a chunk? */
bool eco_layout_saves(const struct eco_layout *layout);
/* The plane of a state that step t reads, or, next, writes. */
size_t eco_layout_state_plane(const struct eco_layout *layout, int d, int32_t t, bool next);
/* Does this run keep states as follows instead of in planes?  With resets also in inference,
 * because planes then hold states as the next step reads them, not as the next layer does; and if
 * the caller may ask for the states of every step. */
bool eco_layout_is_lean(const struct eco_layout *layout);
/* Does backward read the y that a run of this layout wrote? */
static inline bool eco_layout_reads_y(const struct eco_layout *layout)
{
    return eco_layout_replays(layout) || (layout->training && eco_layout_is_lean(layout));
}
/* Does a lean run keep copies of states other than the output state? */
bool eco_layout_copies_states(const struct eco_layout *layout);

/* How the H units of an accumulator are stored in a row of ECO_INNER_ACC: in one block, or on
 * request in several, each of which holds all rows of a chunk and all accumulators. */
struct eco_blocks {
    int32_t shift; /* a block is 1 << shift units */
    size_t column; /* elements from one accumulator to the next */
    size_t block;  /* elements from one block to the next */
};
struct eco_blocks eco_layout_acc_blocks(const struct eco_layout *layout);
/* Does dx of the first layer, or of later ones, always go through a copy in the type of sums?  If
 * so, a row's bits depend neither on N and the order of rows nor on which direction comes first:
 * all that a direction adds is one sum, and the part of a cell that reads x itself is rounded with
 * it. */
bool eco_layout_copies_dx(const struct eco_problem *problem,
                          const struct eco_layout_request *request, bool later);
/* Does the first layer's dx wait in ECO_INNER_DX for the second direction, so that 16 bits are
 * rounded once? */
bool eco_layout_sums_dx(const struct eco_problem *problem);
/* May input rows of the first layer have to be copied?  Not with one row, whose steps are
 * neighbours in any order, nor if rows are ordered by length, because ended rows are skipped.
 * Training gathers nevertheless, because weight gradients must not include padding. */
bool eco_layout_gathers(const struct eco_problem *problem, const struct eco_layout_request *request,
                        bool backward);
/* Elements before a unit. */
static inline size_t eco_blocks_at(const struct eco_blocks *blocks, size_t unit)
{
    return (unit >> blocks->shift) * blocks->block + (unit & (((size_t)1 << blocks->shift) - 1));
}

/* Elements of a carried column, with padding so that a whole vector may begin at any unit. */
size_t eco_layout_carried_column(const struct eco_problem *problem);
/* Are weight gradients summed in groups of rows, as requested? */
bool eco_layout_sums_by_group(const struct eco_layout *layout);

#endif /* ECO_LAYOUT_H */
