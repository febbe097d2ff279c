/*
 * The layout: where everything lies.  plan/layout.c, planes.c, scratch.c, arrays.c.
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
    size_t step;   /* elements from one step to the next; 0: every step the same one */
    size_t row;    /* elements from one batch row to the next */
    size_t wrap;   /* steps are taken modulo this; 0: as they are */
    ecornn_type type;
    bool chunked; /* steps, or planes, count from the first step of the chunk at hand */
};

/* Workspace of (layer, d).  Arrays over a chunk are indexed by t - t0 of the op.  What a product
 * reads is of the layout's type, what it adds to of its sum; each array says which. */
enum eco_scratch {
    ECO_SCRATCH_ACC,      /* forward  [chunk,N,accs,H] */
    ECO_SCRATCH_GATHER,   /* both     [chunk,N,I of the layer]: input rows in time order */
    ECO_SCRATCH_DGATHER,  /* backward, the same memory: dx in time order, as sums */
    ECO_SCRATCH_OPERAND,  /* forward [N,slots,H]; backward [chunk,N,slots,H] */
    ECO_SCRATCH_MEAN,     /* both     [N,heads,means]; one head where means are of rows */
    ECO_SCRATCH_DACC,     /* backward [chunk,N,accs + extra,H]; by wish without extra, */
    ECO_SCRATCH_DVECTOR,  /* then [sums,N,extra,H]: each of ECO_SUM_STEPS steps */
    ECO_SCRATCH_DOPERAND, /* backward [N,slots,H] */
    ECO_SCRATCH_STEP,     /* if projected: forward [N,P], sums h = P u; backward [chunk,N,P], dh */
    ECO_SCRATCH_DOUTPUT,  /* backward [N,H] if projected: gradient of u */
    ECO_SCRATCH_UNREAD,   /* backward, replay, not lean [N,H]: next states that are known already */
    ECO_SCRATCH_HISTORY,  /* backward, lean [chunk+1,N,P]: the output state, where y is no matrix of
                           * what steps read */
    ECO_SCRATCH_PACK, /* backward [pack_rows, columns of all parts, a panel of each, + accs*H], room
                       * for sums */
    ECO_SCRATCH_GRADIENT,   /* backward, if eco_layout_sums_by_group: a direction of dweights */
    ECO_SCRATCH_PRODUCT,    /* both: room for whoever multiplies */
    ECO_SCRATCH_WIDENED,    /* both, by wish: the matrices of a layer and direction, as packed */
    ECO_SCRATCH_TRANSPOSED, /* both, by wish: R of each operand, [row, n*height] */
    ECO_SCRATCH_PREPARED,   /* both, by wish: R of each operand as the backend's products read it */
    ECO_SCRATCH_EXCHANGE,   /* both, by wish: what blocks of a persistent kernel or of a scan, which
                             * go on side by side, tell each other */
    ECO_SCRATCHES
};

/* Steps that add to one sum of ECO_SCRATCH_DVECTOR: a short chain. */
enum { ECO_SUM_STEPS = 32 };

/* Where packed weights and their gradients lie; knows neither T nor N. */
struct eco_packing {
    size_t form[ECO_FORMS];         /* bytes before all parts of a form */
    size_t direction[ECO_FORMS][2]; /* of one direction of layer 0, of a later layer */
    size_t weight[2][ECO_FORMS]
                 [ECO_WEIGHT_IDS]; /* of layer 0, of a later one: bytes before a part */
    struct eco_matrix matrix[2][ECO_WEIGHT_IDS];
    struct eco_panels panels[2][2][ECO_WEIGHT_IDS]; /* [layer > 0][transposed] */
};

/*
 * The layout of one run.  The plan keeps those of its own T and N; that of a smaller run is made on
 * the stack from them.  Arrays are found through the functions below, never through the fields.
 */
struct eco_layout {
    const struct eco_problem *problem;
    bool training; /* this run keeps a reserve */
    bool back;     /* it is the backward run, which has arrays of its own where it replays */
    int32_t T, N;
    int32_t chunk, chunk_backward; /* steps of acc and of dacc that are alive at a time */
    bool fuse_input;               /* as wished of so many rows */
    int32_t weights_steps;         /* of dacc, where weight gradients take several chunks */
    ecornn_type type;              /* of rows that products read, and of the caller's arrays */
    ecornn_type sum;    /* of sums, gradients between steps, vectors, dweights, other states */
    ecornn_type weight; /* of packed matrices */
    size_t weights_bytes, dweights_bytes, workspace_bytes, reserve_bytes;
    size_t order; /* byte of the workspace: rows by length, if wished: int32_t [N], [T+1] */
    struct eco_layout_request request;
    const struct eco_packing *packing; /* of the layout that this one was made from */
    struct eco_series {                /* equal arrays, one behind the other */
        struct eco_array first;
        size_t bytes;                   /* from one to the next */
        int count;                      /* number k lies at place k % count */
    } state[ECO_MAX_STATES],            /* by layer; inference: of all layers but the last */
        last_state[ECO_MAX_STATES],     /* by layer; inference: of the last layer */
        checkpoint[ECO_MAX_STATES],     /* lean, or for the replay, by layer */
        recent[ECO_MAX_STATES],         /* lean, of a chunk, by lane's layer; */
        scan[ECO_MAX_STATES],           /* the same as steps have them */
        sequence,                       /* by layer, all but the last */
        save, output,                   /* by (layer, direction) */
        scratch[2][ECO_SCRATCHES],      /* [forward, backward], by lane */
        carry[ECO_MAX_STATES],          /* by lane */
        replaced[ECO_MAX_STATES],       /* with resets: the same, forward, */
        with_resets[ECO_MAX_STATES],    /* backward, */
        dstart[ECO_MAX_STATES],         /* backward */
        dinput;                         /* by layer */
    size_t thread_offset, thread_bytes; /* scratch of thread 0 in the workspace, of each */
    int32_t threads;                    /* that have some */
    size_t team_offset;                 /* of what threads share in the workspace, if wished */
    size_t starts, compaction;          /* of what starts.h has there, and compaction.h */
    struct eco_packing own_packing;     /* last: a layout of another size does without */
};

/* Of which runs.  Where backward replays, forward and backward have a layout each, with one
 * reserve; else that of training is of both. */
enum eco_layout_kind { ECO_LAYOUT_INFER, ECO_LAYOUT_TRAIN, ECO_LAYOUT_BACK, ECO_LAYOUTS };

/* Sizes in a layout are SIZE_MAX where they overflow; planner.c refuses such a plan. */
void eco_layout_build(struct eco_layout *layout, const struct eco_problem *problem,
                      const struct eco_layout_request *request, int32_t T, int32_t N,
                      enum eco_layout_kind kind);
/* The same for another T and N: what does not depend on them is copied, or stays with `from`, which
 * must outlive it. */
void eco_layout_resize(struct eco_layout *layout, const struct eco_layout *from, int32_t T,
                       int32_t N);

/* ---- replay: replay.c -------------------------------------------------------------------------
 *
 * With a policy other than ECORNN_SAVE_ALL the reserve keeps y of all layers but the last, and some
 * of the other states (eco_layout_is_checkpoint).  Forward, planes of states take turns in the
 * workspace. Backward, states, saved values and u are arrays over a chunk, in the workspace:
 * ECO_REPLAY fills them, and what comes after it reads them as it would read those of the reserve.
 */
bool eco_layout_replays(const struct eco_layout *layout);
/* Is the state after step t, which is none of output, kept? */
bool eco_layout_is_checkpoint(const struct eco_layout *layout, int d, int32_t t);
/* Its place in eco_layout_checkpoint. */
size_t eco_layout_checkpoint_index(const struct eco_layout *layout, int d, int32_t t);
/* Are all states of all steps known before a replay? */
bool eco_layout_knows_states(const struct eco_layout *layout);
/* A lean run: do steps write what is kept right into the reserve, and does backward read it there?
 * Else both have the states of a chunk in the workspace, eco_layout_recent: forward those after its
 * steps, backward the one before the first of them, too. */
bool eco_layout_copies_direct(const struct eco_layout *layout);
/* Of a lean replay that has to compute states one after the other: those of a chunk as steps have
 * them, from the one before its first step on. */
struct eco_array eco_layout_scan(const struct eco_layout *layout, int layer, int d, int state);
struct eco_array eco_layout_recent(const struct eco_layout *layout, int layer, int d, int state);
/* Output of a layer below the last, both directions, as the next one reads it: that of step t in
 * plane t + 1. */
struct eco_array eco_layout_sequence(const struct eco_layout *layout, int layer);

/* ---- workspace and reserve, arrays.c; acc_blocks: scratch.c; planes and lean: planes.c */

/* States of all steps of (layer, d): plane k is [N, width].  T+2 planes, both directions side by
 * side in a row: step t writes plane t+1 and reads plane t (or t+2 where d runs backwards), so that
 * planes 1..T of the output state are the layer's output [T,N,D*P].  In inference, where no later
 * layer reads the sequence, and in a lean run two planes take turns. */
struct eco_array eco_layout_state(const struct eco_layout *layout, int layer, int d, int state);
size_t eco_layout_state_plane(const struct eco_layout *layout, int d, int32_t t, bool next);
/* Does this run keep what backward reads of states as follows, and no planes?  With resets also in
 * inference: planes then have states as the next step reads them, which are not what the next layer
 * reads.  And where the caller may want states of every step. */
bool eco_layout_is_lean(const struct eco_layout *layout);
/* Does a lean run keep copies of states that are not output? */
bool eco_layout_copies_states(const struct eco_layout *layout);
/* lean: state [T,N,D*width] after each step; of the output state, of all layers but the last: y,
 * with 0 past a row's length. */
struct eco_array eco_layout_checkpoint(const struct eco_layout *layout, int layer, int d,
                                       int state);
/* [T,N,saves,H] in the reserve; of a replay, of a chunk in the workspace.  Else there is none. */
bool eco_layout_saves(const struct eco_layout *layout);
struct eco_array eco_layout_save(const struct eco_layout *layout, int layer, int d);
/* u of h = P u: [T,N,H] in the reserve, one step in the workspace in inference. */
struct eco_array eco_layout_output(const struct eco_layout *layout, int layer, int d);

/* How the H units of an accumulator lie in a row of ECO_SCRATCH_ACC: in one block, or by wish in
 * several, each with all rows of a chunk and all accumulators. */
struct eco_blocks {
    int32_t shift; /* a block is 1 << shift units */
    size_t column; /* elements from one accumulator to the next, */
    size_t block;  /* from one block to the next */
};
struct eco_blocks eco_layout_acc_blocks(const struct eco_layout *layout);
/* Does dx of two directions always take the way through a copy?  Rows then have the same sum,
 * whatever N and order. */
bool eco_layout_copies_dx(const struct eco_problem *problem);
/* May input rows of the first layer have to be copied?  With one row a step's are neighbours in any
 * order, and where rows lie by length those that have ended are left out; training gathers, if only
 * for the gradients of weights, to which padding must not add. */
bool eco_layout_gathers(const struct eco_problem *problem, const struct eco_layout_request *request,
                        bool backward);
/* Elements before a unit. */
static inline size_t eco_blocks_at(const struct eco_blocks *blocks, size_t unit)
{
    return (unit >> blocks->shift) * blocks->block + (unit & (((size_t)1 << blocks->shift) - 1));
}

struct eco_array eco_layout_scratch(const struct eco_layout *layout, bool backward, int layer,
                                    int d, enum eco_scratch scratch);
/* By wish: the matrix of a part in the type of rows. */
struct eco_array eco_layout_widened(const struct eco_layout *layout, bool backward, int layer,
                                    int d, int weight_id);
/* By wish: the transposed matrix of a part, [row, n*height]. */
struct eco_array eco_layout_transposed(const struct eco_layout *layout, bool backward, int layer,
                                       int d, int weight_id);
/* backward [N,width]: gradient of a state between steps. */
struct eco_array eco_layout_carry(const struct eco_layout *layout, int layer, int d, int state);
/* With resets.  Forward [N,width], not lean: states of the step before that starts took the place
 * of, while a step reads those. */
struct eco_array eco_layout_replaced(const struct eco_layout *layout, int layer, int d, int state);
/* Backward [chunk,N,width]: states as a step read them, starts in their places; of those that no
 * product reads that of one step, in a lean run none. */
struct eco_array eco_layout_with_resets(const struct eco_layout *layout, int layer, int d,
                                        int state);
/* Backward [N,width]: sums of the gradients of starts. */
struct eco_array eco_layout_dstart(const struct eco_layout *layout, int layer, int d, int state);
/* backward [T,N,D*P]: dx of layer (>= 1), which is dy of the layer below. */
struct eco_array eco_layout_dinput(const struct eco_layout *layout, int layer);

/* Elements of a column of what stages hand on: whole vectors may begin at every unit. */
size_t eco_layout_carried_column(const struct eco_problem *problem);
/* Are weight gradients summed in groups of rows, by wish? */
bool eco_layout_sums_by_group(const struct eco_layout *layout);
/* The step at which dacc of a backward op begins, and what lies beside it. */
size_t eco_layout_dacc_step(const struct eco_layout *layout, const struct eco_op *op);

#endif /* ECO_LAYOUT_H */
